//! VLANs and sizes, frame by frame.

use std::time::Duration;

use super::super::{
    Broken, Check, broken,
    daemon::Cause,
    hosts::{Family, Host, PATIENCE},
    lab::Lab,
};
use bench::packet_socket::PacketSocket;

pub(super) const ALL: &[Check] = &[
    Check { promise: "VLANs: what access ports send leaves trunk tagged, and nowhere else", run: access_to_trunk },
    Check { promise: "VLANs: what trunk sends tagged reaches its VLAN alone, untagged", run: trunk_to_access },
    Check { promise: "VLANs: a tag that the port does not carry is dropped and counted", run: not_carried },
    Check { promise: "a packet as long as its way out allows passes, a longer one is counted", run: oversize },
];

/// An EtherType for experiments (IEEE 802).
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// How long a frame that must not come is waited for.
const SILENCE: Duration = Duration::from_millis(100);

/// A frame to everybody, with a tag or without one.
fn frame(from: &Host, vlan: Option<u8>, text: &str) -> Vec<u8> {
    let tag: Vec<u8> = vlan.map(|id| vec![0x81, 0, 0, id]).unwrap_or_default();
    let mut bytes = [[0xff; 6].as_slice(), &from.mac().0, &tag, &EXPERIMENT, text.as_bytes()].concat();
    bytes.resize(100, 0x5a);
    bytes
}

/// The next frame of the experiment.
fn next(at: &PacketSocket, patience: Duration) -> Result<Option<Vec<u8>>, Broken> {
    Ok(at.find(patience, |frame| frame.windows(2).take(18).skip(12).any(|kind| kind == EXPERIMENT))?)
}

fn must_come(at: &PacketSocket, place: &str, must: &[u8]) -> Result<(), Broken> {
    match next(at, PATIENCE)? {
        Some(frame) if frame == must => Ok(()),
        Some(other) => broken(format!("{} at {place}", shown(must)), shown(&other)),
        None => broken(format!("{} at {place}", shown(must)), "nothing"),
    }
}

fn must_not_come(at: &PacketSocket, place: &str) -> Result<(), Broken> {
    match next(at, SILENCE)? {
        Some(frame) => broken(format!("nothing at {place}"), shown(&frame)),
        None => Ok(()),
    }
}

/// A frame's first bytes and its length.
fn shown(frame: &[u8]) -> String {
    let head: String = frame.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    format!("{head}… of {} bytes", frame.len())
}

fn access_to_trunk(lab: &mut Lab) -> Result<String, Broken> {
    let (left, right, trunk) = (lab.host("left")?, lab.host("right")?, lab.host("trunk")?);
    let to = trunk.frames()?;
    for (from, vlan, other) in [(left, 10, right), (right, 20, left)] {
        let deaf = other.frames()?;
        let sent = frame(from, None, from.name);
        from.frames()?.send(&sent)?;
        let mut tagged = sent;
        tagged.splice(12..12, [0x81, 0, 0, vlan]);
        must_come(&to, trunk.name, &tagged)?;
        must_not_come(&deaf, other.name)?;
    }
    Ok("100 bytes in, 104 out: left's in 10, right's in 20".to_owned())
}

fn trunk_to_access(lab: &mut Lab) -> Result<String, Broken> {
    let (left, right, trunk) = (lab.host("left")?, lab.host("right")?, lab.host("trunk")?);
    let (left_hears, right_hears, from) = (left.frames()?, right.frames()?, trunk.frames()?);
    for (vlan, hears, place, deaf, other) in
        [(10, &left_hears, "left", &right_hears, "right"), (20, &right_hears, "right", &left_hears, "left")]
    {
        let sent = frame(trunk, Some(vlan), "from trunk");
        from.send(&sent)?;
        let mut untagged = sent.clone();
        untagged.drain(12..16);
        must_come(hears, place, &untagged)?;
        must_not_come(deaf, other)?;
    }
    Ok("10 to left, 20 to right".to_owned())
}

fn not_carried(lab: &mut Lab) -> Result<String, Broken> {
    let trunk = lab.host("trunk")?;
    let from = trunk.frames()?;
    let cause = Cause { port: "trunk", reason: "vlan", rule: None };
    let dropped = lab.daemon.must_drop(&cause, || {
        for _ in 0..10 {
            from.send(&frame(trunk, Some(30), "from trunk"))?;
        }
        Ok(10)
    })?;
    Ok(format!("{dropped} of 10 in VLAN 30"))
}

fn oversize(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let fits = usize::try_from(db.mtu)? - Family::V4.udp_headers();
    let receiver = db.udp(db.at(Family::V4, 0))?;
    let to = receiver.local_addr()?;
    let sender = client.udp(client.at(Family::V4, 0))?;
    sender.send_to(&vec![1; fits], to)?;
    super::super::exactly("bytes received", fits.try_into()?, receiver.recv(&mut [0; 2000])?.try_into()?)?;
    let cause = Cause { port: "client", reason: "oversize", rule: None };
    let dropped = lab.daemon.must_drop(&cause, || {
        for _ in 0..10 {
            sender.send_to(&vec![1; fits + 1], to)?;
        }
        Ok(10)
    })?;
    Ok(format!("{} bytes pass, {dropped} of 10 with {} are oversize", db.mtu, db.mtu + 1))
}
