//! `thane workflow lint`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use thane_api::code;
use thane_workload::controller::argo;
use thane_workload::lint::{Offline, Others, Report, Source, check};
use thane_workload::spec::{self, WorkflowTemplate};

use crate::failure::Failure;
use crate::kubernetes::connection::{Connection, Session};
use crate::kubernetes::manifests;
use crate::output::{Structured, print, print_structured};

/// Templates of an API server are asked for in pages of this size.
const PAGE: u32 = 500;

/// Check files of Workflows, templates and `CronWorkflows`
///
/// Needs no API server: what the files refer to is looked up among them, and, where a
/// kubeconfig or context is given, among the templates of that API server.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Manifests, directories of manifests, or - for stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    connection: Connection,
}

impl Lint {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let sources: Vec<Source> =
            manifests::texts(&self.files)?.into_iter().map(|(name, text)| Source { name, text }).collect();
        let report = if self.connection.is_given() {
            check(&sources, &Online::read(&self.connection.open().await?).await?)
        } else {
            check(&sources, &Offline)
        };
        match self.output {
            Some(form) => print_structured(&report, form)?,
            None => print(&shown(&report))?,
        }
        if report.is_valid() {
            return Ok(());
        }
        if report.findings.is_empty() {
            return Err(Failure::new(code::MANIFEST_UNREADABLE, "found nothing to lint in what was given"));
        }
        Err(Failure::new(code::MANIFEST_UNREADABLE, "the workflows are not valid").told())
    }
}

fn shown(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let object = if finding.object.is_empty() { String::new() } else { format!("in {}: ", finding.object) };
        text.extend([format!("{}: {object}{}\n", finding.file, finding.message)]);
    }
    if report.is_valid() {
        text.extend([format!("no linting errors found in {} objects\n", report.objects)]);
    }
    text
}

/// The templates of an API server, by namespace; none for those of the cluster.
struct Online(BTreeMap<(Option<String>, String), Arc<WorkflowTemplate>>);

impl Online {
    async fn read(session: &Session) -> Result<Self, Failure> {
        let mut known = BTreeMap::new();
        for kind in ["WorkflowTemplate", "ClusterWorkflowTemplate"] {
            let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &argo(kind));
            let mut params = ListParams::default().limit(PAGE);
            loop {
                let page = api.list(&params).await?;
                for object in page.items {
                    let namespace = object.metadata.namespace.clone();
                    let name = object.metadata.name.clone().unwrap_or_default();
                    let value = super::value(&object)?;
                    let Ok(template) = spec::from_value::<WorkflowTemplate>(value).map(Arc::new) else { continue };
                    // a file without a namespace goes to that of the connection
                    if namespace.as_ref() == Some(&session.namespace) {
                        known.insert((Some(String::new()), name.clone()), Arc::clone(&template));
                    }
                    known.insert((namespace, name), template);
                }
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(Self(known))
    }
}

impl Others for Online {
    fn find(&self, namespace: Option<&str>, name: &str) -> Option<Arc<WorkflowTemplate>> {
        self.0.get(&(namespace.map(str::to_owned), name.to_owned())).cloned()
    }
}
