//! Clocks: the time a thread was charged for, and the time that passed.

use std::time::Duration;

use flow_table::time::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU time this thread has used. Interrupts that hit it are charged to it where the kernel does not account them apart.
#[must_use]
pub fn thread_cpu() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// Monotonic time, as the switch takes it.
#[must_use]
pub fn now() -> Instant {
    Instant::default() + duration(clock_gettime(ClockId::Monotonic))
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}

/// Nanoseconds of `time` for each of `count`.
#[must_use]
pub fn ns_each(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(count.max(1))
}
