//! Any frames through a worker on memory ports, time passing and policies changing in between: nothing panics, and every
//! frame is accounted for.
#![no_main]

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use dataplane::{
    port::{
        memory::{MemoryPort, Wire},
        umem::Umem,
    },
    worker::Worker,
};
use flow_table::{hash::Seed, id::PortId, pipeline::Pipeline, time::Instant};
use libfuzzer_sys::fuzz_target;

const CHUNKS: u32 = 64;
const POLICIES: [&str; 3] = [
    include_str!("../../config/examples/groups.yaml"),
    include_str!("../../config/examples/vlan.yaml"),
    include_str!("../policy.yaml"),
];

/// Takes `N` bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

struct Rig {
    worker: Worker,
    wires: Vec<(PortId, Wire)>,
    now: Instant,
    sent: u64,
}

impl Rig {
    fn new(policy: Arc<Pipeline>) -> Self {
        let worker = Worker::new(Arc::clone(&policy), Umem::new(CHUNKS).unwrap(), 64, Seed::new(1));
        let mut rig = Self { worker, wires: Vec::new(), now: Instant::from_nanos(1_000_000_000), sent: 0 };
        rig.attach(&policy);
        rig
    }

    fn attach(&mut self, policy: &Pipeline) {
        for port in policy.ports() {
            if self.wires.iter().all(|(id, _)| *id != port.id) {
                let (end, wire) = MemoryPort::new();
                assert!(self.worker.attach(port.id, Box::new(end), 1500).is_ok());
                self.wires.push((port.id, wire));
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.worker.poll(self.now);
        for (_, wire) in &self.wires {
            for frame in wire.drain() {
                assert!(frame.len() >= 14, "a runt left the switch");
            }
        }
        let report = self.worker.report();
        let law = report.worker.law;
        assert!(law.holds(), "{law:?}");
        assert_eq!(law.dropped, report.drops.iter().map(|drop| drop.packets).sum::<u64>(), "a drop without a reason");
        assert_eq!(self.worker.umem().free_chunks(), usize::try_from(CHUNKS).unwrap(), "a chunk was kept");
    }
}

fn pipelines() -> &'static [Arc<Pipeline>] {
    static COMPILED: OnceLock<Vec<Arc<Pipeline>>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let mut ids = config::Ids::default();
        let model = |text: &str| config::load(text, "policy").unwrap_or_else(|errors| panic!("{errors}"));
        POLICIES.iter().map(|text| Arc::new(Pipeline::new(&model(text).policy(&mut ids), Seed::new(1)))).collect()
    })
}

// Records of two bytes: what to do, and a number. The low values of the first one choose a port for a frame, of as many
// bytes as two more say.
fuzz_target!(|input: &[u8]| {
    let mut input = input;
    let policies = pipelines();
    let mut rig = Rig::new(Arc::clone(&policies[0]));
    while let Some([what, number]) = take::<2>(&mut input) {
        match what {
            0xf0..=0xf7 => {
                let policy = &policies[usize::from(number) % policies.len()];
                rig.worker.publish(Arc::clone(policy));
                rig.attach(policy);
            }
            0xf8..=0xfb => rig.pass(Duration::from_millis(u64::from(number) * 200)),
            0xfc => drop(rig.worker.flush_fdb(None)),
            0xfd => {
                if let Some((id, _)) = rig.wires.get(usize::from(number)) {
                    let id = *id;
                    if let Some(port) = rig.worker.detach(id) {
                        assert!(port.close().is_none());
                    }
                    rig.wires.retain(|(other, _)| *other != id);
                }
            }
            port => {
                let Some(length) = take::<2>(&mut input) else { break };
                let length = usize::from(u16::from_be_bytes(length) & 0x0fff).min(input.len());
                let (frame, rest) = input.split_at(length);
                input = rest;
                if !rig.wires.is_empty() {
                    let (_, wire) = &rig.wires[usize::from(port) % rig.wires.len()];
                    rig.sent += u64::from(wire.send(frame));
                }
                // Several frames a pass, and sometimes one.
                if number & 3 == 0 {
                    rig.pass(Duration::from_millis(1));
                }
            }
        }
    }
    rig.pass(Duration::from_millis(1));
});
