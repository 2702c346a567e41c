//! What may not pass does not, and is counted to the packet.

use std::{net::SocketAddr, thread, time::Duration};

use super::super::{
    Broken, Check, broken,
    daemon::Cause,
    exactly,
    hosts::{Family, Host, tcp},
    lab::Lab,
};

pub(super) const ALL: &[Check] = &[
    Check { promise: "an allowed port: connections to web:8080 are served, both families", run: allowed },
    Check { promise: "a denied TCP port: no connection, counted under the rule's name", run: no_telnet },
    Check {
        promise: "a denied UDP port: dropped and counted to the packet, IPv4",
        run: |lab| no_syslog(lab, Family::V4),
    },
    Check {
        promise: "a denied UDP port: dropped and counted to the packet, IPv6",
        run: |lab| no_syslog(lab, Family::V6),
    },
    Check { promise: "what nobody allowed: dropped, counted as default, IPv4", run: |lab| by_default(lab, Family::V4) },
    Check { promise: "what nobody allowed: dropped, counted as default, IPv6", run: |lab| by_default(lab, Family::V6) },
    Check { promise: "a host sends from another's IPv4 address: stopped", run: |lab| foreign_address(lab, Family::V4) },
    Check { promise: "a host sends from another's IPv6 address: stopped", run: |lab| foreign_address(lab, Family::V6) },
    Check { promise: "a host takes another MAC: all it sends is stopped", run: foreign_mac },
    Check { promise: "a host claims the gateway's address by ARP: stopped", run: foreign_arp },
];

/// Packets sent where each is to be counted.
const MANY: u64 = 100;

const SPOOFED: Cause = Cause { port: "client", reason: "security", rule: Some("client/security") };

fn allowed(lab: &mut Lab) -> Result<String, Broken> {
    let (client, web) = (lab.host("client")?, lab.host("web")?);
    for family in [Family::V4, Family::V6] {
        tcp(client, web, web.at(family, 8080), 1 << 20)?;
    }
    match lab.daemon.decided("web-http")? {
        0 => broken("packets counted by rule web-http", "none"),
        packets => Ok(format!("rule web-http let in {packets} packets")),
    }
}

fn no_telnet(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let cause = Cause { port: "client", reason: "acl_from", rule: Some("no-telnet") };
    let (decided, dropped) = (lab.daemon.decided("no-telnet")?, lab.daemon.dropped_by(&cause)?);
    for family in [Family::V4, Family::V6] {
        if client.can_connect(db.at(family, 23), Duration::from_millis(300)) {
            return broken("no connection to db:23", "one");
        }
    }
    let (decided, dropped) = (lab.daemon.decided("no-telnet")? - decided, lab.daemon.dropped_by(&cause)? - dropped);
    if dropped >= 2 && decided == dropped {
        Ok(format!("no-telnet dropped {dropped} of {dropped}"))
    } else {
        broken("2 or more dropped by no-telnet, as many decided by it", format!("{dropped} and {decided}"))
    }
}

fn no_syslog(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let cause = Cause { port: "client", reason: "acl_from", rule: Some("no-syslog") };
    let decided = lab.daemon.decided("no-syslog")?;
    let dropped =
        lab.daemon.must_drop(&cause, || client.send_datagrams(client.at(family, 0), db.at(family, 514), MANY, 100))?;
    exactly("packets in the table's count of no-syslog", decided + MANY, lab.daemon.decided("no-syslog")?)?;
    Ok(format!("no-syslog dropped {dropped} of {MANY}"))
}

fn by_default(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, web) = (lab.host("client")?, lab.host("web")?);
    let cause = Cause { port: "client", reason: "acl_to_default", rule: Some("default") };
    let dropped = lab
        .daemon
        .must_drop(&cause, || client.send_datagrams(client.at(family, 0), web.at(family, 9999), MANY, 100))?;
    Ok(format!("{dropped} of {MANY}"))
}

fn foreign_address(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    // Asked before, so that it is not asked for with the stolen address.
    client.netns.ip(&format!("neighbour replace {} lladdr {} dev eth0", db.ip(family), db.mac()))?;
    let (stolen, address): (SocketAddr, _) = match family {
        Family::V4 => (([10, 0, 0, 99], 0).into(), "10.0.0.99/32 dev eth0"),
        Family::V6 => (([0xfd00, 0xb, 0, 0, 0, 0, 0, 0x99], 0).into(), "fd00:b::99/128 dev eth0 nodad"),
    };
    client.netns.ip(&format!("address add {address}"))?;
    let outcome = lab.daemon.must_drop(&SPOOFED, || client.send_datagrams(stolen, db.at(family, 7), MANY, 10));
    client.netns.ip(&format!("address delete {}", address.trim_end_matches(" nodad")))?;
    client.netns.ip(&format!("neighbour delete {} dev eth0", db.ip(family)))?;
    Ok(format!("client/security dropped {} of {MANY}", outcome?))
}

fn foreign_mac(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let own = client.mac();
    client.netns.ip("link set eth0 address 02:00:00:00:00:66")?;
    let outcome = send_all_wrong(lab, client, db);
    // The kernel forgets all neighbours with its own MAC.
    client.netns.ip(&format!("link set eth0 address {own}"))?;
    outcome
}

/// Sends under a foreign MAC: a ping and datagrams, and the kernel something of its own perhaps.
fn send_all_wrong(lab: &Lab, client: &Host, db: &Host) -> Result<String, Broken> {
    client.netns.ip(&format!("neighbour replace {} lladdr {} dev eth0", db.ip4(), db.mac()))?;
    let receiver = db.udp(db.at(Family::V4, 0))?;
    receiver.set_nonblocking(true)?;
    let before = at_rest(lab, client)?;
    if client.pings(db.ip4())?.once(Duration::from_millis(200))?.is_some() {
        return broken("no answer to a host with a foreign MAC", "one");
    }
    client.send_datagrams(client.at(Family::V4, 0), receiver.local_addr()?, MANY, 10)?;
    let after = at_rest(lab, client)?;
    if receiver.recv(&mut [0; 16]).is_ok() {
        return broken("nothing at db", "a datagram");
    }
    let (dropped, sent) = (after.0 - before.0, after.1 - before.1);
    if sent <= MANY {
        return broken(format!("more than {MANY} frames sent"), sent.to_string());
    }
    exactly("frames of a foreign MAC dropped by client/security", sent, dropped)?;
    Ok(format!("client/security dropped {dropped} of {sent}"))
}

/// Frames dropped as spoofed, and frames the host has sent, at a time when none is on its way: a host also sends of its own
/// accord, so that two counts read one after the other need not belong together.
fn at_rest(lab: &Lab, host: &Host) -> Result<(u64, u64), Broken> {
    let counts = || Ok::<_, Broken>((lab.daemon.dropped_by(&SPOOFED)?, host.frames_sent()?));
    let mut last = counts()?;
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(20));
        let now = counts()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    broken("a moment without frames", "none")
}

fn foreign_arp(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let own = client.mac().0;
    // RFC 826: a reply that nobody asked for, to everybody: 10.0.0.1 is at the client's MAC.
    let (gateway, target) = ([10, 0, 0, 1], [10, 0, 0, 13]);
    let head = [[0xff; 6].as_slice(), &own, &[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]].concat();
    let claim = [head.as_slice(), &own, &gateway, &db.mac().0, &target].concat();
    let frames = client.frames()?;
    let dropped = lab.daemon.must_drop(&SPOOFED, || {
        for _ in 0..10 {
            frames.send(&claim)?;
        }
        Ok(10)
    })?;
    Ok(format!("client/security dropped {dropped} of 10"))
}
