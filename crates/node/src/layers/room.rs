//! The files of one container: kept as they are, or brought back to what they were.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use thane_executor::plan::{Lower, Root, SwitchPlan, root_mount};
use thane_runtime::pods::{AccessError, ContainerAt};
use thane_runtime::rooms;
use uuid::Uuid;

use super::Layers;
use super::files::{Files, Intent, Top, names};
use super::made::Made;
use super::states::State;
use crate::record::{Attempt, ContainerRecord};
use crate::shared::Shared;

/// Layers on top of an image; the kernel takes 500 with those of the image.
const CHAIN_MAX: usize = 400;

/// The layers of one start of a container.
pub(crate) struct ContainerLayers {
    shared: Arc<Shared>,
    at: ContainerAt,
    attempt: Attempt,
}

/// A container whose files are being changed.
struct Busy<'a> {
    layers: &'a Layers,
    key: (String, String),
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.layers.states.lock().busy.remove(&self.key);
    }
}

/// Goes on with what an earlier process had begun to do to a container's files.
pub(crate) async fn repair(shared: &Arc<Shared>, at: ContainerAt, attempt: Attempt) -> Result<(), String> {
    let Some(files) = Files::read(attempt.path()) else { return Ok(()) };
    let Some(intent) = files.intent.clone() else { return Ok(()) };
    let layers = ContainerLayers::new(Arc::clone(shared), at, attempt);
    layers.carry_out(files, intent).await.map_err(|error| error.to_string())
}

impl ContainerLayers {
    pub(crate) fn new(shared: Arc<Shared>, at: ContainerAt, attempt: Attempt) -> Self {
        Self { shared, at, attempt }
    }

    fn busy(&self) -> Result<Busy<'_>, AccessError> {
        let key = (self.at.uid.clone(), self.at.container.clone());
        if !self.shared.layers.states.lock().busy.insert(key.clone()) {
            return Err(AccessError::Refused("the container's files are being changed already".to_owned()));
        }
        Ok(Busy { layers: &self.shared.layers, key })
    }

    fn files(&self) -> Result<Files, AccessError> {
        let files = Files::read(self.attempt.path());
        files.ok_or_else(|| AccessError::NotFound("the container's files are not kept".to_owned()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.attempt.path().join(name)
    }

    async fn keep(&self) -> Result<String, AccessError> {
        let _busy = self.busy()?;
        let files = self.files()?;
        let upper = self.path(&names(files.turn).0);
        let base = files.base.clone().unwrap_or_default();
        let top = Top::of(&upper).map_err(|error| failed(&error))?;
        if top == files.top && files.is_as_made(&upper).map_err(|error| failed(&error))? {
            return Ok(base);
        }
        let below = self.chain(files.base.as_deref())?;
        if below.len() >= CHAIN_MAX {
            return Err(AccessError::Refused(format!("{CHAIN_MAX} states are above each other already")));
        }
        let name = Uuid::new_v4().to_string();
        let chain = [vec![name.clone()], below].concat();
        let leaves = self.root_mount()?;
        let (length, image) = (chain.len(), files.lowers.clone());
        let intent = Intent { leaves, base: Some(name.clone()), chain, seals: true, top };
        self.carry_out(files, intent).await?;
        if Layers::is_long(length) {
            self.flatten(name.clone(), image);
        }
        Ok(name)
    }

    /// Makes one layer of those of a state, without anybody waiting for it.
    fn flatten(&self, state: String, image: Vec<Lower>) {
        let shared = Arc::clone(&self.shared);
        drop(tokio::task::spawn_blocking(move || match shared.layers.flatten(&state, &image) {
            Ok(flat) => tracing::debug!(state, flat, "many layers of a state were to become one"),
            Err(error) => tracing::info!(%error, state, "the layers of a state stay as they are"),
        }));
    }

    async fn bring_back(&self, state: String) -> Result<(), AccessError> {
        let _busy = self.busy()?;
        let files = self.files()?;
        let base = Some(state).filter(|name| !name.is_empty());
        let chain = self.chain(base.as_deref())?;
        if let Some(name) = &base {
            let states = self.shared.layers.states.lock();
            let image = states.known.get(name).map(|state| state.image.clone()).unwrap_or_default();
            if image != files.image {
                return Err(AccessError::Refused(format!("the state was made from the image {image:?}")));
            }
        }
        let top = match chain.first() {
            Some(name) => Top::of(&self.shared.layers.data(name)).map_err(|error| failed(&error))?,
            None => Top::default(),
        };
        let leaves = self.root_mount()?;
        self.carry_out(files, Intent { leaves, base, chain, seals: false, top }).await
    }

    /// Does what is intended, from wherever it was interrupted.
    async fn carry_out(&self, mut files: Files, intent: Intent) -> Result<(), AccessError> {
        let turn = files.turn + 1;
        let (old, new) = (names(files.turn), names(turn));
        files.intent = Some(intent.clone());
        self.shared.layers.states.lock().stand(&self.at.uid, &self.at.container, &files);
        files.write(self.attempt.path()).map_err(|error| failed(&error))?;
        let done = match self.prepare(&files, &intent, &old.0, &new) {
            Ok(()) => self.switch(&files, &intent, &new).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = done {
            self.undo(&mut files, &intent, &old.0);
            return Err(AccessError::Failed(format!("enter another root: {why}")));
        }
        let made = Made::of(&self.path(&new.0)).ok();
        let files = Files { base: intent.base.clone(), turn, top: intent.top, made, intent: None, ..files };
        files.write(self.attempt.path()).map_err(|error| failed(&error))?;
        self.shared.layers.states.lock().stand(&self.at.uid, &self.at.container, &files);
        let left = [self.path(&old.0), self.path(&old.1)];
        let removed =
            tokio::task::spawn_blocking(move || left.iter().try_for_each(|path| crate::files::remove_tree(path)));
        if let Ok(Err(error)) = removed.await {
            tracing::warn!(%error, "what a container had written was not removed");
        }
        Ok(())
    }

    /// Makes the new directories, and of what was written a layer.
    fn prepare(&self, files: &Files, intent: &Intent, old: &str, new: &(String, String)) -> io::Result<()> {
        let switched = self.root_mount().is_ok_and(|present| present != intent.leaves);
        if !switched {
            intent.top.make(&self.path(&new.0))?;
            Top::default().make(&self.path(&new.1))?;
        }
        let Some(name) = intent.base.as_ref().filter(|_| intent.seals) else { return Ok(()) };
        let layers = &self.shared.layers;
        crate::files::private_directory(&layers.layer(name))?;
        let state = State {
            chain: intent.chain.clone(),
            parent: files.base.clone(),
            owner: self.at.uid.clone(),
            image: files.image.clone(),
            bytes: None,
        };
        std::fs::write(layers.layer(name).join(super::STATE), serde_json::to_vec(&state).map_err(io::Error::other)?)?;
        if !layers.data(name).exists() {
            std::fs::rename(self.path(old), layers.data(name))?;
        }
        layers.states.lock().known.insert(name.clone(), state);
        Ok(())
    }

    async fn switch(&self, files: &Files, intent: &Intent, new: &(String, String)) -> Result<(), String> {
        let (record, holder) = self.whose().ok_or("the container is gone")?;
        let plan = SwitchPlan {
            init: record.started,
            holder,
            ids: crate::ids::RANGE,
            root: Root {
                lowers: self.shared.layers.lowers(&intent.chain, &files.lowers),
                upper: self.path(&new.0),
                work: self.path(&new.1),
                read_only: false,
            },
            leaves: intent.leaves,
            lock: self.path("switch.lock"),
        };
        self.shared.program.switch(&plan).await.map(|_| ())
    }

    /// The container goes on as it was.
    fn undo(&self, files: &mut Files, intent: &Intent, old: &str) {
        if let Some(name) = intent.base.as_ref().filter(|_| intent.seals) {
            let layers = &self.shared.layers;
            layers.states.lock().known.remove(name);
            if let Err(error) = std::fs::rename(layers.data(name), self.path(old)) {
                tracing::warn!(%error, "what a container has written was not put back");
            }
            let _ = crate::files::remove_tree(&layers.layer(name));
        }
        files.intent = None;
        if let Err(error) = files.write(self.attempt.path()) {
            tracing::warn!(%error, "what a container stands on was not written");
        }
        self.shared.layers.states.lock().stand(&self.at.uid, &self.at.container, files);
    }

    fn chain(&self, state: Option<&str>) -> Result<Vec<String>, AccessError> {
        let Some(name) = state else { return Ok(Vec::new()) };
        let states = self.shared.layers.states.lock();
        let found = states.known.get(name).map(|state| state.chain.clone());
        found.ok_or_else(|| AccessError::NotFound(format!("there is no state {name:?}")))
    }

    fn whose(&self) -> Option<(ContainerRecord, thane_executor::plan::Started)> {
        let record = self.attempt.read()?;
        Some((record, self.shared.pod(&self.at.uid).read()?.holder))
    }

    fn root_mount(&self) -> Result<u64, AccessError> {
        let gone = || AccessError::NotFound("the container does not run".to_owned());
        let pid = self.attempt.read().ok_or_else(gone)?.started.pid;
        let table = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).map_err(|_| gone())?;
        root_mount(&table).ok_or_else(gone)
    }
}

impl rooms::Layers for ContainerLayers {
    fn seal(&self) -> BoxFuture<'_, Result<String, AccessError>> {
        Box::pin(self.keep())
    }

    fn restore(&self, state: String) -> BoxFuture<'_, Result<(), AccessError>> {
        Box::pin(self.bring_back(state))
    }
}

fn failed(error: &io::Error) -> AccessError {
    AccessError::Failed(error.to_string())
}
