//! What a rule does.

use flow_table::{
    field::Field,
    id::VlanId,
    key::protocol,
    rule::{Edit, TableId},
};

use crate::{
    diagnostics::{Diagnostic, Sink},
    grammar::NO_CONNECTIONS,
    model::{Action, To, bits4, bits6},
    place::Place,
    read::{
        matches::{Families, Read},
        names::Names,
    },
    tree::{Entry, Map, Node, Scalar, quoted},
    value::{Fault, address, mac, number, packet},
};

/// Reads the value of a flow's `action`, whose match is `read`; `None` when it was reported to be wrong.
pub(super) fn action(
    node: &Node,
    table: TableId,
    read: Option<&Read>,
    names: &Names,
    sink: &mut Sink,
) -> Option<Action> {
    match (node.map(), node.text()) {
        (None, Some(word)) => of_word(word, node.place, table, sink),
        (Some(map), _) => of_map(map, node.place, table, read, names, sink),
        (None, None) => None,
    }
}

/// What a table may do, as its operators write it.
const fn actions_of(table: TableId) -> &'static str {
    match table {
        TableId::Classify => "next, drop and { mark: N }",
        TableId::Security => "allow and drop",
        TableId::AclFrom | TableId::AclTo => "allow-stateless and deny",
        TableId::Forward => "{ port: NAME }, flood, normal (each also with set) and drop",
        TableId::Output => "drop, { set: { ip.dscp: N } } and { vlan: N }",
    }
}

fn of_word(word: &str, place: Place, table: TableId, sink: &mut Sink) -> Option<Action> {
    let forward = |to| Some(Action::Forward { to, edits: Vec::new() });
    match (table, word) {
        (TableId::Classify, "next") | (TableId::Security, "allow") => Some(Action::Allow),
        (TableId::AclFrom | TableId::AclTo, "allow-stateless") => Some(Action::Allow),
        (TableId::AclFrom | TableId::AclTo, "deny") => Some(Action::Drop),
        (TableId::Classify | TableId::Security | TableId::Forward | TableId::Output, "drop") => Some(Action::Drop),
        (TableId::Forward, "flood") => forward(To::Flood),
        (TableId::Forward, "normal") => forward(To::Normal),
        (TableId::AclFrom | TableId::AclTo, "allow") => {
            sink.push(Fault::with_advice(NO_CONNECTIONS).at(place, "action"));
            None
        }
        _ => {
            sink.push(not_of(table, word, place));
            None
        }
    }
}

fn not_of(table: TableId, word: &str, place: Place) -> Diagnostic {
    let message = format!("action: table {} has no action {}", table.name(), quoted(word));
    let diagnostic = Diagnostic::at(place, message);
    match (table, word) {
        (TableId::AclFrom | TableId::AclTo, "drop") => diagnostic.hint("write deny"),
        (TableId::AclFrom | TableId::AclTo, _) => diagnostic.hint("write allow-stateless or deny"),
        (_, "deny") => diagnostic.hint("write drop"),
        _ => diagnostic.hint(format!("its actions are {}", actions_of(table))),
    }
}

fn of_map(
    map: &Map,
    place: Place,
    table: TableId,
    read: Option<&Read>,
    names: &Names,
    sink: &mut Sink,
) -> Option<Action> {
    let allowed: &[&str] = match table {
        TableId::Classify => &["mark"],
        TableId::Forward => &["port", "flood", "normal", "set"],
        TableId::Output => &["set", "vlan"],
        TableId::Security | TableId::AclFrom | TableId::AclTo => &[],
    };
    let before = sink.len();
    for entry in map.entries.iter().filter(|entry| !allowed.contains(&&*entry.key)) {
        sink.push(not_of(table, &entry.key, entry.key_place));
    }
    if map.entries.is_empty() {
        let diagnostic = Diagnostic::at(place, "action: it says nothing");
        sink.push(diagnostic.hint(format!("the actions of table {} are {}", table.name(), actions_of(table))));
    }
    let edits = map.entry("set").map(|set| edits(set, table, read, sink)).unwrap_or_default();
    let action = match table {
        TableId::Classify => Action::Mark(u32::try_from(integer(map.get("mark")?)?).ok()?),
        TableId::Forward => Action::Forward { to: target(map, place, names, sink)?, edits },
        TableId::Output => {
            let vlan = map.get("vlan").and_then(|vlan| packet::vlan_or_untagged(vlan.scalar()?).ok());
            let vlan = vlan.map(|id| Edit::Vlan(VlanId::new(id).ok()));
            Action::Edit(edits.into_iter().chain(vlan).collect())
        }
        TableId::Security | TableId::AclFrom | TableId::AclTo => return None,
    };
    (sink.len() == before).then_some(action)
}

fn integer(node: &Node) -> Option<u64> {
    number::integer(node.scalar()?, 0, u64::MAX).ok()
}

fn target(map: &Map, place: Place, names: &Names, sink: &mut Sink) -> Option<To> {
    let given: Vec<&Entry> = map.entries.iter().filter(|e| matches!(&*e.key, "port" | "flood" | "normal")).collect();
    let entry = match &*given {
        [one] => one,
        [first, second, ..] => {
            let message = format!("action: it is either \"{}\" or \"{}\", not both", first.key, second.key);
            sink.push(Diagnostic::at(second.key_place, message).also(first.key_place));
            return None;
        }
        [] if map.entry("set").is_some() => {
            let diagnostic = Diagnostic::at(place, "action: in table forward, \"set\" goes with a way out");
            sink.push(diagnostic.hint("write { normal: {}, set: ... } to send it where the network would"));
            return None;
        }
        [] => return None,
    };
    match &*entry.key {
        "flood" => Some(To::Flood),
        "normal" => Some(To::Normal),
        _ => {
            let name = entry.node.text()?;
            names.has_port(name, entry.node.place, sink).then(|| To::Port(name.to_owned()))
        }
    }
}

/// Reads `set`. What it changes must be there in every packet that the rule matches.
fn edits(set: &Entry, table: TableId, read: Option<&Read>, sink: &mut Sink) -> Vec<Edit> {
    let entries = set.node.map().map(|map| &*map.entries).unwrap_or_default();
    if entries.is_empty() {
        sink.push(Diagnostic::at(set.key_place, "set: it says nothing").hint("name a field, such as ip.dscp: 46"));
    }
    let mut edits = Vec::new();
    for entry in entries {
        if table == TableId::Output && entry.key != "ip.dscp" {
            let message = format!("set: table output can not set {}", quoted(&entry.key));
            sink.push(
                Diagnostic::at(entry.key_place, message).hint("it sets ip.dscp; other fields are set in table forward"),
            );
        } else if let Some((edit, needs)) = entry.node.scalar().and_then(|scalar| edit(&entry.key, scalar)) {
            // A match that was reported is not held against the action.
            match read.map(|read| needs.lacking(read)) {
                Some(Some(lacking)) => {
                    let message = format!("set: \"{}\" needs a match on {lacking}", entry.key);
                    sink.push(Diagnostic::at(entry.key_place, message));
                }
                _ => edits.push(edit),
            }
        }
    }
    edits
}

/// What must be known of a packet before a field can be set.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Family(Families, &'static str),
    Protocol(u8, &'static str),
}

impl Needs {
    /// What the match leaves open of it.
    fn lacking(self, read: &Read) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Family(families, text) => (!read.families.within(families)).then_some(text),
            Self::Protocol(protocol, text) => (read.protocol != Some(protocol)).then_some(text),
        }
    }
}

fn edit(key: &str, scalar: &Scalar) -> Option<(Edit, Needs)> {
    let ip = Needs::Family(Families::IP, "IP packets, such as eth.type: [ipv4, ipv6]");
    let number = || Some(u128::from(number::integer(scalar, 0, u64::MAX).ok()?));
    let (tcp, udp) = (Needs::Protocol(protocol::TCP, "ip.proto: tcp"), Needs::Protocol(protocol::UDP, "ip.proto: udp"));
    let (field, value, needs) = match key {
        "eth.src" => (Field::EthSrc, mac::unicast(&scalar.text).ok()?.to_u64().into(), Needs::Nothing),
        "eth.dst" => (Field::EthDst, mac::mac(&scalar.text).ok()?.to_u64().into(), Needs::Nothing),
        "ip.src" => of_address(&scalar.text, Field::Ip4Src, Field::Ip6Src)?,
        "ip.dst" => of_address(&scalar.text, Field::Ip4Dst, Field::Ip6Dst)?,
        "ip.dscp" => (Field::IpDscp, number()?, ip),
        "ip.ttl" => return Some((Edit::DecrementTtl, ip)),
        "tcp.src" => (Field::L4Src, number()?, tcp),
        "tcp.dst" => (Field::L4Dst, number()?, tcp),
        "udp.src" => (Field::L4Src, number()?, udp),
        "udp.dst" => (Field::L4Dst, number()?, udp),
        _ => return None,
    };
    Some((Edit::Set(field, value), needs))
}

fn of_address(text: &str, v4: Field, v6: Field) -> Option<(Field, u128, Needs)> {
    Some(match address::address(text).ok()? {
        core::net::IpAddr::V4(address) => {
            (v4, bits4(address), Needs::Family(Families::IPV4, "IPv4, such as eth.type: ipv4 or an IPv4 ip.dst"))
        }
        core::net::IpAddr::V6(address) => {
            (v6, bits6(address), Needs::Family(Families::IPV6, "IPv6, such as eth.type: ipv6 or an IPv6 ip.dst"))
        }
    })
}
