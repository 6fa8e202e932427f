//! One channel of an agent, listened to for as long as a client wants it, however often the agent comes and goes.

use std::sync::Arc;
use std::time::Duration;

use thane_api::redis::{Ask, Said};
use thane_link::Line;
use tokio::sync::oneshot;

use super::desk::{Desk, Following, Told};
use super::metrics::Metrics;
use super::session::Answer;

pub(super) struct Follow {
    pub(super) desk: Arc<Desk>,
    pub(super) agent: String,
    pub(super) channel: String,
    pub(super) told: Arc<Told>,
    pub(super) ping_interval: Duration,
    pub(super) metrics: Metrics,
}

impl Follow {
    /// Runs until it is dropped. The first attempt answers the client: an agent that is not there is no reason to refuse
    /// it, since messages only say that something has changed, and that is told once the agent is back.
    pub(super) async fn run(self, confirm: oneshot::Sender<Answer>) {
        let mut confirm = Some(confirm);
        loop {
            let line = match self.desk.passage().line(&self.agent) {
                Some(line) => line,
                None => {
                    answer(&mut confirm, Answer::Subscribed);
                    self.desk.passage().connected(&self.agent).await
                }
            };
            // A name of its own: what an earlier subscription still says is not told twice.
            let following = self.desk.follow(&self.agent, &self.channel, &self.told);
            let asked = Ask::Subscribe(self.channel.clone());
            let said = self.desk.ask_on(&line, &self.agent, &following.id, asked).await;
            self.metrics.asked(&self.agent, "subscribe", said == Ok(Said::Subscribed));
            match said {
                Ok(Said::Refused(why)) if confirm.is_some() => {
                    let why = format!("agent {}: {why}", self.agent);
                    answer(&mut confirm, Answer::Failed("ERR", why));
                    return;
                }
                Ok(Said::Subscribed) => {
                    if confirm.is_none() {
                        // Something may have changed while nobody listened.
                        self.told.tell(&self.channel);
                    }
                    answer(&mut confirm, Answer::Subscribed);
                    self.keep(&line, &following).await;
                }
                _ => {
                    answer(&mut confirm, Answer::Subscribed);
                    tokio::select! {
                        () = line.ended() => {}
                        () = tokio::time::sleep(self.ping_interval) => {}
                    }
                }
            }
        }
    }

    /// Tells the agent that somebody still listens, until it is gone or does not answer.
    async fn keep(&self, line: &Line, following: &Following) {
        loop {
            tokio::select! {
                () = line.ended() => return,
                () = tokio::time::sleep(self.ping_interval) => {}
            }
            if self.desk.ask_on(line, &self.agent, &following.id, Ask::Ping).await != Ok(Said::Pong) {
                return;
            }
        }
    }
}

fn answer(confirm: &mut Option<oneshot::Sender<Answer>>, answer: Answer) {
    if let Some(confirm) = confirm.take() {
        // The client may have gone.
        let _ = confirm.send(answer);
    }
}
