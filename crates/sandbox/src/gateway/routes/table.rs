//! The table.

use axum::routing::{delete, get, patch, post};
use http::Method;
use schemars::generate::SchemaGenerator;

use super::{For, Route, alerts, document, health, healthz, metrics};
use crate::gateway::bodies as b;
use crate::gateway::openapi::{About, Sent, json, raw};
use crate::gateway::{create, execute, files, fork, history, listing, managed, operations, pools, restore, shell};

const CURSOR: &[(&str, &str)] = &[
    ("cursor", "where the page before ended"),
    ("limit", "at most so many"),
    ("namespace", "only there"),
    ("poolRef", "only of that pool"),
];
const NAMESPACE: &[(&str, &str)] = &[("namespace", "where it is")];
const PLACE: &[(&str, &str)] = &[("sessionID", "the session it is of"), ("namespace", "where that is")];

macro_rules! route {
    ($who:ident, $method:ident $path:literal, $handler:expr, $about:expr) => {
        Route {
            method: Method::$method,
            path: $path,
            who: For::$who,
            handler: method!($method)($handler),
            about: $about,
        }
    };
}

macro_rules! method {
    (GET) => {
        get
    };
    (POST) => {
        post
    };
    (PATCH) => {
        patch
    };
    (DELETE) => {
        delete
    };
}

/// Every route there is.
pub(in crate::gateway) fn table() -> Vec<Route> {
    [sessions(), inside(), around()].into_iter().flatten().collect()
}

fn sessions() -> Vec<Route> {
    vec![
        route!(Callers, POST "/v1/sessions", create::create,
            About::new("createSession", "A sandbox of a pool, for whoever asks", 201, json::<b::SessionInfo>())
                .body::<b::CreateSession>()),
        route!(Callers, GET "/v1/sessions", listing::list,
            About::new("listSessions", "Sessions by name; X-Next-Cursor says where to go on", 200, json::<Vec<b::SessionInfo>>())
                .query(CURSOR)),
        route!(Callers, GET "/v1/sessions/{id}", listing::get,
            About::new("getSession", "A session", 200, json::<b::SessionInfo>()).query(NAMESPACE)),
        route!(Callers, DELETE "/v1/sessions/{id}", listing::delete,
            About::new("deleteSession", "The end of a session", 204, Sent::Nothing).query(NAMESPACE)),
        route!(Callers, POST "/v1/sessions/{id}/fork", fork::fork,
            About::new("fork", "Sessions that begin where another was", 201, json::<b::ForkResponse>())
                .body::<b::ForkRequest>().query(NAMESPACE)),
        route!(Callers, POST "/v1/managed/sessions", managed::create,
            About::new("createManagedSession", "A session of an experiment; its pool is made if need be", 201, json::<b::SessionInfo>())
                .body::<b::CreateManagedSession>()),
        route!(Callers, GET "/v1/managed/experiments/{id}/sessions", managed::list,
            About::new("listExperimentSessions", "Sessions of an experiment", 200, json::<Vec<b::SessionInfo>>()).query(NAMESPACE)),
        route!(Callers, DELETE "/v1/managed/experiments/{id}", managed::delete,
            About::new("deleteExperiment", "The end of an experiment", 200, json::<b::ExperimentDeleted>()).query(NAMESPACE)),
    ]
}

fn inside() -> Vec<Route> {
    vec![
        route!(Callers, POST "/v1/sessions/{id}/execute", execute::execute,
            About::new("execute", "Runs steps; with Accept: text/event-stream as events stdout, stderr, result and ping", 200, json::<b::ExecuteResponse>())
                .body::<b::ExecuteRequest>().query(NAMESPACE).events()),
        route!(Callers, GET "/v1/operations/{id}", operations::get,
            About::new("getOperation", "How far a request with an operationID has come", 200, json::<b::OperationInfo>()).query(PLACE)),
        route!(Callers, POST "/v1/sessions/{id}/restore", restore::restore,
            About::new("restore", "Back to the files as they were after a step", 200, json::<b::RestoreResponse>())
                .body::<b::RestoreRequest>().query(NAMESPACE)),
        route!(Callers, GET "/v1/sessions/{id}/history", history::history,
            About::new("getHistory", "The steps that led to the present files", 200, json::<Vec<b::StepResult>>()).query(NAMESPACE)),
        route!(Callers, GET "/v1/sessions/{id}/trajectory", history::trajectory,
            About::new("getTrajectory", "Every step, one in a line", 200, Sent::Json("application/x-ndjson", SchemaGenerator::subschema_for::<b::TrajectoryEntry>))
                .query(NAMESPACE)),
        route!(Callers, GET "/v1/sessions/{id}/shell", shell::shell,
            About::new("shell", "A terminal over a WebSocket of ShellMessages", 101, json::<b::ShellMessage>()).query(NAMESPACE)),
        route!(Callers, POST "/v1/sessions/{id}/upload-file", files::upload,
            About::new("uploadFile", "Writes a file", 200, json::<b::UploadResponse>()).raw().query(NAMESPACE)
                .headers(&[("X-ARL-Path", "where"), ("X-ARL-SHA256", "what it must be")])),
        route!(Callers, POST "/v1/sessions/{id}/download-file", files::download,
            About::new("downloadFile", "Reads a file; trailers X-ARL-Size-Bytes and X-ARL-SHA256", 200, raw()).body::<b::FilePath>().query(NAMESPACE)),
        route!(Callers, POST "/v1/sessions/{id}/delete-file", files::remove,
            About::new("deleteFile", "Removes a file", 204, Sent::Nothing).body::<b::FilePath>().query(NAMESPACE)),
    ]
}

fn around() -> Vec<Route> {
    vec![
        route!(Admins, POST "/v1/pools", pools::create,
            About::new("createPool", "A pool", 201, json::<b::PoolCreated>()).body::<b::CreatePool>()),
        route!(Callers, GET "/v1/pools", pools::list,
            About::new("listPools", "Pools of a namespace", 200, json::<Vec<b::PoolInfo>>()).query(NAMESPACE)),
        route!(Callers, GET "/v1/pools/{name}", pools::get,
            About::new("getPool", "A pool", 200, json::<b::PoolInfo>()).query(NAMESPACE)),
        route!(Admins, PATCH "/v1/pools/{name}", pools::patch,
            About::new("patchPool", "Changes a pool", 200, json::<b::PoolInfo>()).body::<b::PatchPool>().query(NAMESPACE)),
        route!(Admins, DELETE "/v1/pools/{name}", pools::delete,
            About::new("deletePool", "The end of a pool", 204, Sent::Nothing).query(NAMESPACE)),
        route!(All, GET "/healthz", healthz, About::new("healthz", "Whether the gateway answers", 200, Sent::Raw("text/plain"))),
        route!(All, GET "/openapi.json", document, About::new("openapi", "This description", 200, raw())),
        route!(Admins, GET "/metrics", metrics, About::new("metrics", "Metrics of the gateway", 200, Sent::Raw("text/plain"))),
        route!(Admins, GET "/debug/health", health, About::new("debugHealth", "How the gateway is", 200, json::<b::Health>())),
        route!(Admins, POST "/internal/alertmanager-webhook", alerts,
            About::new("alerts", "Takes what Alertmanager tells", 200, Sent::Nothing).raw()),
    ]
}
