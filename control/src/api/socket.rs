//! The socket: one daemon each, and what a dead one left is replaced.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt, OpenOptionsExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

/// Where the daemon listens unless told otherwise.
pub(crate) const DEFAULT: &str = "/run/sluice/sluice.sock";

/// Who may connect: owner and group.
const MODE: u32 = 0o660;
/// And of its lock: nobody else's business.
const LOCK_MODE: u32 = 0o600;

/// Why there is no socket.
#[derive(Debug, Error)]
pub(crate) enum SocketError {
    /// Another daemon has it.
    #[error("another sluice daemon runs on {}; stop it, or choose another path with --socket", .0.display())]
    Taken(PathBuf),
    /// Something else is at the path.
    #[error("{} exists and is not a socket; it is left alone", .0.display())]
    NotASocket(PathBuf),
    /// The system says no.
    #[error("can not {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The right to a path: held by one process at a time, and given up when it ends however it ends.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    _lock: File,
    is_bound: bool,
}

impl Claim {
    /// Takes the right to `path`, without touching what is there.
    ///
    /// # Errors
    /// [`SocketError::Taken`] when a daemon that lives holds it.
    pub(crate) fn new(path: &Path) -> Result<Self, SocketError> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(failed("create", parent))?;
        }
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
            _ => {}
        }
        let lock_path = beside(path, "lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(LOCK_MODE)
            .open(&lock_path)
            .map_err(failed("open", &lock_path))?;
        // Who can open it can hold it, and keep the daemon from starting: also one that was made wider.
        lock.set_permissions(Permissions::from_mode(LOCK_MODE)).map_err(failed("set the mode of", &lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock, is_bound: false }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(SocketError::Taken(path.to_owned())),
            Err(errno) => Err(failed("lock", &lock_path)(errno.into())),
        }
    }

    /// Listens, in place of any socket a dead daemon left.
    ///
    /// # Errors
    /// [`SocketError::Io`] with what the system says.
    pub(crate) fn listen(&mut self) -> Result<UnixListener, SocketError> {
        // Made beside and renamed: nobody ever finds it with wider permissions, or finds none.
        let made = beside(&self.path, "new");
        match fs::remove_file(&made) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &made)(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&made).map_err(failed("listen on", &made))?;
        fs::set_permissions(&made, Permissions::from_mode(MODE)).map_err(failed("set the mode of", &made))?;
        fs::rename(&made, &self.path).map_err(failed("rename a socket to", &self.path))?;
        self.is_bound = true;
        listener.set_nonblocking(true).map_err(failed("listen on", &self.path))?;
        Ok(listener)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_bound {
            // Gone already is as good as removed. The lock's file stays: to remove it would let two hold it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.to_owned();
    move |source| SocketError::Io { doing, path, source }
}
