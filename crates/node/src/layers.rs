//! What containers have written, as layers on top of their images: states they can be brought back to.
//!
//! A state is a layer and those below it, down to the image. Its layer is a directory of its own, outside of the pod it was
//! made in, so that others can go on from it when that pod is gone.

mod files;
mod flatten;
mod made;
mod merge;
mod room;
mod states;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use thane_executor::plan::Lower;
use thane_runtime::pods::ContainerAt;

pub(crate) use files::{Files, is_written};
pub(crate) use room::{ContainerLayers, repair};
use states::{State, States};

/// The part of a layer that containers see.
const DATA: &str = "data";
/// What is known of the state whose uppermost layer it is.
const STATE: &str = "state.json";

/// All layers of a node.
pub(crate) struct Layers {
    directory: PathBuf,
    pods: PathBuf,
    states: Mutex<States>,
}

impl Layers {
    /// Finds what is there, and removes what nobody needs any more.
    pub(crate) fn open(directory: PathBuf, pods: PathBuf) -> io::Result<Self> {
        crate::files::private_directory(&directory)?;
        let mut states = States::default();
        let mut present = BTreeSet::new();
        for entry in std::fs::read_dir(&directory)? {
            let Some(name) = entry?.file_name().into_string().ok() else { continue };
            if let Some(state) = read_state(&directory.join(&name)) {
                states.known.insert(name.clone(), state);
            }
            present.insert(name);
        }
        for (uid, container, files) in files::all(&pods) {
            states.stand(&uid, &container, &files);
        }
        let layers = Self { directory, pods, states: Mutex::new(states) };
        let needed = layers.prune();
        for name in present.iter().filter(|name| !needed.contains(*name)) {
            crate::files::remove_tree(&layers.directory.join(name))?;
        }
        Ok(layers)
    }

    /// Forgets states that no pod needs; says which layers are needed.
    fn prune(&self) -> BTreeSet<String> {
        let pods = self.pods.clone();
        let mut states = self.states.lock();
        let needed = states.needed(|uid| pods.join(uid).exists());
        states.known.retain(|name, _| needed.contains(name));
        needed
    }

    /// A pod is gone: so is what only it needed.
    pub(crate) async fn forget(&self, uid: &str) {
        let before: BTreeSet<String> = {
            let mut states = self.states.lock();
            states.stands.retain(|(pod, _), _| pod != uid);
            states.known.iter().flat_map(|(name, state)| state.chain.iter().chain([name])).cloned().collect()
        };
        if before.is_empty() {
            return;
        }
        let needed = self.prune();
        let gone: Vec<PathBuf> = before.difference(&needed).map(|name| self.directory.join(name)).collect();
        let removed = tokio::task::spawn_blocking(move || {
            for path in gone {
                if let Err(error) = crate::files::remove_tree(&path) {
                    tracing::warn!(%error, path = %path.display(), "a layer was not removed");
                }
            }
        });
        let _ = removed.await;
    }

    /// Whether a container's files are being changed.
    pub(crate) fn is_busy(&self, at: &ContainerAt) -> bool {
        self.states.lock().busy.contains(&(at.uid.clone(), at.container.clone()))
    }

    fn layer(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The part of a layer that containers see.
    fn data(&self, name: &str) -> PathBuf {
        self.layer(name).join(DATA)
    }

    /// Layers as the executor takes them.
    fn lowers(&self, chain: &[String], image: &[Lower]) -> Vec<Lower> {
        let own = chain.iter().map(|name| Lower { path: self.data(name), mapped: false });
        own.chain(image.iter().cloned()).collect()
    }

    /// Bytes that the states a pod has made occupy.
    pub(crate) fn occupied(&self, uid: &str, measure: impl Fn(&Path) -> u64) -> u64 {
        let unknown: Vec<String> = {
            let states = self.states.lock();
            let own = states.known.iter().filter(|(_, state)| state.owner == uid && state.bytes.is_none());
            own.map(|(name, _)| name.clone()).collect()
        };
        for name in unknown {
            let chain = self.states.lock().known.get(&name).map(|state| state.chain.clone()).unwrap_or_default();
            // One layer made of many is the state's, too.
            let own = chain.first().filter(|first| **first != name).map_or(0, |merged| measure(&self.data(merged)));
            let bytes = measure(&self.data(&name)) + own;
            if let Some(state) = self.states.lock().known.get_mut(&name) {
                state.bytes = Some(bytes);
            }
        }
        let states = self.states.lock();
        states.known.values().filter(|state| state.owner == uid).filter_map(|state| state.bytes).sum()
    }
}

fn read_state(layer: &Path) -> Option<State> {
    serde_json::from_slice(&std::fs::read(layer.join(STATE)).ok()?).ok()
}
