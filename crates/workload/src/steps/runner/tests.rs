//! A sandbox that is a directory of this machine, run by its own shell.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

struct Folder {
    root: PathBuf,
    released: Arc<AtomicUsize>,
}

impl Folder {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Room for Folder {
    fn write<'a>(&'a self, path: &'a str, content: Vec<u8>, _mode: u32) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let path = self.at(path);
            std::fs::create_dir_all(path.parent().unwrap()).map_err(|error| error.to_string())?;
            std::fs::write(path, content).map_err(|error| error.to_string())
        })
    }

    fn read<'a>(&'a self, path: &'a str, _max: u64) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        Box::pin(async move { Ok(std::fs::read(self.at(path)).ok()) })
    }

    fn run<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Ended, String>> {
        Box::pin(async move {
            let words: Vec<String> =
                command.words.iter().map(|word| word.replace(SCRIPT, &self.at(SCRIPT).display().to_string())).collect();
            let mut ran = std::process::Command::new(&words[0]);
            ran.args(&words[1..]).current_dir(&self.root).envs(command.env.iter().cloned());
            let output = ran.output().map_err(|error| error.to_string())?;
            Ok(Ended { code: output.status.code().unwrap_or(137), stdout: output.stdout })
        })
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.released.fetch_add(1, Ordering::SeqCst);
        })
    }
}

struct Folders {
    folder: tempfile::TempDir,
    released: Arc<AtomicUsize>,
}

impl StepRunner for Folders {
    fn claim<'a>(&'a self, _namespace: &'a str, pool: &'a str) -> BoxFuture<'a, Result<Box<dyn Room>, String>> {
        Box::pin(async move {
            if pool != "p" {
                return Err(format!("there is no pool {pool:?}"));
            }
            let room = Folder { root: self.folder.path().to_owned(), released: Arc::clone(&self.released) };
            Ok(Box::new(room) as Box<dyn Room>)
        })
    }
}

#[tokio::test]
async fn steps_run_and_leave_what_they_promise() {
    let folders = Folders { folder: tempfile::tempdir().unwrap(), released: Arc::default() };
    let script = json!({"script": {"command": ["sh"], "source": "echo out $V; cat in; printf 1 > n; exit $C",
            "env": [{"name": "V", "value": "v"}, {"name": "C", "value": "0"}]},
        "inputs": {"artifacts": [{"name": "in", "path": "/in", "raw": {"data": "raw\n"}}]},
        "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/n"}}, {"name": "d", "valueFrom": {"path": "/d", "default": "x"}}]}});
    let ran = run(&folders, "ns", "p", &script, None, true).await;
    assert_eq!((ran.phase, ran.message.as_str()), (Phase::Succeeded, ""));
    assert_eq!(ran.outputs["result"], "out v\nraw");
    assert_eq!(ran.outputs["parameters"][0]["value"], "1");
    assert_eq!(ran.outputs["parameters"][1]["value"], "x");
    assert_eq!(ran.outputs["exitCode"], "0");

    let mut fails = script.clone();
    fails["script"]["env"][1]["value"] = json!("4");
    let ran = run(&folders, "ns", "p", &fails, None, false).await;
    assert_eq!((ran.phase, ran.message.as_str()), (Phase::Failed, "main: Error (exit code 4)"));
    assert!(ran.outputs["result"].is_null());

    let lacks = json!({"container": {"command": ["true"]}, "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/none"}}]}});
    let ran = run(&folders, "ns", "p", &lacks, None, false).await;
    assert_eq!((ran.phase, ran.message.as_str()), (Phase::Error, "open /none: no such file or directory"));
    assert_eq!(folders.released.load(Ordering::SeqCst), 3);
    let ran = run(&folders, "ns", "other", &lacks, None, false).await;
    assert_eq!((ran.phase, ran.message.as_str()), (Phase::Error, "there is no pool \"other\""));
}

#[test]
fn what_needs_a_pod_says_why() {
    let cases = [
        (json!({"container": {"image": "i", "command": ["c"]}}), None),
        (json!({"container": {"command": ["c"]}}), None),
        (json!({"script": {"image": "i", "command": ["c"], "source": ""}}), None),
        (json!({"resource": {}}), Some("only containers and scripts")),
        (json!({"container": {"image": "j", "command": ["c"]}}), Some("its image is \"j\"")),
        (json!({"container": {"image": "i"}}), Some("no command")),
        (json!({"container": {"command": ["c"], "volumeMounts": [{}]}}), Some("volumes")),
        (json!({"container": {"command": ["c"]}, "sidecars": [{}]}), Some("sidecars")),
        (json!({"container": {"command": ["c"]}, "outputs": {"artifacts": [{}]}}), Some("output artifacts")),
        (json!({"container": {"command": ["c"]}, "inputs": {"artifacts": [{"s3": {}}]}}), Some("input artifacts")),
        (json!({"container": {"command": ["c"], "env": [{"valueFrom": {}}]}}), Some("variables from elsewhere")),
        (json!({"container": {"command": ["c"]}, "daemon": true}), Some("daemon")),
    ];
    for (template, expected) in cases {
        let found = unfit(&template, "i");
        match expected {
            None => assert_eq!(found, None, "{template}"),
            Some(why) => assert!(found.as_ref().is_some_and(|found| found.contains(why)), "{template}: {found:?}"),
        }
    }
    let template = json!({"metadata": {"annotations": {POOL: "own"}}});
    assert_eq!(pool(&template, &json!({POOL: "all"})), Some("own"));
    assert_eq!(pool(&json!({}), &json!({POOL: "all"})), Some("all"));
    assert_eq!(pool(&json!({}), &json!({})), None);
}
