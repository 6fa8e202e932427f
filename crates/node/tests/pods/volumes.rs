//! Volumes of every kind.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::bed::on_bed;

#[test]
fn files_come_from_objects_and_can_be_written_where_they_may() {
    on_bed(|bed| async {
        let maps: Api<ConfigMap> = Api::namespaced(bed.client(), "default");
        let map = serde_json::from_value(json!({"metadata": {"name": "c"}, "data": {"k": "from map"}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(bed.client(), "default");
        let secret = serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"p": "from secret"}}));
        secrets.create(&PostParams::default(), &secret.unwrap()).await.unwrap();
        let projected = json!({"sources": [
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "deep/key"}]}},
        ]});
        let more = json!({
            "volumes": [
                {"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}},
                {"name": "j", "projected": projected}, {"name": "e", "emptyDir": {}},
                {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            ],
            "container": {"volumeMounts": [
                {"name": "c", "mountPath": "/c"}, {"name": "s", "mountPath": "/s"}, {"name": "j", "mountPath": "/j"},
                {"name": "e", "mountPath": "/e"}, {"name": "m", "mountPath": "/m"},
                {"name": "e", "mountPath": "/sub", "subPath": "below"},
            ], "envFrom": [{"configMapRef": {"name": "c"}}]},
        });
        let script = "cat /c/k; echo; cat /s/p; echo; cat /j/name; echo; cat /j/deep/key; echo; echo $k; \
            test $(wc -c < /j/token) -gt 100 && echo token; stat -Lc %a /s/p; \
            (echo x > /c/k) 2>/dev/null || echo read-only; echo kept > /sub/file; cat /e/below/file; \
            (head -c 4194304 /dev/zero > /m/big) 2>/dev/null || echo full";
        let (code, said) = bed.outcome("p", script, more).await;
        let expected = "from map\nfrom secret\np\nfrom map\nfrom map\ntoken\n400\nread-only\nkept\nfull\n";
        assert_eq!((code, said.as_str()), (0, expected));
        bed
    });
}

#[test]
fn a_claim_is_bound_at_once_and_outlives_pods() {
    on_bed(|bed| async {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(bed.client(), "default");
        let claim = json!({"metadata": {"name": "d"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }});
        claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
        let bound = |claim: Option<&PersistentVolumeClaim>| {
            claim.and_then(|claim| claim.status.as_ref()?.phase.as_deref()) == Some("Bound")
        };
        let waiting = kube::runtime::wait::await_condition(claims, "d", bound);
        tokio::time::timeout(crate::bed::PATIENCE, waiting).await.unwrap().unwrap();
        let more = || {
            json!({
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
                "container": {"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
            })
        };
        assert_eq!(bed.outcome("a", "echo kept > /d/f", more()).await.0, 0);
        bed.delete("a").await;
        assert_eq!(bed.outcome("b", "cat /d/f", more()).await, (0, "kept\n".to_owned()));
        bed
    });
}

#[test]
fn memory_is_the_pods_and_outlives_its_containers() {
    on_bed(|bed| async {
        let mount = |path: &str, below: &str| json!({"name": "m", "mountPath": path, "subPath": below});
        let container = |name: &str, script: &str, mounts: serde_json::Value| json!({"name": name, "image": "host", "command": ["sh", "-c", script], "volumeMounts": mounts});
        // The first ends once, and finds what it had written; the second reads it meanwhile, and answers.
        let writes = "if [ -e /m/once ]; then until [ -e /m/seen ]; do sleep 0.05; done; cat /m/seen; exit 0; fi; \
                      echo kept > /m/once; mkdir /m/below; echo deep > /m/below/file; exit 1";
        let reads = "until [ -e /n/below/file ]; do sleep 0.05; done; cat /n/once /n/below/file > /n/seen; \
                     (head -c 4194304 /dev/zero > /n/big) 2>/dev/null || echo full";
        let spec = json!({
            "restartPolicy": "OnFailure",
            "volumes": [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
            "containers": [
                container("a", writes, json!([mount("/m", "")])),
                container("b", reads, json!([mount("/n", ""), mount("/deep", "own/part")])),
            ],
        });
        bed.create("p", spec, json!({})).await;
        let pod = bed.phase("p", "Succeeded").await;
        assert_eq!((bed.log(&pod, "a", 1).as_str(), bed.log(&pod, "b", 0).as_str()), ("kept\ndeep\n", "full\n"));
        bed
    });
}

#[test]
fn a_missing_object_is_named() {
    on_bed(|bed| async {
        let more = json!({
            "volumes": [{"name": "c", "configMap": {"name": "absent"}}],
            "container": {"volumeMounts": [{"name": "c", "mountPath": "/c"}]},
        });
        bed.script("p", "true", more).await;
        let pod = bed
            .until("p", "refused", |pod| {
                let waiting = crate::bed::state(pod, "main").waiting;
                waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CreateContainerConfigError"))
            })
            .await;
        assert!(format!("{:?}", pod.status).contains("absent"));
        bed
    });
}

#[test]
fn files_follow_their_objects_all_at_once() {
    on_bed(|bed| async {
        let maps: Api<ConfigMap> = Api::namespaced(bed.client(), "default");
        let map = json!({"metadata": {"name": "c"}, "data": {"a": "1", "b": "1", "old": "x"}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(bed.client(), "default");
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"p": "one"}});
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        let more = json!({
            "volumes": [
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "j", "projected": {"sources": [
                    {"secret": {"name": "s"}},
                    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                ]}},
            ],
            "container": {"volumeMounts": [
                {"name": "c", "mountPath": "/c"}, {"name": "j", "mountPath": "/j"},
                {"name": "c", "mountPath": "/fixed", "subPath": "a"},
            ]},
        });
        // Through one directory both files are of one version; it may be gone when they are read.
        let script = "exec 2>/dev/null; while :; do cd -P /c/..data; x=$(cat a)$(cat b); case $x in 12|21) echo torn;; esac; \
            test \"$(cat /c/a)\" = 2 && break; done; echo both; \
            until test -e /c/new -a ! -e /c/old; do :; done; cat /c/new; echo; \
            until test \"$(cat /j/p)\" = two; do :; done; echo secret; \
            until grep -q colour /j/labels; do :; done; cat /j/labels; echo; cat /fixed; echo";
        bed.script("p", script, more).await;
        bed.phase("p", "Running").await;
        let how = PatchParams::default();
        let change = json!({"data": {"a": "2", "b": "2", "old": null, "new": "came"}});
        maps.patch("c", &how, &Patch::Merge(change)).await.unwrap();
        secrets.patch("s", &how, &Patch::Merge(json!({"stringData": {"p": "two"}}))).await.unwrap();
        bed.pods().patch("p", &how, &Patch::Merge(json!({"metadata": {"labels": {"colour": "red"}}}))).await.unwrap();
        let pod = bed.phase("p", "Succeeded").await;
        assert_eq!(bed.log(&pod, "main", 0), "both\ncame\nsecret\ncolour=\"red\"\n1\n");
        bed
    });
}
