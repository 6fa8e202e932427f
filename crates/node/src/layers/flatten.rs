//! Long chains of layers made short, while containers go on.

use std::io;
use std::path::Path;

use thane_executor::plan::Lower;
use uuid::Uuid;

use super::merge::merge;
use super::states::State;
use super::{DATA, Layers, STATE};

/// States above each other after which they become one layer. Each costs a lookup for every name that is not there.
const CHAIN_LONG: usize = 64;

impl Layers {
    /// Whether a chain of that length is to be made short: once for each such number, whether it can be done or not.
    pub(super) fn is_long(length: usize) -> bool {
        length > 0 && length.is_multiple_of(CHAIN_LONG)
    }

    /// Makes one layer of all those of a state. Who stands on them stays there; who comes to the state stands on the one.
    pub(super) fn flatten(&self, state: &str, image: &[Lower]) -> io::Result<bool> {
        let Some(before) = self.states.lock().known.get(state).cloned() else { return Ok(false) };
        let name = Uuid::new_v4().to_string();
        let layer = self.layer(&name);
        let kept = self.gather(&before, image, &layer).and_then(|()| self.put(state, &before, &name));
        if !matches!(kept, Ok(true)) {
            crate::files::remove_tree(&layer)?;
        }
        kept
    }

    fn gather(&self, state: &State, image: &[Lower], layer: &Path) -> io::Result<()> {
        crate::files::private_directory(layer)?;
        let chain: Vec<_> = state.chain.iter().map(|name| self.data(name)).collect();
        let image: Vec<_> = image.iter().map(|lower| lower.path.clone()).collect();
        merge(&chain, &image, &layer.join(DATA))
    }

    /// Has a state stand on that one layer, unless it has gone meanwhile.
    fn put(&self, state: &str, before: &State, layer: &str) -> io::Result<bool> {
        let after = State { chain: vec![layer.to_owned()], bytes: None, ..before.clone() };
        let (file, text) = (self.layer(state).join(STATE), serde_json::to_vec(&after).map_err(io::Error::other)?);
        let mut states = self.states.lock();
        let Some(known) = states.known.get_mut(state).filter(|known| known.chain == before.chain) else {
            return Ok(false);
        };
        // Whole or not at all; the file is small, and whoever else wants the lock can wait for it.
        let new = file.with_extension("new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, file)?;
        *known = after;
        Ok(true)
    }
}
