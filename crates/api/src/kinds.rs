//! Definitions of the kinds that every server of `thane up` has.
//!
//! For Argo's kinds they are small ones of our own, which say no more than names, columns and that all fields stay; the
//! full upstream definitions can be applied over them.

use serde_json::{Value, json};

/// A kind with little more than its names.
struct Kind {
    name: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    columns: &'static [Column],
    /// Top-level fields besides `spec` and `status`.
    fields: &'static [&'static str],
}

struct Column(&'static str, &'static str, &'static str);

const ARGO: &[Kind] = &[
    Kind {
        name: "Application",
        plural: "applications",
        short_names: &["app", "apps"],
        namespaced: true,
        columns: &[
            Column("Sync Status", "string", ".status.sync.status"),
            Column("Health Status", "string", ".status.health.status"),
            Column("Revision", "string", ".status.sync.revision"),
            Column("Project", "string", ".spec.project"),
        ],
        fields: &["operation"],
    },
    Kind {
        name: "AppProject",
        plural: "appprojects",
        short_names: &["appproj", "appprojs"],
        namespaced: true,
        columns: &[],
        fields: &[],
    },
    Kind {
        name: "ApplicationSet",
        plural: "applicationsets",
        short_names: &["appset", "appsets"],
        namespaced: true,
        columns: &[],
        fields: &[],
    },
    Kind {
        name: "Workflow",
        plural: "workflows",
        short_names: &["wf"],
        namespaced: true,
        columns: &[
            Column("Status", "string", ".status.phase"),
            Column("Age", "date", ".status.startedAt"),
            Column("Message", "string", ".status.message"),
        ],
        fields: &[],
    },
    Kind {
        name: "WorkflowTemplate",
        plural: "workflowtemplates",
        short_names: &["wftmpl"],
        namespaced: true,
        columns: &[],
        fields: &[],
    },
    Kind {
        name: "ClusterWorkflowTemplate",
        plural: "clusterworkflowtemplates",
        short_names: &["clusterwftmpl", "cwft"],
        namespaced: false,
        columns: &[],
        fields: &[],
    },
    Kind {
        name: "WorkflowTaskResult",
        plural: "workflowtaskresults",
        short_names: &[],
        namespaced: true,
        columns: &[],
        fields: &["outputs", "phase", "message", "progress"],
    },
    Kind {
        name: "CronWorkflow",
        plural: "cronworkflows",
        short_names: &["cwf", "cronwf"],
        namespaced: true,
        columns: &[],
        fields: &[],
    },
];

/// Kinds of our own.
const THANE: &[Kind] = &[Kind {
    name: "Agent",
    plural: "agents",
    short_names: &[],
    namespaced: false,
    columns: &[
        Column("Mode", "string", ".status.mode"),
        Column("Connected", "boolean", ".status.connected"),
        Column("Version", "string", ".status.version"),
        Column("Since", "date", ".status.since"),
    ],
    fields: &[],
}];

/// The definitions, as `CustomResourceDefinition` objects.
pub fn definitions() -> Vec<Value> {
    let argo = ARGO.iter().map(|kind| definition("argoproj.io", kind));
    argo.chain(own_definitions()).collect()
}

/// Those of our own kinds, which a hub on any other API needs too.
pub fn own_definitions() -> impl Iterator<Item = Value> {
    THANE.iter().map(|kind| definition("thane.dev", kind))
}

fn definition(group: &str, kind: &Kind) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut properties = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    });
    for field in ["spec", "status"] {
        properties[field] = open.clone();
    }
    for field in kind.fields {
        properties[*field] = json!({"x-kubernetes-preserve-unknown-fields": true});
    }
    let columns: Vec<Value> =
        kind.columns.iter().map(|Column(name, of, path)| json!({"name": name, "type": of, "jsonPath": path})).collect();
    let mut version = json!({
        "name": "v1alpha1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties, "required": ["metadata"]}},
    });
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = columns.into();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{group}", kind.plural)},
        "spec": {
            "group": group,
            "names": {
                "kind": kind.name, "listKind": format!("{}List", kind.name), "plural": kind.plural,
                "singular": kind.name.to_lowercase(), "shortNames": kind.short_names,
            },
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [version],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_named_after_its_resource() {
        for object in definitions() {
            let (spec, name) = (&object["spec"], object["metadata"]["name"].as_str().unwrap());
            let plural = spec["names"]["plural"].as_str().unwrap();
            assert_eq!(name, format!("{plural}.{}", spec["group"].as_str().unwrap()));
        }
    }
}
