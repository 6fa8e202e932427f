//! `thane apply`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams, ValidationDirective};
use serde_json::{Value, json};
use thane_api::code;

use crate::failure::Failure;
use crate::kubernetes::catalog::{Catalog, Resource};
use crate::kubernetes::connection::{Connection, Session, check_segment};
use crate::kubernetes::manifests::{self, Manifest};
use crate::output::{Structured, print, print_structured};

/// How long a kind whose definition was applied just now may take to appear.
const KIND_WAITS: u32 = 40;
const KIND_PAUSE: Duration = Duration::from_millis(250);

/// Apply manifests to an API server
///
/// Applies on the server: it merges what the manifests say with what others own, and refuses
/// to take over fields that someone else set to another value.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Manifest, directory of manifests, or - for stdin; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Accepted so that kubectl's command lines work: applying is always done on the server
    #[arg(long, hide = true)]
    server_side: bool,
    /// Take over fields that others own
    #[arg(long)]
    force_conflicts: bool,
    /// Name under which the server notes who owns the fields
    #[arg(long, value_name = "NAME", default_value = "thane")]
    field_manager: String,
    /// Have the server check everything and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Show the applied objects in this form
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    connection: Connection,
}

impl Apply {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let manifests = manifests::read(&self.files)?;
        let session = self.connection.open().await?;
        let mut run = Run { apply: &self, catalog: session.catalog().await?, session, defined_kinds: false };
        let (mut applied, mut first_failure) = (Vec::new(), None);
        for manifest in &manifests {
            match run.one(manifest).await {
                Ok(object) => applied.push(object),
                Err(failure) => {
                    let failure = failure.about(&format!("{}: {} {}", manifest.source, manifest.kind, manifest.name));
                    failure.print();
                    first_failure.get_or_insert(failure.told());
                }
            }
        }
        self.show(applied)?;
        first_failure.map_or(Ok(()), Err)
    }

    fn show(&self, mut applied: Vec<Value>) -> Result<(), Failure> {
        match self.output {
            None => Ok(()),
            Some(form) if applied.len() == 1 => print_structured(&applied.swap_remove(0), form),
            Some(form) => print_structured(&json!({"apiVersion": "v1", "kind": "List", "items": applied}), form),
        }
    }

    fn params(&self) -> PatchParams {
        PatchParams {
            dry_run: self.dry_run,
            force: self.force_conflicts,
            field_manager: Some(self.field_manager.clone()),
            field_validation: Some(ValidationDirective::Strict),
        }
    }
}

struct Run<'a> {
    apply: &'a Apply,
    session: Session,
    catalog: Catalog,
    /// Whether a definition of kinds was applied, so that an unknown kind may still appear.
    defined_kinds: bool,
}

impl Run<'_> {
    async fn one(&mut self, manifest: &Manifest) -> Result<Value, Failure> {
        let resource = self.resource(manifest).await?;
        check_segment("name", &manifest.name)?;
        let namespace = place(&resource, manifest, &self.session)?;
        let mut object = manifest.object.clone();
        if let Some(namespace) = &namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let request = Request::new(resource.path(namespace.as_deref()));
        let patch = request.patch(&manifest.name, &self.apply.params(), &Patch::Apply(&object));
        let applied: Value = self.session.request(patch).await?;
        self.defined_kinds |= resource.kind == "CustomResourceDefinition";
        if self.apply.output.is_none() {
            let tail = if self.apply.dry_run { " (dry run)" } else { "" };
            print(&format!("{}/{} applied{tail}\n", resource.label(), manifest.name))?;
        }
        Ok(applied)
    }

    async fn resource(&mut self, manifest: &Manifest) -> Result<Resource, Failure> {
        let mut waits = 0;
        loop {
            match self.catalog.kind(&manifest.api_version, &manifest.kind) {
                Ok(resource) => return Ok(resource.clone()),
                Err(failure) if !self.defined_kinds || waits >= KIND_WAITS => return Err(failure),
                Err(_) => {
                    waits += 1;
                    tokio::time::sleep(KIND_PAUSE).await;
                    self.catalog = self.session.catalog().await?;
                }
            }
        }
    }
}

/// The namespace an object goes to: its own, else the command's.
pub(super) fn place(resource: &Resource, manifest: &Manifest, session: &Session) -> Result<Option<String>, Failure> {
    if !resource.namespaced {
        return Ok(None);
    }
    let Some(own) = &manifest.namespace else { return Ok(Some(session.namespace.clone())) };
    check_segment("namespace", own)?;
    if session.namespace_given && *own != session.namespace {
        let message = format!("the manifest says namespace {own}, the command line says {}", session.namespace);
        return Err(Failure::new(code::USAGE, message));
    }
    Ok(Some(own.clone()))
}
