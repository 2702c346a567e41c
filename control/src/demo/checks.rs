//! Promises about hosts that talk to each other, and about those that may not.

use std::{
    io,
    net::{SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use bench::transfer::{self, inside};

use super::{
    Broken, Check, broken, exactly,
    lab::{Family, Host, Lab, PATIENCE, eventually},
};

/// In the order they are shown.
pub(super) const ALL: &[Check] = &[
    Check { promise: "every port is attached, and says how", run: attached },
    Check { promise: "ARP: the gateway answers for itself", run: gateway_arp },
    Check { promise: "ICMP: the gateway answers pings", run: |lab| ping(lab, "client", "10.0.0.1") },
    Check {
        promise: "ICMPv6: the gateway is found by neighbour discovery and answers",
        run: |lab| ping(lab, "client", "fd00:b::1"),
    },
    Check { promise: "ICMP: hosts reach each other", run: |lab| ping_host(lab, Family::V4) },
    Check { promise: "ICMPv6: hosts reach each other", run: |lab| ping_host(lab, Family::V6) },
    Check { promise: "UDP over IPv4: datagrams of every size, byte for byte", run: |lab| udp(lab, Family::V4) },
    Check { promise: "UDP over IPv6: datagrams of every size, byte for byte", run: |lab| udp(lab, Family::V6) },
    Check { promise: "TCP over IPv4: byte for byte, hosts' offloads untouched", run: |lab| tcp(lab, Family::V4) },
    Check { promise: "TCP over IPv6: byte for byte, hosts' offloads untouched", run: |lab| tcp(lab, Family::V6) },
    Check { promise: "an allowed port: a connection to web:8080 is served", run: allowed },
    Check { promise: "a port nobody allowed: dropped, counted to the packet as default", run: denied_by_default },
    Check { promise: "a denied port: dropped, counted under the rule's name", run: denied_by_rule },
    Check { promise: "a host that sends from another's address is stopped and counted", run: spoofed },
    Check { promise: "VLANs: 10 leaves by the trunk tagged, and never reaches 20", run: vlans },
    Check { promise: "a packet too long for its way out is dropped and counted", run: oversize },
    Check { promise: "flows: packets after the first do not walk the tables", run: cached },
];

fn attached(lab: &mut Lab) -> Result<String, Broken> {
    let ports = lab.ports()?;
    if let Some(port) = ports.iter().find(|port| port.state != "attached") {
        return broken(format!("port {} is {}: {}", port.name, port.state, port.why.as_deref().unwrap_or("")));
    }
    let modes: Vec<&str> = ports.iter().filter_map(|port| port.mode.as_deref()).collect();
    Ok(format!("{} ports, mode {}", ports.len(), modes.first().unwrap_or(&"none")))
}

fn gateway_arp(lab: &mut Lab) -> Result<String, Broken> {
    let client = lab.host("client")?;
    client.output("ping", &["-c", "1", "-W", "2", "10.0.0.1"])?;
    let neighbour = client.output("ip", &["neighbour", "show", "10.0.0.1"])?;
    match neighbour.split_whitespace().skip_while(|word| *word != "lladdr").nth(1) {
        Some(mac) => Ok(format!("10.0.0.1 is at {mac}")),
        None => broken(format!("no neighbour: {neighbour}")),
    }
}

/// Ten pings, all answered; the median of their round trips.
fn ping(lab: &Lab, from: &str, to: &str) -> Result<String, Broken> {
    let printed = lab.host(from)?.output("ping", &["-c", "10", "-i", "0.02", "-W", "2", to])?;
    let times = printed.split("time=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    exactly("answers", 10, times.len().try_into()?)?;
    Ok(format!("10 of 10, median {:.2} ms", times.get(5).copied().unwrap_or_default()))
}

fn ping_host(lab: &Lab, family: Family) -> Result<String, Broken> {
    let to = lab.host("db")?.at(family, 0).ip().to_string();
    ping(lab, "client", &to)
}

fn udp(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    // Up to what fits db's MTU of 1400 bytes.
    let headers = if family == Family::V4 { 28 } else { 48 };
    let sizes: Vec<usize> = (0..=1400 - headers).step_by(27).chain([1, 2, 3, 1400 - headers]).collect();
    transfer::udp(&client.netns, &db.netns, (client.at(family, 0), db.at(family, 0)), &sizes)?;
    Ok(format!("{} there and back, 0 to {} bytes", sizes.len(), 1400 - headers))
}

/// Bytes of a transfer.
const MANY: usize = 32 << 20;

fn tcp(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let started = Instant::now();
    transfer::tcp(&client.netns, &db.netns, db.at(family, 0), MANY)?;
    Ok(format!("{} MB, {}", MANY >> 20, rate(MANY, started.elapsed())))
}

fn rate(bytes: usize, took: Duration) -> String {
    let bits = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) * 8.0;
    format!("{:.0} Mbit/s", bits / took.as_secs_f64() / 1e6)
}

fn allowed(lab: &mut Lab) -> Result<String, Broken> {
    let (client, web) = (lab.host("client")?, lab.host("web")?);
    transfer::tcp(&client.netns, &web.netns, web.at(Family::V4, 8080), 1 << 20)?;
    transfer::tcp(&client.netns, &web.netns, web.at(Family::V6, 8080), 1 << 20)?;
    let packets = lab.decided("web-http")?;
    if packets == 0 {
        broken("rule web-http counted nothing")
    } else {
        Ok(format!("rule web-http let {packets} packets in"))
    }
}

/// Sends datagrams of `size` bytes; nobody need receive them.
fn send_datagrams(from: &Host, source: SocketAddr, to: SocketAddr, count: u64, size: usize) -> io::Result<()> {
    let socket = inside(&from.netns, || UdpSocket::bind(source))?;
    for _ in 0..count {
        socket.send_to(&vec![7; size], to)?;
    }
    Ok(())
}

fn denied_by_default(lab: &mut Lab) -> Result<String, Broken> {
    let count = |lab: &Lab| lab.dropped("client", "acl_to_default", Some("default"));
    let (client, web) = (lab.host("client")?, lab.host("web")?);
    let before = count(lab)?;
    send_datagrams(client, client.at(Family::V4, 0), web.at(Family::V4, 9999), 100, 100)?;
    eventually(PATIENCE, || count(lab).is_ok_and(|now| now >= before + 100));
    exactly("packets dropped by default", 100, count(lab)? - before)?;
    let refused =
        inside(&client.netns, || TcpStream::connect_timeout(&web.at(Family::V6, 8081), Duration::from_millis(300)));
    if refused.is_ok() {
        return broken("a connection to web:8081 was made");
    }
    Ok("100 of 100".to_owned())
}

fn denied_by_rule(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let before = lab.dropped("client", "acl_from", Some("no-telnet"))?;
    let connected =
        inside(&client.netns, || TcpStream::connect_timeout(&db.at(Family::V4, 23), Duration::from_millis(300)));
    if connected.is_ok() {
        return broken("a connection to db:23 was made");
    }
    let dropped = lab.dropped("client", "acl_from", Some("no-telnet"))? - before;
    let decided = lab.decided("no-telnet")?;
    if dropped == 0 {
        return broken("nothing was counted under no-telnet");
    }
    exactly("packets of rule no-telnet in its table", before + dropped, decided)?;
    Ok(format!("no-telnet: {dropped} dropped"))
}

fn spoofed(lab: &mut Lab) -> Result<String, Broken> {
    let count = |lab: &Lab| lab.dropped("client", "security", Some("client/security"));
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let stolen: SocketAddr = ([10, 0, 0, 99], 0).into();
    client.netns.ip("address add 10.0.0.99/32 dev eth0")?;
    let before = count(lab)?;
    let sent = send_datagrams(client, stolen, db.at(Family::V4, 7), 50, 10);
    eventually(PATIENCE, || count(lab).is_ok_and(|now| now >= before + 50));
    client.netns.ip("address delete 10.0.0.99/32 dev eth0")?;
    sent?;
    exactly("packets dropped by client/security", 50, count(lab)? - before)?;
    Ok("50 of 50 by client/security".to_owned())
}

fn vlans(lab: &mut Lab) -> Result<String, Broken> {
    let (left, trunk) = (lab.host("left")?, lab.host("trunk")?);
    // Neighbours by hand: a packet socket apart, Linux here has no device that reads tags.
    left.netns.ip(&format!("neighbour replace {} lladdr {} dev eth0", trunk.ip4(), trunk.mac()))?;
    let (before, other) = (lab.port("trunk")?.tx, lab.port("right")?.tx);
    send_datagrams(left, left.at(Family::V4, 0), trunk.at(Family::V4, 9), 20, 100)?;
    eventually(PATIENCE, || lab.port("trunk").is_ok_and(|port| port.tx.packets >= before.packets + 20));
    let after = lab.port("trunk")?.tx;
    exactly("frames out of trunk", 20, after.packets - before.packets)?;
    exactly("bytes out of trunk, a tag of 4 each", 20 * (14 + 28 + 100 + 4), after.bytes - before.bytes)?;
    exactly("frames out of right", other.packets, lab.port("right")?.tx.packets)?;
    Ok("20 frames, 4 bytes of tag each; 0 in VLAN 20".to_owned())
}

fn oversize(lab: &mut Lab) -> Result<String, Broken> {
    let count = |lab: &Lab| lab.dropped("client", "oversize", None);
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let before = count(lab)?;
    send_datagrams(client, client.at(Family::V4, 0), db.at(Family::V4, 9), 10, 1401 - 28)?;
    eventually(PATIENCE, || count(lab).is_ok_and(|now| now >= before + 10));
    exactly("packets of 1401 bytes dropped as oversize", 10, count(lab)? - before)?;
    Ok("10 of 10, db's MTU is 1400".to_owned())
}

fn cached(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let before = lab.worker()?;
    transfer::udp(&client.netns, &db.netns, (client.at(Family::V4, 0), db.at(Family::V4, 0)), &[64; 500])?;
    let after = lab.worker()?;
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    // One walk each way, and what hosts say to each other besides: ARP and neighbour discovery are never cached.
    if hits < 990 || misses > 20 {
        broken(format!("{hits} hits and {misses} misses in 1000 packets"))
    } else {
        Ok(format!("1000 packets: {hits} hits, {misses} walks"))
    }
}
