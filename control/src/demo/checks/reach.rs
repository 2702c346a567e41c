//! Hosts find the gateway and each other.

use std::{net::IpAddr, thread, time::Duration};

use super::super::{
    Broken, Check, broken, exactly,
    hosts::{Family, Host, PATIENCE, eventually, median},
    lab::Lab,
};

pub(super) const ALL: &[Check] = &[
    Check { promise: "every port is attached, and says how", run: attached },
    Check { promise: "ARP: the gateway answers for itself", run: |lab| gateway(lab, Family::V4) },
    Check { promise: "neighbour discovery: the gateway answers for itself", run: |lab| gateway(lab, Family::V6) },
    Check { promise: "ARP: hosts find each other", run: |lab| each_other(lab, Family::V4) },
    Check { promise: "neighbour discovery: hosts find each other", run: |lab| each_other(lab, Family::V6) },
    Check { promise: "ICMP: the gateway answers pings", run: |lab| ping(lab, Family::V4.gateway()) },
    Check { promise: "ICMPv6: the gateway answers pings", run: |lab| ping(lab, Family::V6.gateway()) },
    Check { promise: "ICMP: hosts reach each other", run: |lab| ping(lab, lab.host("db")?.ip4()) },
    Check { promise: "ICMPv6: hosts reach each other", run: |lab| ping(lab, lab.host("db")?.ip6()) },
];

/// The MAC of gateways, where the file gives none.
const GATEWAY: &str = "02:73:6c:75:00:01";

fn attached(lab: &mut Lab) -> Result<String, Broken> {
    let ports = lab.daemon.ports()?;
    exactly("ports", lab.hosts().len().try_into()?, ports.len().try_into()?)?;
    for (port, host) in ports.iter().filter_map(|port| Some((port, lab.host(&port.name).ok()?))) {
        if port.state != "attached" {
            return broken(format!("port {} attached", port.name), port.why.as_deref().unwrap_or(&port.state));
        }
        exactly(&format!("bytes of MTU at {}", port.name), host.mtu.into(), port.mtu.unwrap_or_default().into())?;
    }
    let modes: Vec<&str> = ports.iter().filter_map(|port| port.mode.as_deref()).collect();
    let (mode, same) =
        (modes.first().copied().unwrap_or("none"), modes.windows(2).all(|pair| pair.first() == pair.last()));
    Ok(format!(
        "{} ports, mode {}, MTU 1500 and 1400",
        ports.len(),
        if same { mode.to_owned() } else { modes.join(", ") }
    ))
}

/// The first packet to somebody unknown, and the MAC that was found for it.
fn find(host: &Host, address: IpAddr, must: &str) -> Result<String, Broken> {
    host.forget_neighbours()?;
    let Some(first) = host.pings(address)?.once(PATIENCE)? else {
        return broken(format!("an answer of {address}"), "none");
    };
    let mac = host.neighbour(address)?;
    if mac == must { Ok(format!("{mac}, first ping {}", ms(first))) } else { broken(must, mac) }
}

fn gateway(lab: &mut Lab, family: Family) -> Result<String, Broken> {
    find(lab.host("client")?, family.gateway(), GATEWAY)
}

fn each_other(lab: &mut Lab, family: Family) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    // Both ask: neither is to know the other by having been asked.
    db.forget_neighbours()?;
    find(client, db.ip(family), &db.mac().to_string())?;
    find(db, client.ip(family), &client.mac().to_string())
}

/// How many pings back to back, when the worker has no time to sleep, and how many from rest, each of which wakes it.
const PINGS: (u64, u64) = (50, 20);

/// Longer than the worker looks for packets before it sleeps.
const REST: Duration = Duration::from_millis(5);

fn ping(lab: &Lab, to: IpAddr) -> Result<String, Broken> {
    let mut pings = lab.host("client")?.pings(to)?;
    // Neighbours are asked for before the first is sent.
    eventually(PATIENCE, || pings.once(Duration::from_secs(1)).is_ok_and(|answer| answer.is_some()));
    let before = lab.daemon.port("client")?;
    let mut all = |count, rest| -> Result<Vec<Duration>, Broken> {
        let mut times = Vec::new();
        for _ in 0..count {
            thread::sleep(rest);
            times.extend(pings.once(Duration::from_secs(1))?);
        }
        exactly("answers", count, times.len().try_into()?)?;
        Ok(times)
    };
    let (busy, rested) = (all(PINGS.0, Duration::ZERO)?, all(PINGS.1, REST)?);
    let (after, count) = (lab.daemon.port("client")?, PINGS.0 + PINGS.1);
    // All of them went through the switch, whatever else the host said.
    let (rx, tx) = (after.rx.packets - before.rx.packets, after.tx.packets - before.tx.packets);
    if rx < count || tx < count {
        return broken(format!("{count} packets or more each way through port client"), format!("{rx} and {tx}"));
    }
    Ok(format!("{count} of {count}, median {} back to back, {} from rest", ms(median(busy)), ms(median(rested))))
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
