//! `thane delete`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kube::core::Request;
use kube::core::params::{DeleteParams, PropagationPolicy};
use serde_json::Value;
use thane_api::code;
use thane_runtime::config::units::Span;

use super::apply::place;
use crate::failure::Failure;
use crate::kubernetes::catalog::Catalog;
use crate::kubernetes::connection::{Connection, Session, check_segment};
use crate::kubernetes::manifests;
use crate::kubernetes::stream::{self, Change, End};
use crate::kubernetes::target::{Selection, Target};
use crate::output::{print, tell};

/// Delete objects
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
#[derive(Debug, Args)]
#[command(override_usage = "thane delete [OPTIONS] <KIND> [NAME]...\n       thane delete [OPTIONS] --filename <FILE>")]
pub(crate) struct Delete {
    #[command(flatten)]
    selection: Option<Selection>,
    /// Manifest, directory of manifests, or - for stdin; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "kinds")]
    files: Vec<PathBuf>,
    /// Every object of the kind in the namespace
    #[arg(long)]
    all: bool,
    /// Seconds an object gets to end by itself
    #[arg(long, value_name = "SECONDS")]
    grace_period: Option<u32>,
    /// What happens to objects that belong to a deleted one
    #[arg(long, value_name = "POLICY", default_value = "background")]
    cascade: Cascade,
    /// An object that is not there is no failure
    #[arg(long)]
    ignore_not_found: bool,
    /// Do not wait until the objects are gone
    #[arg(long)]
    no_wait: bool,
    /// Longest wait until an object is gone
    #[arg(long, value_name = "DURATION", default_value_t = Span(Duration::from_mins(2)))]
    timeout: Span,
    /// Have the server check everything and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What happens to dependents.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Cascade {
    /// They are deleted afterwards
    Background,
    /// They are deleted first
    Foreground,
    /// They stay
    Orphan,
}

impl Delete {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let session = self.connection.open().await?;
        let catalog = session.catalog().await?;
        let targets = self.targets(&catalog, &session).await?;
        if targets.is_empty() {
            tell("no resources found");
        }
        let (mut deleted, mut first_failure) = (Vec::new(), None);
        for target in &targets {
            match self.delete(&session, target).await {
                Ok(uid) => deleted.extend(uid.map(|uid| (target, uid))),
                Err(failure) => {
                    failure.print();
                    first_failure.get_or_insert(failure.told());
                }
            }
        }
        if !self.no_wait && !self.dry_run {
            for (target, uid) in deleted {
                self.wait(&session, target, &uid).await?;
            }
        }
        first_failure.map_or(Ok(()), Err)
    }

    /// Every single object to delete.
    async fn targets(&self, catalog: &Catalog, session: &Session) -> Result<Vec<Target>, Failure> {
        let Some(selection) = &self.selection else {
            return self.named_in_files(catalog, session);
        };
        let targets = selection.targets(catalog, session)?;
        if selection.has_names() {
            return Ok(targets);
        }
        if !self.all && !selection.has_selector() {
            return Err(Failure::new(code::USAGE, "give names, a selector or --all"));
        }
        let mut objects = Vec::new();
        for target in targets {
            let list = target.fetch(session).await?;
            for item in super::get::items(list) {
                let field = |name: &str| item.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
                let namespace = field("namespace").map(str::to_owned);
                let name = field("name").unwrap_or_default().to_owned();
                objects.push(Target::object(target.resource.clone(), namespace, name));
            }
        }
        Ok(objects)
    }

    fn named_in_files(&self, catalog: &Catalog, session: &Session) -> Result<Vec<Target>, Failure> {
        if self.files.is_empty() {
            return Err(Failure::new(code::USAGE, "give a kind and names, or --filename"));
        }
        let mut targets = Vec::new();
        for manifest in manifests::read(&self.files)? {
            let resource = catalog.kind(&manifest.api_version, &manifest.kind)?;
            check_segment("name", &manifest.name)?;
            let namespace = place(resource, &manifest, session)?;
            targets.push(Target::object(resource.clone(), namespace, manifest.name));
        }
        Ok(targets)
    }

    /// Deletes one object; gives its uid if it may take a while to go.
    async fn delete(&self, session: &Session, target: &Target) -> Result<Option<String>, Failure> {
        let Some(name) = &target.name else { return Ok(None) };
        let params = DeleteParams {
            dry_run: self.dry_run,
            grace_period_seconds: self.grace_period,
            propagation_policy: Some(match self.cascade {
                Cascade::Background => PropagationPolicy::Background,
                Cascade::Foreground => PropagationPolicy::Foreground,
                Cascade::Orphan => PropagationPolicy::Orphan,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(target.resource.path(target.namespace.as_deref()));
        let answer: Value = match session.request(request.delete(name, &params)).await {
            Err(failure) if self.ignore_not_found && failure.is_not_found() => return Ok(None),
            answer => answer?,
        };
        let tail = if self.dry_run { " (dry run)" } else { "" };
        print(&format!("{}/{name} deleted{tail}\n", target.resource.label()))?;
        let uid = ["/metadata/uid", "/details/uid"].iter().find_map(|at| answer.pointer(at).and_then(Value::as_str));
        Ok(uid.map(str::to_owned))
    }

    async fn wait(&self, session: &Session, target: &Target, uid: &str) -> Result<(), Failure> {
        let waited = tokio::time::timeout(self.timeout.0, gone(session, target, uid)).await;
        waited.unwrap_or_else(|_| {
            let name = target.name.as_deref().unwrap_or_default();
            let message = format!("{}/{name} is still there after {}", target.resource.label(), self.timeout);
            Err(Failure::new(code::NOT_GONE, message))
        })
    }
}

/// Waits until the object with this uid is no more; one of the same name may have taken its place.
async fn gone(session: &Session, target: &Target, uid: &str) -> Result<(), Failure> {
    loop {
        let object = match target.fetch(session).await {
            Err(failure) if failure.is_not_found() => return Ok(()),
            object => object?,
        };
        let is_it = |object: &Value| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid);
        if !is_it(&object) {
            return Ok(());
        }
        let version = stream::version_of(&object).unwrap_or_default();
        let end = stream::follow(session, target, version, false, |change, object| {
            let over = change == Change::Deleted || !is_it(&object);
            Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        if end.await? == End::Enough {
            return Ok(());
        }
    }
}
