//! What a configuration may ask for is what the packet engine can do.
#![cfg(test)]

use config::limits;
use dataplane::port::{
    afxdp::{MAX_MTU, MAX_RING, MIN_RING},
    umem::{Umem, UmemError},
};

#[test]
fn the_configuration_has_the_limits_of_the_packet_engine() {
    assert_eq!(u32::from(limits::MAX_MTU), MAX_MTU);
    assert_eq!((limits::MIN_RING, limits::MAX_RING), (MIN_RING, MAX_RING));
    assert!(!matches!(Umem::new(limits::MAX_CHUNKS), Err(UmemError::Chunks(_))));
    assert!(matches!(Umem::new(limits::MAX_CHUNKS * 2), Err(UmemError::Chunks(_))));
    let text = |mtu: u32| format!("apiVersion: sluice/v1\nports: [{{ name: a, device: a, mtu: {mtu} }}]\n");
    assert!(config::load(&text(MAX_MTU), "x").is_ok());
    assert!(config::load(&text(MAX_MTU + 1), "x").is_err());
}
