//! IP addresses and prefixes, read strictly: what two programs could read differently is refused (RFC 6943, 3.1.1).

use core::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::{tree::quoted, value::Fault};

/// One address.
pub(crate) fn address(text: &str) -> Result<IpAddr, Fault> {
    if let Some((before, _)) = text.split_once('/') {
        let fault = Fault::new(format!("expected one address, found {} with a prefix length", quoted(text)));
        return Err(if before.parse::<IpAddr>().is_ok() { fault.hint(format!("write {before}")) } else { fault });
    }
    bare(text)
}

fn bare(text: &str) -> Result<IpAddr, Fault> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => match v6.to_ipv4_mapped() {
            Some(v4) => {
                let fault = Fault::new(format!("{} is an IPv4 address written as IPv6", quoted(text)));
                Err(fault.hint(format!("write {v4}")))
            }
            None => Ok(IpAddr::V6(v6)),
        },
        Ok(v4) => Ok(v4),
        Err(_) => Err(explain(text)),
    }
}

/// Why `text` is not an address.
fn explain(text: &str) -> Fault {
    let shown = quoted(text);
    if text.contains(':') {
        let why = if text.contains('%') { ": a zone (after %) has no meaning here" } else { "" };
        return Fault::new(format!("{shown} is not an IPv6 address{why}"));
    }
    let parts: Vec<&str> = text.split('.').collect();
    if !parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())) {
        return Fault::new(format!("{shown} is not an IP address"));
    }
    if parts.len() != 4 {
        let numbers = if parts.len() == 1 { "number" } else { "numbers" };
        return Fault::new(format!("{shown} is not an IPv4 address: it has {} {numbers}, not 4", parts.len()));
    }
    if let Some(large) = parts.iter().find(|part| part.parse::<u64>().map_or(true, |number| number > 255)) {
        return Fault::new(format!("{shown} is not an IPv4 address: {large} is more than 255"));
    }
    let decimal: Vec<String> =
        parts.iter().filter_map(|part| part.parse::<u64>().ok()).map(|n| n.to_string()).collect();
    Fault::new(format!("{shown} has a leading zero, which some programs read as octal"))
        .hint(format!("write {} if that is meant", decimal.join(".")))
}

/// The address of a host.
pub(crate) fn host(text: &str) -> Result<IpAddr, Fault> {
    of_host(address(text)?)
}

/// An address and, where one is written, a prefix length.
fn with_length(text: &str) -> Result<(IpAddr, Option<u8>), Fault> {
    let Some((before, length)) = text.split_once('/') else { return Ok((bare(text)?, None)) };
    let address = bare(before)?;
    let (max, version) = if address.is_ipv4() { (32, "IPv4") } else { (128, "IPv6") };
    let shown = quoted(text);
    if length.is_empty() {
        return Err(Fault::new(format!("{shown} has no prefix length after the slash"))
            .hint(format!("write {before}/{max} for the one address")));
    }
    if let Ok(mask) = length.parse::<Ipv4Addr>() {
        let fault = Fault::new(format!("{shown} has a mask, where a prefix length is expected"));
        let ones = mask.to_bits().leading_ones();
        let contiguous = mask.to_bits().checked_shl(ones).unwrap_or(0) == 0;
        return Err(if contiguous && address.is_ipv4() { fault.hint(format!("write {before}/{ones}")) } else { fault });
    }
    let number = length.parse::<u8>().ok().filter(|_| length.bytes().all(|b| b.is_ascii_digit()));
    match number {
        Some(number) if number <= max && number.to_string() == length => Ok((address, Some(number))),
        Some(number) if number <= max => {
            let fault = Fault::new(format!("{shown} has a leading zero in its prefix length"));
            Err(fault.hint(format!("write {before}/{number}")))
        }
        _ => {
            Err(Fault::new(format!("the prefix length of an {version} address is 0 to {max}, not {}", quoted(length))))
        }
    }
}

fn net(address: IpAddr, length: Option<u8>) -> Result<IpNet, Fault> {
    let length = length.unwrap_or(if address.is_ipv4() { 32 } else { 128 });
    IpNet::new(address, length).map_err(|error| Fault::new(format!("{address}/{length}: {error}")))
}

/// An address, or a prefix without bits beyond its length.
pub(crate) fn prefix(text: &str) -> Result<IpNet, Fault> {
    let (address, length) = with_length(text)?;
    let net = net(address, length)?;
    if net.trunc() == net {
        return Ok(net);
    }
    let fault = Fault::new(format!("{} has bits set beyond its prefix length", quoted(text)));
    Err(fault.hint(format!("write {} for the whole network, or {address} for the one address", net.trunc())))
}

/// An address or prefix of IPv4 or of IPv6 only.
pub(crate) fn family(text: &str, ipv4: bool) -> Result<IpNet, Fault> {
    let net = prefix(text)?;
    if net.addr().is_ipv4() == ipv4 {
        return Ok(net);
    }
    let wanted = if ipv4 { "IPv4" } else { "IPv6" };
    Err(Fault::new(format!("expected an {wanted} address or prefix, found {}", quoted(text))))
}

/// A prefix with its length written out, without bits beyond it.
pub(crate) fn cidr(text: &str) -> Result<IpNet, Fault> {
    let net = prefix(text)?;
    if text.contains('/') {
        return Ok(net);
    }
    let fault = Fault::new(format!("{} has no prefix length", quoted(text)));
    Err(fault.hint(format!("write it as {text}/24, say, or {net} for the one address")))
}

/// An interface's address with the prefix length of its network.
pub(crate) fn interface(text: &str) -> Result<IpNet, Fault> {
    let (address, length) = with_length(text)?;
    if length.is_none() {
        let fault = Fault::new(format!("{} has no prefix length, which an uplink's address needs", quoted(text)));
        return Err(fault.hint(format!("write it as {text}/24, say")));
    }
    net(address, length)
}

/// An address on its own, or an interface's address with a prefix length.
pub(crate) fn address_or_interface(text: &str) -> Result<(), Fault> {
    let address = if text.contains('/') { interface(text)?.addr() } else { address(text)? };
    of_host(address).map(drop)
}

/// Refuses addresses that no host has.
pub(crate) fn of_host(address: IpAddr) -> Result<IpAddr, Fault> {
    let what = match address {
        _ if address.is_unspecified() => "the address of nobody",
        _ if address.is_multicast() => "a multicast address",
        _ if address.is_loopback() => "a loopback address",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        _ => return Ok(address),
    };
    Err(Fault::new(format!("{address} is {what}; no host on a network has it")))
}

/// True when `text` is meant as an address or prefix and not as a name.
pub(crate) fn looks_like_one(text: &str) -> bool {
    text.contains([':', '/']) || text.starts_with(|c: char| c.is_ascii_digit())
}

/// Highest and lowest host of a subnet carry no host in IPv4 (RFC 922, RFC 3021 for /31 and /32).
pub(crate) fn is_network_or_broadcast(net: &IpNet, address: IpAddr) -> bool {
    match (net, address) {
        (IpNet::V4(net), IpAddr::V4(address)) => {
            net.prefix_len() < 31 && (address == net.network() || address == net.broadcast())
        }
        // The Subnet-Router anycast address (RFC 4291, 2.6.1) belongs to routers: a gateway may have it, a workload not.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fault: Fault) -> String {
        match fault.hint {
            Some(hint) => format!("{} | {hint}", fault.message),
            None => fault.message,
        }
    }

    #[test]
    fn addresses_that_two_programs_read_differently_are_refused() {
        for (text, said) in [
            (
                "10.0.0.010",
                "\"10.0.0.010\" has a leading zero, which some programs read as octal | write 10.0.0.10 if that is meant",
            ),
            (
                "010.1.1.1",
                "\"010.1.1.1\" has a leading zero, which some programs read as octal | write 10.1.1.1 if that is meant",
            ),
            ("10.1", "\"10.1\" is not an IPv4 address: it has 2 numbers, not 4"),
            ("167772161", "\"167772161\" is not an IPv4 address: it has 1 number, not 4"),
            ("0x0a000001", "\"0x0a000001\" is not an IP address"),
            ("10.0.0.256", "\"10.0.0.256\" is not an IPv4 address: 256 is more than 255"),
            ("10.0.0.1/24", "expected one address, found \"10.0.0.1/24\" with a prefix length | write 10.0.0.1"),
            ("::ffff:10.0.0.1", "\"::ffff:10.0.0.1\" is an IPv4 address written as IPv6 | write 10.0.0.1"),
            ("fe80::1%eth0", "\"fe80::1%eth0\" is not an IPv6 address: a zone (after %) has no meaning here"),
            ("", "\"\" is not an IP address"),
        ] {
            assert_eq!(refused(address(text).unwrap_err()), said);
        }
    }

    #[test]
    fn prefixes_are_refused_with_the_corrected_form() {
        for (text, said) in [
            ("10.0.0.1/08", "\"10.0.0.1/08\" has a leading zero in its prefix length | write 10.0.0.1/8"),
            ("10.0.0.1/33", "the prefix length of an IPv4 address is 0 to 32, not \"33\""),
            ("10.0.0.1/", "\"10.0.0.1/\" has no prefix length after the slash | write 10.0.0.1/32 for the one address"),
            (
                "10.0.0.0/255.255.255.0",
                "\"10.0.0.0/255.255.255.0\" has a mask, where a prefix length is expected | write 10.0.0.0/24",
            ),
            ("10.0.0.0/255.0.255.0", "\"10.0.0.0/255.0.255.0\" has a mask, where a prefix length is expected"),
            (
                "10.0.0.1/24",
                "\"10.0.0.1/24\" has bits set beyond its prefix length | write 10.0.0.0/24 for the whole network, or 10.0.0.1 for the one address",
            ),
            ("2001:db8::/129", "the prefix length of an IPv6 address is 0 to 128, not \"129\""),
            ("10.0.0.0/+8", "the prefix length of an IPv4 address is 0 to 32, not \"+8\""),
        ] {
            assert_eq!(refused(prefix(text).unwrap_err()), said);
        }
        assert_eq!(prefix("10.0.0.7").unwrap().to_string(), "10.0.0.7/32");
        assert_eq!(prefix("0.0.0.0/0").unwrap().to_string(), "0.0.0.0/0");
    }
}
