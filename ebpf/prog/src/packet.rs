//! Bounded reads of a frame's bytes at XDP.

use aya_ebpf::programs::XdpContext;

/// The `N` bytes at `offset` of the frame's linear part, `None` when it is shorter.
///
/// `offset` must be a value the verifier can bound: a constant, or a choice between constants.
#[inline(always)]
pub(crate) fn bytes<const N: usize>(ctx: &XdpContext, offset: usize) -> Option<[u8; N]> {
    let start = ctx.data() + offset;
    if start + N > ctx.data_end() {
        return None;
    }
    let at = core::ptr::with_exposed_provenance::<[u8; N]>(start);
    // SAFETY: `at` up to `at + N` is before `data_end`, which the verifier proves again; bytes have no alignment.
    Some(unsafe { at.read_unaligned() })
}
