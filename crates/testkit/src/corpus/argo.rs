//! The real Argo Workflows on a real node, so that how it ends examples can be recorded.

use std::path::Path;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::{Store, image};
use crate::fleet::api::define;
use crate::peer::{Absence, Guarded, Image, Node, PeerHome};

/// Where Workflows are.
pub const NAMESPACE: &str = "argo";
/// Where volumes are, in what a node removes when it ends.
const VOLUMES: &str = "/tmp/thane-node/volumes";
/// As many claims as examples make.
const VOLUMES_MAX: u32 = 8;
const EXECUTOR: &str = "localhost/argoexec:1";

/// Argo's controller and all it stands on; dropping it ends everything.
pub struct Argo {
    _controller: Guarded,
    _folder: tempfile::TempDir,
    store: Store,
    client: Client,
    _node: Node,
}

impl Argo {
    /// Whether it can be had here; if not, what to do about it.
    pub fn require(home: &PeerHome) -> Result<(), Absence> {
        Node::require(home)?;
        home.require(&["workflow-controller", "argoexec", "minio"])?;
        image(home).map(drop)
    }

    /// Starts node, store and controller.
    pub async fn start(home: &PeerHome) -> Result<Self> {
        let standin = home.image("standin");
        let executor = Image::Program { name: "argoexec", tag: EXECUTOR, path: home.program("argoexec") };
        let node = Node::start(home, &[Image::Archive(&standin), executor]).await?;
        let client = node.api().client().await?;
        let store = Store::start(home, node.host().into()).await?;
        define(&client, &home.definitions("argo-workflows")).await?;
        for object in objects(&store) {
            apply(&client, &object).await?;
        }
        let folder = tempfile::Builder::new().prefix("thane-argo-").tempdir()?;
        let controller = controller(home, &node, folder.path())?;
        Ok(Self { _controller: controller, _folder: folder, store, client, _node: node })
    }

    /// Its API.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where artifacts go.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

fn controller(home: &PeerHome, node: &Node, folder: &Path) -> Result<Guarded> {
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, node.api().endpoint().kubeconfig(NAMESPACE)?)?;
    let program = home.program("workflow-controller").display().to_string();
    let mut words = vec!["LEADER_ELECTION_DISABLE=true".to_owned(), program];
    words.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
    let flags = ["--executor-image", EXECUTOR, "--namespaced", "--namespace", NAMESPACE];
    words.extend(flags.into_iter().chain(["--managed-namespace", NAMESPACE]).map(str::to_owned));
    let log = std::env::var_os("CORPUS_LOG").map_or_else(|| folder.join("log"), Into::into);
    Guarded::start("env".as_ref(), &words, &log, Some(folder))
}

/// The controller's settings, and what steps may do.
fn objects(store: &Store) -> Vec<Value> {
    let present = json!({"imagePullPolicy": "IfNotPresent"}).to_string();
    // Our packer's images have another user, who may not read what steps leave.
    let executor = json!({"imagePullPolicy": "IfNotPresent", "securityContext": {"runAsUser": 0}}).to_string();
    let argosay = json!({"entrypoint": ["argosay"]});
    let images = json!({"argoproj/argosay:v1": argosay, "argoproj/argosay:v2": argosay}).to_string();
    let data = json!({"executor": executor, "mainContainer": present, "images": images,
        "artifactRepository": store.repository().to_string()});
    let settings = "workflow-controller-configmap";
    let all = json!(["*"]);
    let volume = |number: u32| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("volume-{number}")}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": format!("{VOLUMES}/{number}"), "type": "DirectoryOrCreate"}}})
    };
    let mut objects: Vec<Value> = (0..VOLUMES_MAX).map(volume).collect();
    objects.extend([
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": settings, "namespace": NAMESPACE}, "data": data}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "steps", "namespace": NAMESPACE},
            "rules": [{"apiGroups": all, "resources": all, "verbs": all}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "steps", "namespace": NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "steps"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}]}),
    ]);
    objects
}

async fn apply(client: &Client, object: &Value) -> Result<()> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").rsplit_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let applied =
        api.patch(text("/metadata/name"), &PatchParams::apply("testkit").force(), &Patch::Apply(object)).await;
    applied.map(drop).with_context(|| format!("applying {} {}", text("/kind"), text("/metadata/name")))
}
