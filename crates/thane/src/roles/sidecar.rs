//! The sidecar of one sandbox as a process, beside its executor in a pod.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thane_api::code;
use thane_runtime::Tasks;
use thane_runtime::config::Loaded;
use thane_runtime::pki::Identity;
use thane_runtime::pki::store;
use thane_runtime::pods::ContainerAt;
use thane_runtime::rooms::Room;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::tls::{ClientAuth, ServerOptions, ServerTls};
use thane_sandbox::sidecar::{self, Metrics, OneRoom, Served};

use super::{Ground, bind};
use crate::commands::sidecar::Sidecar;
use crate::failure::Failure;
use crate::settings::Settings;

const GRACE: Duration = Duration::from_secs(5);
/// The executor comes a moment later; its socket shows that it is there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs the sidecar until a signal, or until it fails.
pub(crate) async fn run(settings: Loaded<Settings>, levels: LogLevels, said: &Sidecar) -> Result<(), Failure> {
    super::run(GRACE, async |tasks| start(&settings, levels, said, tasks).await).await
}

async fn start(settings: &Loaded<Settings>, levels: LogLevels, said: &Sidecar, tasks: Tasks) -> Result<(), Failure> {
    let mut ground = Ground::open(&settings.value, 0, tasks).await?;
    let metrics = Metrics::default();
    metrics.register(&mut ground.registry);
    let served = Served {
        rooms: Arc::new(OneRoom(Room { run: said.run.clone(), records: said.records.clone(), layers: None })),
        at: ContainerAt { uid: String::new(), container: String::new() },
        tls: tls(&said.certificates)?,
        clock: Arc::clone(&ground.clock),
        metrics,
    };
    let (socket, tasks) = (said.run.join(sidecar::SOCKET), ground.tasks.child("sidecar"));
    while !socket.exists() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let listener = bind(&ground.network, said.listen, "--listen").await?;
    tracing::info!(address = %listener.local_addr(), work_dir = said.work_dir, "the sidecar runs");
    let serving = tasks.clone();
    tasks.spawn_essential("serve", async move {
        if let Err(status) = sidecar::serve(listener, served, serving).await {
            tracing::error!(%status, "the sandbox cannot be served");
        }
    });
    ground.serve(settings, levels);
    Ok(())
}

fn tls(directory: &Path) -> Result<ServerTls, Failure> {
    let read = |name: &str| store::read(&directory.join(name)).map_err(Failure::from);
    let identity = Identity { cert_pem: read("tls.crt")?, key_pem: read("tls.key")? };
    let options =
        ServerOptions { client_auth: ClientAuth::Required, protocols: vec!["h2"], ..ServerOptions::default() };
    let made = ServerTls::from_pem(&identity, Some(&read("ca.crt")?), &options);
    made.map_err(|error| Failure::new(code::CERTIFICATE_UNUSABLE, error.to_string()))
}
