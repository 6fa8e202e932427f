//! The containers that run here, for whoever works in them.

use std::sync::Arc;

use futures::future::BoxFuture;
use thane_runtime::pods::{AccessError, ContainerAt};
use thane_runtime::rooms::{Layers, Room, Rooms};

use crate::layers::{ContainerLayers, Files};
use crate::node::Node;
use crate::program::Living;

impl Rooms for Node {
    fn room(&self, at: ContainerAt) -> BoxFuture<'_, Result<Room, AccessError>> {
        Box::pin(async move {
            let gone = || AccessError::NotFound(format!("container {:?} does not run here", at.container));
            let directory = self.shared.pod(&at.uid);
            let number = directory.last_attempt(&at.container).ok_or_else(gone)?;
            let attempt = directory.attempt(&at.container, number);
            let record = attempt.read().ok_or_else(gone)?;
            Living::find(&record.started).filter(|_| !attempt.has_ended()).ok_or_else(gone)?;
            let files = Files::read(attempt.path());
            if files.as_ref().is_some_and(|files| files.intent.is_some()) && !self.shared.layers.is_busy(&at) {
                // An earlier process was interrupted, and we have not gone on with it yet.
                return Err(AccessError::Failed("the container's files are being put in order".to_owned()));
            }
            let (run, records) = (attempt.run(), directory.records(&at.container));
            let layers = files.map(|_| {
                let layers = ContainerLayers::new(Arc::clone(&self.shared), at, attempt);
                Arc::new(layers) as Arc<dyn Layers>
            });
            Ok(Room { run, records, layers })
        })
    }
}
