//! The demo as a user runs it, and as a user interrupts it.
#![cfg(test)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

fn demo() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Asserts that nothing of the process is left: namespaces, files, children.
fn nothing_is_left_of(pid: u32) {
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let listed = String::from_utf8_lossy(&namespaces.stdout).into_owned();
    assert!(!listed.contains(&format!("-{pid}-")), "{listed}");
    let folder = Path::new("/run").join(format!("sluice-demo-{pid}"));
    assert!(!folder.exists(), "{}", folder.display());
    let ours = |cmdline: &[u8]| String::from_utf8_lossy(cmdline).contains(&format!("sluice-demo-{pid}/"));
    let end = Instant::now() + Duration::from_secs(5);
    while processes().any(|process| std::fs::read(process.join("cmdline")).is_ok_and(|cmdline| ours(&cmdline))) {
        assert!(Instant::now() < end, "the daemon of the demo runs on");
        thread::sleep(Duration::from_millis(20));
    }
}

fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    std::fs::read_dir(Path::new("/proc")).unwrap().flatten().map(|entry| entry.path())
}

/// Only one at a time: each needs the CPUs, and looks at what others leave.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a demo and reads its lines until it has printed `count`.
fn started(count: usize) -> Child {
    let mut child = demo();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let read = lines.map_while(Result::ok).take(count).count();
    assert_eq!(read, count, "it is in the middle of its checks");
    child
}

#[test]
fn the_demo_keeps_every_promise_and_leaves_nothing_behind() {
    let _turn = turn();
    let child = demo();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    let kept = printed.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(kept >= 30, "{printed}");
    assert_eq!(printed.lines().last(), Some(&*format!("demo: ok ({kept} checks)")), "{printed}");
    nothing_is_left_of(pid);
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let _turn = turn();
    // While the world is made, after the first line, and in the middle of transfers.
    for (signal, code, lines) in [
        (Signal::INT, 130, 0),
        (Signal::TERM, 143, 1),
        (Signal::HUP, 143, 5),
        (Signal::INT, 130, 12),
        (Signal::TERM, 143, 17),
    ] {
        let mut child = started(lines);
        thread::sleep(Duration::from_millis(150));
        let pid = child.id();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal:?} after {lines} lines");
        nothing_is_left_of(pid);
    }
}

#[test]
fn what_a_killed_demo_left_is_removed_by_the_next() {
    let _turn = turn();
    let mut first = started(3);
    let pid = first.id();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(Path::new("/run").join(format!("sluice-demo-{pid}")).exists());
    let mut second = started(2);
    nothing_is_left_of(pid);
    kill_process(Pid::from_child(&second), Signal::TERM).unwrap();
    let pid = second.id();
    second.wait().unwrap();
    nothing_is_left_of(pid);
}

#[test]
fn without_ip_it_says_what_to_install() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice")).arg("demo").env("PATH", "/nonexistent").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("iproute2"));
    assert!(output.stdout.is_empty());
}
