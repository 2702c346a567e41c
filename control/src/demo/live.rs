//! Promises about change: rules, files and devices that change under traffic, and the end.

use std::{
    net::UdpSocket,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use bench::transfer::{self, inside};

use super::{
    Broken, Check, broken, exactly,
    lab::{Family, Lab, PATIENCE, eventually},
};

/// In the order they are shown.
pub(super) const ALL: &[Check] = &[
    Check { promise: "SIGHUP: a rule changed live stops a known flow, others lose nothing", run: changed_live },
    Check { promise: "SIGHUP: a broken file is refused with its place, rules stay in force", run: broken_file },
    Check { promise: "a device deleted and made again forwards again, counters go on", run: replugged },
    Check { promise: "every frame is accounted for, every drop has a reason", run: accounted },
    Check { promise: "SIGTERM: no program and no promiscuous mode stays on a device", run: stopped },
];

/// The rule that is put in force and taken out again.
const STOP: &str = "  - { name: stop-7000, table: acl-from, priority: 2000, match: { udp.dst: 7000 }, action: deny }\n";

fn changed_live(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let receiver = inside(&db.netns, || UdpSocket::bind(db.at(Family::V4, 7000)))?;
    receiver.set_nonblocking(true)?;
    let sender = inside(&client.netns, || UdpSocket::bind(client.at(Family::V4, 0)))?;
    let to = db.at(Family::V4, 7000);
    let arrives = |within: Duration| {
        eventually(within, || {
            let _ = sender.send_to(b"tick", to);
            receiver.recv(&mut [0; 16]).is_ok()
        })
    };
    if !arrives(PATIENCE) {
        return broken("the flow to db:7000 does not flow");
    }
    // A transfer that no rule touches runs on through both reloads.
    let web = lab.host("web")?;
    let at = web.at(Family::V4, 8080);
    let over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let stream = scope.spawn(|| {
            let mut transfers = 0_u32;
            while transfers == 0 || !over.load(Ordering::Relaxed) {
                transfer::tcp(&client.netns, &web.netns, at, 4 << 20)?;
                transfers += 1;
            }
            std::io::Result::Ok(transfers)
        });
        let took = stop_and_go(lab, &arrives);
        over.store(true, Ordering::Relaxed);
        let transfers = stream.join().map_err(|_panic| Broken("the transfer panicked".to_owned()))?;
        Ok::<_, Broken>((took?, transfers?))
    });
    let (took, transfers) = outcome?;
    Ok(format!("in force within {} ms, {transfers} x 4 MB beside it", took.as_millis()))
}

/// Puts the rule in force and takes it out again; how long after the signal the flow stood still.
fn stop_and_go(lab: &Lab, arrives: &dyn Fn(Duration) -> bool) -> Result<Duration, Broken> {
    let (with, without) = (lab.config() + STOP, lab.config());
    let signalled = Instant::now();
    let reload = lab.reload(&with)?;
    if !reload.ok {
        return broken(reload.error.unwrap_or_default());
    }
    // What was on its way when the rule came into force.
    while arrives(Duration::from_millis(20)) {
        if signalled.elapsed() > PATIENCE {
            return broken("the flow goes on under the new rule");
        }
    }
    let took = signalled.elapsed();
    if !lab.reload(&without)?.ok || !arrives(PATIENCE) {
        return broken("the flow does not come back when the rule is gone");
    }
    Ok(took)
}

fn broken_file(lab: &mut Lab) -> Result<String, Broken> {
    let wrong = lab.config().replace("tcp.dst: 23", "tcp.dts: 23");
    let reload = lab.reload(&wrong)?;
    if reload.ok {
        return broken("a file with an unknown key was accepted");
    }
    let error = reload.error.unwrap_or_default();
    let first = error.lines().next().unwrap_or_default();
    let place = first.rsplit('/').next().unwrap_or_default().to_owned();
    if !place.contains("tcp.dts") {
        return broken(format!("the error does not name the key: {error}"));
    }
    let before = lab.dropped("client", "acl_from", Some("no-telnet"))?;
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let to = db.at(Family::V4, 23);
    let connected = inside(&client.netns, || std::net::TcpStream::connect_timeout(&to, Duration::from_millis(200)));
    if connected.is_ok() || lab.dropped("client", "acl_from", Some("no-telnet"))? == before {
        return broken("rule no-telnet is not in force any more");
    }
    Ok(place.split(": ").next().unwrap_or_default().to_owned())
}

fn replugged(lab: &mut Lab) -> Result<String, Broken> {
    let before = lab.port("db")?.rx.packets;
    lab.unplug("db")?;
    if !eventually(PATIENCE, || lab.port("db").is_ok_and(|port| port.state == "missing")) {
        return broken("the port of a deleted device is not missing");
    }
    let started = Instant::now();
    lab.plug("db")?;
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let echo = || transfer::udp(&client.netns, &db.netns, (client.at(Family::V4, 0), db.at(Family::V4, 0)), &[64]);
    // A lost datagram takes the transfer's own patience: ask by ping, which gives up sooner.
    let address = db.ip4().to_string();
    let alive = eventually(PATIENCE, || client.output("ping", &["-c", "1", "-W", "0.2", &address]).is_ok());
    let took = started.elapsed();
    if !alive || took > Duration::from_secs(2) {
        return broken(format!("it forwards again after {:.1} s", took.as_secs_f64()));
    }
    echo()?;
    let after = lab.port("db")?.rx.packets;
    if after <= before {
        broken(format!("packets received fell from {before} to {after}"))
    } else {
        Ok(format!("after {} ms", took.as_millis()))
    }
}

fn accounted(lab: &mut Lab) -> Result<String, Broken> {
    let (worker, drops, ports) = (lab.worker()?, lab.drops()?, lab.ports()?);
    let frames = worker.frames;
    if !frames.balanced {
        return broken(format!("frames do not balance: {frames:?}"));
    }
    exactly("drops with a reason", frames.dropped, drops.iter().map(|drop| drop.packets).sum())?;
    let received: u64 = ports.iter().map(|port| port.rx.packets).sum();
    // Hosts go on talking between the two questions.
    if received < frames.rx {
        broken(format!("{received} received by ports, {} by the worker", frames.rx))
    } else {
        Ok(format!(
            "{} received, {} sent, {} answered, {} dropped",
            frames.rx, frames.tx, frames.consumed, frames.dropped
        ))
    }
}

fn stopped(lab: &mut Lab) -> Result<String, Broken> {
    if let Some(bare) = lab.devices()?.iter().find(|device| device.xdp_program.is_none() || device.promiscuity == 0) {
        return broken(format!("a device without a program while the daemon runs: {bare:?}"));
    }
    let (code, took) = lab.stop()?;
    if code != Some(0) {
        return broken(format!("it ended with {code:?}"));
    }
    let devices = lab.devices()?;
    match devices.iter().find(|device| device.xdp_program.is_some() || device.promiscuity != 0) {
        Some(held) => broken(format!("still held: {held:?}")),
        None => Ok(format!("{} devices free, in {} ms", devices.len(), took.as_millis())),
    }
}
