//! `thane workflow submit`.

use std::path::PathBuf;

use clap::Args;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use thane_api::code;
use thane_workload::controller::argo;

use super::{follow, value};
use crate::failure::Failure;
use crate::kubernetes::connection::Connection;
use crate::kubernetes::manifests;
use crate::output::{Structured, print, print_structured, tell};

/// Submit Workflows from files, or one from a template, and print their names
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// Manifests, or - for stdin
    #[arg(value_name = "FILE", required_unless_present = "from")]
    files: Vec<PathBuf>,
    /// A template in place of files: workflowtemplate/NAME or clusterworkflowtemplate/NAME
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "files")]
    from: Option<String>,
    /// A parameter of the Workflow, as NAME=VALUE
    #[arg(short, long = "parameter", value_name = "NAME=VALUE", value_parser = pair)]
    parameters: Vec<(String, String)>,
    /// The template to begin with
    #[arg(long, value_name = "NAME")]
    entrypoint: Option<String>,
    /// Its name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What its name begins with
    #[arg(long, value_name = "PREFIX")]
    generate_name: Option<String>,
    /// Labels, as NAME=VALUE
    #[arg(short, long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// The account its steps run as
    #[arg(long, value_name = "NAME")]
    serviceaccount: Option<String>,
    /// Follow it until it ends
    #[arg(short, long)]
    watch: bool,
    /// Form of the output
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    connection: Connection,
}

impl Submit {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let objects = self.objects()?;
        let session = self.connection.open().await?;
        for (source, object) in objects {
            let object = self.changed(object).map_err(|failure| failure.about(&source))?;
            let own = object["metadata"]["namespace"].as_str().filter(|_| !session.namespace_given);
            let namespace = own.unwrap_or(&session.namespace).to_owned();
            let object: DynamicObject = serde_json::from_value(object)
                .map_err(|error| Failure::new(code::MANIFEST_UNREADABLE, format!("{source}: {error}")))?;
            let api: Api<DynamicObject> = Api::namespaced_with(session.client.clone(), &namespace, &argo("Workflow"));
            let made = api
                .create(&PostParams::default(), &object)
                .await
                .map_err(|error| Failure::from(error).about(&source))?;
            let name = made.metadata.name.clone().unwrap_or_default();
            match self.output {
                Some(form) => print_structured(&value(&made)?, form)?,
                None if self.watch => tell(&format!("workflow {name} submitted")),
                None => print(&format!("{name}\n"))?,
            }
            if self.watch {
                follow::follow(&session, &namespace, &name).await?;
            }
        }
        Ok(())
    }

    fn objects(&self) -> Result<Vec<(String, Value)>, Failure> {
        let Some(from) = &self.from else {
            let all = manifests::read_unnamed(&self.files)?;
            let own = all.into_iter().filter(|(_, object)| object["kind"] == "Workflow").collect::<Vec<_>>();
            if own.is_empty() {
                return Err(Failure::new(code::MANIFEST_UNREADABLE, "there is no Workflow in what was given"));
            }
            return Ok(own);
        };
        let (kind, name) = from.split_once('/').unwrap_or(("workflowtemplate", from));
        let cluster = match kind.to_ascii_lowercase().as_str() {
            "workflowtemplate" | "wftmpl" => false,
            "clusterworkflowtemplate" | "cwft" => true,
            other => return Err(Failure::new(code::USAGE, format!("{other} is no kind of template"))),
        };
        let object = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
            "metadata": {"generateName": format!("{name}-")},
            "spec": {"workflowTemplateRef": {"name": name, "clusterScope": cluster}},
        });
        Ok(vec![(from.clone(), object)])
    }

    /// A manifest with what the command line says.
    fn changed(&self, mut object: Value) -> Result<Value, Failure> {
        if !object["spec"].is_object() || !object["metadata"].is_object() {
            return Err(Failure::new(code::MANIFEST_UNREADABLE, "a Workflow has metadata and a spec"));
        }
        if let Some(name) = &self.name {
            object["metadata"]["name"] = json!(name);
        }
        if let Some(prefix) = &self.generate_name
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("name");
            metadata.insert("generateName".to_owned(), json!(prefix));
        }
        for (name, value) in &self.labels {
            object["metadata"]["labels"][name] = json!(value);
        }
        for (field, value) in [("entrypoint", &self.entrypoint), ("serviceAccountName", &self.serviceaccount)] {
            if let Some(value) = value {
                object["spec"][field] = json!(value);
            }
        }
        for (name, value) in &self.parameters {
            let list = &mut object["spec"]["arguments"]["parameters"];
            if !list.is_array() {
                *list = json!([]);
            }
            let parameter = json!({"name": name, "value": value});
            let all = list.as_array_mut().into_iter().flatten().find(|one| one["name"] == name.as_str());
            match all {
                Some(found) => *found = parameter,
                None => list.as_array_mut().map(|all| all.push(parameter)).unwrap_or_default(),
            }
        }
        Ok(object)
    }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it looks like NAME=VALUE".to_owned()),
    }
}
