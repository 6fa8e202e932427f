//! Files as they were after each step, exactly.

use serde_json::json;
use thane_api::wire::sandbox::StepRequest;
use thane_executor::plan::root_mount;
use tonic::Code;

use super::client::{Sandbox, shell, with_sidecars};

/// Everything about files that a user can see.
const LOOK: &str = "cd / && find workspace root opt var home tmp etc -xdev \
                    \\( -type d -printf '%p %y %m %U:%G\\n' -o -printf '%p %y %m %U:%G %s %l %n\\n' \\) | sort; \
                    find workspace root opt etc -xdev -type f -print0 | sort -z | xargs -0 -r sha256sum 2>&1; stat -c %a /; du -k workspace/sparse 2>/dev/null || true";

/// What steps do, one after the other.
const STEPS: [&str; 10] = [
    "mkdir -p d/e empty && echo 1 > d/e/f && echo keep > d/keep && chmod 700 d && chmod 4711 d/keep",
    "rm -r d/e && mkdir d/e && echo 2 > d/e/g && chown 1000:1001 d/keep && rmdir empty",
    "mv d moved && echo 3 > moved/new && ln -s moved/new link && ln moved/keep hard",
    "rm moved/new && mkdir moved/new && echo deep > moved/new/deep && rm link && mkdir link",
    "truncate -s 100M sparse && printf end >> sparse && touch -t 200001010000 old",
    "rm -rf moved/new && echo file > moved/new && rmdir link && ln -s nowhere link",
    "true",
    "echo 192.0.2.1 there >> /etc/hosts && rm /etc/resolv.conf /etc/passwd && echo gone > /etc/group && chmod 711 / && mv moved/e /opt/e && echo x >> /opt/e/g",
    "python3 -c 'import os; os.rename(\"moved\", \"again\")' && mkdir moved && touch 'moved/a b' && chmod 000 'moved/a b'",
    "rm -rf again sparse hard old moved link /opt/e",
];

#[test]
fn every_step_comes_back_exactly() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let mut seen = Vec::new();
        for script in STEPS {
            let (record, said) = sandbox.step(shell(script)).await.unwrap();
            assert_eq!(record.exit_code, 0, "{script}: {}", String::from_utf8_lossy(&said));
            assert!(!record.snapshot.is_empty(), "{script}");
            seen.push((record.snapshot, sandbox.look(LOOK).await));
        }
        let state = |at: usize| seen[at].0.split_once('.').unwrap().1;
        assert_eq!(state(5), state(6), "a step that wrote nothing shares its predecessor's layer");
        for at in [4, 0, 9, 7, 2, 8, 1, 6, 3, 5] {
            assert_eq!(sandbox.restore(&seen[at].0, "").await.unwrap(), i64::try_from(at).unwrap());
            assert_eq!(sandbox.look(LOOK).await, seen[at].1, "after step {at}");
        }
        assert_eq!(sandbox.history(true).await.len(), 6);
        let record = sandbox.run("echo other > branch").await;
        assert_eq!((record.index, record.parent), (10, 5), "indexes are never used again");
        assert_eq!(sandbox.history(true).await.iter().map(|one| one.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 10]);
        assert_eq!(sandbox.history(false).await.len(), 11);
        sandbox.restore("", "").await.unwrap();
        assert_eq!(sandbox.look("ls -A /workspace; stat -c %a /").await, "755\n");
        for wrong in ["99.x", "nonsense", "3.other"] {
            assert_eq!(sandbox.restore(wrong, "").await.unwrap_err().code(), Code::NotFound, "{wrong}");
        }
        bed.delete("p").await;
        bed
    });
}

#[test]
fn a_hundred_steps_and_back() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let mut snapshots = Vec::new();
        for step in 0..100 {
            let script = format!("echo {step} > last; echo {step} > f{step}; rm -f f{}", step - 3);
            let record = sandbox.run(&script).await;
            assert!(!record.snapshot.is_empty(), "step {step}");
            snapshots.push(record.snapshot);
        }
        for step in [99, 0, 50, 98] {
            sandbox.restore(&snapshots[step], "").await.unwrap();
            let said = sandbox.look("cat last; ls | wc -l").await;
            assert_eq!(said, format!("{step}\n{}\n", (step + 1).min(3) + 1));
        }
        bed.delete("p").await;
        bed
    });
}

#[test]
fn forks_go_their_own_ways_and_outlive_where_they_came_from() {
    with_sidecars(|bed, trust| async move {
        let mut first = Sandbox::new(&bed, &trust, "p").await;
        let mut others = [Sandbox::new(&bed, &trust, "q").await, Sandbox::new(&bed, &trust, "r").await];
        first.run("echo base > file").await;
        let record = first.run("echo two >> file; mkdir made").await;
        first.run("rm file").await;
        for (at, other) in others.iter_mut().enumerate() {
            assert_eq!(other.restore(&record.snapshot, &first.uid()).await.unwrap(), 1);
            assert_eq!(other.run(&format!("echo own{at} >> file")).await.index, 2);
        }
        bed.delete("p").await;
        for (at, other) in others.iter_mut().enumerate() {
            assert_eq!(other.look("cat file; ls").await, format!("base\ntwo\nown{at}\nfile\nmade\n"));
            let history = other.history(true).await;
            assert_eq!(history.iter().map(|one| one.index).collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(other.restore(&history[0].snapshot, "").await.unwrap(), 0);
            assert_eq!(other.look("cat file; ls").await, "base\nfile\n");
        }
        let gone = others[0].restore(&record.snapshot, "nobody").await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
        bed.delete("q").await;
        bed.delete("r").await;
        bed
    });
}

#[test]
fn sessions_outlive_the_process_that_serves_them() {
    with_sidecars(|mut bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let first = sandbox.run("echo one > file").await;
        let late = StepRequest { operation: "late".to_owned(), ..shell("sleep 2; echo late >> file; echo said") };
        let mut events = sandbox.steps.run_step(late.clone()).await.unwrap().into_inner();
        assert!(events.message().await.unwrap().is_some(), "it has begun");
        bed.node.take().unwrap().kill();
        bed.start_node().await;
        trust.sidecars(&bed);
        let mut sandbox = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        // Its turn comes when the step that went on has been recorded.
        assert_eq!(sandbox.look("cat file").await, "one\nlate\n");
        let (record, said) = sandbox.step(late).await.unwrap();
        assert_eq!((record.index, record.exit_code, said.as_slice()), (1, 0, &b"said\n"[..]));
        assert!(!record.snapshot.is_empty());
        assert_eq!(sandbox.restore(&first.snapshot, "").await.unwrap(), 0);
        assert_eq!(sandbox.look("cat file").await, "one\n");
        // What an interrupted process had begun is gone on with: here a layer that was about to be made.
        let attempt = bed.attempt(&sandbox.pod, "main", 0);
        sandbox.look("echo two > file").await;
        bed.node.take().unwrap().kill();
        let record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(attempt.join("record.json")).unwrap()).unwrap();
        let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", record["started"]["pid"])).unwrap();
        let mut files: serde_json::Value =
            serde_json::from_slice(&std::fs::read(attempt.join("files.json")).unwrap()).unwrap();
        let name = "11111111-2222-3333-4444-555555555555";
        files["intent"] = json!({
            "leaves": root_mount(&table).unwrap(), "base": name, "chain": [name, files["base"]],
            "seals": true, "top": files["top"],
        });
        std::fs::write(attempt.join("files.json"), serde_json::to_vec(&files).unwrap()).unwrap();
        bed.start_node().await;
        trust.sidecars(&bed);
        let mut sandbox = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        assert_eq!(sandbox.look("cat file").await, "two\n");
        assert!(sandbox.run("true").await.snapshot.ends_with(name));
        bed.delete("p").await;
        bed
    });
}

#[test]
fn many_layers_become_one_and_nothing_changes() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let mut seen = Vec::new();
        for step in 0..66 {
            // A directory that has another name after each step, with one that comes out of it and goes back, and one of the image.
            let renamed = match step {
                0 => "mkdir -p r0/in/deep && echo x > r0/in/deep/f".to_owned(),
                30 => "mv r29/in out && mv r29 r30 && mv /var/log /opt/log && echo y > /opt/log/f".to_owned(),
                40 => "mv r39 r40 && mv out r40/back && echo z > r40/back/deep/g".to_owned(),
                _ => format!("mv r{} r{step} && echo {step} > r{step}/last", step - 1),
            };
            let script = format!(
                "{renamed} && mkdir -p d/{step} && echo {step} | tee d/last d/{step}/own > new-{step} && rm -rf d/$(({step} - 3)) new-$(({step} - 2))"
            );
            let record = sandbox.run(&script).await;
            assert_eq!((record.exit_code, record.snapshot.is_empty()), (0, false));
            let look = if [10, 63, 65].contains(&step) { sandbox.look(LOOK).await } else { String::new() };
            seen.push((record.snapshot, look));
        }
        let state = seen[63].0.split_once('.').unwrap().1;
        let file = bed.folder.path().join("node/layers").join(state).join("state.json");
        let length = || {
            let state: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            state["chain"].as_array().unwrap().len()
        };
        for _ in 0..500 {
            if length() == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(length(), 1, "the layers up to it are one");
        for at in [63, 10, 65, 63] {
            sandbox.restore(&seen[at].0, "").await.unwrap();
            assert_eq!(sandbox.look(LOOK).await, seen[at].1, "after step {at}");
        }
        assert_eq!(sandbox.run("rm d/last && echo on > d/on").await.exit_code, 0);
        assert_eq!(sandbox.look("ls d").await, "61\n62\n63\non\n");
        bed.delete("p").await;
        bed
    });
}
