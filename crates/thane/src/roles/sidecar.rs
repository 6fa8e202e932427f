//! The sidecar of one sandbox as a process, beside its executor in a pod.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thane_api::code;
use thane_runtime::Tasks;
use thane_runtime::config::Loaded;
use thane_runtime::pods::ContainerAt;
use thane_runtime::rooms::Room;
use thane_runtime::telemetry::LogLevels;
use thane_runtime::tls::{ClientAuth, ServerFiles, ServerOptions, ServerTls};
use thane_sandbox::sidecar::{self, Metrics, OneRoom, Served};

use super::{Ending, Ground, bind};
use crate::commands::sidecar::Sidecar;
use crate::failure::Failure;
use crate::settings::Settings;

const GRACE: Duration = Duration::from_secs(5);
/// The executor comes a moment later; its socket shows that it is there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs the sidecar until a signal, or until it fails.
pub(crate) async fn run(settings: Loaded<Settings>, levels: LogLevels, said: &Sidecar) -> Result<(), Failure> {
    let ending = Ending { linger: settings.value.admin.linger.0, grace: GRACE };
    super::run(ending, async |tasks| start(&settings, levels, said, tasks).await).await
}

async fn start(settings: &Loaded<Settings>, levels: LogLevels, said: &Sidecar, tasks: Tasks) -> Result<(), Failure> {
    // It shares its addresses with the sandbox, so that it listens only where it is told to.
    let mut ground = match said.metrics {
        Some(address) => Ground::open_at(address, tasks).await?,
        None => Ground::silent(tasks),
    };
    let metrics = Metrics::default();
    metrics.register(&mut ground.registry);
    let served = Served {
        rooms: Arc::new(OneRoom(Room { run: said.run.clone(), records: said.records.clone(), layers: None })),
        at: ContainerAt { uid: String::new(), container: String::new() },
        tls: tls(&said.certificates, &ground.tasks.child("certificates"))?,
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

/// Certificates of a directory, as they are and as they become.
fn tls(directory: &Path, tasks: &Tasks) -> Result<ServerTls, Failure> {
    let file = |name: &str| directory.join(name);
    let files = ServerFiles { cert: file("tls.crt"), key: file("tls.key"), client_ca: Some(file("ca.crt")) };
    let options =
        ServerOptions { client_auth: ClientAuth::Required, protocols: vec!["h2"], ..ServerOptions::default() };
    let made = ServerTls::from_files(files, options, tasks);
    made.map(|(tls, _)| tls).map_err(|error| Failure::new(code::CERTIFICATE_UNUSABLE, error.to_string()))
}
