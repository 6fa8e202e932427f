//! What is kept of a step, from the files its wrapper leaves.

use serde_json::json;
use thane_executor::tarball;

use super::super::super::artifacts::Stores;
use super::super::super::location::DIRECTORY_PLUGIN;
use super::*;

struct Step {
    folder: tempfile::TempDir,
    layout: Layout,
}

impl Step {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let stores = Stores { secrets: at("secrets"), directory: at("artifacts") };
        let layout = Layout {
            run: at("run"),
            inputs: at("inputs"),
            script: at("script"),
            main: at("mainctrfs"),
            config: at("config"),
            temporary: at("tmp"),
            stores,
        };
        for name in ["run", "inputs", "mainctrfs", "artifacts"] {
            fs::create_dir(at(name)).unwrap();
        }
        Self { folder, layout }
    }

    fn places(&self) -> Places {
        Places::new(&self.layout.run)
    }

    #[expect(clippy::unused_self, reason = "it is written inside of it")]
    fn write(&self, path: &Path, content: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    async fn outputs(&self, template: &Value) -> (Value, Vec<String>) {
        let told = Told { wants_result: template["result"] == true, ..Told::default() };
        let (outputs, failures) = outputs(&told, &self.layout, template, &self.places()).await;
        (Value::Object(outputs), failures)
    }
}

#[tokio::test]
async fn results_and_parameters_are_read() {
    let step = Step::new();
    let places = step.places();
    step.write(&places.result(MAIN), b"out\xff\0put");
    step.write(&places.parameter("/tmp/a"), b"one\n\n");
    step.write(&step.layout.main.join("data/b"), b"two");
    let template = json!({"result": true, "container": {"volumeMounts": [{"name": "w", "mountPath": "/data/"}]},
        "outputs": {"parameters": [
            {"name": "a", "valueFrom": {"path": "/tmp/a"}},
            {"name": "b", "valueFrom": {"path": "/data/b"}},
            {"name": "c", "valueFrom": {"path": "/none", "default": "three"}},
            {"name": "d", "value": "kept"}]}});
    let (outputs, failures) = step.outputs(&template).await;
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(outputs["result"], "out\u{fffd}\0put");
    let values: Vec<&str> = list(&outputs["parameters"]).iter().map(|one| text(one, "value")).collect();
    assert_eq!(values, ["one\n", "two", "three", "kept"]);

    let missing = json!({"outputs": {"parameters": [{"name": "x", "valueFrom": {"path": "/none"}}]}});
    let (outputs, failures) = step.outputs(&missing).await;
    assert!(outputs["parameters"].is_null());
    assert!(
        failures[0].starts_with("open ") && failures[0].ends_with("none: no such file or directory"),
        "{failures:?}"
    );
    step.write(&places.parameter("/huge"), &vec![b'x'; usize::try_from(PARAMETER_MAX).unwrap() + 1]);
    let huge = json!({"outputs": {"parameters": [{"name": "x", "valueFrom": {"path": "/huge"}}]}});
    assert!(step.outputs(&huge).await.1[0].contains("output parameter x is larger than"));
}

#[tokio::test]
async fn artifacts_are_kept_and_brought_to_the_next_step() {
    let step = Step::new();
    let places = step.places();
    let made = step.folder.path().join("hello.txt");
    fs::write(&made, "hello").unwrap();
    let tar = places.artifact("/tmp/hello.txt");
    fs::create_dir_all(tar.parent().unwrap()).unwrap();
    tarball::write(&made, fs::File::create(&tar).unwrap()).unwrap();
    let archive = json!({"plugin": {"name": DIRECTORY_PLUGIN, "key": "w/p"}});
    let template = json!({"archiveLocation": archive, "outputs": {"artifacts": [
        {"name": "hello", "path": "/tmp/hello.txt"},
        {"name": "plain", "path": "/tmp/hello.txt", "archive": {"none": {}}},
        {"name": "missing", "path": "/none", "optional": true}]}});
    let (outputs, failures) = step.outputs(&template).await;
    assert!(failures.is_empty(), "{failures:?}");
    let keys: Vec<&str> = list(&outputs["artifacts"]).iter().map(|one| text(&one["plugin"], "key")).collect();
    assert_eq!(keys, ["w/p/hello.tgz", "w/p/hello.txt"]);
    assert_eq!(fs::read_to_string(step.folder.path().join("artifacts/w/p/hello.txt")).unwrap(), "hello");

    let mut input = outputs["artifacts"][0].clone();
    input["name"] = json!("in");
    input["path"] = json!("/in");
    let raw = json!({"name": "raw", "path": "/raw", "raw": {"data": "#!"}, "mode": 0o755});
    let next = json!({"inputs": {"artifacts": [input, raw, {"name": "none", "path": "/n", "optional": true}]}});
    let told = Told { template: Some(next.to_string()), ..Told::default() };
    super::super::init::init(&told, &step.layout, |path| fs::write(path, "program")).await.unwrap();
    assert_eq!(fs::read_to_string(step.layout.inputs.join("in")).unwrap(), "hello");
    let bits =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(step.layout.inputs.join("raw")).unwrap().permissions());
    assert_eq!(bits & 0o777, 0o755);

    let required = json!({"inputs": {"artifacts": [{"name": "x", "path": "/x"}]}});
    let told = Told { template: Some(required.to_string()), ..Told::default() };
    let failed = super::super::init::init(&told, &step.layout, |_| Ok(())).await.unwrap_err();
    assert_eq!(failed.0, "required artifact 'x' not supplied");
    let absent = json!({"inputs": {"artifacts": [{"name": "x", "path": "/x", "plugin": {"name": DIRECTORY_PLUGIN, "key": "no"}}]}});
    let told = Told { template: Some(absent.to_string()), ..Told::default() };
    let failed = super::super::init::init(&told, &step.layout, |_| Ok(())).await.unwrap_err();
    assert!(failed.0.starts_with("artifact x failed to load"), "{failed}");
}

#[tokio::test]
async fn what_is_missing_or_has_no_place_is_said() {
    let step = Step::new();
    let template = json!({"outputs": {"artifacts": [{"name": "a", "path": "/none"}]}});
    let (outputs, failures) = step.outputs(&template).await;
    assert!(outputs["artifacts"].is_null());
    assert!(failures[0].contains("no such file or directory"), "{failures:?}");
    step.write(&step.layout.main.join("data/a"), b"x");
    let template = json!({"container": {"volumeMounts": [{"name": "w", "mountPath": "/data"}]},
        "outputs": {"artifacts": [{"name": "a", "path": "/data/a"}]}});
    let (_, failures) = step.outputs(&template).await;
    assert!(failures[0].contains("artifact storage is not configured"), "{failures:?}");
}

#[tokio::test]
async fn the_end_of_main_is_noticed() {
    let step = Step::new();
    let places = step.places();
    let told = Told::default();
    let end = async {
        fs::create_dir_all(places.container(MAIN)).unwrap();
        let new = places.container(MAIN).join("new");
        fs::write(&new, "7").unwrap();
        fs::rename(&new, places.exit_code(MAIN)).unwrap();
    };
    let (code, ()) = tokio::join!(ended(&told, &places), end);
    assert_eq!(code.unwrap(), Some(7));
    assert_eq!(ended(&told, &places).await.unwrap(), Some(7), "also when it was there before");
}

#[test]
fn a_report_can_speak_for_the_step() {
    let cases = [
        (Some(0), vec![], Some(Phase::Succeeded), ""),
        (Some(3), vec![], Some(Phase::Failed), "main: Error (exit code 3)"),
        (Some(0), vec!["s3 is down".to_owned()], Some(Phase::Error), "wait: Error (exit code 64): s3 is down"),
        (None, vec![], None, ""),
    ];
    for (code, failures, phase, message) in cases {
        let report = judged(Map::new(), code, &failures);
        assert_eq!((report.phase, report.message.as_str()), (phase, message));
        let told = Told { node_id: "n".to_owned(), workflow: "w".to_owned(), ..Told::default() };
        let object = report::object(&told, &report);
        assert_eq!(object["metadata"]["name"], "n");
        assert_eq!(object["metadata"]["labels"]["workflows.argoproj.io/report-outputs-completed"], "true");
    }
}

#[tokio::test]
async fn a_wrapper_that_was_killed_is_not_waited_for() {
    let step = Step::new();
    let places = step.places();
    let alive = places.alive(MAIN);
    fs::create_dir_all(alive.parent().unwrap()).unwrap();
    let new = alive.with_extension("new");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &new, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let held = fs::File::options().read(true).write(true).open(&new).unwrap();
    let told = Told::default();
    let waits = ended(&told, &places);
    let dies = async {
        fs::rename(&new, &alive).unwrap();
        tokio::task::yield_now().await;
        drop(held);
    };
    assert_eq!(tokio::join!(waits, dies).0.unwrap(), Some(KILLED));
}
