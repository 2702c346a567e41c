//! The promises, in the order they are shown.

mod books;
mod carry;
mod live;
mod policy;
mod reach;
mod wires;

use super::Check;

/// Every check. Later ones may stand on what earlier ones did.
pub(super) fn all() -> impl Iterator<Item = &'static Check> {
    [reach::ALL, carry::ALL, policy::ALL, wires::ALL, books::ALL, live::ALL].into_iter().flatten()
}
