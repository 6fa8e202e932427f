//! The tokens as an edge holds them.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::{Access, Tokens, UnknownToken};
use crate::backend::{Backend, Consistency, Reading};
use crate::topic::{Topic, TopicData};

/// Asks for tokens, and keeps them ready as long as they do not change.
pub struct Guard {
    backend: Arc<dyn Backend>,
    known: ArcSwapOption<Known>,
}

struct Known {
    data: Arc<TopicData>,
    tokens: Arc<Tokens>,
}

impl Guard {
    /// A guard over what a backend holds.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, known: ArcSwapOption::empty() }
    }

    /// Whether nobody is asked for a token, known without waiting.
    pub fn is_open(&self) -> bool {
        let reading = self.backend.ready(&Topic::Tokens, Consistency::Stale);
        reading.is_some_and(|reading| self.tokens(reading).is_open())
    }

    /// What the bearer of a secret, or of none, may do.
    ///
    /// A backend that never heard of tokens has nothing to enforce: an agent keeps those it was given across restarts.
    pub async fn access(&self, secret: Option<&str>) -> Result<Access, UnknownToken> {
        let reading = match self.backend.ready(&Topic::Tokens, Consistency::Stale) {
            Some(reading) => reading,
            None => match self.backend.read(&Topic::Tokens, Consistency::Stale).await {
                Ok(reading) => reading,
                Err(_) => return Ok(Access::default()),
            },
        };
        self.tokens(reading).resolve(secret)
    }

    fn tokens(&self, reading: Reading) -> Arc<Tokens> {
        if let Some(known) = self.known.load().as_ref()
            && Arc::ptr_eq(&known.data, &reading.data)
        {
            return Arc::clone(&known.tokens);
        }
        let tokens = Arc::new(Tokens::new(&reading.data));
        self.known.store(Some(Arc::new(Known { data: reading.data, tokens: Arc::clone(&tokens) })));
        tokens
    }
}
