//! What changed while hub or agent was away is made good when they meet again; what was deleted stays so. Whoever has the
//! truth, the hub or in autonomous mode the agent, the other ends with the same.

use anyhow::{Result, ensure};
use thane_testkit::fleet::object::{application, at_revision, revision, source_uid, status, status_at, uid};
use thane_testkit::fleet::{Mode, Pair, Side, Stop};

use crate::autonomous::mirrored;
use crate::managed::{distributed, settled};
use crate::suite::{Scenario, scenario};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(agent_asked_to_stop),
        scenario!(agent_killed),
        scenario!(hub_asked_to_stop),
        scenario!(hub_killed),
        scenario!(both_killed),
        scenario!(status_written_while_the_agent_was_away),
        scenario!(status_written_while_the_hub_was_away),
    ]
}

/// Who decides, and who follows.
fn sides(pair: &Pair) -> (&Side, &Side) {
    match pair.options.mode {
        Mode::Managed => (&pair.hub, &pair.spoke),
        Mode::Autonomous => (&pair.spoke, &pair.hub),
    }
}

/// An Application made where it is decided, and seen on the other side.
async fn followed(pair: &Pair, name: &str) -> Result<()> {
    match pair.options.mode {
        Mode::Managed => distributed(pair, name).await,
        Mode::Autonomous => mirrored(pair, name).await.map(drop),
    }
}

/// The names of one scenario's Applications.
struct Names {
    kept: String,
    changed: String,
    deleted: String,
    made: String,
    after: String,
}

impl Names {
    fn new(scenario: &str) -> Self {
        let name = |what: &str| format!("{scenario}-{what}");
        Self {
            kept: name("kept"),
            changed: name("changed"),
            deleted: name("deleted"),
            made: name("made"),
            after: name("after"),
        }
    }

    async fn before(&self, pair: &Pair) -> Result<()> {
        for name in [&self.kept, &self.changed, &self.deleted] {
            followed(pair, name).await?;
        }
        Ok(())
    }

    /// What users do meanwhile where it is decided.
    async fn meanwhile(&self, pair: &Pair) -> Result<()> {
        let truth = sides(pair).0.applications();
        truth.patch(&self.changed, &revision("v2")).await?;
        truth.delete(&self.deleted).await?;
        truth.create(&application(&self.made)).await?;
        Ok(())
    }

    async fn converged(&self, pair: &Pair) -> Result<()> {
        let (truth, copy) = sides(pair);
        let (truth, copy) = (truth.applications(), copy.applications());
        let wanted = [(&self.kept, "v1"), (&self.changed, "v2"), (&self.made, "v1")];
        for (name, wanted) in wanted {
            copy.until(name, wanted, |app| at_revision(app, wanted)).await?;
        }
        copy.until_gone(&self.deleted).await?;
        match pair.options.mode {
            Mode::Managed => settled(pair, &self.after).await?,
            Mode::Autonomous => followed(pair, &self.after).await?,
        }
        truth.ensure_absent(&self.deleted).await?;
        copy.ensure_absent(&self.deleted).await?;
        for (name, wanted) in wanted {
            let (Some(ours), Some(theirs)) = (truth.get(name).await?, copy.get(name).await?) else {
                anyhow::bail!("{name} is not on both sides")
            };
            ensure!(at_revision(&ours, wanted) && at_revision(&theirs, wanted), "{ours}\n{theirs}");
            ensure!(source_uid(&theirs) == uid(&ours), "{ours}\n{theirs}");
        }
        Ok(())
    }
}

async fn without_agent(pair: &mut Pair, how: Stop, scenario: &str) -> Result<()> {
    let names = Names::new(scenario);
    names.before(pair).await?;
    pair.stop_agent(how).await?;
    names.meanwhile(pair).await?;
    pair.start_agent()?;
    pair.connected().await?;
    names.converged(pair).await
}

async fn without_hub(pair: &mut Pair, how: Stop, scenario: &str) -> Result<()> {
    let names = Names::new(scenario);
    names.before(pair).await?;
    pair.stop_hub(how).await?;
    names.meanwhile(pair).await?;
    pair.start_hub().await?;
    pair.connected().await?;
    names.converged(pair).await
}

async fn agent_asked_to_stop(pair: &mut Pair) -> Result<()> {
    without_agent(pair, Stop::Asked, "agent-asked").await
}

async fn agent_killed(pair: &mut Pair) -> Result<()> {
    without_agent(pair, Stop::Killed, "agent-killed").await
}

async fn hub_asked_to_stop(pair: &mut Pair) -> Result<()> {
    without_hub(pair, Stop::Asked, "hub-asked").await
}

async fn hub_killed(pair: &mut Pair) -> Result<()> {
    without_hub(pair, Stop::Killed, "hub-killed").await
}

async fn both_killed(pair: &mut Pair) -> Result<()> {
    let names = Names::new("both-killed");
    names.before(pair).await?;
    pair.stop_hub(Stop::Killed).await?;
    pair.stop_agent(Stop::Killed).await?;
    names.meanwhile(pair).await?;
    // The agent comes up first and must wait for its hub.
    pair.start_agent()?;
    pair.start_hub().await?;
    pair.connected().await?;
    names.converged(pair).await
}

async fn status_written_while_the_agent_was_away(pair: &mut Pair) -> Result<()> {
    followed(pair, "agent-away").await?;
    pair.stop_agent(Stop::Killed).await?;
    pair.spoke.applications().patch("agent-away", &status("Synced", "Healthy", "away")).await?;
    pair.start_agent()?;
    pair.connected().await?;
    pair.hub.applications().until("agent-away", "at the status of meanwhile", |app| status_at(app, "away")).await?;
    Ok(())
}

async fn status_written_while_the_hub_was_away(pair: &mut Pair) -> Result<()> {
    followed(pair, "hub-away").await?;
    pair.stop_hub(Stop::Killed).await?;
    pair.spoke.applications().patch("hub-away", &status("Synced", "Healthy", "away")).await?;
    pair.start_hub().await?;
    pair.connected().await?;
    pair.hub.applications().until("hub-away", "at the status of meanwhile", |app| status_at(app, "away")).await?;
    Ok(())
}
