//! Scenarios: what the switch is asked to do, and the frames that ask for it.
//!
//! One network, a sender behind port 1 and a receiver behind port 2, both with a configured MAC; a thousand rules in table
//! `acl-from`, of which the least lets everything through that the others do not drop. No flow is dropped.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use flow_table::{
    field::Field,
    hash::Seed,
    id::{NetworkId, PortId, Priority, RuleId},
    mac::MacAddr,
    matching::{Match, Term},
    packet::checksum,
    pipeline::Pipeline,
    policy::{NetworkPolicy, Policy, PortKind, PortPolicy, VlanMode},
    rule::{Action, Edit, Rule, TableId, Target},
};
use serde::Serialize;

/// The sender's port.
pub const FROM: PortId = PortId(1);
/// The receiver's port.
pub const TO: PortId = PortId(2);
/// The sender's MAC.
pub const FROM_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The receiver's MAC.
pub const TO_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Rules in table `acl-from`.
pub const ACL_RULES: u32 = 1000;
/// Bytes of every frame, as a driver hands it over: the FCS is not among them.
pub const FRAME_BYTES: usize = 64;
/// The port of every flow's destination.
const SERVICE: u16 = 5001;
const NETWORK: NetworkId = NetworkId(1);
const IP_BYTES: u16 = 50;
const UDP_BYTES: u16 = 30;

/// What becomes of every flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Switched by the receiver's MAC, unchanged.
    Forward,
    /// Sent by a rule of table `forward` that rewrites both MACs, the destination's address and port, and the TTL.
    Rewrite,
}

/// A policy and its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Scenario {
    /// What becomes of every flow.
    pub work: Work,
    /// How many flows there are.
    pub flows: u32,
}

impl Scenario {
    /// The policy, compiled.
    #[must_use]
    pub fn pipeline(&self, seed: Seed) -> Arc<Pipeline> {
        Arc::new(Pipeline::new(&self.policy(), seed))
    }

    fn policy(&self) -> Policy {
        let forward = match self.work {
            Work::Forward => Vec::new(),
            Work::Rewrite => vec![rewriting_rule()],
        };
        let network = NetworkPolicy {
            id: NETWORK,
            name: "bench".into(),
            vni: None,
            gateways: Vec::new(),
            gateway_mac: MacAddr::ZERO,
            aging: Duration::from_secs(300),
            mac_limit: 1024,
        };
        Policy {
            ports: vec![port(FROM, FROM_MAC), port(TO, TO_MAC)],
            networks: vec![network],
            tables: TableId::ALL.map(|table| match table {
                TableId::AclFrom => acl(),
                TableId::Forward => forward.clone(),
                _ => Vec::new(),
            }),
            rules: Vec::new(),
        }
    }
}

fn port(id: PortId, mac: MacAddr) -> PortPolicy {
    PortPolicy {
        id,
        name: format!("port-{id}"),
        kind: PortKind::Workload,
        network: Some(NETWORK),
        vlan: VlanMode::All,
        mac: Some(mac),
        addresses: Vec::new(),
        guarded_from: id == FROM,
        guarded_to: false,
    }
}

/// Rules of four shapes that drop what nobody here sends, and one below them that allows UDP.
fn acl() -> Vec<Rule> {
    let drops = (1..ACL_RULES).map(|n| {
        let prefix = u128::from(u32::from(Ipv4Addr::new(172, 16, 0, 0)) + (n << 8));
        let port = u128::from(20_000 + n);
        let ip = Match::any().with_exact(Field::EthType, 0x0800);
        let matches = match n % 4 {
            0 => ip.with(Field::Ip4Src, [Term::prefix(Field::Ip4Src, prefix, 24)]),
            1 => ip.with(Field::Ip4Dst, [Term::prefix(Field::Ip4Dst, prefix, 24)]),
            2 => ip.with_exact(Field::IpProto, 17).with_exact(Field::L4Dst, port),
            _ => ip
                .with(Field::Ip4Src, [Term::prefix(Field::Ip4Src, prefix, 24)])
                .with_exact(Field::IpProto, 6)
                .with_exact(Field::L4Dst, port),
        };
        Rule { id: RuleId(n), priority: Priority(2000), matches, action: Action::Drop }
    });
    let allow = Rule {
        id: RuleId(ACL_RULES),
        priority: Priority(1),
        matches: Match::any().with_exact(Field::EthType, 0x0800).with_exact(Field::IpProto, 17),
        action: Action::Allow,
    };
    drops.chain([allow]).collect()
}

/// The edits of [`Work::Rewrite`].
#[must_use]
pub fn edits() -> Vec<Edit> {
    let address = u128::from(u32::from(Ipv4Addr::new(192, 0, 2, 7)));
    vec![
        Edit::Set(Field::EthDst, u128::from(TO_MAC.to_u64() | 0x0100)),
        Edit::Set(Field::EthSrc, u128::from(FROM_MAC.to_u64() | 0x0100)),
        Edit::Set(Field::Ip4Dst, address),
        Edit::Set(Field::L4Dst, 8080),
        Edit::DecrementTtl,
    ]
}

fn rewriting_rule() -> Rule {
    Rule {
        id: RuleId(ACL_RULES + 1),
        priority: Priority(1000),
        matches: Match::any().with_exact(Field::EthType, 0x0800),
        action: Action::Forward { to: Target::Port(TO), edits: edits() },
    }
}

/// A UDP frame of flow `flow`, checksums and all. Different flows differ in source address and port.
#[must_use]
pub fn frame(flow: u32) -> [u8; FRAME_BYTES] {
    let [f0, f1, f2, f3] = flow.to_be_bytes();
    let [_, _, s0, s1] = (flow.wrapping_mul(0x9e37_79b9) >> 18 | 0x8000).to_be_bytes();
    let source = [10, f1, f2, f3 ^ f0];
    let destination = [10, 255, 0, 1];
    let [p0, p1] = SERVICE.to_be_bytes();
    let [n0, n1] = IP_BYTES.to_be_bytes();
    let [u0, u1] = UDP_BYTES.to_be_bytes();
    let address_sum = checksum::sum(&source) + checksum::sum(&destination);

    let mut ip = [0x45, 0, n0, n1, 0, 0, 0x40, 0, 64, 17, 0, 0];
    let [c0, c1] = (!checksum::fold(checksum::sum(&ip) + address_sum)).to_be_bytes();
    let [.., a, b] = &mut ip;
    (*a, *b) = (c0, c1);

    let payload = [0x5a; 22];
    let ports_and_length = [s0, s1, p0, p1, u0, u1];
    let pseudo = address_sum + 17 + u64::from(UDP_BYTES);
    let sum = pseudo + checksum::sum(&ports_and_length) + checksum::sum(&payload);
    let udp_checksum = (!checksum::fold(sum)).to_be_bytes();

    let mut bytes = [0; FRAME_BYTES];
    let parts = [
        TO_MAC.0.as_slice(),
        &FROM_MAC.0,
        &[8, 0],
        &ip,
        &source,
        &destination,
        &ports_and_length,
        &udp_checksum,
        &payload,
    ];
    for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_table::packet::parse;

    #[test]
    fn every_flow_has_a_key_of_its_own_and_right_checksums() {
        let mut keys: Vec<_> = (0..70_000).map(|flow| parse(&frame(flow), FROM).unwrap().key.0).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 70_000);
        let bytes = frame(123_456);
        assert_eq!(checksum::fold(checksum::sum(&bytes[14..34])), 0xffff);
        let parsed = parse(&bytes, FROM).unwrap();
        let whole = checksum::pseudo_header(&parsed) + checksum::sum(&bytes[34..]);
        assert_eq!(checksum::fold(whole), 0xffff);
        assert_eq!(parsed.key.l4_dst(), SERVICE);
    }
}
