//! Waiting in tests: the only file here that reads the clock or sleeps.

use std::time::{Duration, Instant};

/// Between two looks at a condition.
const LOOK: Duration = Duration::from_micros(200);

/// Looks at `condition` until it holds or `timeout` has passed. True when it held.
pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Calls `step` again and again, without a pause, for `time`. Gives the number of calls.
pub fn repeat_for(time: Duration, mut step: impl FnMut()) -> u64 {
    let end = Instant::now() + time;
    let mut calls = 0;
    while Instant::now() < end {
        step();
        calls += 1;
    }
    calls
}

/// What `work` gave, and how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}

/// Does nothing for `time`.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
