//! Pods beside what Argo's controller makes of the same templates.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::request::{ApiAddress, Identity, ImageCommand, Settings};
use super::*;

struct Case {
    template: Value,
    spec: Value,
    settings: Settings,
    repository: Option<Value>,
    claims: Vec<Value>,
}

fn case(template: Value) -> Case {
    let settings = Settings { image: "thane".to_owned(), ..Settings::default() };
    Case { template, spec: json!({}), settings, repository: None, claims: Vec::new() }
}

impl Case {
    fn made(&self) -> Result<StepPod, Refusal> {
        let workflow = Identity {
            name: "w".to_owned(),
            namespace: "n".to_owned(),
            uid: "u".to_owned(),
            instance: Some("thane".to_owned()),
        };
        pod(&PodRequest {
            workflow: &workflow,
            node_id: "w-1",
            node_name: "w[0].a",
            template: &self.template,
            boundary: None,
            spec: &self.spec,
            claims: &self.claims,
            repository: self.repository.as_ref(),
            active_seconds: Some(60),
            deadline: None,
            wants_result: true,
            on_exit: false,
            settings: &self.settings,
        })
    }

    fn json(&self) -> Value {
        serde_json::to_value(self.made().unwrap().pod).unwrap()
    }

    fn refusal(&self) -> String {
        self.made().unwrap_err().0
    }
}

fn named<'a>(pod: &'a Value, group: &str, name: &str) -> &'a Value {
    list(&pod["spec"][group]).iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

fn mounts(one: &Value) -> BTreeMap<String, String> {
    let all = list(&one["volumeMounts"]).iter();
    all.map(|mount| (text(mount, "mountPath").to_owned(), text(mount, "name").to_owned())).collect()
}

#[test]
fn a_container_is_wrapped_between_init_and_wait() {
    let template = json!({"name": "t", "container": {"image": "busybox", "command": ["echo"], "args": ["hi"]}});
    let pod = case(template).json();
    let meta = &pod["metadata"];
    assert_eq!(meta["name"], pod_name("w", "t", "w[0].a"));
    assert_eq!(meta["namespace"], "n");
    assert_eq!(meta["labels"], json!({WORKFLOW: "w", COMPLETED: "false", INSTANCE: "thane"}));
    assert_eq!(meta["annotations"][NODE_ID], "w-1");
    assert_eq!(meta["annotations"][NODE_NAME], "w[0].a");
    assert_eq!(meta["annotations"]["kubectl.kubernetes.io/default-container"], "main");
    assert_eq!(meta["ownerReferences"][0]["kind"], "Workflow");
    assert_eq!(meta["ownerReferences"][0]["uid"], "u");
    let names = |group: &str| -> Vec<String> {
        list(&pod["spec"][group]).iter().map(|one| text(one, "name").to_owned()).collect()
    };
    assert_eq!(
        (names("initContainers"), names("containers")),
        (vec!["init".to_owned()], vec!["wait".to_owned(), "main".to_owned()])
    );
    let main = named(&pod, "containers", "main");
    assert_eq!(main["command"], json!(["/var/run/argo/thane-executor", "step", "--", "echo"]));
    assert_eq!(main["args"], json!(["hi"]));
    assert_eq!(mounts(main), BTreeMap::from([("/var/run/argo".to_owned(), "var-run-argo".to_owned())]));
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 60);
    let init = named(&pod, "initContainers", "init");
    assert_eq!(init["command"], json!(["thane", "step", "init"]));
    let told = list(&init["env"]).iter().find(|one| one["name"] == "ARGO_TEMPLATE").unwrap();
    let told: Value = serde_json::from_str(text(told, "value")).unwrap();
    assert_eq!(told["container"]["args"], json!(["hi"]));
}

#[test]
fn scripts_are_staged() {
    let template =
        json!({"name": "t", "script": {"image": "python", "command": ["python"], "source": "print({{pod.name}})"}});
    let pod = case(template).json();
    let main = named(&pod, "containers", "main");
    assert_eq!(main["args"], json!(["/argo/staging/script"]));
    assert_eq!(mounts(main)["/argo/staging"], "argo-staging");
    let init = named(&pod, "initContainers", "init");
    assert_eq!(mounts(init)["/argo/staging"], "argo-staging");
    let words = serde_json::to_string(&init["env"]).unwrap();
    assert!(words.contains(&format!("print({})", pod["metadata"]["name"].as_str().unwrap())), "{words}");
}

#[test]
fn commands_of_images_come_from_settings() {
    let template = json!({"name": "t", "container": {"image": "whalesay"}, "sidecars": [
        {"name": "side", "image": "nginx", "command": ["nginx"], "mirrorVolumeMounts": true}]});
    let mut one = case(template);
    assert!(one.refusal().contains("failed to look-up entrypoint/cmd for image \"whalesay\""));
    let known = ImageCommand { entrypoint: vec!["cowsay".to_owned()], cmd: vec!["boo".to_owned()] };
    one.settings.images.insert("whalesay".to_owned(), known);
    one.settings.replace.insert("whalesay".to_owned(), "host".to_owned());
    let pod = one.json();
    let main = named(&pod, "containers", "main");
    assert_eq!(main["command"], json!(["/var/run/argo/thane-executor", "step", "--", "cowsay"]));
    assert_eq!((&main["args"], &main["image"]), (&json!(["boo"]), &json!("host")));
    let side = named(&pod, "containers", "side");
    assert_eq!(side["command"], json!(["/var/run/argo/thane-executor", "step", "--", "nginx"]));
    assert!(side["mirrorVolumeMounts"].is_null());
}

#[test]
fn volumes_are_found_and_seen_by_wait() {
    let mount =
        json!([{"name": "work", "mountPath": "/data"}, {"name": "claim", "mountPath": "/claim", "readOnly": true}]);
    let template = json!({"name": "t", "container": {"image": "i", "command": ["c"], "volumeMounts": mount},
        "inputs": {"artifacts": [
            {"name": "in", "path": "/in", "raw": {"data": "x"}}, {"name": "on", "path": "/data/x", "raw": {"data": "x"}},
            {"name": "none", "path": "/none", "optional": true}]}});
    let mut one = case(template);
    assert_eq!(one.refusal(), "volume 'work' not found in workflow spec");
    one.spec = json!({"volumes": [{"name": "work", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]});
    one.claims = vec![json!({"name": "claim", "persistentVolumeClaim": {"claimName": "w-claim"}})];
    let pod = one.json();
    let volumes: Vec<&str> = list(&pod["spec"]["volumes"]).iter().map(|one| text(one, "name")).collect();
    assert_eq!(volumes, ["var-run-argo", "tmp-dir-argo", "work", "claim", "input-artifacts"]);
    let wait = mounts(named(&pod, "containers", "wait"));
    assert_eq!((wait["/mainctrfs/data"].as_str(), wait["/mainctrfs/claim"].as_str()), ("work", "claim"));
    let main = mounts(named(&pod, "containers", "main"));
    assert_eq!(main["/in"], "input-artifacts");
    assert!(!main.contains_key("/data/x") && !main.contains_key("/none"));
    let init = mounts(named(&pod, "initContainers", "init"));
    assert_eq!(
        (init["/argo/inputs/artifacts"].as_str(), init["/mainctrfs/data"].as_str()),
        ("input-artifacts", "work")
    );
}

#[test]
fn stores_come_with_their_secrets() {
    let template = json!({"name": "t", "container": {"image": "i", "command": ["c"]},
        "outputs": {"artifacts": [{"name": "out", "path": "/out"}]}});
    let mut one = case(template);
    one.repository = Some(json!({"s3": {"endpoint": "127.0.0.1:9000", "insecure": true, "bucket": "b",
        "accessKeySecret": {"name": "s", "key": "a"}, "secretKeySecret": {"name": "s", "key": "b"}}}));
    one.settings.api = Some(ApiAddress { host: "127.0.0.1".to_owned(), port: 6443 });
    one.settings.egress = vec!["db:5432".to_owned()];
    let pod = one.json();
    let init = named(&pod, "initContainers", "init");
    assert_eq!(mounts(init)["/argo/secret/s"], "argo-secret-s");
    assert_eq!(mounts(named(&pod, "containers", "wait"))["/argo/secret/s"], "argo-secret-s");
    assert!(!mounts(named(&pod, "containers", "main")).contains_key("/argo/secret/s"));
    let told = serde_json::to_string(&init["env"]).unwrap();
    assert!(told.contains(&format!("w/{}", pod["metadata"]["name"].as_str().unwrap())), "{told}");
    assert_eq!(pod["metadata"]["annotations"]["thane.dev/egress"], "127.0.0.1:6443,db:5432,127.0.0.1:9000");
    let wait = named(&pod, "containers", "wait");
    assert_eq!(mounts(wait)["/var/run/secrets/kubernetes.io/serviceaccount"], "kube-api-access");
    one.repository = None;
    one.settings.artifacts = Some("thane-artifacts".to_owned());
    let pod = one.json();
    assert_eq!(mounts(named(&pod, "containers", "wait"))["/argo/artifacts"], "thane-artifacts");
}

#[test]
fn the_workflow_and_the_template_set_fields_of_the_pod() {
    let template = json!({"name": "t", "container": {"image": "i", "command": ["c"]}, "nodeSelector": {"a": "t"},
        "metadata": {"labels": {"l": "t"}, "annotations": {"x": "t"}}, "serviceAccountName": "sa",
        "podSpecPatch": "containers:\n- name: main\n  command: [patched]\nterminationGracePeriodSeconds: 3\n"});
    let mut one = case(template);
    one.spec = json!({"nodeSelector": {"a": "w"}, "tolerations": [{"key": "k"}], "hostAliases": [{"ip": "1.2.3.4"}],
        "podMetadata": {"labels": {"l": "w", "m": "w"}}, "podPriorityClassName": "p", "podGC": {"strategy": "OnPodSuccess"},
        "securityContext": {"runAsUser": 7}, "imagePullSecrets": [{"name": "pull"}]});
    let pod = one.json();
    let spec = &pod["spec"];
    assert_eq!(spec["nodeSelector"], json!({"a": "t"}));
    assert_eq!(spec["tolerations"], json!([{"key": "k"}]));
    assert_eq!((&spec["priorityClassName"], &spec["serviceAccountName"]), (&json!("p"), &json!("sa")));
    assert_eq!(spec["securityContext"], json!({"runAsUser": 7}));
    assert_eq!((&pod["metadata"]["labels"]["l"], &pod["metadata"]["labels"]["m"]), (&json!("t"), &json!("w")));
    assert_eq!(pod["metadata"]["annotations"][POD_GC], "OnPodSuccess/5s");
    let main = named(&pod, "containers", "main");
    assert_eq!(main["command"], json!(["/var/run/argo/thane-executor", "step", "--", "patched"]));
    let env = serde_json::to_string(&main["env"]).unwrap();
    assert!(env.contains("ARGO_TERMINATION_GRACE_PERIOD_SECONDS"), "{env}");
}

#[test]
fn resources_are_handled_by_main_itself() {
    let pod = case(json!({"name": "t", "resource": {"action": "create", "manifest": "kind: X"}})).json();
    assert!(pod["spec"]["initContainers"].is_null());
    let main = named(&pod, "containers", "main");
    assert_eq!(main["command"], json!(["thane", "step", "resource"]));
    assert_eq!(main["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(serde_json::to_string(&main["env"]).unwrap().contains("ARGO_TEMPLATE"));
    assert_eq!(list(&pod["spec"]["containers"]).len(), 1);
}

#[test]
fn what_is_too_large_for_a_variable_is_a_config_map() {
    let long = "x".repeat(200_000);
    let template = json!({"name": "t", "container": {"image": "i", "command": ["c"], "args": [long]}});
    let made = case(template).made().unwrap();
    let data = made.config.unwrap().data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["ARGO_CONTAINER_ARGS_FILE", "ARGO_TEMPLATE"]);
    let pod = serde_json::to_value(made.pod).unwrap();
    assert!(pod.to_string().len() < 20_000);
    assert_eq!(mounts(named(&pod, "containers", "main"))["/argo/config"], "argo-env-config");
}

#[test]
fn what_is_no_step_is_refused() {
    for template in [json!({}), json!({"steps": []}), json!({"name": "x", "suspend": {}}), json!({"container": 1})] {
        assert!(case(template.clone()).refusal().contains("has no pod"), "{template}");
    }
    let mut one = case(json!({"container": {"image": "i", "command": ["c"]}}));
    one.spec = json!({"automountServiceAccountToken": false});
    assert!(one.refusal().contains("executor.serviceAccountName must not be empty"));
    one.spec["executor"] = json!({"serviceAccountName": "e"});
    let pod = one.json();
    assert_eq!(
        mounts(named(&pod, "containers", "wait"))["/var/run/secrets/kubernetes.io/serviceaccount"],
        "exec-sa-token"
    );
    let wrong = case(json!({"container": {"image": 7, "command": ["c"]}}));
    assert!(wrong.refusal().contains("the template makes no pod"), "{}", wrong.refusal());
}

#[test]
fn artifacts_that_would_lose_their_encryption_are_refused() {
    let s3 = |more: Value| {
        let mut s3 = json!({"endpoint": "e", "bucket": "b", "key": "k"});
        for (name, value) in more.as_object().unwrap() {
            s3[name] = value.clone();
        }
        s3
    };
    let template = |artifact: Value| json!({"name": "t", "container": {"image": "i", "command": ["c"]}, "outputs": {"artifacts": [artifact]}});
    let own = json!({"name": "a", "path": "/a", "s3": s3(json!({"encryptionOptions": {"enableEncryption": true}}))});
    let why = case(template(own)).refusal();
    assert!(why.starts_with("artifact \"a\" asks for s3.encryptionOptions, which is not supported"), "{why}");
    let mut of_repository = case(template(json!({"name": "a", "path": "/a"})));
    of_repository.repository = Some(json!({"s3": s3(json!({"useSDKCreds": true}))}));
    assert!(of_repository.refusal().starts_with("the place of its artifacts asks for s3.useSDKCreds"));
    // Whoever has none of them there asks for nothing.
    let mut unused = case(json!({"name": "t", "container": {"image": "i", "command": ["c"]}}));
    unused.repository = Some(json!({"s3": s3(json!({"useSDKCreds": true}))}));
    assert!(unused.made().is_ok());
}
