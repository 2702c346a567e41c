//! Names of objects, and of the kernel's network devices.

use crate::{tree::quoted, value::Fault};

const LONGEST_NAME: usize = 63;
/// `IFNAMSIZ` less its final zero.
const LONGEST_DEVICE: usize = 15;

/// An object's name: letters, digits, `-`, `_` and `.`, a letter or digit first. Its text is kept whatever it reads like.
pub(crate) fn name(text: &str) -> Result<(), Fault> {
    if text.len() > LONGEST_NAME {
        return Err(Fault::new(format!("the name {} is longer than {LONGEST_NAME} characters", quoted(text))));
    }
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(bad) = text.chars().find(|c| !good(*c)) {
        let fault = Fault::new(format!("the name {} contains {}", quoted(text), quoted(&bad.to_string())));
        return Err(fault.hint("a name is made of letters, digits, \"-\", \"_\" and \".\""));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(Fault::new(format!("the name {} does not begin with a letter or digit", quoted(text))));
    }
    Ok(())
}

/// The name of a set or group, which may stand where an address may, and so is none.
pub(crate) fn peer_name(text: &str) -> Result<(), Fault> {
    name(text)?;
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let fault = Fault::new(format!("the name {} begins with a digit", quoted(text)));
        return Err(fault.hint("names of sets and groups begin with a letter, so that none is taken for an address"));
    }
    Ok(())
}

/// A network device's name, by the kernel's rules (`dev_valid_name`).
pub(crate) fn device(text: &str) -> Result<(), Fault> {
    let shown = quoted(text);
    if text.is_empty() || matches!(text, "." | "..") {
        return Err(Fault::new(format!("{shown} is not a name for a network device")));
    }
    if text.len() > LONGEST_DEVICE {
        let bytes = text.len();
        return Err(Fault::new(format!("the device name {shown} has {bytes} bytes; Linux allows {LONGEST_DEVICE}")));
    }
    let bad = text.chars().find(|c| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control());
    match bad {
        Some(bad) => {
            let bad = quoted(&bad.to_string());
            Err(Fault::new(format!("the device name {shown} contains {bad}, which Linux does not allow")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_yaml_reads_as_something_else_are_names() {
        for text in ["on", "no", "null", "1e3", "0x10", "true", "web-1", "eth0.100"] {
            assert_eq!(name(text), Ok(()), "{text}");
        }
        for text in ["", "-a", "a/b", "a b", "\u{1f980}", &"a".repeat(64)] {
            assert!(name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn device_names_follow_the_kernel() {
        for text in ["eth0", "a", "fifteen-bytes-x", "veth.1", "\u{e9}th0"] {
            assert_eq!(device(text), Ok(()), "{text}");
        }
        for text in
            ["", ".", "..", "sixteen-bytes-xx", "a/b", "a b", "a:0", "a\t", "\u{1f980}\u{1f980}\u{1f980}\u{1f980}"]
        {
            assert!(device(text).is_err(), "{text}");
        }
    }
}
