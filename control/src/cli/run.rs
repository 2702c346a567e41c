//! `sluice run`: the daemon.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, IsTerminal, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use clap::Args;
use flow_table::hash::Seed;
use sd_notify::NotifyState;
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing::{error, info, warn};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::SocketArg;
use crate::{
    agent::{Agent, Unchanged, desired::Desired, plane::Stopped, runtime},
    api::{self, Api, socket::Claim},
    exit::{Exit, Failure},
    links,
};

/// How often the worker is asked whether it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// `sluice run`.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    socket: SocketArg,
}

/// What the agent is to do.
enum Order {
    /// Read the file again.
    Reload,
    /// Devices may have changed.
    Devices(links::Hint),
    /// Detach everything and end.
    Stop,
}

impl Run {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        log();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let exit = runtime.block_on(self.daemon());
        // A reader that hangs on the socket does not hold the end up.
        runtime.shutdown_background();
        exit
    }

    async fn daemon(&self) -> Result<Exit, Failure> {
        // From here on no signal ends the process by itself.
        let mut signals = Signals::new().map_err(refused)?;
        // What a tenant controls must not choose the slots of our tables.
        let entropy = RandomState::new().build_hasher().finish();
        let seed = Seed::new(entropy);
        let desired = match Desired::load(&self.config, None, seed) {
            Ok(desired) => desired,
            Err(invalid) => {
                // Nobody to tell when standard error is gone.
                let _ = io::stderr().lock().write_all(format!("{}\n", invalid.text.trim_end()).as_bytes());
                return Ok(Exit::Invalid);
            }
        };
        let mut claim = Claim::new(&self.socket.socket).map_err(refused)?;
        let listener = claim.listen().map_err(refused)?;
        let listener = UnixListener::from_std(listener).map_err(refused)?;
        let plane = runtime::start(&desired, entropy).map_err(refused)?;
        let (orders, inbox) = channel();
        links::watch(orders.clone(), Order::Devices)
            .map_err(|error| refused(anyhow::Error::new(error).context("can not watch the network devices")))?;
        let config = self.config.clone();
        let load = Box::new(move |now: Option<&Desired>| Desired::load(&config, now, seed));
        let agent = match Agent::start(Arc::clone(&plane), Box::new(links::list), load, desired) {
            Ok(agent) => agent,
            Err(Unchanged::Stopped(stopped)) => return Err(Failure::new(Exit::Fault, stopped)),
            Err(why) => return Err(refused(why)),
        };
        let api = Api { view: agent.shown(), plane };
        let server = tokio::spawn(api::serve(listener, api));
        let (ended, mut end) = oneshot::channel();
        thread::Builder::new()
            .name("sluice-agent".to_owned())
            .spawn(move || {
                // Nobody waits any more when the process ends another way.
                let _ = ended.send(obey(agent, &inbox));
            })
            .map_err(refused)?;
        info!("ready, listening on {}", self.socket.socket.display());
        notify(&[NotifyState::Ready]);
        let outcome = loop {
            tokio::select! {
                outcome = &mut end => break outcome,
                order = signals.next() => {
                    if matches!(order, Order::Stop) {
                        info!("stopping");
                        notify(&[NotifyState::Stopping]);
                    }
                    // An agent that is gone has said so by `end`.
                    let _ = orders.send(order);
                }
            }
        };
        server.abort();
        match outcome {
            Ok(Ok(())) => Ok(Exit::Ok),
            Ok(Err(stopped)) => Err(Failure::new(
                Exit::Fault,
                anyhow::Error::new(stopped).context("the daemon ends, since it carries no packets any more"),
            )),
            Err(_gone) => Err(Failure::says(Exit::Fault, "the agent's thread ended; this is a fault of sluice")),
        }
    }
}

/// The signals that mean something.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.hangup.recv() => Order::Reload,
            _ = self.terminate.recv() => Order::Stop,
            _ = self.interrupt.recv() => Order::Stop,
        }
    }
}

/// Does what is ordered, until told to stop or the worker is gone. A panic on the way is told and costs only that order.
fn obey(mut agent: Agent, inbox: &Receiver<Order>) -> Result<(), Stopped> {
    loop {
        let order = match inbox.recv_timeout(HEARTBEAT) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Order::Stop),
        };
        let is_stop = matches!(order, Some(Order::Stop));
        let done = catch_unwind(AssertUnwindSafe(|| match order {
            Some(Order::Reload) => reload(&mut agent),
            Some(Order::Devices(hint)) => agent.follow(&hint.gone),
            Some(Order::Stop) => {
                agent.stop();
                Ok(())
            }
            None => agent.heartbeat(),
        }));
        match done {
            Ok(Ok(())) if is_stop => return Ok(()),
            Ok(Ok(())) => {}
            Ok(Err(stopped)) => return Err(stopped),
            Err(_panic) if is_stop => return Ok(()),
            Err(_panic) => error!("a fault in the agent, told above; packets go on, and so does the agent"),
        }
    }
}

fn reload(agent: &mut Agent) -> Result<(), Stopped> {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => warn!("can not read the clock for the service manager: {error}"),
    }
    let outcome = agent.reload();
    let status = match &outcome {
        Ok(generation) => format!("generation {generation} is in force"),
        Err(why) => format!("reload refused: {}", why.to_string().lines().next().unwrap_or_default()),
    };
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
    match outcome {
        Err(Unchanged::Stopped(stopped)) => Err(stopped),
        _ => Ok(()),
    }
}

/// Tells the service manager, where there is one.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("can not tell the service manager: {error}");
    }
}

/// Logs to standard error, as much as `SLUICE_LOG` says.
fn log() {
    let filter = EnvFilter::builder()
        .with_env_var("SLUICE_LOG")
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .log_internal_errors(false)
        .try_init();
}

fn refused(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Exit::Refused, error)
}
