//! A packet whose flow is known allocates nothing.
#![cfg(test)]

use bench::{
    allocations::{self, Counting},
    memory::{check, run, warm_switch},
    scenario::{Scenario, Work},
    source::Traffic,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_million_packets_of_known_flows_allocate_nothing() {
    for work in [Work::Forward, Work::Rewrite] {
        let scenario = Scenario { work, flows: 10_000 };
        let traffic = Traffic::new(scenario.flows, 1);
        let mut switch = warm_switch(scenario, &traffic).unwrap();
        let before = allocations::count();
        assert!(before > 0, "the counter counts");
        let received = run(&mut switch, 1_000_000);
        assert_eq!(allocations::count() - before, 0, "{work:?}: allocations in {received} packets");
        check(&switch, scenario.flows).unwrap();
    }
}
