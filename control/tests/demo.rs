//! The demo as a user runs it, and as a user interrupts it.
#![cfg(test)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
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

#[test]
fn the_demo_keeps_every_promise_and_leaves_nothing_behind() {
    let child = demo();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    let kept = printed.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(kept >= 20, "{printed}");
    assert_eq!(printed.lines().last(), Some(&*format!("demo: ok ({kept} checks)")), "{printed}");
    nothing_is_left_of(pid);
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = demo();
        let pid = child.id();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let third = lines.by_ref().map_while(Result::ok).nth(3);
        assert!(third.is_some_and(|line| line.starts_with("ok ")), "it is in the middle of its checks");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success(), "{status}");
        nothing_is_left_of(pid);
    }
}
