//! Every report of one small switch, as literal text.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use dataplane::{
    port::{BelowCounters, PortMode, PortStatus},
    report::{Count, DropReport, FdbReport, FlowReport, FlowVerdict, Law, PortReport, Report, WorkerReport},
};
use flow_table::{
    fate::DropReason,
    field::Field,
    hash::Seed,
    id::{NetworkId, PortId, RuleId},
    key::FlowKey,
    mac::MacAddr,
    rule::TableId,
};

use super::{build, key, names::Names, shape::List, table};
use crate::agent::{
    desired::Desired,
    fake::port,
    view::{Device, PortRecord, PortState, View},
};

const FILE: &str = "\
apiVersion: sluice/v1
node: { name: node-a }
ports:
  - { name: web-1, device: veth-web1, network: blue }
  - { name: web-2, device: veth-web2, network: blue }
networks: [{ name: blue }]
flows:
  - { name: web, table: acl-to, priority: 10, match: { tcp.dst: [80, 443] }, action: allow-stateless }
  - { name: no-telnet, table: acl-from, priority: 500, match: { tcp.dst: 23 }, action: deny }
";

fn desired() -> Desired {
    Desired::of_text(FILE, "node.yaml", None, Seed::new(0)).unwrap()
}

fn names(desired: &Desired) -> Names {
    let mut names = Names::default();
    names.learn(&desired.policy);
    names
}

fn rule(desired: &Desired, name: &str) -> RuleId {
    desired.rules.iter().find(|rule| rule.name == name).unwrap().id
}

fn view() -> View {
    let desired = desired();
    let states = [
        PortState::Attached(Device { index: 7, mtu: 1500 }),
        PortState::Missing("device veth-web2 does not exist".to_owned()),
    ];
    let ports: BTreeMap<PortId, PortRecord> = desired
        .ports
        .iter()
        .zip(states)
        .map(|(spec, state)| (spec.id, PortRecord { spec: spec.clone(), state }))
        .collect();
    let names = Arc::new(names(&desired));
    let desired = Arc::new(desired);
    View { desired, generation: 3, names, ports, last_reload: None, started: "2026-01-02T03:04:05Z".to_owned() }
}

fn count(packets: u64, bytes: u64) -> Count {
    Count { packets, bytes }
}

fn tcp() -> FlowKey {
    let mut headers = flow_table::field::Headers::default();
    for (field, value) in [
        (Field::InPort, 1),
        (Field::EthSrc, 0x0200_0000_0011),
        (Field::EthDst, 0x0200_0000_0012),
        (Field::EthType, 0x0800),
        (Field::IpProto, 6),
        (Field::Ip4Src, u128::from(Ipv4Addr::new(10, 0, 0, 11).to_bits())),
        (Field::Ip4Dst, u128::from(Ipv4Addr::new(10, 0, 0, 12).to_bits())),
        (Field::L4Src, 40_000),
        (Field::L4Dst, 80),
    ] {
        field.write(&mut headers.words, value, u128::MAX);
    }
    FlowKey(*headers.words.first_chunk().unwrap())
}

#[test]
fn ports_are_shown_with_what_they_carried_and_why_one_is_missing() {
    let view = view();
    let below = BelowCounters { rx_ring_full: 4, rx_fill_ring_empty: 12, ..BelowCounters::default() };
    let report = Report {
        ports: vec![PortReport {
            id: view.desired.ports[0].id,
            status: Some(PortStatus { mode: PortMode::Copy, queues: 2, below }),
            rx: count(1_234, 98_765),
            tx: count(7, 420),
            drops: 5,
        }],
        ..Report::default()
    };
    let list = build::ports(&view, &report);
    assert_eq!(
        table::render(&list),
        "\
NAME   DEVICE     KIND      NETWORK  STATE     WHY                              MODE  QUEUES   MTU  RX PKTS  RX BYTES  TX PKTS  TX BYTES  DROPS  RING FULL  FILL EMPTY  TOO LONG
web-1  veth-web1  workload  blue     attached  -                                copy       2  1500     1234     98765        7       420      5          4          12         0
web-2  veth-web2  workload  blue     missing   device veth-web2 does not exist  -          0     -        0         0        0         0      0          0           0         0
"
    );
    let json = serde_json::to_value(&list).unwrap();
    assert_eq!(json["apiVersion"], "sluice/v1");
    assert_eq!(json["kind"], "Ports");
    assert_eq!(json["items"][0]["kernel"]["rx_fill_ring_empty"], 12);
    assert_eq!(json["items"][1]["why"], "device veth-web2 does not exist");
    assert_eq!(json["items"][1]["mode"], serde_json::Value::Null);
}

#[test]
fn rules_are_shown_in_table_order_as_written_with_their_place_and_counts() {
    let desired = desired();
    let list = build::tables(&desired.rules, &[(rule(&desired, "no-telnet"), count(3, 180))]);
    assert_eq!(
        table::render(&list),
        "\
TABLE     PRIORITY  RULE       MATCH                 ACTION           PLACE           PKTS  BYTES
acl-from       500  no-telnet  {tcp.dst: 23}         deny             node.yaml:9:13     3    180
acl-to          10  web        {tcp.dst: [80, 443]}  allow-stateless  node.yaml:8:13     0      0
"
    );
}

#[test]
fn flows_are_shown_busiest_first_with_names_for_ports_and_rules() {
    let desired = desired();
    let names = names(&desired);
    let mut arp = FlowKey::default();
    arp.0[0] = (2 << 48) | (0x0806 << 32) | (1 << 8);
    arp.0[1] = MacAddr::BROADCAST.to_u64() << 16;
    arp.0[2] = MacAddr([2, 0, 0, 0, 0, 0x12]).to_u64() << 16;
    arp.0[3] = 0x0a00_000c_0a00_000b;
    let flows = vec![
        FlowReport {
            key: arp,
            verdict: FlowVerdict::Drop(DropReason::NoDestination),
            rules: vec![],
            count: count(1, 42),
            idle: Duration::from_secs(61),
        },
        FlowReport {
            key: tcp(),
            verdict: FlowVerdict::Forward(vec![PortId(2)]),
            rules: vec![rule(&desired, "web")],
            count: count(900, 120_000),
            idle: Duration::from_millis(1_250),
        },
    ];
    let list = build::flows(&names, flows);
    assert_eq!(
        table::render(&list),
        "\
FLOW                                                                                                                                  VERDICT               RULES       PKTS   BYTES  IDLE
in=web-1 eth.src=02:00:00:00:00:11 eth.dst=02:00:00:00:00:12 ip.src=10.0.0.11 ip.dst=10.0.0.12 ip.proto=tcp tcp.src=40000 tcp.dst=80  to web-2              acl-to/web   900  120000  1.2s
in=web-2 eth.src=02:00:00:00:00:12 eth.dst=ff:ff:ff:ff:ff:ff eth.type=arp arp.op=request arp.spa=10.0.0.12 arp.tpa=10.0.0.11          drop: no_destination  -              1      42   61s
"
    );
    let json = serde_json::to_string(&list).unwrap();
    assert!(json.contains(
        r#""key":{"in":"web-1","eth.src":"02:00:00:00:00:11","eth.dst":"02:00:00:00:00:12","eth.type":"ipv4","ip.src":"10.0.0.11","ip.dst":"10.0.0.12","ip.proto":"tcp","tcp.src":40000,"tcp.dst":80}"#
    ));
    assert_eq!(serde_json::from_str::<List<super::shape::Flow>>(&json).unwrap(), list, "the order of fields is kept");
}

#[test]
fn icmpv6_vlan_and_later_fragments_show_the_fields_they_have() {
    let names = Names::default();
    let mut key = FlowKey::default();
    key.0[0] = (3 << 48) | (0x86dd << 32) | ((0x7000 | 100) << 16) | (58 << 8) | (46 << 2);
    key.0[2] = 128 << 8;
    key.0[5] = u64::try_from(Ipv6Addr::LOCALHOST.to_bits()).unwrap();
    assert_eq!(
        key::fields(&key, &names).to_string(),
        "in=port-3 eth.src=00:00:00:00:00:00 eth.dst=00:00:00:00:00:00 vlan.id=100 vlan.pcp=3 eth.type=ipv6 ip.src=::1 \
         ip.dst=:: ip.dscp=46 ip.proto=icmpv6 icmp6.type=128 icmp6.code=0"
    );
    let mut later = tcp();
    later.0[0] |= 2;
    let text = key::fields(&later, &names).to_string();
    assert!(text.ends_with("ip.proto=tcp ip.fragment=later"), "{text}");
}

#[test]
fn drops_are_shown_most_first_with_explanation_rule_and_total() {
    let desired = desired();
    let names = names(&desired);
    let drop = |reason, rule, packets| DropReport { reason, port: PortId(1), rule, packets };
    let report = Report {
        drops: vec![
            drop(DropReason::Runt, None, 2),
            drop(DropReason::AclFrom, Some(rule(&desired, "no-telnet")), 40),
            drop(DropReason::AclToDefault, None, 3),
        ],
        ..Report::default()
    };
    let list = build::drops(&names, &report);
    assert_eq!(
        table::render(&list),
        "\
REASON          PORT   RULE       PKTS  EXPLANATION
acl_from        web-1  no-telnet    40  a rule of table acl-from denies it
acl_to_default  web-1  default       3  no rule of acl-to allows what this port receives
runt            web-1  -             2  the frame is shorter than an Ethernet header
total 45
"
    );
    assert_eq!(serde_json::to_value(&list).unwrap()["total"], 45);
}

#[test]
fn drops_of_a_port_that_was_removed_and_added_again_are_one_row() {
    let mut desired = desired();
    let mut names = names(&desired);
    let again = PortId(9);
    desired.policy.ports[0].id = again;
    names.learn(&desired.policy);
    let drop = |port, packets| DropReport { reason: DropReason::Runt, port, rule: None, packets };
    let report = Report { drops: vec![drop(PortId(1), 2), drop(PortId(2), 4), drop(again, 3)], ..Report::default() };
    let list = build::drops(&names, &report);
    let rows: Vec<(&str, u64)> = list.items.iter().map(|row| (&*row.port, row.packets)).collect();
    assert_eq!((rows, list.total), (vec![("web-1", 5), ("web-2", 4)], Some(9)));
}

#[test]
fn what_another_version_leaves_out_or_adds_is_no_reason_to_show_nothing() {
    fn read<T: serde::de::DeserializeOwned>() {
        let text = r#"{"apiVersion":"sluice/v2","kind":"X","more":{},"items":[{"new":[1]}]}"#;
        assert_eq!(serde_json::from_str::<List<T>>(text).unwrap().items.len(), 1);
    }
    use super::shape::*;
    read::<Port>();
    read::<Flow>();
    read::<Rule>();
    read::<Station>();
    read::<Worker>();
    read::<Drop>();
    read::<Status>();
}

#[test]
fn stations_are_shown_static_and_learned() {
    let desired = desired();
    let network = desired.policy.networks[0].id;
    let station = |last, vlan, age| FdbReport {
        network,
        vlan,
        mac: MacAddr([2, 0, 0, 0, 0, last]),
        port: PortId(u16::from(last)),
        age,
    };
    let list = build::fdb(&names(&desired), &[station(2, 100, Some(Duration::from_secs(9))), station(1, 0, None)]);
    assert_eq!(
        table::render(&list),
        "\
NETWORK  VLAN  MAC                PORT   ORIGIN    AGE
blue        -  02:00:00:00:00:01  web-1  static      -
blue      100  02:00:00:00:00:02  web-2  learned  9.0s
"
    );
    let unknown = FdbReport { network: NetworkId(77), ..station(1, 0, None) };
    assert_eq!(build::fdb(&Names::default(), &[unknown]).items[0].network, "network-77");
}

#[test]
fn a_worker_whose_frames_do_not_balance_says_so_loudly() {
    let law = Law { rx: 10, tx: 7, dropped: 2, held: 1, ..Law::default() };
    let mut worker = WorkerReport { generation: 2, polls: 100, hits: 8, misses: 2, law, ..WorkerReport::default() };
    assert_eq!(
        table::render(&build::workers(&worker)),
        "\
GENERATION  POLLS  BUSY  SLEEPS  HITS  MISSES  UNCACHED  FLOWS  ROOM  CHUNKS  FREE  RX  TX  DROPPED  HELD  BALANCED
         2    100     0       0     8       2         0      0     0       0     0  10   7        2     1  yes
"
    );
    worker.law.tx = 6;
    let list = build::workers(&worker);
    assert!(!list.items[0].frames.balanced);
    assert!(table::render(&list).trim_end().ends_with("NO"));
}

#[test]
fn the_status_tells_how_the_last_reload_went() {
    let mut view = view();
    let hash = view.desired.hash.clone();
    assert_eq!(hash.len(), 64);
    view.last_reload = Some(super::shape::Reload {
        attempt: 2,
        ok: false,
        generation: 3,
        hash: None,
        error: Some("node.yaml:4:1: unknown key \"x\"\n  | x: 1".to_owned()),
        at: "2026-01-02T03:09:00Z".to_owned(),
    });
    let list = build::status(&view);
    assert_eq!(
        table::render(&list),
        format!(
            "\
NODE    GENERATION  CONFIG     HASH          PORTS  ATTACHED  STARTED               LAST RELOAD
node-a           3  node.yaml  {}      2         1  2026-01-02T03:04:05Z  refused at 2026-01-02T03:09:00Z: node.yaml:4:1: unknown key \"x\"
",
            &hash[..12]
        )
    );
    assert_eq!(serde_json::to_value(&list).unwrap()["items"][0]["last_reload"]["ok"], false);
}

#[test]
fn an_empty_list_has_its_headings_and_nothing_else() {
    let list = build::fdb(&Names::default(), &[]);
    assert_eq!(table::render(&list), "NETWORK  VLAN  MAC  PORT  ORIGIN  AGE\n");
}

#[test]
fn a_shared_uplink_takes_the_stations_and_gateways_of_its_own_network_only() {
    let text = "\
apiVersion: sluice/v1
ports:
  - { name: up0, device: eth1, kind: uplink, network: blue }
  - { name: up1, device: eth2, kind: uplink, host: exclusive, network: red }
  - { name: web-1, device: veth1, network: blue, mac: \"02:00:00:00:00:11\", addresses: [10.0.0.11] }
  - { name: web-2, device: veth2, network: red, mac: \"02:00:00:00:00:22\", addresses: [10.0.1.11] }
networks:
  - { name: blue, gateway-mac: \"02:00:00:00:00:fe\", subnets: [{ cidr: 10.0.0.0/24, gateway: 10.0.0.1 }] }
  - { name: red }
";
    let desired = Desired::of_text(text, "node.yaml", None, Seed::new(0)).unwrap();
    let owned = &desired.ports[0].owned;
    assert_eq!(owned.macs, [MacAddr([2, 0, 0, 0, 0, 0x11]), MacAddr([2, 0, 0, 0, 0, 0xfe])]);
    let addresses: Vec<String> = owned.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.1", "10.0.0.11"]);
    assert!(desired.ports[0].attach.shared && !desired.ports[1].attach.shared);
    assert!(desired.ports[1].owned.macs.is_empty());
    assert!(!port(1, "a", "b").attach.shared);
}

#[test]
fn tables_are_in_the_order_a_packet_meets_them() {
    let order: Vec<TableId> = desired().rules.iter().map(|rule| rule.table).collect();
    assert!(order.is_sorted());
}
