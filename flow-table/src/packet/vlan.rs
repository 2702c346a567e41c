//! IEEE 802.1Q tags at the front of a frame.

/// Bytes of a tag.
pub const TAG_BYTES: usize = 4;

/// How a frame's tag changes on its way out. Frames in hand have one tag or none; the walk knows which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VlanEdit {
    /// Left as it is.
    #[default]
    Keep,
    /// The tag is removed.
    Pop,
    /// A tag with this TCI is inserted.
    Push(u16),
    /// The tag's TCI becomes this.
    Set(u16),
}

/// Writes a tag into a frame that has four free bytes before it: `frame` starts with them.
pub fn push(frame: &mut [u8], tci: u16) {
    if let Some(front) = frame.first_chunk_mut::<16>() {
        front.copy_within(TAG_BYTES.., 0);
        let [c0, c1] = tci.to_be_bytes();
        let [.., t0, t1, t2, t3] = front;
        (*t0, *t1, *t2, *t3) = (0x81, 0x00, c0, c1);
    }
}

/// Moves the MAC addresses over a frame's tag: its first four bytes are free afterwards.
pub fn pop(frame: &mut [u8]) {
    if let Some(front) = frame.first_chunk_mut::<16>() {
        front.copy_within(..12, TAG_BYTES);
    }
}

/// Sets the TCI of a tagged frame.
pub fn set(frame: &mut [u8], tci: u16) {
    if let Some([.., c0, c1]) = frame.first_chunk_mut::<16>() {
        [*c0, *c1] = tci.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pop_undoes_push_and_set_changes_the_tag_alone() {
        let plain: Vec<u8> = (1..=20).collect();
        let mut frame = [vec![0; 4], plain.clone()].concat();
        push(&mut frame, 0xa00a);
        assert_eq!(frame[..12], plain[..12]);
        assert_eq!(frame[12..16], [0x81, 0, 0xa0, 0x0a]);
        assert_eq!(frame[16..], plain[12..]);
        set(&mut frame, 0x000b);
        assert_eq!(frame[12..16], [0x81, 0, 0, 0x0b]);
        pop(&mut frame);
        assert_eq!(frame[4..], plain);
    }
}
