//! What the golden and end-to-end tests share: the built program, captures, replay cases, network namespaces with a daemon and
//! workloads in them, raw frames, and the one place that waits.

pub mod capture;
pub mod daemon;
pub mod golden;
pub mod lab;
pub mod netns;
pub mod netns_packet;
pub mod netns_port;
pub mod netns_xdp;
pub mod program;
pub mod wait;
