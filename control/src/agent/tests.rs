//! The agent over a fake data plane, fake devices and a fake file.

use std::sync::Mutex;

use flow_table::mac::MacAddr;

use super::{
    fake::{Fake, port},
    orders::Order,
    *,
};
use crate::links::Hint;

/// The hash and the ports of a valid file, or what is wrong with it.
type File = Result<(String, Vec<PortSpec>), String>;

/// What the agent is given, to change as the test goes.
struct World {
    plane: Arc<Fake>,
    devices: Arc<Mutex<Devices>>,
    file: Arc<Mutex<File>>,
}

impl World {
    fn new(ports: Vec<PortSpec>) -> Self {
        let devices: Devices = ports
            .iter()
            .zip(2..)
            .map(|(port, index)| (port.attach.device.clone(), Device { index, mtu: 1500 }))
            .collect();
        Self {
            plane: Fake::new(),
            devices: Arc::new(Mutex::new(devices)),
            file: Arc::new(Mutex::new(Ok(("hash-1".to_owned(), ports)))),
        }
    }

    fn start(&self) -> Result<Agent, Unchanged> {
        let (hash, ports) = self.file.lock().unwrap().clone().unwrap();
        let devices = Arc::clone(&self.devices);
        let file = Arc::clone(&self.file);
        Agent::start(
            Arc::clone(&self.plane) as Arc<dyn DataPlane>,
            Box::new(move || Ok(devices.lock().unwrap().clone())),
            Box::new(move |_| match file.lock().unwrap().clone() {
                Ok((hash, ports)) => Ok(Desired::of_ports(&hash, ports)),
                Err(text) => Err(Invalid { hash: Some("hash-bad".to_owned()), text }),
            }),
            Desired::of_ports(&hash, ports),
        )
    }

    fn write(&self, hash: &str, ports: Vec<PortSpec>) {
        *self.file.lock().unwrap() = Ok((hash.to_owned(), ports));
    }

    fn device(&self, name: &str, device: Option<Device>) {
        let mut devices = self.devices.lock().unwrap();
        match device {
            Some(device) => devices.insert(name.to_owned(), device),
            None => devices.remove(name),
        };
    }

    fn attached(&self) -> Vec<String> {
        let told = self.plane.told();
        told.attached.values().map(|port| format!("{}={}", port.name, port.attach.device)).collect()
    }
}

fn states(agent: &Agent) -> Vec<String> {
    let view = agent.shown().load_full();
    view.ports.values().map(|record| format!("{} {}", record.spec.name, record.state.name())).collect()
}

fn two() -> Vec<PortSpec> {
    vec![port(1, "a", "veth-a"), port(2, "b", "veth-b")]
}

fn no_one() -> BTreeSet<u32> {
    BTreeSet::new()
}

#[test]
fn at_start_every_device_there_is_attached_and_a_missing_one_is_waited_for() {
    let world = World::new(two());
    world.device("veth-b", None);
    let mut agent = world.start().unwrap();
    assert_eq!(states(&agent), ["a attached", "b missing"]);
    world.device("veth-b", Some(Device { index: 9, mtu: 1500 }));
    agent.follow(&no_one()).unwrap();
    assert_eq!(states(&agent), ["a attached", "b attached"]);
    assert_eq!(world.plane.calls(), ["attach a veth-a", "attach b veth-b"]);
}

#[test]
fn at_start_every_device_that_can_not_be_taken_is_named_and_nothing_stays_attached() {
    let world = World::new(vec![port(1, "a", "veth-a"), port(2, "b", "veth-b"), port(3, "c", "veth-c")]);
    world.plane.told().refuses.insert("veth-a".to_owned(), "device veth-a is held by program 7".to_owned());
    world.plane.told().refuses.insert("veth-c".to_owned(), "device veth-c has MTU 9000, too large".to_owned());
    let Err(why) = world.start() else { panic!("it started") };
    assert_eq!(
        why.to_string(),
        "port a: device veth-a is held by program 7\nport c: device veth-c has MTU 9000, too large"
    );
    assert!(world.attached().is_empty());
    assert_eq!(world.plane.calls().last().unwrap(), "stop");
}

#[test]
fn a_reload_attaches_what_is_new_then_publishes_then_detaches_what_went() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    world.device("veth-c", Some(Device { index: 7, mtu: 1500 }));
    world.write("hash-2", vec![port(2, "b", "veth-b"), port(3, "c", "veth-c")]);
    assert_eq!(agent.reload(), Ok(2));
    assert_eq!(world.plane.calls(), ["attach c veth-c", "publish", "detach a"]);
    assert_eq!(states(&agent), ["b attached", "c attached"]);
    let view = agent.shown().load_full();
    assert_eq!((view.generation, view.desired.hash.as_str()), (2, "hash-2"));
    let last = view.last_reload.clone().unwrap();
    assert_eq!((last.attempt, last.ok, last.generation, last.error), (1, true, 2, None));
    assert_eq!(view.names.port(PortId(1)), "a", "counters may still speak of it");
}

#[test]
fn an_invalid_file_changes_nothing_and_is_refused_again_the_second_time() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    *world.file.lock().unwrap() = Err("test.yaml:3:5: unknown key \"dstport\"".to_owned());
    for attempt in 1..=2 {
        assert!(matches!(agent.reload(), Err(Unchanged::Invalid(_))));
        let view = agent.shown().load_full();
        let last = view.last_reload.clone().unwrap();
        assert_eq!((last.attempt, last.ok, last.generation), (attempt, false, 1));
        assert_eq!(last.error.as_deref(), Some("test.yaml:3:5: unknown key \"dstport\""));
        assert_eq!(last.hash.as_deref(), Some("hash-bad"));
        assert_eq!(view.desired.hash, "hash-1");
    }
    assert!(world.plane.calls().is_empty());
    world.write("hash-3", two());
    assert_eq!(agent.reload(), Ok(2));
}

#[test]
fn a_reload_whose_last_port_is_refused_leaves_ports_and_policy_as_they_were() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    let before = agent.shown().load_full().ports.clone();
    world.device("veth-c", Some(Device { index: 7, mtu: 1500 }));
    world.device("veth-d", Some(Device { index: 8, mtu: 1500 }));
    world.plane.told().refuses.insert("veth-d".to_owned(), "device veth-d is held by program 7".to_owned());
    world.write("hash-2", vec![port(2, "b", "veth-b"), port(3, "c", "veth-c"), port(4, "d", "veth-d")]);
    for _ in 0..2 {
        let why = agent.reload().unwrap_err();
        assert_eq!(why.to_string(), "port d: device veth-d is held by program 7");
        assert_eq!(world.plane.calls(), ["attach c veth-c", "attach d veth-d", "detach c"]);
        let view = agent.shown().load_full();
        assert_eq!((&view.ports, view.generation, view.desired.hash.as_str()), (&before, 1, "hash-1"));
    }
}

#[test]
fn a_number_of_queues_the_device_has_not_is_refused_before_the_port_is_touched() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.told().most_queues = Some(4);
    world.plane.calls();
    let mut wide = two();
    wide[0].attach.queues = Some(64);
    world.write("hash-2", wide);
    for _ in 0..2 {
        assert_eq!(agent.reload().unwrap_err().to_string(), "port a: device veth-a has fewer than 64 queues");
        assert!(world.plane.calls().is_empty());
        assert_eq!(states(&agent), ["a attached", "b attached"]);
    }
}

#[test]
fn a_port_is_put_back_when_its_new_attachment_is_refused() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    world.device("veth-z", Some(Device { index: 9, mtu: 1500 }));
    world.plane.told().refuses.insert("veth-z".to_owned(), "held by program 7".to_owned());
    world.write("hash-2", vec![port(1, "a", "veth-z"), port(2, "b", "veth-b")]);
    for _ in 0..2 {
        assert_eq!(agent.reload().unwrap_err().to_string(), "port a: held by program 7");
        assert_eq!(world.plane.calls(), ["detach a", "attach a veth-z", "attach a veth-a"]);
        assert_eq!(world.attached(), ["a=veth-a", "b=veth-b"]);
        assert_eq!(states(&agent), ["a attached", "b attached"]);
    }
}

#[test]
fn two_ports_may_swap_their_devices_in_one_reload() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.write("hash-2", vec![port(1, "a", "veth-b"), port(2, "b", "veth-a")]);
    assert_eq!(agent.reload(), Ok(2));
    assert_eq!(world.attached(), ["a=veth-b", "b=veth-a"]);
}

#[test]
fn a_new_port_may_take_the_device_of_one_that_goes() {
    let world = World::new(vec![port(1, "a", "veth-a")]);
    let mut agent = world.start().unwrap();
    world.plane.calls();
    world.write("hash-2", vec![port(2, "z", "veth-a")]);
    assert_eq!(agent.reload(), Ok(2));
    assert_eq!(world.plane.calls(), ["detach a", "attach z veth-a", "publish"]);
}

#[test]
fn a_new_port_without_a_device_does_not_hold_a_reload_up() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    let mut ports = two();
    ports.push(port(3, "c", "veth-c"));
    world.write("hash-2", ports);
    assert_eq!(agent.reload(), Ok(2));
    assert_eq!(states(&agent), ["a attached", "b attached", "c missing"]);
}

#[test]
fn what_an_uplink_takes_from_the_host_follows_a_reload_without_attaching_it_again() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    let mut ports = two();
    ports[1].owned.macs.push(MacAddr([2, 0, 0, 0, 0, 1]));
    world.write("hash-2", ports);
    assert_eq!(agent.reload(), Ok(2));
    assert_eq!(world.plane.calls(), ["own 2 1 MACs", "publish"]);
    // Refused for another port: what it took is put back.
    let mut ports = two();
    ports.push(port(3, "c", "veth-c"));
    world.device("veth-c", Some(Device { index: 7, mtu: 1500 }));
    world.plane.told().refuses.insert("veth-c".to_owned(), "no".to_owned());
    world.write("hash-3", ports);
    agent.reload().unwrap_err();
    assert_eq!(world.plane.told().attached[&PortId(2)].owned.macs.len(), 1);
}

#[test]
fn settings_that_take_a_restart_are_refused_by_name() {
    let world = World::new(two());
    let agent = world.start().unwrap();
    let mut other = agent.desired.datapath;
    assert_eq!(agent.desired.datapath.needs_restart(&other), None);
    other.chunks = 4096;
    other.busy = true;
    assert_eq!(
        agent.desired.datapath.needs_restart(&other).unwrap(),
        "datapath: umem.chunks, poll can not be changed while the daemon runs; restart it"
    );
}

#[test]
fn a_device_deleted_and_created_again_is_attached_again() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    for index in 10..20 {
        world.device("veth-a", None);
        agent.follow(&no_one()).unwrap();
        assert_eq!(states(&agent), ["a missing", "b attached"]);
        assert_eq!(world.plane.calls(), ["detach a"]);
        world.device("veth-a", Some(Device { index, mtu: 1500 }));
        agent.follow(&no_one()).unwrap();
        assert_eq!(states(&agent), ["a attached", "b attached"]);
        assert_eq!(world.plane.calls(), ["attach a veth-a"]);
    }
    // Faster than anyone looked.
    world.device("veth-a", Some(Device { index: 30, mtu: 1500 }));
    agent.follow(&no_one()).unwrap();
    assert_eq!(world.plane.calls(), ["detach a", "attach a veth-a"]);
}

#[test]
fn a_device_that_went_to_another_namespace_and_back_is_attached_again_under_its_old_index() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    let index = world.devices.lock().unwrap()["veth-a"].index;
    agent.follow(&BTreeSet::from([index])).unwrap();
    assert_eq!(world.plane.calls(), ["detach a", "attach a veth-a"]);
}

#[test]
fn devices_that_swap_their_names_are_both_attached_anew() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    world.device("veth-a", Some(Device { index: 3, mtu: 1500 }));
    world.device("veth-b", Some(Device { index: 2, mtu: 1500 }));
    agent.follow(&no_one()).unwrap();
    assert_eq!(world.plane.calls(), ["detach a", "detach b", "attach a veth-a", "attach b veth-b"]);
}

#[test]
fn a_changed_mtu_attaches_the_port_anew() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    world.device("veth-a", Some(Device { index: 2, mtu: 1400 }));
    agent.follow(&no_one()).unwrap();
    agent.follow(&no_one()).unwrap();
    assert_eq!(world.plane.calls(), ["detach a", "attach a veth-a"]);
}

#[test]
fn a_port_refused_while_running_is_shown_with_its_reason_and_tried_again() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.told().refuses.insert("veth-a".to_owned(), "device veth-a is held by program 7".to_owned());
    world.device("veth-a", Some(Device { index: 12, mtu: 1500 }));
    agent.follow(&no_one()).unwrap();
    let view = agent.shown().load_full();
    assert_eq!(view.ports[&PortId(1)].state, PortState::Refused("device veth-a is held by program 7".to_owned()));
    world.plane.told().refuses.clear();
    agent.follow(&no_one()).unwrap();
    assert_eq!(states(&agent), ["a attached", "b attached"]);
}

#[test]
fn a_worker_that_is_gone_is_told_as_such_by_every_step() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.told().is_stopped = true;
    assert_eq!(agent.heartbeat(), Err(Stopped));
    assert_eq!(agent.reload(), Err(Unchanged::Stopped(Stopped)));
    world.device("veth-a", None);
    assert_eq!(agent.follow(&no_one()), Err(Stopped));
    agent.stop();
}

#[test]
fn stopping_detaches_every_port_before_the_worker_ends() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    agent.stop();
    assert_eq!(world.plane.calls(), ["detach a", "detach b", "stop"]);
}

#[test]
fn a_panic_in_the_agent_costs_one_order_and_no_packet() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    agent.load = Box::new(|_| panic!("a fault, made by the test"));
    world.plane.calls();
    let (orders, inbox) = std::sync::mpsc::channel();
    orders.send(Order::Reload).unwrap();
    orders.send(Order::Devices(Hint { gone: no_one() })).unwrap();
    orders.send(Order::Stop).unwrap();
    assert_eq!(orders::obey(agent, &inbox), Ok(()));
    assert_eq!(world.plane.calls(), ["detach a", "detach b", "stop"]);
}

#[test]
fn a_worker_that_dies_by_itself_ends_the_agent_though_nothing_is_ordered() {
    let world = World::new(two());
    let agent = world.start().unwrap();
    world.plane.told().is_stopped = true;
    let (_orders, inbox) = std::sync::mpsc::channel();
    assert_eq!(orders::obey(agent, &inbox), Err(Stopped));
}

#[test]
fn a_worker_that_is_gone_ends_the_agent_though_orders_never_cease() {
    for last in [false, true] {
        let world = World::new(two());
        let agent = world.start().unwrap();
        world.plane.told().is_stopped = true;
        let (orders, inbox) = std::sync::mpsc::channel();
        if !last {
            (0..100).for_each(|_| orders.send(Order::Devices(Hint { gone: no_one() })).unwrap());
        }
        orders.send(Order::Stop).unwrap();
        assert_eq!(orders::obey(agent, &inbox), Err(Stopped), "told to end at once too");
    }
}

#[test]
fn a_reload_refused_for_one_device_detaches_none_of_the_others() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    world.plane.calls();
    world.plane.told().most_queues = Some(2);
    let mut ports = two();
    ports[0].attach.queues = Some(2);
    ports[1].attach.queues = Some(4);
    world.write("hash-2", ports);
    agent.reload().unwrap_err();
    assert!(world.plane.calls().is_empty());
}

#[test]
fn what_a_reload_brings_has_its_name_before_anything_of_it_is_counted() {
    let world = World::new(two());
    let mut agent = world.start().unwrap();
    let mut ports = two();
    ports.push(port(3, "c", "veth-c"));
    world.device("veth-c", Some(Device { index: 7, mtu: 1500 }));
    // The turn ends at its first step that touches a device.
    world.plane.told().refuses.insert("veth-c".to_owned(), "no".to_owned());
    world.write("hash-2", ports);
    agent.reload().unwrap_err();
    assert_eq!(agent.shown().load().names.port(PortId(3)), "c");
}
