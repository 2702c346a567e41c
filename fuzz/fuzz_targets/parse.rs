//! Any bytes from any port: reading them never panics, says where headers lie truthfully, and stops at IP's own length.
#![no_main]

use flow_table::{
    field::Headers,
    id::PortId,
    packet::{self, fields},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let port = PortId(7);
    let Ok(parsed) = packet::parse(frame, port) else { return };
    assert_eq!(packet::parse(frame, port).as_ref(), Ok(&parsed), "the same bytes read twice");
    assert_eq!(parsed.key.in_port(), port);
    let (l3, l4, l4_len) = (parsed.offsets.l3, parsed.offsets.l4, parsed.offsets.l4_len);
    assert!(usize::from(l3) <= frame.len(), "the network header is in the frame");
    assert!(l4 == 0 || l4 >= l3, "the transport header comes after it");
    assert!(usize::from(l4) + usize::from(l4_len) <= frame.len(), "and ends in the frame");
    let read = fields::read(frame, &parsed);
    let _ = Headers::new(&parsed.key, read);

    // Bytes beyond IP's length are padding, and nothing else has a length.
    let mut padded = frame.to_vec();
    padded.extend([0xa5; 9]);
    if padded.len() <= usize::from(u16::MAX) {
        assert_eq!(packet::parse(&padded, port).as_ref(), Ok(&parsed), "padding changes nothing");
        assert_eq!(fields::read(&padded, &parsed), read);
    }
});
