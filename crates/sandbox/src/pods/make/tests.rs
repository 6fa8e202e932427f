use serde_json::{Value, json};

use super::*;

fn pool() -> WarmPool {
    serde_json::from_value(json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool",
        "metadata": {"name": "p", "namespace": "n", "uid": "pool"},
        "spec": {
            "replicas": 1,
            "template": {
                "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
                "spec": {
                    "serviceAccountName": "own", "restartPolicy": "Always", "hostNetwork": true,
                    "containers": [
                        {"name": "main", "image": "any", "command": ["server"], "args": ["-v"],
                            "securityContext": {"privileged": true, "runAsUser": 0}},
                        {"name": "beside", "image": "other"},
                    ],
                },
            },
            "tools": {
                "inline": [{"name": "greet", "runtime": "bash", "entrypoint": "run.sh", "files": {"run.sh": "echo hi", "manifest.json": "{}"}}],
                "configMaps": [{"name": "more"}], "images": [{"image": "tools:1"}],
            },
        },
    }))
    .unwrap()
}

fn made(shape: &Shape) -> Value {
    serde_json::to_value(make(&pool(), shape, None)).unwrap()
}

fn cluster() -> Shape {
    Shape::Kubernetes(Kubernetes { image: "thane:1".into(), secret: "sidecars".into() })
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn a_pod_that_waits_is_its_pools() {
    let pod = made(&Shape::Embedded);
    let labels = &pod["metadata"]["labels"];
    assert_eq!(
        (&labels["app"], &labels[names::POOL], &labels[names::STATUS]),
        (&json!("x"), &json!("p"), &json!("idle"))
    );
    assert_eq!(pod["metadata"]["annotations"][names::CONTAINER], "main");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "pool");
    let spec = &pod["spec"];
    assert_eq!((&spec["automountServiceAccountToken"], &spec["restartPolicy"]), (&json!(false), &json!("Never")));
    assert_eq!(spec["containers"][0]["command"], json!(["server"]), "a node of ours brings the executor itself");
    assert_eq!(spec["containers"][0]["workingDir"], names::WORKSPACE);
}

#[test]
fn a_pod_for_a_sandbox_is_that_ones() {
    let sandbox: Sandbox = serde_json::from_value(json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "Sandbox", "metadata": {"name": "s", "uid": "u"},
        "spec": {"poolRef": "p", "resources": {"limits": {"cpu": 2}}},
    }))
    .unwrap();
    let pod = serde_json::to_value(make(&pool(), &Shape::Embedded, Some(&sandbox))).unwrap();
    let labels = &pod["metadata"]["labels"];
    assert_eq!((&labels[names::STATUS], &labels[names::SANDBOX]), (&json!("allocated"), &json!("s")));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "Sandbox");
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
}

#[test]
fn a_kubelet_is_given_executor_and_sidecar_and_nothing_to_misuse() {
    let pod = made(&cluster());
    let spec = &pod["spec"];
    let command = spec["containers"][0]["command"].as_array().unwrap();
    assert_eq!(command[0], "/.thane/bin/thane-executor");
    assert_eq!(&command[command.len() - 3..], [json!("--"), json!("server"), json!("-v")]);
    assert_eq!(spec["initContainers"][0]["name"], "thane-executor");
    let sidecar = named(&spec["initContainers"], "sidecar");
    assert_eq!((&sidecar["restartPolicy"], &sidecar["ports"][0]["containerPort"]), (&json!("Always"), &json!(50051)));
    assert!(spec.get("hostNetwork").is_none());
    let context = &spec["securityContext"];
    assert_eq!(
        (&context["runAsNonRoot"], &context["seccompProfile"]["type"]),
        (&json!(true), &json!("RuntimeDefault"))
    );
    let all = spec["containers"].as_array().unwrap().iter().chain(spec["initContainers"].as_array().unwrap());
    for container in all {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false, "{container}");
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{container}");
        assert!(context.get("privileged").is_none() && context.get("runAsUser").is_none(), "{container}");
    }
    // Only the sidecar sees its certificates and its records.
    for hidden in ["thane-certificates", "thane-records"] {
        for container in spec["containers"].as_array().unwrap() {
            assert!(named(container.get("volumeMounts").unwrap_or(&json!([])), hidden).is_null());
        }
        assert!(!named(&sidecar["volumeMounts"], hidden).is_null());
    }
    let mounted: Vec<&Value> =
        spec["containers"][0]["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["name"]).collect();
    for name in mounted {
        assert!(!named(&spec["volumes"], name.as_str().unwrap()).is_null(), "{name}");
    }
}

#[test]
fn what_is_said_nothing_of_has_a_bound() {
    let limits = |resources: Value| {
        let mut read: ResourceRequirements = serde_json::from_value(resources).unwrap();
        limit(&mut read);
        serde_json::to_value(read.limits).unwrap()
    };
    for (said, expected) in [
        (json!({}), json!({"cpu": "1", "memory": "1Gi"})),
        (json!({"limits": {"memory": "64Mi"}}), json!({"cpu": "1", "memory": "64Mi"})),
        (json!({"requests": {"cpu": "250m", "memory": "4Gi"}}), json!({"cpu": "1", "memory": "4Gi"})),
        (json!({"requests": {"cpu": "1500m", "memory": "2e9"}}), json!({"cpu": "1500m", "memory": "2e9"})),
        (json!({"limits": {"cpu": "2", "memory": "8Gi"}}), json!({"cpu": "2", "memory": "8Gi"})),
    ] {
        assert_eq!(limits(said.clone()), expected, "{said}");
    }
    assert_eq!(made(&Shape::Embedded)["spec"]["containers"][0]["resources"]["limits"]["memory"], "1Gi");
}

#[test]
fn a_template_weakens_nothing_on_a_cluster() {
    let mut pool = pool();
    let spec = pool.spec.template.spec.as_mut().unwrap();
    spec.share_process_namespace = Some(true);
    let own = json!({"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"},
        "sysctls": [{"name": "kernel.msgmax", "value": "1"}], "seLinuxOptions": {"type": "spc_t"}, "fsGroup": 7});
    spec.security_context = Some(serde_json::from_value(own).unwrap());
    let pod = serde_json::to_value(make(&pool, &cluster(), None)).unwrap();
    assert!(pod["spec"].get("shareProcessNamespace").is_none());
    let expected = json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 7,
        "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(pod["spec"]["securityContext"], expected);
}

#[test]
fn tools_come_as_volumes() {
    let pod = made(&Shape::Embedded);
    let (spec, pool) = (&pod["spec"], pool());
    let mounts = &spec["containers"][0]["volumeMounts"];
    assert_eq!(named(mounts, "arl-tool-0")["mountPath"], "/opt/arl/tools/greet");
    assert_eq!(named(mounts, "arl-tools-map-0")["mountPath"], "/opt/arl/tools/more");
    assert_eq!(named(mounts, "arl-tools-registry")["subPath"], "registry.json");
    assert_eq!(spec["initContainers"][0]["command"][0], "cp");
    let tools = pool.spec.tools.clone().unwrap();
    let other = serde_json::from_value(json!({"data": {"manifest.json": "{\"name\": \"more\"}"}})).unwrap();
    let data = super::tools::config_map(&pool, &tools, &[other]).data.unwrap();
    let items = named(&spec["volumes"], "arl-tool-0")["configMap"]["items"].as_array().unwrap();
    let paths: Vec<(&str, &str)> = items
        .iter()
        .map(|item| (item["path"].as_str().unwrap(), data[item["key"].as_str().unwrap()].as_str()))
        .collect();
    assert_eq!(paths.len(), 2, "what a tool says about itself is said once");
    assert!(paths.contains(&("run.sh", "echo hi")));
    let registry: Value = serde_json::from_str(&data["registry.json"]).unwrap();
    let names: Vec<&Value> = registry["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, [&json!("greet"), &json!("more")]);
}

#[test]
fn another_template_is_another_digest() {
    let (one, mut other) = (pool(), pool());
    assert_eq!(digest(&one, &Shape::Embedded), digest(&pool(), &Shape::Embedded));
    assert_ne!(digest(&one, &Shape::Embedded), digest(&one, &cluster()));
    other.spec.replicas = 7;
    assert_eq!(digest(&one, &Shape::Embedded), digest(&other, &Shape::Embedded));
    other.spec.template.spec.as_mut().unwrap().containers[0].image = Some("new".into());
    assert_ne!(digest(&one, &Shape::Embedded), digest(&other, &Shape::Embedded));
}
