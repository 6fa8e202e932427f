//! Emptying a namespace, a part at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use thane_kv::Query;

use super::remains::Remains;
use crate::failure::{Failure, Result};
use crate::metadata;
use crate::objects::storage_failure;
use crate::options::DeleteOptions;
use crate::resource::ResourceType;
use crate::server::Inner;
use crate::verbs::delete::{Deletion, remove_object};

/// Objects between two looks at what else there is to do.
const SLICE: usize = 64;

/// One pass over everything in a namespace, pods before what protects them.
pub(super) struct Sweep {
    /// What is still to be emptied, the first one from `next` on.
    kinds: VecDeque<Arc<ResourceType>>,
    next: Option<Bytes>,
    left: Remains,
}

impl Sweep {
    pub(super) fn new(server: &Inner) -> Self {
        let mut kinds = server.catalog.types().collections();
        kinds.retain(|kind| kind.namespaced);
        kinds.sort_by_key(|kind| !kind.is("", "pods"));
        Self { kinds: kinds.into(), next: None, left: Remains::default() }
    }

    /// Deletes a part; whether the pass is over.
    pub(super) async fn step(&mut self, server: &Inner, namespace: &str) -> Result<bool> {
        let mut budget = SLICE;
        while let Some(kind) = self.kinds.front().cloned() {
            let mut query = Query::prefix(kind.key(namespace, ""));
            if let Some(next) = self.next.take() {
                query.start = next;
            }
            query.limit = Some(budget);
            let page = server.objects.store().range(query).await.map_err(storage_failure)?;
            for entry in &page.entries {
                let stored = server.objects.open(&kind, entry)?;
                let object = stored.value(&kind)?;
                let (name, options, now) = (metadata::name(&object), DeleteOptions::default(), server.clock.now());
                match remove_object(&server.objects, &kind, namespace, name, &options, Some(stored), now).await {
                    Ok(Deletion::Gone(_)) | Err(Failure { code: 404, .. }) => {}
                    Ok(Deletion::Marked(_)) => self.left.count(&kind, &object),
                    Err(failure) => return Err(failure),
                }
            }
            budget -= page.entries.len();
            if let Some(last) = page.entries.last().filter(|_| page.more) {
                self.next = Some([&last.key[..], &[0]].concat().into());
            } else if kind.is("", "pods") && !self.left.is_nothing() {
                self.kinds.clear();
            } else {
                self.kinds.pop_front();
            }
            if budget == 0 {
                break;
            }
        }
        Ok(self.kinds.is_empty())
    }

    /// What still waits for finalizers or grace.
    pub(super) fn left(self) -> Remains {
        self.left
    }
}
