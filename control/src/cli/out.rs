//! The one writer to standard output.

use std::io::{self, Write};

use crate::exit::{Exit, Failure};

/// Writes `bytes` to standard output. A reader that went away (`| head`) is not an error.
///
/// # Errors
/// Ends in [`Exit::Refused`] when the output can not be written for another reason, such as a full disk.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Refused, anyhow::Error::new(error).context("can not write to standard output")))
        }
        _ => Ok(()),
    }
}

/// Writes `text` and a line end where it has none.
///
/// # Errors
/// As [`write()`].
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    if text.is_empty() || text.ends_with('\n') { write(text.as_bytes()) } else { write(format!("{text}\n").as_bytes()) }
}
