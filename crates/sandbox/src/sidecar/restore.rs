//! Binding a sandbox to a session, and bringing it to other files or another past.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use thane_api::wire::sandbox::{BindRequest, Change, RestoreRequest, StepRecord};
use thane_executor::message::Request;
use thane_runtime::pods::ContainerAt;
use thane_runtime::rooms::Layers;
use tonic::Status;

use super::desk::{Desk, blocking};
use super::executor;
use super::steps::{Fact, NONE, StepLog};

/// How long ended processes may take to go.
const RESET_MS: u64 = 10_000;
/// Variables of a session, and their bytes.
const ENV_MAX: usize = 20_000;
const ENV_BYTES_MAX: usize = 512 * 1024;
/// Files of a session.
const FILES_MAX: usize = 1000;

impl Desk {
    /// Gives a sandbox its session's environment and files, once.
    pub(super) async fn bind(&self, request: BindRequest) -> Result<(), Status> {
        check(&request)?;
        let digest = digest(&request);
        let _turn = self.turn.lock().await;
        match self.log.bound() {
            Some((session, known)) if session == request.session && known == digest => return Ok(()),
            Some((session, _)) if session == request.session => {
                return Err(Status::failed_precondition("the session was bound with something else before"));
            }
            Some(_) => return Err(Status::failed_precondition("the sandbox is bound to another session")),
            None => {}
        }
        if !request.env.is_empty() {
            self.ask(Request::Bind { env: request.env.clone().into_iter().collect() }).await?;
        }
        for file in &request.files {
            let mode = if file.mode == 0 { 0o644 } else { file.mode };
            self.put_file(&file.path, Some(mode), &file.content).await?;
        }
        self.append(vec![Fact::Bound(request, digest)], true).await?;
        self.touch();
        Ok(())
    }

    /// What the session was bound with.
    pub(super) async fn bound(&self, session: &str) -> Result<BindRequest, Status> {
        self.check_session(session)?;
        let log = Arc::clone(&self.log);
        blocking(move || log.bound_with()).await
    }

    /// Records a change between steps where files are not kept, so that it can be made again.
    pub(super) async fn changed(&self, change: Change) -> Result<(), Status> {
        if self.room().layers.is_some() {
            return Ok(());
        }
        let kept = Some(change).filter(|change| self.log.can_change(change.content.len()));
        self.append(vec![Fact::Changed(kept)], false).await
    }

    /// Makes changes again.
    pub(super) async fn change(&self, changes: &[Change]) -> Result<(), Status> {
        for change in changes {
            if change.removed {
                match self.remove(&change.path).await {
                    Err(status) if status.code() == tonic::Code::NotFound => {}
                    removed => drop(removed?),
                }
            } else {
                self.put_file(&change.path, None, &change.content).await?;
            }
        }
        Ok(())
    }

    /// Ends every process and brings back the files of a step; says which step that is.
    pub(super) async fn restore(self: &Arc<Self>, request: RestoreRequest) -> Result<i64, Status> {
        self.check_session(&request.session)?;
        let restored = self.bring_back(&request).await;
        self.metrics.restore(if restored.is_ok() { "ok" } else { "failed" });
        self.touch();
        restored
    }

    async fn bring_back(self: &Arc<Self>, request: &RestoreRequest) -> Result<i64, Status> {
        let layers = self.room().layers;
        let layers = layers.ok_or_else(|| Status::failed_precondition("files are not kept here"))?;
        let (step, state) = named(&request.snapshot)?;
        let own = request.source_pod_uid.is_empty() || request.source_pod_uid == self.at.uid;
        if own && step != NONE && self.log.snapshot(step).as_deref() != Some(request.snapshot.as_str()) {
            return Err(Status::not_found(format!("there is no snapshot {:?}", request.snapshot)));
        }
        let past = if own { Vec::new() } else { self.past_of(&request.source_pod_uid, step).await? };
        // What runs ends now, so that the turn comes; what waits comes before.
        self.reset_processes().await?;
        let _turn = self.turn.lock().await;
        if !past.is_empty() && self.log.next() != 0 {
            return Err(Status::failed_precondition("the sandbox has steps of its own already"));
        }
        self.put_back(&*layers, state).await?;
        let mut facts: Vec<Fact> = past.into_iter().map(Fact::Ended).collect();
        facts.push(Fact::Moved(step));
        self.append(facts, true).await?;
        Ok(step)
    }

    /// Ends every process and puts other files in place, while nobody changes one or starts another process.
    async fn put_back(&self, layers: &dyn Layers, state: &str) -> Result<(), Status> {
        let mut files = self.files.write().await;
        self.reset_processes().await?;
        *files += 1;
        layers.restore(state.to_owned()).await.map_err(executor::access)
    }

    /// The steps up to one of another sandbox on this machine.
    async fn past_of(&self, uid: &str, step: i64) -> Result<Vec<StepRecord>, Status> {
        let at = ContainerAt { uid: uid.to_owned(), container: self.at.container.clone() };
        let room = self.rooms.room(at).await.map_err(executor::access)?;
        let records = room.records;
        let steps = blocking(move || StepLog::branch_of(&records, step)).await?;
        match steps {
            Some(steps) => Ok(steps),
            None if step == NONE => Ok(Vec::new()),
            None => Err(Status::not_found(format!("the other sandbox has no step {step}"))),
        }
    }

    /// Ends every process.
    pub(super) async fn reset_processes(&self) -> Result<(), Status> {
        self.ask(Request::Reset { patience_ms: RESET_MS }).await.map(|_| ())
    }

    /// Ends every process, and brings back the files as they were made unless they are to stay.
    pub(super) async fn reset(&self, preserve_files: bool) -> Result<(), Status> {
        let layers = self.room().layers;
        if !preserve_files && layers.is_none() {
            return Err(Status::failed_precondition("files are not kept here, so they cannot be brought back"));
        }
        self.reset_processes().await?;
        if let Some(layers) = layers.filter(|_| !preserve_files) {
            let _turn = self.turn.lock().await;
            self.put_back(&*layers, "").await?;
            self.append(vec![Fact::Moved(NONE)], true).await?;
        }
        self.touch();
        Ok(())
    }

    /// Takes over the steps of another sandbox, which were run here again.
    pub(super) async fn inherit(&self, records: Vec<StepRecord>) -> Result<i64, Status> {
        let _turn = self.turn.lock().await;
        let head = records.iter().filter(|record| record.live).map(|record| record.index).max().unwrap_or(NONE);
        let mut facts = vec![Fact::Forgotten];
        // Files of another machine cannot be brought back here.
        facts.extend(records.into_iter().map(|record| Fact::Ended(StepRecord { snapshot: String::new(), ..record })));
        facts.push(Fact::Moved(head));
        self.append(facts, true).await?;
        Ok(self.log.next())
    }
}

/// The step and the state that a snapshot names.
fn named(snapshot: &str) -> Result<(i64, &str), Status> {
    if snapshot.is_empty() {
        return Ok((NONE, ""));
    }
    let parts = snapshot.split_once('.').and_then(|(step, state)| Some((step.parse().ok()?, state)));
    parts.ok_or_else(|| Status::not_found(format!("there is no snapshot {snapshot:?}")))
}

fn check(request: &BindRequest) -> Result<(), Status> {
    if request.session.is_empty() {
        return Err(Status::invalid_argument("there is no session"));
    }
    let bytes: usize = request.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if request.env.len() > ENV_MAX || bytes > ENV_BYTES_MAX {
        let count = request.env.len();
        return Err(Status::invalid_argument(format!(
            "the environment has {count} variables of {bytes} bytes; at most {ENV_MAX} of {ENV_BYTES_MAX}"
        )));
    }
    let bad = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = request.env.keys().find(bad) {
        return Err(Status::invalid_argument(format!("{name:?} is no name of a variable")));
    }
    if request.env.values().any(|value| value.contains('\0')) {
        return Err(Status::invalid_argument("the environment cannot contain NUL"));
    }
    if request.files.len() > FILES_MAX {
        return Err(Status::invalid_argument(format!("at most {FILES_MAX} files can be bound")));
    }
    Ok(())
}

fn digest(request: &BindRequest) -> Vec<u8> {
    let mut sha = Sha256::new();
    let mut add = |bytes: &[u8]| {
        sha.update((bytes.len() as u64).to_be_bytes());
        sha.update(bytes);
    };
    let mut env: Vec<_> = request.env.iter().collect();
    env.sort();
    for (name, value) in env {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    add(b"files");
    for file in &request.files {
        add(file.path.as_bytes());
        add(&file.mode.to_be_bytes());
        add(&file.content);
    }
    sha.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_say_their_step() {
        assert_eq!(named("").unwrap(), (NONE, ""));
        assert_eq!(named("12.abc").unwrap(), (12, "abc"));
        assert_eq!(named("0.").unwrap(), (0, ""));
        for wrong in ["x", "x.y", "12", "."] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_bound_is_named() {
        let with = |env: &[(&str, &str)]| BindRequest {
            session: "s".to_owned(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            files: Vec::new(),
        };
        assert!(check(&with(&[("A", "1")])).is_ok());
        for wrong in [with(&[("", "1")]), with(&[("A=B", "1")]), with(&[("A", "a\0b")]), BindRequest::default()] {
            assert_eq!(check(&wrong).unwrap_err().code(), tonic::Code::InvalidArgument);
        }
        let mut many = with(&[]);
        many.env = (0..10_000).map(|number| (format!("V{number}"), "x".to_owned())).collect();
        assert!(check(&many).is_ok(), "ten thousand are allowed");
        many.env.insert("BIG".to_owned(), "x".repeat(ENV_BYTES_MAX));
        assert!(check(&many).unwrap_err().message().contains("at most"));
    }
}
