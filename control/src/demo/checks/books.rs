//! What the daemon tells of itself agrees with what was done, and with itself.

use super::super::{
    Broken, Check, broken, exactly,
    hosts::{Family, PATIENCE, eventually},
    lab::Lab,
};
use crate::report::shape::{Flow, Port, Station, Value, Worker};

pub(super) const ALL: &[Check] = &[
    Check { promise: "get fdb: every host's MAC is behind its port", run: places },
    Check { promise: "get flows: a flow tells its way, its rule, and its packets", run: flow },
    Check { promise: "every frame is accounted for, every drop has a reason", run: balance },
];

fn places(lab: &mut Lab) -> Result<String, Broken> {
    let stations = lab.daemon.items::<Station>("fdb")?;
    for host in lab.hosts() {
        let mac = host.mac().to_string();
        match stations.iter().find(|station| station.mac == mac) {
            Some(station) if station.port == host.name => {}
            Some(station) => return broken(format!("{mac} behind {}", host.name), station.port.as_str()),
            None => return broken(format!("{mac} behind {}", host.name), "nowhere"),
        }
    }
    let learned = stations.iter().filter(|station| station.origin == "learned").count();
    Ok(format!("{} stations, {learned} of them learned", stations.len()))
}

fn flow(lab: &mut Lab) -> Result<String, Broken> {
    let (client, web) = (lab.host("client")?, lab.host("web")?);
    let sender = client.udp(client.at(Family::V4, 0))?;
    let source = sender.local_addr()?.port();
    for _ in 0..20 {
        sender.send_to(&[7; 100], web.at(Family::V4, 5353))?;
    }
    let is_it = |flow: &Flow| {
        let has = |name: &str, value: Value| flow.key.0.iter().any(|field| field.0 == name && field.1 == value);
        has("in", Value::Text("client".to_owned())) && has("udp.src", Value::Number(source.into()))
    };
    let mut found = None;
    eventually(PATIENCE, || {
        let flows = lab.daemon.items::<Flow>("flows?limit=100000").unwrap_or_default();
        found = flows.into_iter().find(is_it);
        found.as_ref().is_some_and(|flow| flow.packets >= 20)
    });
    let Some(flow) = found else { return broken("a flow from client to web:5353", "none") };
    exactly("packets of the flow", 20, flow.packets)?;
    exactly("bytes of the flow", 20 * 142, flow.bytes)?;
    let rules: Vec<&str> = flow.rules.iter().map(|rule| rule.name.as_str()).collect();
    if flow.out != ["web"] || !rules.contains(&"web-udp") {
        return broken("out by web, allowed by web-udp", format!("out by {:?}, by {rules:?}", flow.out));
    }
    Ok(format!("{} packets, {} bytes, by {}", flow.packets, flow.bytes, rules.join(", ")))
}

/// The worker, its ports and the drops, at a time when nothing moved between the three questions.
fn still(lab: &Lab) -> Result<(Worker, Vec<Port>, u64), Broken> {
    for _ in 0..100 {
        let before = lab.daemon.worker()?;
        let (ports, dropped) = (lab.daemon.ports()?, lab.daemon.dropped()?);
        let after = lab.daemon.worker()?;
        if before.frames == after.frames {
            return Ok((after, ports, dropped));
        }
    }
    broken("a moment without frames", "none")
}

/// Both sides of the law, and the sums of what ports and drops tell: everything that came in went somewhere.
pub(super) fn balance(lab: &mut Lab) -> Result<String, Broken> {
    let (worker, ports, dropped) = still(lab)?;
    let frames = worker.frames;
    let came = frames.rx + frames.generated + frames.copies;
    exactly("frames gone of those that came", came, frames.tx + frames.consumed + frames.dropped + frames.held)?;
    if !frames.balanced {
        return broken("frames that balance", format!("{frames:?}"));
    }
    exactly("frames received by ports", frames.rx, ports.iter().map(|port| port.rx.packets).sum())?;
    exactly("frames sent by ports", frames.tx, ports.iter().map(|port| port.tx.packets).sum())?;
    exactly("drops with a reason", frames.dropped, dropped)?;
    exactly("chunks free or lent", worker.chunks - frames.held, worker.chunks_free + worker.chunks_lent)?;
    Ok(format!("{} in, {} out, {} answered, {dropped} dropped", frames.rx, frames.tx, frames.consumed))
}
