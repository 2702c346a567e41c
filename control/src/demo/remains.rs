//! What would outlive the demo: namespaces, the daemon's process, files. All of it is made here, and taken away here.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bench::netns::{self, Netns};

use super::{Broken, broken};

/// How the names of namespaces and folders of a demo begin; its process follows.
pub(super) const PREFIX: &str = "sluice-demo";

/// Where folders are: only root writes here, so that a name may be known before.
const PLACE: &str = "/run";

/// Everything of one demo that does not end with its process.
#[derive(Debug)]
pub(super) struct Remains {
    folder: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Nothing is made any more.
    is_over: bool,
    namespaces: Vec<Arc<Netns>>,
    daemon: Option<Child>,
}

impl Remains {
    /// Makes the folder.
    pub(super) fn new() -> io::Result<Self> {
        let folder = Path::new(PLACE).join(format!("{PREFIX}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { folder, held: Mutex::default() })
    }

    /// A file of the demo.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes a namespace.
    pub(super) fn namespace(&self, label: &str) -> Result<Arc<Netns>, Broken> {
        let mut held = self.held()?;
        let netns = Arc::new(Netns::labelled(PREFIX, label)?);
        held.namespaces.push(Arc::clone(&netns));
        Ok(netns)
    }

    /// Starts the daemon.
    pub(super) fn start(&self, command: &mut Command) -> Result<(), Broken> {
        let mut held = self.held()?;
        if held.daemon.is_some() {
            return broken("no daemon yet", "one that runs");
        }
        held.daemon = Some(command.spawn()?);
        Ok(())
    }

    /// Does something with the daemon's process, and forgets it once it has ended.
    pub(super) fn with_daemon<T>(&self, work: impl FnOnce(&mut Child) -> io::Result<T>) -> Result<T, Broken> {
        let mut held = self.held()?;
        let Some(daemon) = &mut held.daemon else { return broken("a daemon that runs", "none") };
        let outcome = work(daemon)?;
        if daemon.try_wait()?.is_some() {
            held.daemon = None;
        }
        Ok(outcome)
    }

    /// The end of the daemon's log, a line each.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.iter().skip(from).map(|line| format!("      | {line}\n")).collect()
    }

    /// Takes everything away; from now on nothing is made. What fails is tried by the next demo again.
    pub(super) fn clear(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.is_over = true;
        if let Some(mut daemon) = held.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for netns in held.namespaces.drain(..) {
            netns.delete();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn held(&self) -> Result<MutexGuard<'_, Held>, Broken> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_over { broken("a demo that goes on", "one that is over") } else { Ok(held) }
    }
}

/// Takes everything away when it is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct Cleared(pub(super) Arc<Remains>);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Removes what demos have left that were killed.
pub(super) fn remove_abandoned() {
    netns::remove_abandoned(PREFIX);
    let Ok(entries) = fs::read_dir(PLACE) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_prefix('-'));
        if pid.is_some_and(netns::is_gone) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
