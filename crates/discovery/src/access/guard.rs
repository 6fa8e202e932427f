//! The tokens as an edge holds them.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::{Instant, timeout_at};

use super::{Access, Tokens, UnknownToken};
use crate::backend::{Backend, Consistency, Reading};
use crate::command::Refusal;
use crate::topic::{Topic, TopicData};

/// How long a request waits for an agent to be told for the first time which tokens there are.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks for tokens, and keeps them ready as long as they do not change.
pub struct Guard {
    backend: Arc<dyn Backend>,
    known: ArcSwapOption<Known>,
}

struct Known {
    data: Arc<TopicData>,
    tokens: Arc<Tokens>,
}

/// Why nobody gets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody knows the token.
    #[error(transparent)]
    Unknown(#[from] UnknownToken),
    /// It is not known yet which tokens there are.
    #[error(
        "this agent has not been told yet which tokens there are: it has to reach its hub once, or be started with \
         --open-until-told"
    )]
    Untold,
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            // Its words are all that Consul says.
            Refused::Unknown(unknown) => Self::Unknown(unknown.to_string()),
            Refused::Untold => Self::Forbidden(refused.to_string()),
        }
    }
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

    /// What the bearer of a secret may do, if that is known without waiting.
    pub fn quick(&self, secret: Option<&str>) -> Option<Access> {
        let reading = self.backend.ready(&Topic::Tokens, Consistency::Stale)?;
        self.tokens(reading).resolve(secret, self.backend.now()).ok()
    }

    /// What the bearer of a secret, or of none, may do.
    ///
    /// An agent keeps the tokens it was given across restarts. Before it was ever given any it cannot know whether there
    /// are some, and lets nobody in unless it was told to.
    pub async fn access(&self, secret: Option<&str>) -> Result<Access, Refused> {
        let reading = match self.backend.ready(&Topic::Tokens, Consistency::Stale) {
            Some(reading) => reading,
            None => match self.told().await {
                Some(reading) => reading,
                None if self.backend.is_open_until_told() => return Ok(Access::default()),
                None => return Err(Refused::Untold),
            },
        };
        Ok(self.tokens(reading).resolve(secret, self.backend.now())?)
    }

    /// What the hub says; an agent that has just started is given a moment to reach it.
    async fn told(&self) -> Option<Reading> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Taken before the reading, or a change between the two is missed.
            let told = self.backend.wake(&Topic::Tokens);
            if let Ok(reading) = self.backend.read(&Topic::Tokens, Consistency::Stale).await {
                return Some(reading);
            }
            if self.backend.is_open_until_told() || timeout_at(deadline, told).await.is_err() {
                return None;
            }
        }
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
