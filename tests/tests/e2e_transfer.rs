//! Bytes through the daemon between workloads whose devices are as they come.
#![cfg(test)]

use bench::transfer;
use tests::{
    daemon::{Daemon, number},
    lab::{Lab, addresses},
};

#[test]
fn tcp_is_byte_identical_over_ipv4_and_ipv6_with_the_offloads_of_workloads_untouched() {
    let lab = Lab::new(2);
    let daemon = Daemon::start(&lab.switch, &lab.config(""));
    for address in addresses(2) {
        transfer::tcp(lab.tenant(1).get(), lab.tenant(2).get(), (address, 0).into(), 5_000_000)
            .unwrap_or_else(|e| panic!("{address}: {e}"));
        transfer::tcp(
            lab.tenant(2).get(),
            lab.tenant(1).get(),
            (addresses(1)[usize::from(address.is_ipv6())], 0).into(),
            1_000_000,
        )
        .unwrap();
    }
    let worker = daemon.worker();
    assert!(number(&worker, "/checksums_completed") > 0, "the kernel completed them all: not the case of this test");
    for reason in daemon.items("drops") {
        assert_ne!(reason["reason"], "malformed", "{reason}");
    }
}
