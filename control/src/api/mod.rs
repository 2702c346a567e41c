//! The HTTP API on the unix socket: thin handlers over the shapes of [`report`](crate::report).

mod limit;
pub(crate) mod socket;

#[cfg(test)]
mod tests;

use std::{io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use tokio::{net::UnixListener, task::spawn_blocking};

use self::limit::Limited;
use crate::{
    agent::{
        plane::{DataPlane, Stopped},
        view::View,
    },
    report::{build, shape::List},
};

/// Most flows in one answer, unless the request says otherwise.
pub(crate) const FLOWS: usize = 1000;

/// And whatever it says: the worker stands still while it makes the list.
pub(crate) const MOST_FLOWS: usize = 100_000;

/// Connections at a time.
const CONNECTIONS: usize = 128;

/// How long one may last.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the handlers read. None of them waits for the agent.
#[derive(Clone)]
pub(crate) struct Api {
    /// What the agent shows.
    pub(crate) view: Arc<ArcSwap<View>>,
    /// What counts.
    pub(crate) plane: Arc<dyn DataPlane>,
}

/// What can not be answered, as the client reads it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Problem {
    /// One sentence.
    pub(crate) error: String,
}

#[derive(Deserialize)]
struct Limit {
    limit: Option<usize>,
}

/// Serves until the task is dropped.
///
/// # Errors
/// When the listener fails for good.
pub(crate) async fn serve(listener: UnixListener, api: Api) -> io::Result<()> {
    axum::serve(Limited::new(listener, CONNECTIONS, PATIENCE), router(api)).await
}

fn router(api: Api) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/ports", get(ports))
        .route("/v1/flows", get(flows))
        .route("/v1/tables", get(tables))
        .route("/v1/fdb", get(fdb))
        .route("/v1/workers", get(workers))
        .route("/v1/drops", get(drops))
        .fallback(async || problem(StatusCode::NOT_FOUND, "there is nothing here; see GET /v1/status"))
        .with_state(api)
}

async fn status(State(api): State<Api>) -> Response {
    Json(build::status(&api.view.load())).into_response()
}

async fn ports(State(api): State<Api>) -> Response {
    answer(api, |view, plane| Ok(build::ports(view, &plane.report()?))).await
}

async fn flows(State(api): State<Api>, Query(Limit { limit }): Query<Limit>) -> Response {
    answer(api, move |view, plane| {
        let limit = limit.unwrap_or(FLOWS).min(MOST_FLOWS);
        let total = plane.report()?.worker.flows;
        Ok(List { total: Some(total), ..build::flows(&view.names, plane.flows(limit)?) })
    })
    .await
}

async fn tables(State(api): State<Api>) -> Response {
    answer(api, |view, plane| Ok(build::tables(&view.desired.rules, &plane.report()?.rules))).await
}

async fn fdb(State(api): State<Api>) -> Response {
    answer(api, |view, plane| Ok(build::fdb(&view.names, &plane.fdb()?))).await
}

async fn workers(State(api): State<Api>) -> Response {
    answer(api, |_, plane| Ok(build::workers(&plane.report()?.worker))).await
}

async fn drops(State(api): State<Api>) -> Response {
    answer(api, |view, plane| Ok(build::drops(&view.names, &plane.report()?))).await
}

/// Asks the worker off the runtime's thread, since that waits for the end of its pass.
async fn answer<T, F>(api: Api, ask: F) -> Response
where
    T: Serialize + Send + 'static,
    F: FnOnce(&View, &dyn DataPlane) -> Result<List<T>, Stopped> + Send + 'static,
{
    match spawn_blocking(move || ask(&api.view.load(), &*api.plane)).await {
        Ok(Ok(list)) => Json(list).into_response(),
        Ok(Err(stopped)) => problem(StatusCode::SERVICE_UNAVAILABLE, &stopped.to_string()),
        Err(panic) => problem(StatusCode::INTERNAL_SERVER_ERROR, &format!("a fault of the daemon: {panic}")),
    }
}

fn problem(status: StatusCode, sentence: &str) -> Response {
    (status, Json(Problem { error: sentence.to_owned() })).into_response()
}
