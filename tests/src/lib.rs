//! What the end-to-end tests share: network namespaces, raw frames, and the one place that waits.

pub mod netns;
pub mod netns_packet;
pub mod netns_port;
pub mod netns_xdp;
pub mod wait;
