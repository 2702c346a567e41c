//! What the kernel is asked directly: facts of network devices, XDP links, socket options, and limits of this process.
//!
//! Thin and safe: each function is one question or one change, blocks for one system call, and reports the kernel's own
//! error. All of it is for the control thread.

pub mod bpf;
pub mod ethtool;
pub mod huge_pages;
pub mod limits;
pub mod link;
pub mod promiscuous;
pub mod sockopt;

use std::time::Duration;

/// Lets the kernel finish work it does after a call has returned. For the control thread only: it sleeps.
#[expect(clippy::disallowed_methods, reason = "the kernel tells nobody when a socket's teardown is over")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
