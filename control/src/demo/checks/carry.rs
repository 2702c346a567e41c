//! What hosts send arrives as it was sent.

use super::super::{
    Broken, Check, broken, exactly,
    hosts::{Family, PATIENCE, tcp as transfer},
    lab::Lab,
};

pub(super) const ALL: &[Check] = &[
    Check { promise: "UDP over IPv4: datagrams of every size, byte for byte", run: |lab| udp(lab, Family::V4) },
    Check { promise: "UDP over IPv6: datagrams of every size, byte for byte", run: |lab| udp(lab, Family::V6) },
    Check { promise: "TCP over IPv4: byte for byte, hosts' offloads untouched", run: |lab| tcp(lab, Family::V4) },
    Check { promise: "TCP over IPv6: byte for byte, hosts' offloads untouched", run: |lab| tcp(lab, Family::V6) },
    Check { promise: "checksums that hosts leave to their devices are completed", run: checksums },
    Check { promise: "flows: packets after the first do not walk the tables", run: cached },
];

/// What may reach web by UDP.
const WEB_UDP: u16 = 5353;

/// Every size that a packet of 1500 bytes can carry, there and back.
fn udp(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, web) = (lab.host("client")?, lab.host("web")?);
    let sizes: Vec<usize> = (0..=1500 - family.udp_headers()).collect();
    let (from, to) = (client.at(family, 0), web.at(family, WEB_UDP));
    bench::transfer::udp(&client.netns, &web.netns, (from, to), &sizes)?;
    Ok(format!("{} sizes there and back, 0 to {} bytes", sizes.len(), sizes.len() - 1))
}

/// Bytes of a transfer.
const MANY: usize = 16 << 20;

fn tcp(lab: &Lab, family: Family) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let before = (client.retransmitted()?, lost_below(lab)?);
    let transfer = transfer(client, db, db.at(family, 0), MANY)?;
    let again = client.retransmitted()? - before.0;
    let lost = lost_below(lab)? - before.1;
    let bits = f64::from(u32::try_from(MANY)?) * 8.0;
    let rate = bits / transfer.took.as_secs_f64() / 1e6;
    let sum = transfer.sha256.get(..8).unwrap_or_default();
    // A sender that is faster than the worker fills the ring between the kernel and it; TCP finds its pace by that.
    Ok(format!("{} MB, {rate:.0} Mbit/s, {lost} lost at full rings, {again} sent again, SHA-256 {sum}", MANY >> 20))
}

/// Frames that the kernel could not hand to the worker.
fn lost_below(lab: &Lab) -> Result<u64, Broken> {
    let ports = lab.daemon.ports()?;
    Ok(ports
        .iter()
        .map(|port| port.kernel.rx_ring_full + port.kernel.rx_fill_ring_empty + port.kernel.rx_dropped)
        .sum())
}

fn checksums(lab: &mut Lab) -> Result<String, Broken> {
    let completed = lab.daemon.worker()?.checksums_completed;
    // Each full segment of the two transfers came with its checksum left open.
    let segments = u64::try_from(2 * MANY / 1400)?;
    if completed >= segments {
        Ok(format!("{completed} completed"))
    } else {
        broken(format!("{segments} completed or more"), completed.to_string())
    }
}

/// Datagrams each way.
const TICKS: u64 = 500;

fn cached(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let (here, there) = (client.udp(client.at(Family::V4, 0))?, db.udp(db.at(Family::V4, 0))?);
    let before = lab.daemon.worker()?;
    let mut buffer = [0; 64];
    for _ in 0..TICKS {
        for (sender, receiver) in [(&here, &there), (&there, &here)] {
            sender.send_to(&[7; 64], receiver.local_addr()?)?;
            exactly("bytes", 64, receiver.recv(&mut buffer)?.try_into()?)?;
        }
    }
    let after = lab.daemon.worker()?;
    let (hits, walks) = (after.hits - before.hits, after.misses - before.misses);
    // One walk each way, and what hosts say to each other besides: ARP and neighbour discovery are never cached.
    if hits >= 2 * TICKS - 2 && walks <= 20 {
        Ok(format!("{} packets: {hits} hits, {walks} walks", 2 * TICKS))
    } else {
        broken(format!("{} hits and 2 walks", 2 * TICKS - 2), format!("{hits} hits and {walks} walks in {PATIENCE:?}"))
    }
}
