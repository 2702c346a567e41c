//! Ethernet addresses.

use core::{fmt, str::FromStr};

use thiserror::Error;

/// An IEEE 802 MAC address, octets in the order they are sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

/// Text that is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a MAC address is six pairs of hex digits separated by colons, such as 02:00:00:00:00:11")]
pub struct MacParseError;

impl MacAddr {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros: never a sender.
    pub const ZERO: Self = Self([0; 6]);

    /// True for group addresses, broadcast included (IEEE 802-2014, 8.2: the I/G bit).
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// True for 01:80:c2:00:00:00 to 0f, which a bridge never forwards (IEEE 802.1D-2004, 7.12.6).
    #[inline]
    #[must_use]
    pub const fn is_link_local_control(self) -> bool {
        self.to_u64() & 0xffff_ffff_fff0 == 0x0180_c200_0000
    }

    /// True for an address a station may send from and a bridge may learn: not zero and not a group.
    #[inline]
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.to_u64() != 0
    }

    /// The address in the low 48 bits, first octet highest.
    #[inline]
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The inverse of [`to_u64`](Self::to_u64); the high 16 bits are ignored.
    #[inline]
    #[must_use]
    pub const fn from_u64(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Self([a, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, fm: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(fm, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = MacParseError;

    fn from_str(text: &str) -> Result<Self, MacParseError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(MacParseError)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(MacParseError);
            }
            *octet = u8::from_str_radix(part, 16).ok().ok_or(MacParseError)?;
        }
        if parts.next().is_some() { Err(MacParseError) } else { Ok(Self(octets)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_anything_else_is_refused() {
        let mac: MacAddr = "02:00:00:AB:cd:11".parse().unwrap();
        assert_eq!(mac.0, [2, 0, 0, 0xab, 0xcd, 0x11]);
        assert_eq!(mac.to_string(), "02:00:00:ab:cd:11");
        for bad in
            ["", "02:00:00:ab:cd", "02:00:00:ab:cd:11:22", "2:0:0:0:0:1", "02-00-00-00-00-01", "+2:00:00:00:00:01"]
        {
            assert_eq!(bad.parse::<MacAddr>(), Err(MacParseError), "{bad}");
        }
    }

    #[test]
    fn bridge_control_addresses_are_exactly_the_sixteen() {
        for last in 0..=0x1f {
            assert_eq!(MacAddr([1, 0x80, 0xc2, 0, 0, last]).is_link_local_control(), last < 16);
        }
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::BROADCAST.is_unicast());
    }

    #[test]
    fn the_integer_form_round_trips() {
        let mac = MacAddr([1, 2, 3, 4, 5, 6]);
        assert_eq!(mac.to_u64(), 0x0102_0304_0506);
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
    }
}
