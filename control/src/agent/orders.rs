//! The agent's thread: one order after the other, a look at the worker before each.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use sd_notify::NotifyState;
use tracing::{error, warn};

use super::{Agent, Unchanged, plane::Stopped};
use crate::links::Hint;

/// How often the worker is asked whether it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What the agent is to do.
pub(crate) enum Order {
    /// Read the file again.
    Reload,
    /// Devices may have changed.
    Devices(Hint),
    /// Detach everything and end.
    Stop,
}

/// Does what is ordered, until told to stop or the worker is gone. A panic on the way is told and costs only that order.
pub(crate) fn obey(mut agent: Agent, inbox: &Receiver<Order>) -> Result<(), Stopped> {
    loop {
        let order = match inbox.recv_timeout(HEARTBEAT) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Order::Stop),
        };
        let is_stop = matches!(order, Some(Order::Stop));
        let done = catch_unwind(AssertUnwindSafe(|| {
            // Before each order too: with enough of them there is never a moment without one.
            let alive = agent.heartbeat();
            match order {
                Some(Order::Reload) => alive.and_then(|()| reload(&mut agent)),
                Some(Order::Devices(hint)) => alive.and_then(|()| agent.follow(&hint.gone)),
                Some(Order::Stop) => {
                    agent.stop();
                    alive
                }
                None => alive,
            }
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
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("can not tell the service manager: {error}");
    }
}
