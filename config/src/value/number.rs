//! Whole numbers, ranges of them and powers of two.

use crate::{
    tree::{Scalar, quoted},
    value::Fault,
};

/// A number as written: decimal, or hexadecimal after `0x`. `None` for any other text.
fn digits(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}

/// The number in `text`, from `min` to `max`.
pub(crate) fn number(text: &str, min: u64, max: u64) -> Result<u64, Fault> {
    let wanted = format!("expected a whole number from {min} to {max}, found");
    if has_leading_zero(text) {
        let fault = Fault::new(format!("{} has a leading zero, which some read as octal", quoted(text)));
        return Err(match text.trim_start_matches('0') {
            "" => fault.hint("write 0"),
            plain => fault.hint(format!("write {plain}")),
        });
    }
    match digits(text) {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        Some(number) => Err(Fault::new(format!("{wanted} {number}"))),
        None => Err(Fault::new(format!("{wanted} {}", quoted(text)))),
    }
}

/// A number, which is not written in quotes.
pub(crate) fn integer(scalar: &Scalar, min: u64, max: u64) -> Result<u64, Fault> {
    let number = number(&scalar.text, min, max)?;
    if scalar.plain {
        return Ok(number);
    }
    let message = format!("expected a whole number from {min} to {max}, found the text {}", quoted(&scalar.text));
    Err(Fault::new(message).hint(format!("write {} without quotes", scalar.text)))
}

/// A number, or a range of numbers with both ends in it.
pub(crate) fn span(scalar: &Scalar, min: u64, max: u64) -> Result<(u64, u64), Fault> {
    let Some((low, high)) = scalar.text.split_once('-') else {
        return integer(scalar, min, max).map(|one| (one, one));
    };
    let (low, high) = (number(low.trim(), min, max)?, number(high.trim(), min, max)?);
    if low > high {
        let fault = Fault::new(format!("the range {} ends before it begins", quoted(&scalar.text)));
        return Err(fault.hint(format!("write \"{high}-{low}\"")));
    }
    Ok((low, high))
}

/// A power of two.
pub(crate) fn power_of_two(scalar: &Scalar, min: u64, max: u64) -> Result<u64, Fault> {
    let found = digits(&scalar.text).filter(|_| scalar.plain && !has_leading_zero(&scalar.text));
    if let Some(number) = found.filter(|number| number.is_power_of_two() && (min..=max).contains(number)) {
        return Ok(number);
    }
    let powers = core::iter::successors(Some(min), |power| power.checked_mul(2)).take_while(|power| *power <= max);
    let allowed: Vec<String> = powers.map(|power| power.to_string()).collect();
    let found = found.map_or_else(|| quoted(&scalar.text), |number| number.to_string());
    let message = format!("expected a power of two from {min} to {max}, found {found}");
    Err(Fault::new(message).hint(format!("allowed are {}", allowed.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar { text: text.to_owned(), plain: true }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_nothing_that_only_looks_like_one() {
        assert_eq!(integer(&plain("65535"), 0, 65535), Ok(65535));
        assert_eq!(integer(&plain("0x10"), 0, 65535), Ok(16));
        for bad in ["", "1e3", "1_000", "+1", "-1", "0x", "0xg", "1.0", "65536", "99999999999999999999", "on", "null"] {
            assert!(integer(&plain(bad), 0, 65535).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_leading_zero_is_refused_with_the_number_without_it() {
        let fault = integer(&plain("010"), 0, 100).unwrap_err();
        assert_eq!(fault.message, "\"010\" has a leading zero, which some read as octal");
        assert_eq!(fault.hint.unwrap(), "write 10");
    }

    #[test]
    fn a_number_in_quotes_is_a_text() {
        let quoted = Scalar { text: "80".to_owned(), plain: false };
        let fault = integer(&quoted, 0, 65535).unwrap_err();
        assert_eq!(fault.message, "expected a whole number from 0 to 65535, found the text \"80\"");
        assert_eq!(fault.hint.unwrap(), "write 80 without quotes");
    }

    #[test]
    fn a_range_has_both_its_ends_and_the_lower_one_first() {
        assert_eq!(span(&plain("80-90"), 0, 65535), Ok((80, 90)));
        assert_eq!(span(&plain("80"), 0, 65535), Ok((80, 80)));
        assert_eq!(span(&plain("90-80"), 0, 65535).unwrap_err().hint.unwrap(), "write \"80-90\"");
        for bad in ["80-", "-90", "80-90-100", "80-70000", "80..90"] {
            assert!(span(&plain(bad), 0, 65535).is_err(), "{bad}");
        }
    }

    #[test]
    fn ring_sizes_that_are_no_power_of_two_are_refused_with_those_that_are() {
        for bad in ["0", "2", "3000", "65536"] {
            let fault = power_of_two(&plain(bad), 64, 512).unwrap_err();
            assert_eq!(fault.message, format!("expected a power of two from 64 to 512, found {bad}"));
            assert_eq!(fault.hint.unwrap(), "allowed are 64, 128, 256, 512");
        }
        assert_eq!(power_of_two(&plain("256"), 64, 512), Ok(256));
    }
}
