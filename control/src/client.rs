//! Asks the daemon.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::{net::UnixStream, time::timeout};

use crate::{api::Problem, exit::Exit, exit::Failure};

/// How long the daemon has for an answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum AskError {
    /// Nobody listens.
    #[error("no daemon answers on {socket}: {why}; start one with `sluice run`, or name its socket with --socket")]
    Unreachable {
        /// Where.
        socket: String,
        /// What the system says.
        why: String,
    },
    /// Somebody may listen, and may not be asked.
    #[error("can not ask the daemon on {socket}: permission denied: {whose}")]
    Denied {
        /// Where.
        socket: String,
        /// Whose it is, as a clause.
        whose: String,
    },
    /// It broke off, or said what is not an answer.
    #[error("the daemon on {socket} gave no usable answer: {why}")]
    Broken {
        /// Where.
        socket: String,
        /// What happened.
        why: String,
    },
    /// It said why not.
    #[error("{0}")]
    Told(String),
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        let exit = match error {
            AskError::Unreachable { .. } | AskError::Denied { .. } | AskError::Broken { .. } => Exit::Unreachable,
            AskError::Told(_) => Exit::Refused,
        };
        Self::new(exit, error)
    }
}

/// `GET path` from the daemon on `socket`.
///
/// # Errors
/// [`AskError`] says whether nobody was there, or what was said.
pub(crate) fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, AskError> {
    let broken = |why: String| AskError::Broken { socket: socket.display().to_string(), why };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken(error.to_string()))?;
    let answer = runtime.block_on(async { timeout(PATIENCE, exchange(socket, path)).await });
    let (status, body) = answer.map_err(|_elapsed| broken(format!("none within {} s", PATIENCE.as_secs())))??;
    if status != StatusCode::OK {
        let told = serde_json::from_slice::<Problem>(&body).map(|problem| problem.error);
        return Err(AskError::Told(told.unwrap_or_else(|_| format!("the daemon answered {status}"))));
    }
    serde_json::from_slice(&body).map_err(|error| broken(error.to_string()))
}

async fn exchange(socket: &Path, path: &str) -> Result<(StatusCode, Bytes), AskError> {
    let name = socket.display().to_string();
    let stream = UnixStream::connect(socket).await.map_err(|error| not_connected(socket, &error))?;
    let broken = |error: &dyn std::fmt::Display| AskError::Broken { socket: name.clone(), why: error.to_string() };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| broken(&e))?;
    tokio::spawn(connection);
    let request = Request::get(path).header(HOST, "sluice").body(Empty::<Bytes>::new()).map_err(|e| broken(&e))?;
    let response = sender.send_request(request).await.map_err(|e| broken(&e))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|e| broken(&e))?;
    Ok((status, body.to_bytes()))
}

fn not_connected(socket: &Path, error: &io::Error) -> AskError {
    let name = socket.display().to_string();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return AskError::Unreachable { socket: name, why: error.to_string() };
    }
    let whose = match fs::metadata(socket) {
        Ok(there) => format!(
            "the socket belongs to user {} and group {}; ask as one of them",
            named("/etc/passwd", there.uid()),
            named("/etc/group", there.gid())
        ),
        Err(_unseen) => "a directory on the way to the socket belongs to somebody else".to_owned(),
    };
    AskError::Denied { socket: name, whose }
}

/// The name of a user or group in a file of colon-separated lines, or its number.
fn named(file: &str, id: u32) -> String {
    let lines = fs::read_to_string(file).unwrap_or_default();
    let number = id.to_string();
    let mut names = lines.lines().filter(|line| line.split(':').nth(2) == Some(&number));
    names.next().and_then(|line| line.split(':').next()).map_or(number.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_ask_is_told_whose_the_socket_is_and_not_to_start_a_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let denied = || not_connected(&path, &io::ErrorKind::PermissionDenied.into()).to_string();
        let start = format!("can not ask the daemon on {}: permission denied: ", path.display());
        assert_eq!(denied(), format!("{start}a directory on the way to the socket belongs to somebody else"));
        fs::write(&path, "").unwrap();
        let there = fs::metadata(&path).unwrap();
        let (user, group) = (named("/etc/passwd", there.uid()), named("/etc/group", there.gid()));
        assert_eq!(denied(), format!("{start}the socket belongs to user {user} and group {group}; ask as one of them"));
        assert_eq!((named("/etc/passwd", 0).as_str(), named("/nowhere", 7).as_str()), ("root", "7"));
    }
}
