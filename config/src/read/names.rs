//! Names of objects: each is unique among its kind, and every one that is used exists.

use core::cell::Cell;
use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::{
    diagnostics::{Diagnostic, Sink},
    model::Port,
    place::{At, Place},
    shape::nearest,
    tree::{Node, quoted},
    value::address,
};

/// Members of a group that are told when they lack something.
const MEMBERS_TOLD: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Names {
    ports: BTreeMap<String, Place>,
    networks: BTreeMap<String, Place>,
    /// Sets and groups: the two share their names, since either may stand for addresses.
    peers: BTreeMap<String, Peer>,
    /// False when an object could not be read whole, so that what it lacks must not be held against its users.
    complete: bool,
}

#[derive(Debug)]
struct Peer {
    place: Place,
    /// True for a group.
    group: bool,
    addresses: Vec<IpNet>,
    members: Vec<String>,
    /// The members that have no addresses.
    without: Vec<At<String>>,
    /// True once a rule names it for its addresses.
    used: Cell<bool>,
}

impl Peer {
    const fn new(place: Place, group: bool, addresses: Vec<IpNet>) -> Self {
        Self { place, group, addresses, members: Vec::new(), without: Vec::new(), used: Cell::new(false) }
    }
}

impl Names {
    pub(crate) fn claim_port(&mut self, name: &str, place: Place, sink: &mut Sink) {
        claim(&mut self.ports, "port", name, place, sink);
    }

    pub(crate) fn claim_network(&mut self, name: &str, place: Place, sink: &mut Sink) {
        claim(&mut self.networks, "network", name, place, sink);
    }

    pub(crate) fn claim_set(&mut self, name: &At<String>, addresses: Vec<IpNet>, sink: &mut Sink) {
        self.claim_peer(name, Peer::new(name.place, false, addresses), sink);
    }

    pub(crate) fn claim_groups(&mut self, groups: &[Node], sink: &mut Sink) {
        for name in groups.iter().filter_map(|group| super::text_at(group, "name")) {
            let peer = Peer::new(name.place, true, Vec::new());
            self.claim_peer(&name, peer, sink);
        }
    }

    fn claim_peer(&mut self, name: &At<String>, peer: Peer, sink: &mut Sink) {
        let kind = |group| if group { "group" } else { "set" };
        if let Some(other) = self.peers.get(name.as_str()) {
            // Sets and groups are read apart: the later of the two in the file is told to be the second.
            let (first, second) = if other.place <= peer.place { (other, &peer) } else { (&peer, other) };
            let message = format!("another {} is named {}", kind(first.group), quoted(name));
            let diagnostic = Diagnostic::at(second.place, message).also(first.place);
            let shared = first.group != second.group;
            sink.push(if shared { diagnostic.hint("sets and groups share their names") } else { diagnostic });
            return;
        }
        self.peers.insert(name.value.clone(), peer);
    }

    /// Takes note of the groups' members, once the ports are read.
    pub(crate) fn seal(&mut self, ports: &[At<Port>], complete: bool) {
        self.complete = complete;
        for port in ports {
            for group in &port.groups {
                if let Some(peer) = self.peers.get_mut(group.as_str()) {
                    peer.members.push(port.name.value.clone());
                    peer.addresses.extend(port.hosts().map(IpNet::from));
                    if port.addresses.is_empty() {
                        peer.without.push(port.name.clone());
                    }
                }
            }
        }
    }

    /// True when a rule names the group for its members' addresses, or when that can not be known.
    pub(crate) fn is_used(&self, group: &str) -> bool {
        !self.complete || self.peers.get(group).is_none_or(|peer| peer.used.get())
    }

    /// Ports in the group of this name.
    pub(crate) fn members(&self, group: &str) -> &[String] {
        self.peers.get(group).map(|peer| &*peer.members).unwrap_or_default()
    }

    /// False, and reported, when there is no such port.
    pub(crate) fn has_port(&self, name: &str, place: Place, sink: &mut Sink) -> bool {
        exists(self.ports.contains_key(name), self.ports.keys(), "port", name, place, sink)
    }

    pub(crate) fn has_network(&self, name: &str, place: Place, sink: &mut Sink) -> bool {
        exists(self.networks.contains_key(name), self.networks.keys(), "network", name, place, sink)
    }

    pub(crate) fn has_group(&self, name: &str, place: Place, sink: &mut Sink) -> bool {
        let groups = self.peers.iter().filter(|(_, peer)| peer.group).map(|(name, _)| name);
        let found = self.peers.get(name).is_some_and(|peer| peer.group);
        exists(found, groups, "group", name, place, sink)
    }

    /// The prefixes that `text` stands for; `None` when that was reported.
    pub(crate) fn prefixes(&self, text: &str, place: Place, sink: &mut Sink) -> Option<Vec<IpNet>> {
        if address::looks_like_one(text) {
            return address::prefix(text).ok().map(|net| vec![net]);
        }
        let Some(peer) = self.peers.get(text) else {
            exists(false, self.peers.keys(), "set or group", text, place, sink);
            return None;
        };
        peer.used.set(true);
        if let Some(member) = peer.without.first().filter(|_| self.complete) {
            let message = format!(
                "port {} of the group {} has no addresses, so this rule would not be about it",
                quoted(&member.value),
                quoted(text)
            );
            let diagnostic = Diagnostic::at(place, message);
            let places = peer.without.iter().take(MEMBERS_TOLD).map(|member| member.place);
            sink.push(places.fold(diagnostic, Diagnostic::also).hint("give it addresses, or take it out of the group"));
            return None;
        }
        if !peer.addresses.is_empty() {
            return Some(peer.addresses.clone());
        }
        if self.complete && peer.group {
            let message =
                format!("no port in the group {} has addresses, so this rule would match nothing", quoted(text));
            sink.push(Diagnostic::at(place, message).also(peer.place).hint("give its ports addresses"));
        }
        None
    }
}

fn claim(known: &mut BTreeMap<String, Place>, kind: &str, name: &str, place: Place, sink: &mut Sink) {
    match known.get(name) {
        Some(first) => {
            sink.push(Diagnostic::at(place, format!("another {kind} is named {}", quoted(name))).also(*first))
        }
        None => drop(known.insert(name.to_owned(), place)),
    }
}

fn exists<'n>(
    found: bool,
    known: impl Iterator<Item = &'n String> + Clone,
    kind: &str,
    name: &str,
    place: Place,
    sink: &mut Sink,
) -> bool {
    if found {
        return true;
    }
    let diagnostic = Diagnostic::at(place, format!("there is no {kind} named {}", quoted(name)));
    sink.push(match nearest(name, known.clone().map(String::as_str)) {
        Some(near) => diagnostic.hint(format!("did you mean \"{near}\"?")),
        None => match known.take(8).map(String::as_str).collect::<Vec<_>>() {
            some if some.is_empty() => diagnostic.hint(format!("the file names no {kind}")),
            some => diagnostic.hint(format!("known are {}", some.join(", "))),
        },
    });
    false
}
