//! Steps: what they say, how they end, that they are recorded once.

use std::collections::HashMap;

use http_body_util::BodyExt;
use serde_json::json;
use thane_api::wire::sandbox::step_event::Event;
use thane_api::wire::sandbox::step_failure::Kind;
use thane_api::wire::sandbox::{
    AttachRequest, BindRequest, DescribeRequest, File, ProcessesRequest, StepFailure, StepRecord, StepRequest,
};
use thane_api::wire::sidecar::shell_input::Input;
use thane_api::wire::sidecar::{ExecRequest, FileRequest, ShellInput};
use tonic::Code;
use tower::ServiceExt;

use super::client::{Sandbox, create, shell, with_sidecars};

fn kind(record: &StepRecord) -> Option<Kind> {
    record.failure.as_ref().map(StepFailure::kind)
}

#[test]
fn steps_run_one_after_the_other_and_are_recorded() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let about = sandbox.steps.describe(DescribeRequest {}).await.unwrap().into_inner();
        assert_eq!((about.snapshots, about.next_index, about.working_dir.as_str()), (true, 0, "/workspace"));
        let (record, said) = sandbox.step(shell("printf 'a\\377b'; printf oh >&2; exit 3")).await.unwrap();
        assert_eq!((record.index, record.exit_code, kind(&record)), (0, 3, None));
        assert_eq!((&record.stdout[..], &record.stderr[..]), (&b"a\xffb"[..], &b"oh"[..]));
        assert!(said.len() == 5 && !record.snapshot.is_empty());
        for (request, code, expected) in [
            (StepRequest { command: vec!["nowhere".to_owned()], ..StepRequest::default() }, 127, Kind::User),
            (StepRequest { command: vec!["a\0b".to_owned()], ..StepRequest::default() }, 126, Kind::User),
            (StepRequest { working_dir: "/nowhere".to_owned(), ..shell("true") }, 127, Kind::User),
            (StepRequest { timeout_ms: 200, ..shell("trap '' TERM; sleep 100 & sleep 100") }, 124, Kind::Timeout),
        ] {
            let (record, _) = sandbox.step(request).await.unwrap();
            assert_eq!((record.exit_code, kind(&record)), (code, Some(expected)));
        }
        let (record, said) =
            sandbox.step(StepRequest { stdin: b"given".to_vec().into(), ..shell("cat; pwd") }).await.unwrap();
        assert_eq!(said, b"given/workspace\n");
        let (_, said) = sandbox.step(shell("head -c 3000000 /dev/zero")).await.unwrap();
        assert_eq!(said.len(), 3_000_000);
        let history = sandbox.history(true).await;
        assert_eq!(history.iter().map(|one| one.index).collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
        assert_eq!((history[6].stdout.len(), history[6].stdout_bytes), (1 << 20, 3_000_000));
        assert_eq!(history[5].stdout, record.stdout);
        assert!(history.iter().enumerate().all(|(at, one)| one.parent == i64::try_from(at).unwrap() - 1));
        let ask = http::Request::get("/metrics").body(tonic::body::Body::default()).unwrap();
        let answer = sandbox.channel.clone().oneshot(ask).await.unwrap();
        let counts = answer.into_body().collect().await.unwrap().to_bytes();
        let counts = String::from_utf8(counts.to_vec()).unwrap();
        assert!(counts.contains("arl_sidecar_steps_total{result=\"ok\"} 2"), "{counts}");
        let empty = sandbox.step(StepRequest::default()).await.unwrap_err();
        assert_eq!(empty.code(), Code::InvalidArgument);
        bed.delete("p").await;
        bed
    });
}

#[test]
fn an_operation_is_done_once() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let request = StepRequest { operation: "op".to_owned(), ..shell("echo x >> count; sleep 0.3; cat count") };
        let mut other = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        let (one, two) = tokio::join!(sandbox.step(request.clone()), other.step(request.clone()));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!((one.0.index, one.1.as_slice()), (0, &b"x\n"[..]));
        assert_eq!((two.0.index, two.1.as_slice()), (0, &b"x\n"[..]), "it was attached");
        let again = sandbox.step(request.clone()).await.unwrap();
        assert_eq!((again.0.index, again.1.as_slice()), (0, &b"x\n"[..]), "it was told again");
        let wrong = sandbox.step(StepRequest { operation: "op".to_owned(), ..shell("other") }).await.unwrap_err();
        assert_eq!(wrong.code(), Code::AlreadyExists);
        let attach = AttachRequest { operation: "op".to_owned(), stdout: 1, ..AttachRequest::default() };
        let mut events = sandbox.steps.attach(attach).await.unwrap().into_inner();
        assert!(events.message().await.unwrap().is_some());
        let lost = AttachRequest { operation: "none".to_owned(), ..AttachRequest::default() };
        assert_eq!(sandbox.steps.attach(lost).await.unwrap_err().code(), Code::NotFound);
        bed.delete("p").await;
        bed
    });
}

#[test]
fn a_step_that_waits_for_another_gives_signs_of_life() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let mut other = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        let first = async { sandbox.run("until [ -e go ]; do sleep 0.05; done").await };
        let second = async {
            // Until the first has the turn.
            while other.steps.describe(DescribeRequest {}).await.unwrap().into_inner().running == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            let mut events = other.steps.run_step(shell("echo second")).await.unwrap().into_inner();
            let sign = events.message().await.unwrap().unwrap().event;
            assert!(matches!(sign, Some(Event::KeepAlive(_))), "{sign:?}");
            let files = HashMap::from([("go".to_owned(), String::new())]);
            let update = FileRequest { base_path: "/workspace".to_owned(), files, patch: String::new() };
            assert!(other.agent.update_files(update).await.unwrap().into_inner().success);
            while let Some(event) = events.message().await.unwrap() {
                if let Some(Event::Finished(record)) = event.event {
                    return record;
                }
            }
            panic!("it did not finish")
        };
        let (first, second) = tokio::join!(first, second);
        assert_eq!((first.index, second.index, &second.stdout[..]), (0, 1, &b"second\n"[..]));
        bed.delete("p").await;
        bed
    });
}

#[test]
fn a_session_is_bound_once() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let mut env: HashMap<String, String> = (0..10_000).map(|one| (format!("V{one}"), "x".to_owned())).collect();
        env.insert("TOKEN".to_owned(), "secret".to_owned());
        let file = File { path: "deep/config".to_owned(), content: vec![0, 255].into(), mode: 0o600 };
        let bind = BindRequest { session: "s".to_owned(), env, files: vec![file] };
        sandbox.steps.bind(bind.clone()).await.unwrap();
        sandbox.steps.bind(bind.clone()).await.unwrap();
        let other = BindRequest { session: "t".to_owned(), ..bind.clone() };
        assert_eq!(sandbox.steps.bind(other).await.unwrap_err().code(), Code::FailedPrecondition);
        let said = sandbox.look("echo $TOKEN; env | grep -c ^V; stat -c '%a %s' /workspace/deep/config").await;
        assert_eq!(said, "secret\n10000\n600 2\n");
        let foreign = StepRequest { session: "t".to_owned(), ..shell("true") };
        assert_eq!(sandbox.step(foreign).await.unwrap_err().code(), Code::FailedPrecondition);
        let mut big = bind;
        big.session = "u".to_owned();
        big.env.insert("BIG".to_owned(), "x".repeat(1 << 20));
        assert_eq!(sandbox.steps.bind(big).await.unwrap_err().code(), Code::InvalidArgument);
        bed.delete("p").await;
        bed
    });
}

#[test]
fn while_something_runs_on_nothing_is_kept() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let (record, _) = sandbox.step(shell("sleep 4714 >/dev/null 2>&1 & echo done > file")).await.unwrap();
        assert!(!record.snapshot.is_empty(), "what it left was ended");
        let left = StepRequest { background: true, ..shell("sleep 4715 >/dev/null 2>&1 & echo up") };
        let (record, said) = sandbox.step(left).await.unwrap();
        assert_eq!((record.snapshot.as_str(), said.as_slice()), ("", &b"up\n"[..]));
        assert_eq!(sandbox.run("echo more > file").await.snapshot, "");
        let first = sandbox.history(true).await[0].snapshot.clone();
        assert_eq!(sandbox.restore(&first, "").await.unwrap(), 0);
        assert_eq!(sandbox.look("cat file; cat /proc/[0-9]*/comm | grep -c sleep || true").await, "done\n0\n");
        assert!(!sandbox.run("true").await.snapshot.is_empty());
        create(&bed, "q", json!({"command": ["sleep", "600"]})).await;
        let pod = bed.pods().get("q").await.unwrap();
        let mut busy = Sandbox::reach(&trust, pod).await;
        assert_eq!(busy.run("true").await.snapshot, "");
        assert_eq!(busy.restore("", "").await.unwrap_err().code(), Code::FailedPrecondition);
        bed.delete("p").await;
        bed.delete("q").await;
        bed
    });
}

#[test]
fn a_bomb_leaves_room_for_the_next_step() {
    with_sidecars(|bed, trust| async move {
        let pod = create(&bed, "p", json!({"resources": {"limits": {"memory": "64Mi"}}})).await;
        let mut sandbox = Sandbox::reach(&trust, pod).await;
        let bomb = StepRequest { timeout_ms: 1500, ..shell("b() { b | b & }; b; sleep 100") };
        let (record, _) = sandbox.step(bomb).await.unwrap();
        assert!(matches!(kind(&record), Some(Kind::Timeout | Kind::Oom)), "{record:?}");
        let (record, said) = sandbox.step(shell("echo well")).await.unwrap();
        assert_eq!((record.exit_code, said.as_slice()), (0, &b"well\n"[..]));
        let (record, _) = sandbox.step(shell("tail /dev/zero")).await.unwrap();
        assert_eq!(kind(&record), Some(Kind::Oom), "{record:?}");
        assert_eq!(sandbox.run("true").await.exit_code, 0);
        bed.delete("p").await;
        bed
    });
}

#[test]
fn a_shell_has_a_terminal() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let (input, inputs) = tokio::sync::mpsc::channel(8);
        let say = |text: &str| ShellInput { input: Some(Input::Data(text.to_owned())), ..ShellInput::default() };
        input.send(ShellInput { resize: true, rows: 33, cols: 44, ..ShellInput::default() }).await.unwrap();
        // one process group for both: an interrupt between the two would otherwise reach neither
        input.send(say("sh -c 'stty size; exec sleep 4716'\n")).await.unwrap();
        let stream = tokio_stream::wrappers::ReceiverStream::new(inputs);
        let mut output = sandbox.agent.interactive_shell(stream).await.unwrap().into_inner();
        let mut said = String::new();
        while !said.contains("33 44") {
            said.push_str(&String::from_utf8_lossy(&output.message().await.unwrap().unwrap().data));
        }
        let about = sandbox.steps.describe(DescribeRequest {}).await.unwrap().into_inner();
        assert!(about.running > 0 && about.streams > 0, "{about:?}");
        let interrupt = ShellInput { input: Some(Input::Signal("SIGINT".to_owned())), ..ShellInput::default() };
        input.send(interrupt).await.unwrap();
        input.send(say("exit 7\n")).await.unwrap();
        let code = loop {
            let message = output.message().await.unwrap().unwrap();
            if message.closed {
                break message.exit_code;
            }
        };
        assert_eq!(code, 7);
        let exec = ExecRequest { command: vec!["echo".to_owned(), "hi".to_owned()], ..ExecRequest::default() };
        let mut logs = sandbox.agent.execute(exec).await.unwrap().into_inner();
        let (mut text, mut done) = (Vec::new(), None);
        while let Some(log) = logs.message().await.unwrap() {
            text.extend(log.stdout);
            done = log.done.then_some(log.exit_code).or(done);
        }
        assert_eq!((text.as_slice(), done), (&b"hi\n"[..], Some(0)));
        let processes = sandbox.steps.processes(ProcessesRequest {}).await.unwrap().into_inner().processes;
        assert!(processes.iter().all(|one| !one.running), "{processes:?}");
        bed.delete("p").await;
        bed
    });
}

#[test]
fn who_reads_nothing_does_not_hold_a_sandbox_for_ever() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let mut deaf = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        let flood = deaf.steps.run_step(shell("head -c 200000000 /dev/zero; sleep 4242")).await.unwrap();
        // By then nothing more of it can be sent.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let restored = tokio::time::timeout(crate::bed::PATIENCE, sandbox.restore("", "")).await;
        assert!(restored.is_ok(), "another waits for ever");
        restored.unwrap().unwrap();
        assert_eq!(sandbox.look("echo on").await, "on\n");
        // Whoever comes back finds the end of what was told, and can ask for the rest.
        let mut events = flood.into_inner();
        while let Ok(Some(event)) = events.message().await {
            assert!(!matches!(event.event, Some(Event::Finished(_))), "what was not told is missed");
        }
        bed.delete("p").await;
        bed
    });
}

#[test]
fn sandboxes_do_not_reach_each_other() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        // From the machine it is reached.
        let other = Sandbox::new(&bed, &trust, "q").await;
        let address = other.pod.status.clone().unwrap().pod_ip.unwrap();
        let script = format!(
            "python3 -c \"import socket; s = socket.socket(); s.settimeout(3); print(s.connect_ex(('{address}', 50051)) == 0)\""
        );
        assert_eq!(sandbox.look(&script).await, "False\n");
        bed.delete("p").await;
        bed.delete("q").await;
        bed
    });
}
