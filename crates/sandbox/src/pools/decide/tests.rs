use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn pool(replicas: i32, most: Option<i32>) -> WarmPool {
    serde_json::from_value(json!({
        "apiVersion": "arl.infra.io/v1alpha1", "kind": "WarmPool",
        "metadata": {"name": "p", "namespace": "default", "uid": "pool"},
        "spec": {"replicas": replicas, "maxReplicas": most, "template": {"spec": {"containers": [{"name": "main"}]}}},
    }))
    .unwrap()
}

/// What a pod is, in a word.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Is {
    Ready,
    Starting,
    Failed,
    OldReady,
    OldStarting,
    Allocated,
    Deleting,
    Foreign,
}

fn pod(number: usize, is: Is) -> Pod {
    let ready = json!({"phase": "Running", "podIP": "127.64.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    let (status, digest, label, owner): (Value, &str, &str, &str) = match is {
        Is::Ready | Is::Deleting => (ready, "new", "idle", "pool"),
        Is::Starting => (json!({"phase": "Pending"}), "new", "idle", "pool"),
        Is::Failed => (json!({"phase": "Failed", "message": "no such image"}), "new", "idle", "pool"),
        Is::OldReady => (ready, "old", "idle", "pool"),
        Is::OldStarting => (json!({"phase": "Pending"}), "old", "idle", "pool"),
        Is::Allocated => (ready, "new", "allocated", "sandbox"),
        Is::Foreign => (ready, "new", "idle", "another"),
    };
    let kind = if is == Is::Allocated { "Sandbox" } else { "WarmPool" };
    let mut pod = json!({
        "metadata": {
            "name": format!("p-{number}"), "namespace": "default", "uid": format!("uid-{number}"), "resourceVersion": "7",
            "labels": {names::POOL: "p", names::STATUS: label},
            "annotations": {names::TEMPLATE: digest},
            "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "p", "uid": owner, "controller": true}],
        },
        "status": status,
    });
    if is == Is::Deleting {
        pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    }
    serde_json::from_value(pod).unwrap()
}

/// Which pods are deleted, and why.
type Deleted = Vec<(usize, Why)>;

struct Case {
    pool: WarmPool,
    pods: Vec<Pod>,
    creating: usize,
    status: WarmPoolStatus,
    trouble: Trouble,
    now: Timestamp,
}

impl Case {
    fn new(replicas: i32, most: Option<i32>, pods: &[Is]) -> Self {
        Self {
            pool: pool(replicas, most),
            pods: pods.iter().enumerate().map(|(number, is)| pod(number, *is)).collect(),
            creating: 0,
            status: WarmPoolStatus::default(),
            trouble: Trouble::default(),
            now: NOW,
        }
    }

    fn decide(&self) -> Plan {
        let pods: Vec<&Pod> = self.pods.iter().collect();
        decide(&View {
            pool: &self.pool,
            digest: "new",
            pods: &pods,
            creating: self.creating,
            deleting: &BTreeSet::new(),
            status: &self.status,
            trouble: &self.trouble,
            now: self.now,
        })
    }
}

fn said<'a>(plan: &'a Plan, kind: &str) -> (&'a str, &'a str, &'a str) {
    let condition = conditions::find(&plan.status.conditions, kind).unwrap();
    (&condition.status, &condition.reason, &condition.message)
}

#[test]
fn a_pool_is_kept_at_its_number() {
    use Is::*;
    type Row = (i32, Option<i32>, Vec<Is>, usize, Deleted);
    let cases: Vec<Row> = vec![
        (3, None, vec![], 3, vec![]),
        (3, None, vec![Ready, Starting], 1, vec![]),
        (3, None, vec![Ready, Ready, Ready], 0, vec![]),
        // claimed ones are replaced, what belongs to others or goes does not count
        (2, None, vec![Ready, Allocated, Allocated], 1, vec![]),
        (2, None, vec![Ready, Foreign, Deleting], 1, vec![]),
        // too many: those that are not ready go first
        (1, None, vec![Ready, Starting, Ready], 0, vec![(1, Why::Excess), (0, Why::Excess)]),
        (0, None, vec![Ready, Allocated], 0, vec![(0, Why::Excess)]),
        // never more than allowed, idle and claimed together
        (3, Some(4), vec![Allocated, Allocated, Allocated, Ready], 0, vec![]),
        (3, Some(4), vec![Allocated, Allocated, Allocated], 1, vec![]),
        (3, Some(2), vec![Allocated, Ready, Ready], 0, vec![(1, Why::Excess)]),
        (3, Some(0), vec![], 0, vec![]),
        // another template: old ones stay until new ones are ready
        (2, None, vec![OldReady, OldReady], 1, vec![]),
        (2, None, vec![OldReady, OldReady, Starting], 0, vec![]),
        (2, None, vec![OldReady, OldReady, Ready], 0, vec![(0, Why::Outdated)]),
        (2, None, vec![OldReady, Ready, Ready], 0, vec![(0, Why::Outdated)]),
        (2, None, vec![OldStarting], 2, vec![(0, Why::Outdated)]),
        // no room for both
        (2, Some(2), vec![OldReady, OldReady], 0, vec![(0, Why::Outdated)]),
    ];
    for (replicas, most, pods, create, delete) in cases {
        let plan = Case::new(replicas, most, &pods).decide();
        let deleted: Deleted =
            plan.delete.iter().map(|doomed| (doomed.name[2..].parse().unwrap(), doomed.why)).collect();
        assert_eq!((plan.create, deleted), (create, delete), "{replicas} {most:?} {pods:?}");
    }
}

#[test]
fn what_is_being_made_counts() {
    let mut case = Case::new(3, Some(4), &[Is::Ready]);
    case.creating = 2;
    assert_eq!(case.decide().create, 0);
    case.pool = pool(1, None);
    assert!(case.decide().delete.is_empty(), "the watch may tell of a pod before its creation is answered");
}

#[test]
fn failures_are_replaced_later_and_later_and_say_why() {
    let mut case = Case::new(2, None, &[Is::Failed]);
    let mut pauses = Vec::new();
    for attempt in 0..12 {
        case.pods = vec![pod(attempt, Is::Failed)];
        let plan = case.decide();
        assert_eq!((plan.create, plan.delete.len()), (1, 0), "the failed one keeps its place");
        assert_eq!(said(&plan, "PodsFailing"), ("True", "PodStartupFailed", "no such image"));
        assert_eq!(said(&plan, "Ready"), ("False", "PoolNotReady", "0/2 pods ready"));
        let until = plan.again.unwrap();
        pauses.push(until.as_second() - case.now.as_second());
        (case.trouble, case.status, case.now) = (plan.trouble, plan.status, until);
        let plan = case.decide();
        assert_eq!((plan.create, plan.delete.len(), plan.again), (2, 1, None));
        (case.trouble, case.pods) = (plan.trouble, vec![pod(99, Is::Starting)]);
        let plan = case.decide();
        assert_eq!(said(&plan, "PodsFailing").0, "True", "it is told until a pod has come up");
        (case.trouble, case.status) = (plan.trouble, plan.status);
    }
    assert_eq!((pauses[0], pauses[1], pauses[11]), (1, 2, 300));
    case.pods = vec![pod(100, Is::Ready), pod(101, Is::Ready)];
    let plan = case.decide();
    assert_eq!(plan.trouble, Trouble::default());
    assert_eq!(said(&plan, "PodsFailing"), ("False", "AllPodsHealthy", ""));
    assert_eq!(said(&plan, "Ready"), ("True", "PoolReady", "2/2 pods ready"));
}

#[test]
fn pods_that_cannot_be_made_are_tried_again_after_a_pause() {
    let mut case = Case::new(2, None, &[]);
    case.trouble.refused("quota".into(), NOW);
    let plan = case.decide();
    assert_eq!((plan.create, plan.again.unwrap().as_second()), (0, 1));
    assert_eq!(said(&plan, "PodsFailing").2, "pods cannot be made: quota");
    case.now = plan.again.unwrap();
    assert_eq!(case.decide().create, 2);
}

/// A node that goes down while it starts a pod may never finish it.
#[test]
fn a_pod_that_comes_no_closer_is_replaced() {
    let mut case = Case::new(2, None, &[Is::Ready, Is::Starting]);
    let conditions = json!([{"type": "Initialized", "status": "False", "lastTransitionTime": "1970-01-01T00:00:30Z",
        "message": "containers with incomplete status: [sidecar]"}]);
    case.pods[1].status = Some(serde_json::from_value(json!({"phase": "Pending", "conditions": conditions})).unwrap());
    let plan = case.decide();
    let due = plan.again.unwrap();
    assert_eq!((plan.create, plan.delete.len(), due.as_second()), (0, 0, 30 + 600));
    (case.trouble, case.status, case.now) = (plan.trouble, plan.status, due);
    let plan = case.decide();
    let why = "pod p-1 has come no closer to being ready for 10 minutes: containers with incomplete status: [sidecar]";
    assert_eq!(said(&plan, "PodsFailing"), ("True", "PodStartupFailed", why));
    (case.trouble, case.status, case.now) = (plan.trouble, plan.status, plan.again.unwrap());
    let plan = case.decide();
    assert_eq!((plan.create, plan.delete.len(), plan.delete[0].why), (1, 1, Why::Failed));
}

#[test]
fn a_pool_that_goes_is_left_alone() {
    let mut case = Case::new(2, None, &[Is::Ready, Is::Failed]);
    case.pool.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(NOW));
    let plan = case.decide();
    assert_eq!((plan.create, plan.delete.len()), (0, 0));
}

proptest! {
    /// Whatever there is: never more than allowed, nothing of others touched, and it comes to rest at its number.
    #[test]
    fn a_pool_settles(
        replicas in 0..12_i32,
        most in prop::option::of(0..16_i32),
        start in prop::collection::vec(prop::sample::select(vec![
            Is::Ready, Is::Starting, Is::Failed, Is::OldReady, Is::OldStarting, Is::Allocated, Is::Deleting, Is::Foreign,
        ]), 0..24),
    ) {
        let mut case = Case::new(replicas, most, &start);
        let allocated = start.iter().filter(|is| **is == Is::Allocated).count();
        let mut next = 1000;
        for round in 0..64 {
            let plan = case.decide();
            let live = |case: &Case| case.pods.iter().filter(|pod| !pods::is_deleting(*pod) && pods::owner(pod, "WarmPool").is_none_or(|owner| owner.uid == "pool")).count();
            let before = live(&case);
            if let Some(most) = most {
                let left = before - plan.delete.len();
                prop_assert!(plan.create == 0 || left + plan.create <= usize::try_from(most).unwrap());
            }
            for doomed in &plan.delete {
                let number: usize = doomed.name[2..].parse().unwrap();
                prop_assert!(number >= 1000 || !matches!(start[number], Is::Allocated | Is::Deleting | Is::Foreign));
            }
            let rests = plan.create == 0 && plan.delete.is_empty() && plan.again.is_none() && plan.starting == 0;
            (case.trouble, case.status) = (plan.trouble, plan.status);
            case.now = plan.again.unwrap_or(case.now);
            case.pods.retain(|pod| !plan.delete.iter().any(|doomed| doomed.name == pods::name(pod)));
            // What was starting is ready by now.
            for pod in case.pods.iter_mut().filter(|pod| pods::phase(pod) == "Pending") {
                let digest = pods::annotation(pod, names::TEMPLATE).unwrap().to_owned();
                let number: usize = pods::name(pod)[2..].parse().unwrap();
                *pod = self::pod(number, if digest == "new" { Is::Ready } else { Is::OldReady });
            }
            for _ in 0..plan.create {
                case.pods.push(pod(next, Is::Starting));
                next += 1;
            }
            if rests {
                let ready = usize::try_from(case.status.ready_replicas).unwrap();
                let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap());
                let idle = case.pods.iter().filter(|pod| pods::is_idle(pod) && pods::owner(pod, "WarmPool").is_some_and(|owner| owner.uid == "pool") && !pods::is_deleting(*pod)).count();
                prop_assert_eq!(idle, ready);
                prop_assert_eq!(idle, usize::try_from(replicas).unwrap().min(most.saturating_sub(allocated)), "round {}", round);
                return Ok(());
            }
        }
        prop_assert!(false, "never rests");
    }
}
