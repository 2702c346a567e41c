//! Durations with their unit.

use core::time::Duration;

use crate::{tree::quoted, value::Fault};

/// The shortest time a learned MAC may be kept: traffic that goes on is noticed only every few seconds.
const MIN: Duration = Duration::from_secs(10);
/// The longest.
const MAX: Duration = Duration::from_secs(86_400);

/// A time from ten seconds to a day, such as `300s`, `5m` or `1h`.
pub(crate) fn aging(text: &str) -> Result<Duration, Fault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let shown = quoted(text);
    let seconds = match (number.parse::<u64>(), unit) {
        (Ok(number), "s") => number,
        (Ok(number), "m") => number.saturating_mul(60),
        (Ok(number), "h") => number.saturating_mul(3600),
        (Ok(number), "") => {
            return Err(
                Fault::new(format!("the time {shown} has no unit")).hint(format!("write {number}s for seconds"))
            );
        }
        _ => {
            let fault = Fault::new(format!("{shown} is not a time"));
            return Err(fault.hint("write a whole number and s, m or h, such as 300s"));
        }
    };
    let time = Duration::from_secs(seconds);
    if (MIN..=MAX).contains(&time) { Ok(time) } else { Err(Fault::new(format!("expected 10s to 24h, found {shown}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(aging("300s"), Ok(Duration::from_secs(300)));
        assert_eq!(aging("5m"), aging("300s"));
        assert_eq!(aging("300").unwrap_err().hint.unwrap(), "write 300s for seconds");
        for bad in ["", "s", "5 m", "-5s", "5min", "0s", "9s", "25h", "99999999999999999999s"] {
            assert!(aging(bad).is_err(), "{bad}");
        }
    }
}
