//! A sandbox that is a directory of this machine, run by its own shell.

use std::path::PathBuf;

use super::super::location;
use super::super::names::POOL;
use super::*;

struct Folder {
    root: PathBuf,
}

impl Folder {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Room for Folder {
    fn stage(&self, files: Vec<Staged>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            for file in files {
                let path = self.at(&file.path);
                std::fs::create_dir_all(path.parent().unwrap()).map_err(|error| error.to_string())?;
                std::fs::write(path, file.content).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
    }

    fn find<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Found, String>> {
        Box::pin(async move {
            let path = self.at(path);
            if !path.exists() {
                return Ok(Found::Absent);
            }
            let Ok(entries) = std::fs::read_dir(path) else { return Ok(Found::File) };
            let name = |entry: std::fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.path().is_dir());
            Ok(Found::Directory(entries.map(|entry| name(entry.unwrap())).collect()))
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
            Ok(Ended { code: output.status.code().unwrap_or(137), stdout: output.stdout, log: output.stderr })
        })
    }

    fn keep<'a>(&'a self, _log: &'a [u8]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// Runs a template in a folder that stays for the next.
async fn ran(folder: &std::path::Path, template: &Value, wants_result: bool) -> Ran {
    let artifacts = folder.join("artifacts");
    std::fs::create_dir_all(&artifacts).unwrap();
    let room = Folder { root: folder.join("room") };
    std::fs::create_dir_all(&room.root).unwrap();
    run(&room, &Asked { template, artifacts: Some(&artifacts), wants_result }).await
}

#[tokio::test]
async fn steps_run_and_leave_what_they_promise() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = json!({"script": {"command": ["sh"], "source": "echo out $V; cat in; printf 1 > n; exit $C",
            "env": [{"name": "V", "value": "v"}, {"name": "C", "value": "0"}]},
        "inputs": {"artifacts": [{"name": "in", "path": "/in", "raw": {"data": "raw\n"}}]},
        "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/n"}}, {"name": "d", "valueFrom": {"path": "/d", "default": "x"}}]}});
    let done = ran(folder, &script, true).await;
    assert_eq!((done.phase, done.message.as_str()), (Phase::Succeeded, ""));
    assert_eq!(done.outputs["result"], "out v\nraw");
    assert_eq!(done.outputs["parameters"][0]["value"], "1");
    assert_eq!(done.outputs["parameters"][1]["value"], "x");
    assert_eq!(done.outputs["exitCode"], "0");

    let mut fails = script.clone();
    fails["script"]["env"][1]["value"] = json!("4");
    let done = ran(folder, &fails, false).await;
    assert_eq!((done.phase, done.message.as_str()), (Phase::Failed, "main: Error (exit code 4)"));
    assert!(done.outputs["result"].is_null());

    for outputs in [
        json!({"parameters": [{"name": "n", "valueFrom": {"path": "/none"}}]}),
        json!({"artifacts": [{"name": "n", "path": "/none"}]}),
    ] {
        let lacks = json!({"container": {"command": ["true"]}, "outputs": outputs});
        let done = ran(folder, &lacks, false).await;
        assert_eq!((done.phase, done.message.as_str()), (Phase::Error, "open /none: no such file or directory"));
    }
}

#[tokio::test]
async fn artifacts_go_from_step_to_step() {
    let folder = tempfile::tempdir().unwrap();
    let place = json!({"plugin": {"name": location::DIRECTORY_PLUGIN, "key": "wf/pod"}});
    let makes = json!({"container": {"command": ["sh", "-c", "mkdir -p d/e; echo one > d/e/f; echo two > g"]},
        "archiveLocation": place, "outputs": {"artifacts": [{"name": "d", "path": "/d"},
            {"name": "g", "path": "/g", "archive": {"none": {}}}, {"name": "h", "path": "/h", "optional": true}]}});
    let done = ran(folder.path(), &makes, false).await;
    assert_eq!((done.phase, done.message.as_str()), (Phase::Succeeded, ""));
    let kept = &done.outputs["artifacts"];
    assert_eq!(kept.as_array().unwrap().len(), 2);
    assert_eq!((&kept[0]["plugin"]["key"], &kept[1]["plugin"]["key"]), (&json!("wf/pod/d.tgz"), &json!("wf/pod/g")));
    let mut inputs = kept.clone();
    (inputs[0]["path"], inputs[1]["path"]) = (json!("/in/d"), json!("/in/g"));
    let takes = json!({"container": {"command": ["sh", "-c", "cat in/d/e/f in/g"]}, "archiveLocation": place,
        "inputs": {"artifacts": inputs}});
    let done = ran(folder.path(), &takes, true).await;
    assert_eq!((done.message.as_str(), &done.outputs["result"]), ("", &json!("one\ntwo")));
    let left: Vec<_> =
        std::fs::read_dir(folder.path().join("artifacts")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["wf"], "nothing stays on its way");
}

#[test]
fn what_needs_a_pod_says_why() {
    let directory = json!({"plugin": {"name": location::DIRECTORY_PLUGIN, "key": "k"}});
    let cases = [
        (json!({"container": {"image": "i", "command": ["c"]}}), None),
        (json!({"container": {"command": ["c"]}}), None),
        (json!({"script": {"image": "i", "command": ["c"], "source": ""}}), None),
        (json!({"resource": {}}), Some("only containers and scripts")),
        (json!({"container": {"image": "j", "command": ["c"]}}), Some("its image is \"j\"")),
        (json!({"container": {"image": "i"}}), Some("no command")),
        (json!({"container": {"command": ["c"], "volumeMounts": [{}]}}), Some("volumes")),
        (json!({"container": {"command": ["c"]}, "sidecars": [{}]}), Some("sidecars")),
        (json!({"container": {"command": ["c"]}, "outputs": {"artifacts": [{"name": "a"}]}}), Some("artifact \"a\"")),
        (json!({"container": {"command": ["c"]}, "inputs": {"artifacts": [{"s3": {}}]}}), Some("not in a directory")),
        (json!({"container": {"command": ["c"]}, "inputs": {"artifacts": [{"raw": {}}]}}), None),
        (json!({"container": {"command": ["c"]}, "archiveLocation": directory, "outputs": {"artifacts": [{}]}}), None),
        (json!({"container": {"command": ["c"], "securityContext": {"runAsUser": 1}}}), Some("security context")),
        (json!({"container": {"command": ["c"], "env": [{"valueFrom": {}}]}}), Some("variables from elsewhere")),
        (json!({"container": {"command": ["c"]}, "daemon": true}), Some("daemon")),
    ];
    for (template, expected) in cases {
        let found = unfit(&template, &json!({}), "i", true);
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
