//! Pods from imported images: their layers, owners and configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use thane_node::images::Images;

use crate::bed::{on_bed, phase_of};

/// A root file system with a few programs of this machine and what they need.
fn root_with(programs: &[&str], root: &Path) {
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for program in programs {
        let path = ["/bin", "/usr/bin"].iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists());
        let path = path.unwrap();
        let listed = Command::new("ldd").arg(&path).output().unwrap();
        let words = String::from_utf8(listed.stdout).unwrap();
        files.extend(words.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
        files.insert(path);
    }
    for file in files {
        let to = root.join(file.strip_prefix("/").unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file, &to).unwrap();
    }
}

#[test]
fn a_directory_becomes_an_image_with_its_owners() {
    on_bed(|bed| async {
        let root = bed.folder.path().join("root");
        root_with(&["sh", "cat", "id", "stat"], &root);
        for (name, owner) in [("ours", 0), ("theirs", 1000)] {
            let path = root.join(name);
            std::fs::write(&path, name).unwrap();
            std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        }
        std::fs::create_dir(root.join("etc")).unwrap();
        let images = Images::open(bed.folder.path().join("images")).unwrap();
        images.import(&root, Some("small")).unwrap();
        let script = "id -u; stat -c %u /ours; stat -c %u /theirs; echo changed > /ours; cat /ours";
        let spec = json!({"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "small:latest", "imagePullPolicy": "Always", "command": ["sh", "-c", script]},
        ]});
        for name in ["a", "b"] {
            bed.create(name, spec.clone(), json!({})).await;
            let pod = bed.until(name, "ended", |pod| matches!(phase_of(pod), "Succeeded" | "Failed")).await;
            assert_eq!(bed.log(&pod, "main", 0), "0\n0\n1000\nchanged\n", "{name}: the layer is as it was");
            bed.delete(name).await;
        }
        assert_eq!(std::fs::read(root.join("ours")).unwrap(), b"ours");
        bed
    });
}

#[test]
fn a_user_of_the_pod_is_nobody_else() {
    on_bed(|bed| async {
        let more = json!({"securityContext": {"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 1002}});
        let (code, said) = bed.outcome("p", "id -u; id -g; id -G; touch /etc/x 2>/dev/null || echo denied", more).await;
        assert_eq!((code, said.as_str()), (0, "1000\n1001\n1001 1002\ndenied\n"));
        bed
    });
}

#[test]
fn a_read_only_root_stays_so() {
    on_bed(|bed| async {
        let more = json!({
            "volumes": [{"name": "v", "emptyDir": {}}],
            "container": {
                "securityContext": {"readOnlyRootFilesystem": true},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            },
        });
        let script =
            "(touch /x || touch /tmp/x || touch /workspace/x) 2>/dev/null && echo written; touch /v/x && echo volume";
        let (_, said) = bed.outcome("p", script, more).await;
        assert_eq!(said, "volume\n");
        bed
    });
}
