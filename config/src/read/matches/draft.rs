//! A match while it is read: its conditions, and what they say together about the packet's kind.

use flow_table::{
    field::Field,
    key::{VLAN_PRESENT, ethertype, protocol},
    matching::Term,
};
use ipnet::IpNet;

use crate::{
    diagnostics::{Diagnostic, Sink},
    model::{Addresses, Condition},
    place::Place,
    value::packet::protocol_name,
};

/// Kinds of packets, by what follows the Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Families(u8);

impl Families {
    pub(crate) const IPV4: Self = Self(1);
    pub(crate) const IPV6: Self = Self(2);
    pub(crate) const IP: Self = Self(3);
    const ARP: Self = Self(4);
    const OTHER: Self = Self(8);
    const ALL: Self = Self(15);

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True when there is no kind here that is not in `other`.
    pub(crate) const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    fn describe(self) -> String {
        let names =
            [(Self::IPV4, "IPv4"), (Self::IPV6, "IPv6"), (Self::ARP, "ARP"), (Self::OTHER, "another EtherType")];
        let given: Vec<&str> =
            names.iter().filter(|(family, _)| !self.and(*family).is_none()).map(|(_, name)| *name).collect();
        given.join(" or ")
    }
}

/// What a key says about the packet's kind or protocol.
#[derive(Debug, Clone)]
struct Claim<T> {
    key: String,
    place: Place,
    says: T,
}

/// A match as read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) matches: Vec<Vec<Condition>>,
    /// What kinds of packet it matches.
    pub(crate) families: Families,
    /// The IP protocol all its packets have.
    pub(crate) protocol: Option<u8>,
}

#[derive(Debug)]
pub(super) struct Draft {
    conditions: Vec<Condition>,
    addresses: Vec<Addresses>,
    families: Families,
    /// The EtherTypes asked for in so many words.
    ether_types: Option<Vec<Term>>,
    /// True when a condition reads what only some kinds of packet have.
    above_ethernet: bool,
    claims: Vec<Claim<Families>>,
    protocols: Option<Claim<Vec<u64>>>,
    implied: Vec<Claim<u8>>,
    /// The first key about L4, which a later fragment has not.
    l4: Option<(String, Place)>,
    fragment: Option<(Place, bool)>,
    failed: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            conditions: Vec::new(),
            addresses: Vec::new(),
            families: Families::ALL,
            ether_types: None,
            above_ethernet: false,
            claims: Vec::new(),
            protocols: None,
            implied: Vec::new(),
            l4: None,
            fragment: None,
            failed: false,
        }
    }
}

impl Draft {
    /// Notes that something of it was reported.
    pub(super) const fn fail(&mut self) {
        self.failed = true;
    }

    pub(super) fn add(&mut self, condition: Condition) {
        if let Condition::Field(Field::IpFragment, terms) = &condition
            && let Some((_, later)) = &mut self.fragment
        {
            *later = terms.iter().all(|term| *term == Term::exact(Field::IpFragment, 2));
        }
        self.conditions.push(condition);
    }

    /// Takes note of what a key on `field` says about the packet's kind and protocol.
    pub(super) fn imply(&mut self, key: &str, place: Place, field: Field, sink: &mut Sink) {
        let protocol = match key.split('.').next() {
            Some("tcp") => Some(protocol::TCP),
            Some("udp") => Some(protocol::UDP),
            Some("icmp") => Some(protocol::ICMP),
            Some("icmp6" | "nd") => Some(protocol::ICMPV6),
            _ => None,
        };
        if let Some(says) = protocol {
            self.implied.push(Claim { key: key.to_owned(), place, says });
        }
        match key.split('.').next() {
            Some("ip" | "tcp" | "udp") => self.narrow(key, place, Families::IP, sink),
            Some("icmp") => self.narrow(key, place, Families::IPV4, sink),
            Some("icmp6" | "nd") => self.narrow(key, place, Families::IPV6, sink),
            Some("arp") => self.narrow(key, place, Families::ARP, sink),
            _ => {}
        }
        if field.is_l4() && self.l4.is_none() {
            self.l4 = Some((key.to_owned(), place));
        }
        match field {
            Field::IpFragment => self.fragment = Some((place, false)),
            // An untagged frame has no priority: what its key holds there is not one.
            Field::VlanPcp => {
                let tagged = Term::Masked { value: VLAN_PRESENT.into(), mask: VLAN_PRESENT.into() };
                self.add(Condition::Field(Field::VlanTci, vec![tagged]));
            }
            _ => {}
        }
    }

    pub(super) fn addresses(
        &mut self,
        key: &str,
        place: Place,
        nets: &[IpNet],
        fields: (Field, Field),
        sink: &mut Sink,
    ) {
        let addresses = Addresses::of(nets, fields.0, fields.1);
        let families = match (addresses.v4.1.is_empty(), addresses.v6.1.is_empty()) {
            (false, true) => Families::IPV4,
            (true, false) => Families::IPV6,
            _ => Families::IP,
        };
        self.narrow(key, place, families, sink);
        self.addresses.push(addresses);
    }

    pub(super) fn ether_types(&mut self, key: &str, place: Place, types: Vec<u64>, sink: &mut Sink) {
        let family = |number: &u64| match u16::try_from(*number) {
            Ok(ethertype::IPV4) => Families::IPV4,
            Ok(ethertype::IPV6) => Families::IPV6,
            Ok(ethertype::ARP) => Families::ARP,
            _ => Families::OTHER,
        };
        let families = types.iter().map(family).fold(Families(0), Families::or);
        let above = self.above_ethernet;
        self.narrow(key, place, families, sink);
        self.above_ethernet = above;
        self.ether_types = Some(types.iter().map(|value| Term::exact(Field::EthType, (*value).into())).collect());
    }

    pub(super) fn protocols(&mut self, key: &str, place: Place, protocols: Vec<u64>, sink: &mut Sink) {
        let only = |one: u8| protocols.iter().all(|protocol| *protocol == u64::from(one));
        let families = match () {
            () if only(protocol::ICMP) => Families::IPV4,
            () if only(protocol::ICMPV6) => Families::IPV6,
            () => Families::IP,
        };
        self.narrow(key, place, families, sink);
        self.protocols = Some(Claim { key: key.to_owned(), place, says: protocols });
    }

    fn narrow(&mut self, key: &str, place: Place, to: Families, sink: &mut Sink) {
        self.above_ethernet = true;
        let left = self.families.and(to);
        if left.is_none() {
            let other = self.claims.iter().find(|claim| claim.says.and(to).is_none()).or(self.claims.last());
            let message = format!("no packet can match: \"{key}\" is about {}", to.describe());
            sink.push(match other {
                Some(other) => {
                    let message = format!("{message}, \"{}\" about {}", other.key, other.says.describe());
                    Diagnostic::at(place, message).also(other.place)
                }
                None => Diagnostic::at(place, message),
            });
            self.failed = true;
            return;
        }
        self.families = left;
        self.claims.push(Claim { key: key.to_owned(), place, says: to });
    }

    /// The match, when all of it can hold together.
    pub(super) fn finish(mut self, sink: &mut Sink) -> Option<Read> {
        self.judge_fragments(sink);
        let protocols = self.judge_protocols(sink);
        if self.failed {
            return None;
        }
        let protocol = match &*protocols {
            [one] => u8::try_from(*one).ok(),
            _ => None,
        };
        if !protocols.is_empty() {
            let terms = protocols.iter().map(|number| Term::exact(Field::IpProto, (*number).into())).collect();
            self.conditions.push(Condition::Field(Field::IpProto, terms));
        }
        let families = self.families;
        Some(Read { matches: self.split(), families, protocol })
    }

    /// One list of conditions for each kind of packet that has fields of its own in the match.
    fn split(self) -> Vec<Vec<Condition>> {
        let Self { conditions, addresses, families, ether_types, above_ethernet, .. } = self;
        if !above_ethernet {
            let type_condition = ether_types.map(|terms| Condition::Field(Field::EthType, terms));
            return vec![type_condition.into_iter().chain(conditions).collect()];
        }
        let kinds =
            [(Families::IPV4, ethertype::IPV4), (Families::IPV6, ethertype::IPV6), (Families::ARP, ethertype::ARP)];
        let mut matches = Vec::new();
        for (family, ether_type) in kinds {
            if families.and(family).is_none() {
                continue;
            }
            let mut all = vec![Condition::Field(Field::EthType, vec![Term::exact(Field::EthType, ether_type.into())])];
            for addresses in &addresses {
                let (field, terms) = if family == Families::IPV4 { &addresses.v4 } else { &addresses.v6 };
                all.push(Condition::Field(*field, terms.clone()));
            }
            all.extend(conditions.iter().cloned());
            matches.push(all);
        }
        matches
    }

    /// A later fragment has no ports.
    fn judge_fragments(&mut self, sink: &mut Sink) {
        if let (Some((key, place)), Some((fragment, true))) = (&self.l4, &self.fragment) {
            let message = format!("no packet can match: a later fragment has no \"{key}\"");
            sink.push(Diagnostic::at(*fragment, message).also(*place));
            self.failed = true;
        }
    }

    /// The IP protocols that are left; empty for any.
    fn judge_protocols(&mut self, sink: &mut Sink) -> Vec<u64> {
        let Some(first) = self.implied.first() else {
            return self.protocols.take().map(|claim| claim.says).unwrap_or_default();
        };
        let wanted = protocol_name(first.says.into());
        if let Some(other) = self.implied.iter().find(|claim| claim.says != first.says) {
            let about = protocol_name(other.says.into());
            let message =
                format!("no packet can match: \"{}\" is about {about}, \"{}\" about {wanted}", other.key, first.key);
            sink.push(Diagnostic::at(other.place, message).also(first.place));
            self.failed = true;
        }
        if let Some(given) = &self.protocols
            && let Some(stranger) = given.says.iter().find(|number| **number != u64::from(first.says))
        {
            let message = format!(
                "\"{}\" is about {wanted}, and \"{}\" allows {}",
                first.key,
                given.key,
                protocol_name(*stranger)
            );
            let hint = format!("\"{}\" implies ip.proto: {wanted}; leave ip.proto out", first.key);
            sink.push(Diagnostic::at(first.place, message).also(given.place).hint(hint));
            self.failed = true;
        }
        vec![first.says.into()]
    }
}
