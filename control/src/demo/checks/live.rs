//! Rules, files, devices and the daemon itself change under traffic.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use bench::transfer::{Bytes, connect, inside};
use rustix::process::Signal;

use super::{
    super::{
        Broken, CONFIG, Check, STOP, broken,
        daemon::Cause,
        exactly,
        hosts::{Family, Host, PATIENCE, eventually},
        lab::Lab,
    },
    books,
};
use crate::report::shape::Drop as Dropped;

pub(super) const ALL: &[Check] = &[
    Check { promise: "SIGHUP: a rule changed live stops a known flow; others lose nothing", run: changed_live },
    Check { promise: "SIGHUP: a broken file is refused with its place; the rules stay", run: broken_file },
    Check { promise: "a device deleted and made again forwards again; counters go on", run: replugged },
    Check { promise: "after all that, every frame is still accounted for", run: books::balance },
    Check { promise: "kill -9: a new daemon needs no help and forwards again", run: killed },
    Check { promise: "SIGTERM: no program, no promiscuous mode, no socket stays", run: stopped },
];

/// What stops the flow to port 7000.
const STOPPED: Cause = Cause { port: "client", reason: "acl_from", rule: Some("stop-7000") };

/// How soon a changed rule must be in force.
const SOON: Duration = Duration::from_secs(1);

fn changed_live(lab: &mut Lab) -> Result<String, Broken> {
    let (client, web, db) = (lab.host("client")?, lab.host("web")?, lab.host("db")?);
    let (over, ticks) = (AtomicBool::new(false), Ticks::new());
    let dropped = lab.daemon.drops()?;
    let again = client.retransmitted()?;
    let (receiver, sender) = (db.udp(db.at(Family::V4, 7000))?, client.udp(client.at(Family::V4, 0))?);
    // Also how long the last of them is waited for.
    receiver.set_read_timeout(Some(2 * GAP))?;
    let to = receiver.local_addr()?;
    let (times, stream) = thread::scope(|scope| {
        scope.spawn(|| ticks.send(&over, || sender.send_to(b"tick", to)));
        scope.spawn(|| ticks.receive(&over, || receiver.recv(&mut [0; 16])));
        let stream = scope.spawn(|| paced(client, web, web.at(Family::V4, 8080), &over));
        let times = stop_and_go(lab, &ticks);
        over.store(true, Ordering::Relaxed);
        (times, stream.join().unwrap_or_else(|_panic| Err(io::Error::other("a panic"))))
    });
    let ((stopped, back), stream) = (times?, stream?);
    let (sent, received) = (ticks.sent.load(Ordering::Relaxed), ticks.received.load(Ordering::Relaxed));
    // Every tick that did not arrive was dropped by the rule, and nothing else was dropped at all.
    eventually(Duration::from_millis(500), || {
        lab.daemon.dropped_by(&STOPPED).is_ok_and(|count| count >= sent - received)
    });
    let denied = lab.daemon.dropped_by(&STOPPED)?;
    exactly("datagrams denied of those that did not arrive", sent - received, denied)?;
    nothing_else_dropped(&dropped, &lab.daemon.drops()?)?;
    let again = client.retransmitted()? - again;
    Ok(format!(
        "stops in {:.1} ms, goes in {:.1} ms; TCP {:.1} MB whole, {again} sent again",
        stopped.as_secs_f64() * 1e3,
        back.as_secs_f64() * 1e3,
        f64::from(u32::try_from(stream)?) / 1e6
    ))
}

/// Fails with the drops that are new, those by the rule apart.
fn nothing_else_dropped(before: &[Dropped], after: &[Dropped]) -> Result<(), Broken> {
    let key = |drop: &Dropped| (drop.port.clone(), drop.reason.clone(), drop.rule.clone());
    let told: Vec<String> = after
        .iter()
        .filter(|drop| drop.rule.as_deref() != STOPPED.rule)
        .filter_map(|drop| {
            let was = before.iter().find(|was| key(was) == key(drop)).map_or(0, |was| was.packets);
            let rule = drop.rule.as_deref().unwrap_or("no rule");
            (drop.packets > was)
                .then(|| format!("{} from {} as {} by {rule}", drop.packets - was, drop.port, drop.reason))
        })
        .collect();
    if told.is_empty() { Ok(()) } else { broken("no other packet dropped", told.join(", ")) }
}

/// A flow of datagrams, one a millisecond.
struct Ticks {
    start: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    /// When the last arrived, in microseconds from the start.
    last: AtomicU64,
    /// When the last arrived that had a gap before it.
    resumed: AtomicU64,
}

/// A time without a datagram that means that none comes any more.
const GAP: Duration = Duration::from_millis(150);

impl Ticks {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self { start: Instant::now(), sent: zero(), received: zero(), last: zero(), resumed: zero() }
    }

    fn send(&self, over: &AtomicBool, mut send: impl FnMut() -> io::Result<usize>) {
        while !over.load(Ordering::Relaxed) {
            if send().is_ok() {
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn receive(&self, over: &AtomicBool, mut receive: impl FnMut() -> io::Result<usize>) {
        loop {
            if receive().is_ok() {
                let now = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
                let last = self.last.swap(now, Ordering::Relaxed);
                if Duration::from_micros(now - last) > GAP {
                    self.resumed.store(now, Ordering::Relaxed);
                }
                self.received.fetch_add(1, Ordering::Relaxed);
            } else if over.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn at(&self, time: &AtomicU64) -> Instant {
        self.start + Duration::from_micros(time.load(Ordering::Relaxed))
    }

    /// How long after `signalled` the last one arrived, once none has for a while.
    fn stopped(&self, signalled: Instant) -> Option<Duration> {
        let silent = eventually(PATIENCE, || self.at(&self.last).max(signalled).elapsed() > GAP);
        silent.then(|| self.at(&self.last).saturating_duration_since(signalled))
    }

    /// How long after `signalled` the first one arrived.
    fn resumed(&self, signalled: Instant) -> Option<Duration> {
        let again = eventually(PATIENCE, || self.at(&self.resumed) > signalled);
        again.then(|| self.at(&self.resumed).saturating_duration_since(signalled))
    }
}

/// Puts the rule in force and takes it out again: how long after the signals the flow stopped, and went on.
fn stop_and_go(lab: &Lab, ticks: &Ticks) -> Result<(Duration, Duration), Broken> {
    if !eventually(PATIENCE, || ticks.received.load(Ordering::Relaxed) > 100) {
        return broken("a flow to db:7000", "none");
    }
    let signalled = lab.daemon.turn_to(&format!("{CONFIG}{STOP}"))?;
    let Some(stopped) = ticks.stopped(signalled).filter(|time| *time < SOON) else {
        return broken(format!("a flow that stops within {} ms", SOON.as_millis()), "one that goes on");
    };
    let signalled = lab.daemon.turn_to(CONFIG)?;
    let Some(back) = ticks.resumed(signalled).filter(|time| *time < SOON) else {
        return broken(format!("a flow that goes on within {} ms", SOON.as_millis()), "none");
    };
    Ok((stopped, back))
}

/// Bytes of the paced stream in each millisecond: 65 Mbit/s.
const PACE: usize = 8 << 10;

/// A stream at a modest pace until it is over, compared byte for byte. Returns its length.
fn paced(from: &Host, to: &Host, at: SocketAddr, over: &AtomicBool) -> io::Result<u64> {
    let listener = inside(&to.netns, || TcpListener::bind(at))?;
    let mut stream = inside(&from.netns, || connect(at))?;
    let (taken, _) = listener.accept()?;
    taken.set_read_timeout(Some(PATIENCE))?;
    thread::scope(|scope| {
        let receiver = scope.spawn(|| compare(taken));
        let mut bytes = Bytes::new(3);
        let mut sent = 0;
        while !over.load(Ordering::Relaxed) {
            stream.write_all(&bytes.take(PACE))?;
            sent += PACE as u64;
            thread::sleep(Duration::from_millis(1));
        }
        stream.shutdown(Shutdown::Write)?;
        let received = receiver.join().unwrap_or_else(|_panic| Err(io::Error::other("the receiver panicked")))?;
        if received == sent { Ok(sent) } else { Err(io::Error::other(format!("{received} bytes of {sent} arrived"))) }
    })
}

/// Reads to the end and compares.
fn compare(mut stream: TcpStream) -> io::Result<u64> {
    let mut must = Bytes::new(3);
    let mut received = 0;
    let mut part = vec![0; PACE];
    loop {
        match stream.read_exact(&mut part) {
            Ok(()) if part == must.take(PACE) => received += PACE as u64,
            Ok(()) => return Err(io::Error::other(format!("a byte after {received} differs"))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(received),
            Err(error) => return Err(error),
        }
    }
}

fn broken_file(lab: &mut Lab) -> Result<String, Broken> {
    let (client, db) = (lab.host("client")?, lab.host("db")?);
    let before = lab.daemon.status()?;
    let (reload, _) = lab.daemon.reload(&CONFIG.replace("tcp.dst: 23", "tcp.dts: 23"))?;
    let error = match reload.error {
        Some(error) if !reload.ok => error,
        _ => return broken("a file that is refused", "one that was accepted"),
    };
    let line = CONFIG.lines().position(|line| line.contains("tcp.dst: 23")).unwrap_or_default() + 1;
    let place = format!("demo.yaml:{line}:");
    let first = error.lines().next().unwrap_or_default();
    let shown = first.rsplit_once('/').map_or(first, |(_, name)| name);
    if !shown.starts_with(&place) || !shown.contains("tcp.dts") {
        return broken(format!("an error at {place} about tcp.dts"), error);
    }
    let after = lab.daemon.status()?;
    exactly("as the generation in force", before.generation, after.generation)?;
    let cause = Cause { port: "client", reason: "acl_from", rule: Some("no-syslog") };
    lab.daemon.must_drop(&cause, || client.send_datagrams(client.at(Family::V4, 0), db.at(Family::V4, 514), 10, 10))?;
    lab.daemon.turn_to(CONFIG)?;
    Ok(shown.splitn(4, ':').take(3).collect::<Vec<_>>().join(":"))
}

/// Pings until there is an answer; how long after `start`, which must be within two seconds.
fn forwards_again(from: &Host, to: &Host, start: Instant) -> Result<Duration, Broken> {
    let mut pings = from.pings(to.ip4())?;
    let alive = eventually(PATIENCE, || matches!(pings.once(Duration::from_millis(20)), Ok(Some(_))));
    let took = start.elapsed();
    match alive {
        true if took < Duration::from_secs(2) => Ok(took),
        true => broken("an answer within 2 s", format!("one after {:.1} s", took.as_secs_f64())),
        false => broken("an answer within 2 s", "none"),
    }
}

fn replugged(lab: &mut Lab) -> Result<String, Broken> {
    let before = lab.daemon.port("db")?;
    lab.unplug("db")?;
    if !eventually(PATIENCE, || lab.daemon.port("db").is_ok_and(|port| port.state == "missing")) {
        return broken("port db missing", lab.daemon.port("db")?.state);
    }
    lab.plug("db")?;
    let took = forwards_again(lab.host("client")?, lab.host("db")?, Instant::now())?;
    let after = lab.daemon.port("db")?;
    if after.rx.packets > before.rx.packets && after.tx.packets > before.tx.packets {
        Ok(format!("after {} ms", took.as_millis()))
    } else {
        broken("counters that go on", format!("from {} to {} received", before.rx.packets, after.rx.packets))
    }
}

fn killed(lab: &mut Lab) -> Result<String, Broken> {
    lab.daemon.end(Signal::KILL)?;
    let start = Instant::now();
    lab.daemon.start()?;
    let took = forwards_again(lab.host("client")?, lab.host("db")?, start)?;
    Ok(format!("{} ms after its start", took.as_millis()))
}

fn stopped(lab: &mut Lab) -> Result<String, Broken> {
    let (mut with, mut promiscuous) = (0, 0);
    for device in lab.devices()? {
        with += u64::from(device.xdp_program.is_some());
        promiscuous += u64::from(device.promiscuity > 0);
    }
    let all = lab.hosts().len().try_into()?;
    exactly("devices with a program while it runs", all, with)?;
    exactly("promiscuous devices while it runs", all, promiscuous)?;
    let (code, took) = lab.daemon.end(Signal::TERM)?;
    if code != Some(0) {
        return broken("exit code 0", format!("{code:?}"));
    }
    let devices = lab.devices()?;
    if let Some(held) = devices.iter().find(|device| device.xdp_program.is_some() || device.promiscuity != 0) {
        return broken("devices as they were", format!("{held:?}"));
    }
    if lab.daemon.has_socket() {
        return broken("no socket", "one");
    }
    Ok(format!("{} devices free, in {} ms", devices.len(), took.as_millis()))
}
