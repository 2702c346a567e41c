//! `sluice run`: the daemon.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, IsTerminal},
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
};

use clap::Args;
use flow_table::hash::Seed;
use sd_notify::NotifyState;
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing::info;
use tracing_subscriber::filter::LevelFilter;

use super::{SocketArg, invalid};
use crate::{
    agent::{
        Agent, Unchanged,
        desired::Desired,
        orders::{self, Order},
        plane::Stopped,
        runtime,
    },
    api::{self, Api, socket::Claim},
    exit::{Exit, Failure},
    links,
};

/// `sluice run`.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    socket: SocketArg,
}

impl Run {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        log()?;
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
        let desired = match Desired::load(&self.config, None, Seed::new(entropy)) {
            Ok(desired) => desired,
            Err(why) => return Ok(invalid(&why.text)),
        };
        let mut claim = Claim::new(&self.socket.socket).map_err(refused)?;
        let listener = claim.listen().map_err(refused)?;
        let listener = UnixListener::from_std(listener).map_err(refused)?;
        let (orders, inbox) = channel();
        let (agent, api) = self.attach(desired, entropy, &orders)?;
        let server = tokio::spawn(api::serve(listener, api));
        let (ended, end) = oneshot::channel();
        thread::Builder::new()
            .name("sluice-agent".to_owned())
            .spawn(move || {
                // Nobody waits any more when the process ends another way.
                let _ = ended.send(orders::obey(agent, &inbox));
            })
            .map_err(refused)?;
        info!("ready, listening on {}", self.socket.socket.display());
        orders::notify(&[NotifyState::Ready]);
        let outcome = forward(&mut signals, &orders, end).await;
        server.abort();
        outcome
    }

    /// Starts the worker and attaches the ports.
    fn attach(&self, desired: Desired, entropy: u64, orders: &Sender<Order>) -> Result<(Agent, Api), Failure> {
        let plane = runtime::start(&desired, entropy).map_err(refused)?;
        // Before the devices are listed for the first time, so that no change is missed.
        links::watch(orders.clone(), Order::Devices)
            .map_err(|error| refused(anyhow::Error::new(error).context("can not watch the network devices")))?;
        let config = self.config.clone();
        let load = Box::new(move |now: Option<&Desired>| Desired::load(&config, now, Seed::new(entropy)));
        match Agent::start(Arc::clone(&plane), Box::new(links::list), load, desired) {
            Ok(agent) => {
                let view = agent.shown();
                Ok((agent, Api { view, plane }))
            }
            Err(Unchanged::Stopped(stopped)) => Err(Failure::new(Exit::Fault, stopped)),
            Err(why) => Err(refused(why)),
        }
    }
}

/// Hands signals to the agent until it has ended; says how.
async fn forward(
    signals: &mut Signals,
    orders: &Sender<Order>,
    mut end: oneshot::Receiver<Result<(), Stopped>>,
) -> Result<Exit, Failure> {
    loop {
        tokio::select! {
            outcome = &mut end => return match outcome {
                Ok(Ok(())) => Ok(Exit::Ok),
                Ok(Err(stopped)) => Err(Failure::new(
                    Exit::Fault,
                    anyhow::Error::new(stopped).context("the daemon ends, since it carries no packets any more"),
                )),
                Err(_gone) => Err(Failure::says(Exit::Fault, "the agent's thread ended; this is a fault of sluice")),
            },
            order = signals.next() => {
                if matches!(order, Order::Stop) {
                    info!("stopping");
                    orders::notify(&[NotifyState::Stopping]);
                }
                // An agent that is gone has said so by `end`.
                let _ = orders.send(order);
            }
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

/// Logs to standard error, as much as `SLUICE_LOG` says.
fn log() -> Result<(), Failure> {
    let filter = match std::env::var("SLUICE_LOG").as_deref() {
        Err(_) | Ok("" | "info") => LevelFilter::INFO,
        Ok("error") => LevelFilter::ERROR,
        Ok("warn") => LevelFilter::WARN,
        Ok("debug") => LevelFilter::DEBUG,
        Ok(other) => {
            let sentence = format!("SLUICE_LOG is \"{other}\", and may be error, warn, info or debug");
            return Err(Failure::says(Exit::Usage, sentence));
        }
    };
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let _ = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .log_internal_errors(false)
        .try_init();
    Ok(())
}

fn refused(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(Exit::Refused, error)
}
