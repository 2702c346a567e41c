//! Values of packet fields that have names.

use flow_table::key::{ethertype, protocol};

use crate::{
    shape::nearest,
    tree::{Scalar, quoted},
    value::{Fault, number},
};

const PROTOCOLS: [(&str, u8); 5] = [
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("icmp", protocol::ICMP),
    ("icmpv6", protocol::ICMPV6),
    ("sctp", 132),
];
const ETHERTYPES: [(&str, u16); 3] = [("ipv4", ethertype::IPV4), ("ipv6", ethertype::IPV6), ("arp", ethertype::ARP)];
const FLAGS: [(&str, u16); 9] =
    [("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32), ("ece", 64), ("cwr", 128), ("ns", 256)];

/// A word of `words`, or a number.
fn named<T: Copy + Into<u64>>(scalar: &Scalar, words: &[(&str, T)], min: u64, max: u64) -> Result<u64, Fault> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == scalar.text) {
        return Ok((*value).into());
    }
    if scalar.text.starts_with(|c: char| c.is_ascii_digit()) {
        return number::integer(scalar, min, max);
    }
    let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = quoted(&scalar.text);
    let fault = Fault::new(format!("expected {} or a number from {min} to {max}, found {found}", list.join(", ")));
    Err(match nearest(&scalar.text, list) {
        Some(word) => fault.hint(format!("did you mean \"{word}\"?")),
        None => fault,
    })
}

/// An IP protocol.
pub(crate) fn ip_protocol(scalar: &Scalar) -> Result<u64, Fault> {
    named(scalar, &PROTOCOLS, 0, 255)
}

/// The name of an IP protocol, or its number.
pub(crate) fn protocol_name(number: u64) -> String {
    let known = PROTOCOLS.iter().find(|(_, value)| u64::from(*value) == number);
    known.map_or_else(|| format!("protocol {number}"), |(name, _)| (*name).to_owned())
}

/// An EtherType.
pub(crate) fn ether_type(scalar: &Scalar) -> Result<u64, Fault> {
    named(scalar, &ETHERTYPES, u64::from(ethertype::FIRST), 0xffff)
}

/// An ARP operation (RFC 826).
pub(crate) fn arp_operation(scalar: &Scalar) -> Result<u64, Fault> {
    named(scalar, &[("request", 1_u8), ("reply", 2)], 1, 255)
}

/// A VLAN id, or 0 for `none`: untagged.
pub(crate) fn vlan_or_none(scalar: &Scalar) -> Result<(u64, u64), Fault> {
    if scalar.text == "none" { Ok((0, 0)) } else { number::span(scalar, 1, 4094) }
}

/// A VLAN id to leave with, or 0 for `untagged`.
pub(crate) fn vlan_or_untagged(scalar: &Scalar) -> Result<u64, Fault> {
    if scalar.text == "untagged" { Ok(0) } else { number::integer(scalar, 1, 4094) }
}

/// TCP flags that are set and, after `!`, not set, as (value, mask).
pub(crate) fn tcp_flags(text: &str) -> Result<(u16, u16), Fault> {
    let (mut value, mut mask) = (0, 0);
    for word in text.split(',').map(str::trim) {
        let (name, wanted) = word.strip_prefix('!').map_or((word, true), |name| (name.trim(), false));
        let Some((_, bit)) = FLAGS.iter().find(|(flag, _)| *flag == name) else {
            let names: Vec<&str> = FLAGS.iter().map(|(flag, _)| *flag).collect();
            let fault = Fault::new(format!("{} is not a TCP flag", quoted(name)));
            return Err(match nearest(name, names.iter().copied()) {
                Some(near) if !name.is_empty() => fault.hint(format!("did you mean \"{near}\"?")),
                _ => fault.hint(format!("the flags are {}; \"syn,!ack\" is SYN without ACK", names.join(", "))),
            });
        };
        if mask & bit != 0 {
            return Err(Fault::new(format!("the TCP flag {} is named twice in {}", quoted(name), quoted(text))));
        }
        mask |= bit;
        value |= if wanted { *bit } else { 0 };
    }
    Ok((value, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_wanted_or_unwanted_once() {
        assert_eq!(tcp_flags("syn,!ack"), Ok((2, 18)));
        assert_eq!(tcp_flags("ns"), Ok((256, 256)));
        assert_eq!(tcp_flags("sync").unwrap_err().hint.unwrap(), "did you mean \"syn\"?");
        assert!(tcp_flags("syn,!syn").is_err() && tcp_flags("").is_err() && tcp_flags("syn,").is_err());
    }
}
