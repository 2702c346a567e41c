//! MAC addresses.

use flow_table::mac::MacAddr;

use crate::{tree::quoted, value::Fault};

/// A MAC address; refused with the corrected form where it is written in another usual one.
pub(crate) fn mac(text: &str) -> Result<MacAddr, Fault> {
    text.parse::<MacAddr>().map_err(|error| {
        let fault = Fault::new(format!("{} is not a MAC address", quoted(text)));
        let digits: String = text.chars().filter(|c| !matches!(c, '-' | '.' | ':')).collect();
        let usual = digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = u64::from_str_radix(&digits, 16).ok().filter(|_| usual);
        match bits {
            Some(bits) => fault.hint(format!("write {}", MacAddr::from_u64(bits))),
            None => fault.hint(error.to_string()),
        }
    })
}

/// A MAC address that one station may have.
pub(crate) fn unicast(text: &str) -> Result<MacAddr, Fault> {
    let mac = mac(text)?;
    if mac.is_unicast() {
        return Ok(mac);
    }
    let what = if mac.is_multicast() { "a group address (its first octet is odd)" } else { "all zeros" };
    Err(Fault::new(format!("{mac} is {what}; no station can have it")))
}

/// A MAC address, optionally under a mask, as (value, mask).
pub(crate) fn masked(text: &str) -> Result<(MacAddr, MacAddr), Fault> {
    let Some((value, mask)) = text.split_once('/') else { return Ok((mac(text)?, MacAddr::BROADCAST)) };
    let (value, mask) = (mac(value)?, mac(mask)?);
    let kept = value.to_u64() & mask.to_u64();
    if kept == value.to_u64() {
        return Ok((value, mask));
    }
    let fault = Fault::new(format!("{} has bits set that its mask leaves out", quoted(text)));
    Err(fault.hint(format!("write {}/{mask}", MacAddr::from_u64(kept))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_are_refused_with_ours() {
        for text in ["02-00-00-00-00-11", "0200.0000.0011", "020000000011"] {
            assert_eq!(mac(text).unwrap_err().hint.unwrap(), "write 02:00:00:00:00:11");
        }
        assert!(mac("02:00").unwrap_err().hint.unwrap().starts_with("a MAC address is six pairs"));
    }

    #[test]
    fn a_station_has_a_unicast_address() {
        assert_eq!(
            unicast("01:00:5e:00:00:01").unwrap_err().message,
            "01:00:5e:00:00:01 is a group address (its first octet is odd); no station can have it"
        );
        assert_eq!(
            unicast("00:00:00:00:00:00").unwrap_err().message,
            "00:00:00:00:00:00 is all zeros; no station can have it"
        );
    }

    #[test]
    fn a_mask_covers_every_bit_of_the_value() {
        assert!(masked("01:00:00:00:00:00/01:00:00:00:00:00").is_ok());
        let fault = masked("01:02:00:00:00:00/01:00:00:00:00:00").unwrap_err();
        assert_eq!(fault.hint.unwrap(), "write 01:00:00:00:00:00/01:00:00:00:00:00");
    }
}
