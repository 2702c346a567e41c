//! Time as an argument: nanoseconds since an epoch of the caller's choosing.

use core::{ops::Add, time::Duration};

/// A point in time: nanoseconds since the start of the clock that made it (a monotonic clock, or a capture's timestamps).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// From nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero when the clock ran backwards.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_saturate_when_the_clock_jumps_back() {
        let now = Instant::from_nanos(5);
        assert_eq!(now.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!((Instant::from_nanos(u64::MAX) + Duration::from_secs(1)).as_nanos(), u64::MAX);
    }
}
