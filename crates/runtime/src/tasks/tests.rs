use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::*;

type Log = Arc<Mutex<Vec<&'static str>>>;

fn logs_its_end(tasks: &Tasks, log: &Log, name: &'static str) {
    let (tasks, log) = (tasks.clone(), Arc::clone(log));
    tasks.clone().spawn(name, async move {
        tasks.cancelled().await;
        log.lock().push(name);
    });
}

#[tokio::test]
async fn children_stop_newest_first_and_before_their_parent() {
    let (root, _supervisor) = Tasks::root("root");
    let log = Log::default();
    let (first, second) = (root.child("first"), root.child("second"));
    let inner = second.child("inner");
    for (tasks, name) in [(&root, "root"), (&first, "first"), (&second, "second"), (&inner, "inner")] {
        logs_its_end(tasks, &log, name);
    }
    assert_eq!(root.running().len(), 4);
    assert_eq!(root.shutdown(Duration::from_secs(30)).await, Vec::<String>::new());
    assert_eq!(*log.lock(), ["inner", "second", "first", "root"]);
    assert_eq!(root.running(), []);
}

#[tokio::test]
async fn a_task_that_does_not_listen_is_named_and_aborted() {
    let (root, _supervisor) = Tasks::root("root");
    let child = root.child("store");
    let (dropped, gone) = oneshot::channel::<()>();
    child.spawn("deaf", async move {
        let _held = dropped;
        std::future::pending::<()>().await;
    });
    logs_its_end(&child, &Log::default(), "polite");
    assert_eq!(root.shutdown(Duration::ZERO).await, ["root/store/deaf"]);
    assert!(gone.await.is_err(), "an aborted task lets go of what it holds");
}

#[tokio::test]
async fn failures_reach_the_supervisor_with_path_and_cause() {
    let (root, mut supervisor) = Tasks::root("root");
    let child = root.child("agent");
    child.spawn("panics", panics());
    assert_eq!(failure(&mut supervisor).await, ("task root/agent/panics panicked: no luck".to_owned(), false));
    child.spawn("fails", async { Err::<(), _>(anyhow::anyhow!("inner").context("outer")) });
    assert_eq!(failure(&mut supervisor).await, ("task root/agent/fails failed: outer: inner".to_owned(), false));
    child.spawn_blocking("blocks", || -> () { panic!("at work") });
    assert_eq!(failure(&mut supervisor).await.0, "task root/agent/blocks failed: panicked: at work");
    child.spawn_essential("ends", async {});
    assert_eq!(failure(&mut supervisor).await, ("task root/agent/ends ended unasked".to_owned(), true));
}

#[tokio::test]
async fn an_essential_task_may_end_once_asked_to() {
    let (root, mut supervisor) = Tasks::root("root");
    let tasks = root.clone();
    root.spawn_essential("listener", async move { tasks.cancelled().await });
    let connections = root.child("connections");
    root.spawn_essential("ends with its child", async move { connections.cancelled().await });
    root.spawn("other", async { Err::<(), _>(anyhow::anyhow!("not essential")) });
    assert!(root.shutdown(Duration::from_secs(30)).await.is_empty());
    drop(root);
    assert!(supervisor.essential_failed().await.is_none());
}

#[tokio::test]
async fn a_group_nobody_holds_is_forgotten_but_its_tasks_are_not() {
    let (root, _supervisor) = Tasks::root("root");
    let log = Log::default();
    logs_its_end(&root.child("kept-by-its-task"), &log, "kept");
    drop(root.child("idle"));
    // The group between has neither tasks nor a holder, and must still lead to its child.
    logs_its_end(&root.child("between").child("inner"), &log, "inner");
    assert_eq!(root.running().len(), 2);
    assert!(root.shutdown(Duration::from_secs(30)).await.is_empty());
    assert_eq!(*log.lock(), ["inner", "kept"]);
}

async fn failure(supervisor: &mut Supervisor) -> (String, bool) {
    let failure = supervisor.failed().await.unwrap();
    (failure.to_string(), failure.essential)
}

async fn panics() {
    tokio::task::yield_now().await;
    panic!("no {}", "luck")
}
