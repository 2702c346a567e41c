//! The API over a real socket, with a fake data plane behind it.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
};

use serde_json::Value;

use super::{socket::Claim, *};
use crate::{
    agent::{
        Agent, Devices,
        desired::Desired,
        fake::{Fake, port},
        view::Device,
    },
    client::{self, AskError},
};

/// A daemon's API on `path` over `plane`, until the test's process ends.
fn serve_on(path: &Path, plane: &Arc<Fake>) -> Claim {
    serve_within(path, plane, CONNECTIONS, PATIENCE)
}

fn serve_within(path: &Path, plane: &Arc<Fake>, connections: usize, patience: Duration) -> Claim {
    let ports = vec![port(1, "web-1", "veth-1"), port(2, "web-2", "veth-2")];
    let devices: Devices = [("veth-1".to_owned(), Device { index: 4, mtu: 1500 })].into();
    let agent = Agent::start(
        Arc::clone(plane) as Arc<dyn DataPlane>,
        Box::new(move || Ok(devices.clone())),
        Box::new(|_| panic!("no reload here")),
        Desired::of_ports("0123456789abcdef", ports),
    )
    .unwrap();
    let mut claim = Claim::new(path).unwrap();
    let listener = claim.listen().unwrap();
    let api = Api { view: agent.shown(), plane: Arc::clone(plane) as Arc<dyn DataPlane> };
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = Limited::new(UnixListener::from_std(listener).unwrap(), connections, patience);
            axum::serve(listener, router(api)).await.unwrap();
        });
    });
    claim
}

#[test]
fn every_list_is_versioned_and_says_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let _claim = serve_on(&path, &Fake::new());
    for (what, kind) in [
        ("status", "Status"),
        ("ports", "Ports"),
        ("flows", "Flows"),
        ("tables", "Tables"),
        ("fdb", "Fdb"),
        ("workers", "Workers"),
        ("drops", "Drops"),
    ] {
        let list: Value = client::get(&path, &format!("/v1/{what}")).unwrap();
        assert_eq!(list["apiVersion"], "sluice/v1", "{what}");
        assert_eq!(list["kind"], kind);
        assert!(list["items"].is_array(), "{what}");
    }
    let ports: Value = client::get(&path, "/v1/ports").unwrap();
    assert_eq!(ports["items"][0]["state"], "attached");
    assert_eq!(ports["items"][1]["state"], "missing");
    let status: Value = client::get(&path, "/v1/status").unwrap();
    assert_eq!(status["items"][0]["generation"], 1);
    assert_eq!(status["items"][0]["ports_attached"], 1);
}

#[test]
fn no_request_makes_the_worker_list_more_flows_than_the_most() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let plane = Fake::new();
    let _claim = serve_on(&path, &plane);
    for (query, asked) in [("", FLOWS), ("?limit=7", 7), ("?limit=18446744073709551615", MOST_FLOWS)] {
        client::get::<Value>(&path, &format!("/v1/flows{query}")).unwrap();
        assert_eq!(plane.told().flows_asked, asked, "{query}");
    }
}

#[test]
fn a_path_that_does_not_exist_and_a_worker_that_is_gone_are_told_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let plane = Fake::new();
    let _claim = serve_on(&path, &plane);
    let told = client::get::<Value>(&path, "/v1/prots").unwrap_err();
    assert_eq!(told.to_string(), "there is nothing here; see GET /v1/status");
    plane.told().is_stopped = true;
    let told = client::get::<Value>(&path, "/v1/ports").unwrap_err();
    assert_eq!(told.to_string(), "the worker has stopped");
    client::get::<Value>(&path, "/v1/status").unwrap();
}

#[test]
fn garbage_and_idle_clients_do_not_keep_others_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let _claim = serve_on(&path, &Fake::new());
    let idle: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(&path).unwrap()).collect();
    UnixStream::connect(&path).unwrap().write_all(b"\x00\xff not http\r\n\r\n").unwrap();
    let askers: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            thread::spawn(move || client::get::<Value>(&path, "/v1/workers").unwrap())
        })
        .collect();
    for asker in askers {
        asker.join().unwrap();
    }
    drop(idle);
}

#[test]
fn clients_that_hang_are_closed_in_time_and_the_others_get_their_turn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let _claim = serve_within(&path, &Fake::new(), 4, Duration::from_millis(100));
    let mut idle: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    client::get::<Value>(&path, "/v1/status").unwrap();
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "it was closed");
    }
}

#[test]
fn without_a_daemon_the_sentence_says_where_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let error = client::get::<Value>(&path, "/v1/ports").unwrap_err();
    assert!(matches!(error, AskError::Unreachable { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "no daemon answers on {}: No such file or directory (os error 2); start one with `sluice run`, or name its \
             socket with --socket",
            path.display()
        )
    );
}

mod the_socket {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::{super::socket::SocketError, *};

    #[test]
    fn is_for_owner_and_group_and_gone_after_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/s.sock");
        let mut claim = Claim::new(&path).unwrap();
        let _listener = claim.listen().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        drop(claim);
        assert!(!path.exists());
    }

    #[test]
    fn of_a_dead_daemon_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let mut claim = Claim::new(&path).unwrap();
        let _listener = claim.listen().unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn of_a_living_daemon_is_refused_and_stays_usable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let mut claim = Claim::new(&path).unwrap();
        let _listener = claim.listen().unwrap();
        let refused = Claim::new(&path).unwrap_err();
        assert!(matches!(refused, SocketError::Taken(_)));
        assert_eq!(
            refused.to_string(),
            format!("another sluice daemon runs on {}; stop it, or choose another path with --socket", path.display())
        );
        UnixStream::connect(&path).unwrap();
        drop(claim);
        Claim::new(&path).unwrap();
    }

    #[test]
    fn is_not_made_in_place_of_a_file_of_somebody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Claim::new(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
