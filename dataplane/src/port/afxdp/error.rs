//! Why a device could not be attached, in sentences for operators.

use std::{error::Error, io};

use aya::{EbpfError, programs::ProgramError};

use ebpf_layout::steer::MAX_QUEUES;

use super::attach::{MAX_MTU, MAX_RING, MIN_RING};
use crate::sys::limits;

/// Why [`attach`](super::attach()) failed. Nothing is left behind then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The name is no device of this network namespace.
    #[error("there is no network device {device}")]
    NoSuchDevice {
        /// As given.
        device: String,
    },
    /// The device is administratively down.
    #[error("{device} is down: set it up (ip link set {device} up)")]
    Down {
        /// Its name.
        device: String,
    },
    /// The process may not do this.
    #[error("no privilege for {what} on {device}: the process lacks {missing}")]
    Privilege {
        /// The device's name.
        device: String,
        /// What was refused.
        what: &'static str,
        /// The capabilities that are missing, by name.
        missing: String,
    },
    /// The frame memory does not fit the limit of locked memory.
    #[error(
        "the frame memory for {device} needs {needed} bytes of locked memory ({queues} x {area}, once a receive queue), and the \
         limit is {limit}, shared with whatever else this user has locked: raise it (LimitMEMLOCK=infinity in the unit, ulimit \
         -l unlimited) or grant CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// The device's name.
        device: String,
        /// Bytes in all.
        needed: u64,
        /// Receive queues.
        queues: u16,
        /// Bytes of the UMEM.
        area: u64,
        /// RLIMIT_MEMLOCK in words.
        limit: String,
    },
    /// Somebody else's XDP program holds the device.
    #[error(
        "{device} already runs the XDP program {name} (id {id}), which was not displaced: detach it or choose another device"
    )]
    ForeignProgram {
        /// The device's name.
        device: String,
        /// The program's name, or that it has none.
        name: String,
        /// The program's id, as `bpftool prog` shows it.
        id: u32,
    },
    /// Frames of the device would not fit a chunk.
    #[error(
        "{device} has an MTU of {mtu}, and frames of more than {MAX_MTU} do not fit: ip link set {device} mtu {MAX_MTU}"
    )]
    Mtu {
        /// The device's name.
        device: String,
        /// Its MTU.
        mtu: u32,
    },
    /// The ring size is not one of those allowed.
    #[error("a ring has a power of two of slots from {MIN_RING} to {MAX_RING}, not {ring}")]
    Ring {
        /// As given.
        ring: u32,
    },
    /// The device has another number of receive queues.
    #[error(
        "{device} has {has} receive queues and {asked} were asked for: a queue that is not served loses its flows, so leave the \
         number out, say {has}, or change the device (ethtool -L)"
    )]
    Queues {
        /// The device's name.
        device: String,
        /// As given.
        asked: u16,
        /// What it has.
        has: u32,
    },
    /// The device has more receive queues than can be served.
    #[error(
        "{device} has {has} receive queues, and at most {MAX_QUEUES} can be served: ethtool -L {device} combined {MAX_QUEUES}"
    )]
    TooManyQueues {
        /// The device's name.
        device: String,
        /// What it has.
        has: u32,
    },
    /// Another socket holds the queue.
    #[error("queue {queue} of {device} is busy: another AF_XDP socket has held it for three seconds")]
    Busy {
        /// The device's name.
        device: String,
        /// The receive queue.
        queue: u16,
    },
    /// The kernel would not load the program.
    #[error("the kernel refused the steering program for {device}: {reason}")]
    Program {
        /// The device's name.
        device: String,
        /// The verifier's last line, or the loader's words.
        reason: String,
        /// What the loader said in full.
        #[source]
        source: Box<EbpfError>,
    },
    /// The kernel refused something else.
    #[error("{what} failed for {device}")]
    Kernel {
        /// The device's name.
        device: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Translates an error of the kernel that has no sentence of its own.
pub(super) fn kernel(device: &str, what: &'static str, source: io::Error) -> AttachError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => privilege(device, what),
        _ => AttachError::Kernel { device: device.to_owned(), what, source },
    }
}

/// Names the capabilities that are missing.
pub(super) fn privilege(device: &str, what: &'static str) -> AttachError {
    let mut missing = limits::missing_capabilities().join(", ");
    if missing.is_empty() {
        "nothing that can be named; a security module or a user namespace may forbid it".clone_into(&mut missing);
    }
    AttachError::Privilege { device: device.to_owned(), what, missing }
}

/// Translates an error of the loader.
pub(super) fn program_refused(device: &str, error: EbpfError) -> AttachError {
    if was_denied(&error) {
        return privilege(device, "loading the steering program");
    }
    let reason = match &error {
        EbpfError::ProgramError(ProgramError::LoadError { verifier_log, io_error }) => {
            last_words(&verifier_log.to_string()).map_or_else(|| io_error.to_string(), str::to_owned)
        }
        other => other.to_string(),
    };
    AttachError::Program { device: device.to_owned(), reason, source: Box::new(error) }
}

fn was_denied(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>()
            && matches!(io.raw_os_error(), Some(libc::EPERM))
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// The verifier's last line that is a complaint and not statistics.
fn last_words(log: &str) -> Option<&str> {
    log.lines().map(str::trim).rfind(|line| {
        let statistics = ["processed ", "verification time ", "stack depth "];
        !line.is_empty() && !statistics.iter().any(|prefix| line.starts_with(prefix))
    })
}

#[cfg(test)]
mod tests {
    use aya::sys::SyscallError;

    use super::*;

    #[test]
    fn of_a_verifiers_log_the_last_complaint_is_told() {
        let log = "0: (b7) r0 = 0\n1: (69) r1 = *(u16 *)(r2 +12)\nR2 !read_ok\nprocessed 2 insns (limit 1000000)\n\n";
        assert_eq!(last_words(log), Some("R2 !read_ok"));
        assert_eq!(last_words("\nprocessed 2 insns"), None);
    }

    #[test]
    fn a_denied_load_is_told_as_missing_privilege_and_anything_else_in_the_loaders_words() {
        let denied = |kind: i32| {
            let io_error = io::Error::from_raw_os_error(kind);
            program_refused("up0", ProgramError::from(SyscallError { call: "bpf_prog_load", io_error }).into())
        };
        assert!(matches!(denied(libc::EPERM), AttachError::Privilege { .. }));
        let told = denied(libc::E2BIG).to_string();
        assert!(told.starts_with("the kernel refused the steering program for up0: "), "{told}");
    }
}
