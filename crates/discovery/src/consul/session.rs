//! `/v1/session/*`.

use serde_json::json;

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::headers::Detail;
use super::options::ReadOptions;
use super::view::SessionView;
use crate::command::{Command, Outcome as Written, Refusal};
use crate::decode;
use crate::model::{Indexed, Policy, Resource, Session};
use crate::topic::{Row, Topic, TopicData};

impl Call<'_> {
    pub(super) async fn session_create(&self) -> Outcome {
        let mut session = decode::session(self.body()?, &self.place().node)?;
        self.datacenter()?;
        self.access.require(Resource::Session, &session.node, Policy::Write)?;
        session.id = uuid::Uuid::new_v4().to_string();
        let id = session.id.clone();
        let refused = |refusal| match refusal {
            Refusal::Failed(why) => Failure::failed(format!("apply failed: {why}")),
            other => Failure::from(other),
        };
        self.backend().write(&self.caller, Command::CreateSession(session)).await.map_err(refused)?;
        self.json(&json!({"ID": id}))
    }

    pub(super) async fn session_destroy(&self) -> Outcome {
        let id = self.named("Missing session")?;
        self.datacenter()?;
        self.vet().session(id).await?;
        self.write(Command::DestroySession(id.to_owned())).await?;
        self.json(&true)
    }

    pub(super) async fn session_renew(&self) -> Outcome {
        ReadOptions::parse(self.request)?;
        let id = self.named("Missing session")?;
        self.datacenter()?;
        self.vet().session(id).await?;
        let absent = || Failure::not_found(format!("Session id '{id}' not found"));
        match self.backend().write(&self.caller, Command::RenewSession(id.to_owned())).await {
            Ok(done) => match done.outcome {
                Written::Session(Some(session)) => self.json(&[SessionView::new(&session)]),
                _ => Err(absent()),
            },
            Err(Refusal::NotFound(_)) => Err(absent()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    pub(super) async fn session_info(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let id = self.named("Missing session")?;
        self.sessions(&options, |session| session.id == id).await
    }

    pub(super) async fn session_node(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let node = self.named("Missing node name")?;
        self.sessions(&options, |session| session.node.eq_ignore_ascii_case(node)).await
    }

    pub(super) async fn session_list(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.sessions(&options, |_| true).await
    }

    async fn sessions(&self, options: &ReadOptions, wanted: impl Fn(&Session) -> bool) -> Outcome {
        let any = |data: &TopicData| sessions(data).any(|session| wanted(&session.value));
        let reading = self.topic_if(&Topic::Sessions, options, any).await?;
        let (seen, hidden): (Vec<_>, Vec<_>) = sessions(&reading.data)
            .filter(|session| wanted(&session.value))
            .partition(|session| self.access.allows(Resource::Session, &session.value.node, Policy::Read));
        let views: Vec<_> = seen.into_iter().map(SessionView::new).collect();
        let mut answer = self.read_json(&views, &reading, options, Detail::Plain)?;
        self.tell_hidden(&mut answer, !hidden.is_empty());
        Ok(answer)
    }
}

fn sessions(data: &TopicData) -> impl Iterator<Item = &Indexed<Session>> {
    data.rows.iter().filter_map(|row| match row {
        Row::Session(session) => Some(session),
        _ => None,
    })
}
