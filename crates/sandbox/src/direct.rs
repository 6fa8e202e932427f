//! Sandboxes for another part of the process: claimed by name, used without a gateway, and found again after a restart.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::{BindRequest, File, StepRecord, StepRequest};
use thane_api::wire::sidecar::{ListDirRequest, ReadFileRequest, StatRequest};
use thane_runtime::tls::ClientTls;
use thane_runtime::{SharedClock, Tasks};
use tonic::{Code, Status};

use crate::claims::{ClaimError, Claims, OnEmpty, PoolAt};
use crate::gateway::sidecars::{Address, Sidecar, Sidecars};
use crate::kinds::{Phase, Sandbox, SandboxSpec};
use crate::pods::Shape;
use crate::{names, pods};

/// Sidecars one is connected to at once.
const SIDECARS_MAX: usize = 1024;
/// How much longer than the wait for a pod a sandbox without one may be somebody's.
const LATE: Duration = Duration::from_secs(30);
/// A sandbox that somebody forgot goes after so long without a command.
const IDLE_SECONDS: i32 = 120;
/// So often a command is asked for again whose sidecar was lost for a moment.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);
/// What is kept of standard output, counted from its end.
const KEPT: usize = 256 * 1024 + 1;
/// What is kept of all that was said, for people.
const LOG_KEPT: usize = 64 * 1024;

/// How a command ended.
pub struct Finished {
    /// What was recorded of it.
    pub record: StepRecord,
    /// The end of its standard output.
    pub stdout: Vec<u8>,
    /// The end of all that it said.
    pub log: Vec<u8>,
}

/// A sandbox that is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where it comes from.
    pub pool: PoolAt,
    /// What it is called; whoever asks again by that name has the same one.
    pub name: String,
    /// Labels of the Sandbox.
    pub labels: Vec<(String, String)>,
    /// What it goes with.
    pub owner: OwnerReference,
    /// How long to wait for one.
    pub wait: Duration,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No pod.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The API.
    #[error("{0}")]
    Api(#[from] kube::Error),
    /// Its sidecar.
    #[error("{0}")]
    Sidecar(String),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Sidecar(format!("the sandbox says: {}", status.message()))
    }
}

/// Sandboxes of one API.
pub struct Direct {
    client: Client,
    claims: Claims,
    sidecars: Sidecars,
    clock: SharedClock,
    name: String,
}

impl Direct {
    /// Over the claims of this process.
    pub fn new(client: Client, claims: Claims, tls: ClientTls, clock: SharedClock, name: &str, tasks: &Tasks) -> Self {
        let sidecars = Sidecars::new(tls, SIDECARS_MAX, tasks.clone());
        Self { client, claims, sidecars, clock, name: name.to_owned() }
    }

    /// The image of a pool's sandboxes.
    pub async fn image(&self, pool: &PoolAt) -> Result<String, Error> {
        let pool = self.claims.pool(pool).await?;
        let pod = pods::make(&pool, &Shape::Embedded, None);
        Ok(pods::container(&pod).and_then(|container| container.image.clone()).unwrap_or_default())
    }

    /// A sandbox, made unless there is one of that name.
    pub async fn enter(&self, wanted: &Wanted) -> Result<Guest, Error> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &wanted.pool.namespace);
        let sandbox = match api.create(&PostParams::default(), &self.sandbox(wanted)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => api.get(&wanted.name).await?,
            made => made?,
        };
        if pods::is_deleting(&sandbox) {
            return Err(ClaimError::Gone(wanted.name.clone()).into());
        }
        let claimed = match self.claims.claim(&wanted.pool, &sandbox, OnEmpty::Wait(wanted.wait)).await {
            Ok(claimed) => claimed,
            Err(error) => {
                self.forget(&wanted.pool.namespace, &wanted.name).await;
                return Err(error.into());
            }
        };
        let namespace = wanted.pool.namespace.clone();
        self.guest(&wanted.name, Address { namespace, pod: claimed.pod, ip: claimed.pod_ip }).await
    }

    /// The sandbox of that name with the pod it has, or nothing if either is gone. None is made, and no other pod is given to
    /// it: what ran there would run a second time.
    pub async fn find(&self, namespace: &str, name: &str) -> Result<Option<Guest>, Error> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), namespace);
        let Some(sandbox) = api.get_opt(name).await?.filter(|sandbox| !pods::is_deleting(sandbox)) else {
            return Ok(None);
        };
        let status = sandbox.status.unwrap_or_default();
        let Some(name_of_pod) = status.pod_name.filter(|_| status.phase != Some(Phase::Failed)) else {
            return Ok(None);
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(&name_of_pod).await?.filter(|pod| !pods::is_deleting(pod) && !is_over(pod));
        let Some(pod) = found else { return Ok(None) };
        if pods::trouble(&pod).is_some() {
            return Ok(None);
        }
        if !pods::is_ready(&pod) {
            return Err(Error::Sidecar(format!("pod {name_of_pod} of the sandbox is not ready")));
        }
        let ip = pod.status.and_then(|status| status.pod_ip).unwrap_or_default();
        let address = Address { namespace: namespace.to_owned(), pod: name_of_pod, ip };
        self.guest(name, address).await.map(Some)
    }

    async fn guest(&self, session: &str, address: Address) -> Result<Guest, Error> {
        let sidecar = self.sidecars.reach_patiently(&address).await;
        let sidecar = sidecar.map_err(|error| Error::Sidecar(error.into_message()))?;
        Ok(Guest { session: session.to_owned(), namespace: address.namespace.clone(), address, sidecar })
    }

    fn sandbox(&self, wanted: &Wanted) -> Sandbox {
        let spec = SandboxSpec {
            pool_ref: wanted.pool.name.clone(),
            keep_alive: Some(true),
            idle_timeout_seconds: Some(IDLE_SECONDS),
            ..SandboxSpec::default()
        };
        let mut sandbox = Sandbox::new(&wanted.name, spec);
        sandbox.metadata.namespace = Some(wanted.pool.namespace.clone());
        sandbox.metadata.labels = Some(wanted.labels.iter().cloned().collect());
        sandbox.metadata.owner_references = Some(vec![wanted.owner.clone()]);
        // the operator would add it, which is one more write
        sandbox.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        let until = self.clock.now().checked_add(wanted.wait + LATE).unwrap_or(Timestamp::MAX);
        let by = [
            (names::SESSION, wanted.name.clone()),
            (names::CLAIMED_BY, self.name.clone()),
            (names::CLAIM_UNTIL, until.to_string()),
        ];
        sandbox.metadata.annotations = Some(by.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        sandbox
    }

    /// Runs a command to its end. Asked for again, it is not run again.
    pub async fn run(&self, guest: &Guest, request: StepRequest) -> Result<Finished, Error> {
        let mut attempt = 0;
        let mut sidecar = guest.sidecar.clone();
        loop {
            let status = match followed(&sidecar, request.clone()).await {
                Ok(done) => return Ok(done),
                Err(status) => status,
            };
            attempt += 1;
            let passes = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
            if !passes || attempt >= ATTEMPTS || !self.is_there(guest).await? {
                return Err(status.into());
            }
            tokio::time::sleep(PAUSE).await;
            if let Ok(again) = self.sidecars.reach_patiently(&guest.address).await {
                sidecar = again;
            }
        }
    }

    async fn is_there(&self, guest: &Guest) -> Result<bool, Error> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), &guest.namespace);
        let found = api.get_opt(&guest.session).await?;
        Ok(found.is_some_and(|sandbox| {
            let pod = sandbox.status.as_ref().and_then(|status| status.pod_name.as_deref());
            !pods::is_deleting(&sandbox) && pod == Some(guest.address.pod.as_str())
        }))
    }

    /// Lets a sandbox go.
    pub async fn leave(&self, guest: &Guest) {
        self.forget(&guest.namespace, &guest.session).await;
        self.sidecars.forget(&guest.address);
    }

    /// Lets all sandboxes with these labels go.
    pub async fn sweep(&self, namespace: &str, labels: &str) -> Result<(), Error> {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), namespace);
        let all = api.list_metadata(&ListParams::default().labels(labels)).await?;
        for name in all.items.into_iter().filter_map(|one| one.metadata.name) {
            self.forget(namespace, &name).await;
        }
        Ok(())
    }

    async fn forget(&self, namespace: &str, name: &str) {
        let api: Api<Sandbox> = Api::namespaced(self.client.clone(), namespace);
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                tracing::warn!(%error, sandbox = name, "a sandbox could not be deleted; it goes when it is idle");
            }
        }
    }
}

/// Whether nothing runs in a pod any more.
fn is_over(pod: &Pod) -> bool {
    matches!(pods::phase(pod), "Succeeded" | "Failed")
}

/// A sandbox that is somebody's.
pub struct Guest {
    session: String,
    namespace: String,
    address: Address,
    sidecar: Sidecar,
}

impl Guest {
    /// What commands are asked for with.
    pub fn request(&self, operation: &str, command: Vec<String>, env: HashMap<String, String>) -> StepRequest {
        let (session, operation) = (self.session.clone(), operation.to_owned());
        // the sandbox goes with its one command
        StepRequest { session, operation, command, env, passing: true, ..StepRequest::default() }
    }

    /// Writes files, once; the same again changes nothing.
    pub async fn stage(&self, files: Vec<(String, Vec<u8>, u32)>) -> Result<(), Error> {
        let file = |(path, content, mode): (String, Vec<u8>, u32)| File { path, content: Bytes::from(content), mode };
        let files = files.into_iter().map(file).collect();
        let request = BindRequest { session: self.session.clone(), files, ..BindRequest::default() };
        self.sidecar.steps().bind(request).await?;
        Ok(())
    }

    /// At most so much of a file; nothing if there is none.
    pub async fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, Error> {
        let request = ReadFileRequest { path: path.to_owned() };
        let mut chunks = match self.sidecar.agent().read_file(request).await {
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            opened => opened?.into_inner(),
        };
        let mut content = Vec::new();
        loop {
            let chunk = match chunks.message().await {
                Err(status) if status.code() == Code::NotFound => return Ok(None),
                chunk => chunk?,
            };
            let Some(chunk) = chunk else { return Ok(Some(content)) };
            content.extend_from_slice(&chunk.data);
            if content.len() as u64 >= max {
                return Ok(Some(content));
            }
        }
    }

    /// Whether there is something at a path, and whether it is a directory.
    pub async fn stat(&self, path: &str) -> Result<Option<bool>, Error> {
        match self.sidecar.agent().stat(StatRequest { path: path.to_owned() }).await {
            Err(status) if status.code() == Code::NotFound => Ok(None),
            found => Ok(Some(found?.into_inner()).filter(|found| found.exists).map(|found| found.is_dir)),
        }
    }

    /// The names in a directory, and whether each is one.
    pub async fn list(&self, path: &str) -> Result<Vec<(String, bool)>, Error> {
        let request = ListDirRequest { path: path.to_owned(), recursive: false };
        let entries = self.sidecar.agent().list_dir(request).await?.into_inner().entries;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.is_dir)).collect())
    }
}

/// Follows a command to its end.
async fn followed(sidecar: &Sidecar, request: StepRequest) -> Result<Finished, Status> {
    let mut events = sidecar.steps().run_step(request).await?.into_inner();
    let (mut stdout, mut log) = (Vec::new(), Vec::new());
    while let Some(event) = events.message().await? {
        match event.event {
            Some(Event::Output(output)) => {
                if !output.stderr {
                    add(&mut stdout, &output.data, KEPT);
                }
                add(&mut log, &output.data, LOG_KEPT);
            }
            Some(Event::Finished(record)) => {
                // One that was told again has only what was recorded.
                if log.is_empty() {
                    add(&mut stdout, &record.stdout, KEPT);
                    add(&mut log, &record.stdout, LOG_KEPT);
                    add(&mut log, &record.stderr, LOG_KEPT);
                }
                log.drain(..log.len().saturating_sub(LOG_KEPT));
                return Ok(Finished { record, stdout, log });
            }
            _ => {}
        }
    }
    Err(Status::unavailable("its sidecar ended the call"))
}

/// Adds to what is kept of the end of something long.
fn add(kept: &mut Vec<u8>, more: &[u8], max: usize) {
    kept.extend_from_slice(more);
    if kept.len() > 2 * max {
        kept.drain(..kept.len() - max);
    }
}
