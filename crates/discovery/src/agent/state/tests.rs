use std::time::Duration;

use super::*;
use crate::model::CheckDefinition;

fn service(id: &str, name: &str, port: u16) -> Service {
    Service { id: id.to_owned(), name: name.to_owned(), port, ..Service::default() }
}

fn ttl(id: &str) -> Check {
    Check {
        id: id.to_owned(),
        name: String::new(),
        status: Status::Critical,
        notes: String::new(),
        output: String::new(),
        service_id: String::new(),
        service_name: String::new(),
        service_tags: Vec::new(),
        kind: String::new(),
        definition: CheckDefinition { ttl: Duration::from_secs(10), ..CheckDefinition::default() }.into(),
    }
}

fn register(service: Service, checks: Vec<Check>) -> Change {
    Change::Register(Box::new(service), checks, ReplaceChecks::No)
}

fn change(state: &mut State, change: Change) -> Vec<Edit> {
    let edits = state.decide(change, false).unwrap();
    for edit in &edits {
        state.apply(edit);
    }
    edits
}

fn observed(state: &State, id: &str, status: Status, output: &str) -> Change {
    let generation = state.checks()[id].generation;
    Change::Observed(Observed { id: id.to_owned(), generation, status, output: output.to_owned(), tell: false })
}

/// Konsul kept one instance per name.
#[test]
fn defect_10_many_instances_of_a_name_and_each_goes_alone() {
    let mut state = State::default();
    change(&mut state, register(service("web-1", "web", 80), vec![]));
    change(&mut state, register(service("web-2", "web", 81), vec![ttl("")]));
    change(&mut state, Change::Deregister("web-1".to_owned()));
    assert_eq!(state.services().keys().collect::<Vec<_>>(), ["web-2"]);
    assert_eq!(state.checks().keys().collect::<Vec<_>>(), ["service:web-2"]);
    assert!(matches!(state.decide(Change::Deregister("web".to_owned()), false), Err(Refusal::NotFound(_))));
}

#[test]
fn the_same_again_changes_nothing() {
    let mut state = State::default();
    assert_eq!(change(&mut state, register(service("", "web", 80), vec![ttl(""), ttl("")])).len(), 3);
    assert_eq!(state.checks().keys().collect::<Vec<_>>(), ["service:web:1", "service:web:2"]);
    assert!(change(&mut state, register(service("web", "web", 80), vec![ttl(""), ttl("")])).is_empty());
    let turned = observed(&state, "service:web:1", Status::Passing, "well");
    change(&mut state, turned);
    assert!(change(&mut state, register(service("web", "web", 80), vec![ttl(""), ttl("")])).is_empty());
    assert_eq!(state.checks()["service:web:1"].check.status, Status::Passing, "registering again does not flap");
}

#[test]
fn checks_not_named_go_only_when_asked() {
    let mut state = State::default();
    change(&mut state, register(service("web", "web", 80), vec![ttl("a"), ttl("b")]));
    change(&mut state, register(service("web", "web", 81), vec![ttl("a")]));
    assert_eq!(state.checks().len(), 2);
    change(&mut state, Change::Maintain(Some("web".to_owned()), Some(String::new())));
    change(&mut state, Change::Register(Box::new(service("web", "web", 82)), vec![ttl("c")], ReplaceChecks::Yes));
    assert_eq!(state.checks().keys().collect::<Vec<_>>(), ["_service_maintenance:web", "c"]);
}

#[test]
fn an_output_alone_is_shown_here_but_not_told() {
    let mut state = State::default();
    change(&mut state, register(service("web", "web", 80), vec![ttl("a")]));
    let seen = observed(&state, "a", Status::Critical, "noise");
    let edits = change(&mut state, seen);
    assert_eq!((edits[0].told(), edits[0].kept()), (None, None));
    assert_eq!(state.checks()["a"].check.output, "noise");
    let Item::Check(told) = state.item(&ItemKey::Check("a".to_owned())) else { panic!() };
    assert_eq!(told.output, "");
    let turned = observed(&state, "a", Status::Passing, "well");
    let edits = change(&mut state, turned);
    assert!(edits[0].told().is_some() && edits[0].kept().is_some());
}

#[test]
fn what_an_earlier_life_of_a_check_says_is_not_believed() {
    let mut state = State::default();
    change(&mut state, register(service("web", "web", 80), vec![ttl("a")]));
    let late = observed(&state, "a", Status::Passing, "late");
    let mut other = ttl("a");
    other.definition.ttl = Duration::from_secs(20);
    change(&mut state, register(service("web", "web", 80), vec![other]));
    assert!(change(&mut state, late).is_empty());
    assert_eq!(state.checks()["a"].check.status, Status::Critical);
}

#[test]
fn maintenance_is_a_check_that_comes_and_goes() {
    let mut state = State::default();
    change(&mut state, Change::Maintain(None, Some("upgrade".to_owned())));
    assert!(change(&mut state, Change::Maintain(None, Some("again".to_owned()))).is_empty());
    assert_eq!(state.checks()["_node_maintenance"].check.notes, "upgrade");
    change(&mut state, Change::Maintain(None, None));
    assert!(state.checks().is_empty());
    let unknown = Change::Maintain(Some("web".to_owned()), None);
    assert!(matches!(state.decide(unknown, false), Err(Refusal::NotFound(_))));
}

#[test]
fn nonsense_is_refused_and_changes_nothing() {
    let mut state = State::default();
    change(&mut state, register(service("web", "web", 80), vec![]));
    let orphan = Check { service_id: "db".to_owned(), ..ttl("x") };
    for change in [
        register(service("x", "", 1), vec![]),
        register(service("x", "x", 1), vec![Check { definition: Definition::default(), ..ttl("y") }]),
        Change::RegisterCheck(Box::new(orphan)),
        Change::RegisterCheck(Box::new(ttl(""))),
        Change::DeregisterCheck("x".to_owned()),
    ] {
        assert!(state.decide(change, false).is_err());
    }
}

#[test]
fn checks_are_found_by_what_they_are_about() {
    let mut state = State::default();
    change(&mut state, register(service("web", "web", 80), vec![ttl("a"), ttl("b"), ttl("a")]));
    change(&mut state, register(service("db", "db", 1), vec![ttl("")]));
    change(&mut state, Change::RegisterCheck(Box::new(ttl("disk"))));
    let about = |state: &State, id: &str| {
        state.checks_about(id).map(|kept| kept.check.id.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(["web", "db", ""].map(|id| about(&state, id)), ["a b", "service:db", "disk"]);
    change(&mut state, Change::RegisterCheck(Box::new(Check { service_id: "db".to_owned(), ..ttl("a") })));
    assert_eq!(["web", "db", ""].map(|id| about(&state, id)), ["b", "a service:db", "disk"]);
    change(&mut state, Change::Deregister("db".to_owned()));
    change(&mut state, Change::DeregisterCheck("disk".to_owned()));
    assert_eq!(["web", "db", ""].map(|id| about(&state, id)), ["b", "", ""]);
    assert_eq!(state.checks().keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_service_has_only_so_many_checks() {
    let mut state = State::default();
    let many = |count| (0..count).map(|n| ttl(&n.to_string())).collect::<Vec<_>>();
    let too_many = register(service("web", "web", 80), many(CHECKS_MAX + 1));
    assert!(matches!(state.decide(too_many, false), Err(Refusal::Invalid(_))));
    change(&mut state, register(service("web", "web", 80), many(CHECKS_MAX)));
    let one_more = Check { service_id: "web".to_owned(), ..ttl("more") };
    for change in [Change::RegisterCheck(Box::new(one_more)), register(service("web", "web", 80), vec![ttl("more")])] {
        assert!(matches!(state.decide(change, false), Err(Refusal::Invalid(_))));
    }
    let all_others = (0..CHECKS_MAX).map(|n| ttl(&format!("other {n}"))).collect();
    change(&mut state, Change::Register(Box::new(service("web", "web", 81)), all_others, ReplaceChecks::Yes));
    assert_eq!(state.checks().len(), CHECKS_MAX);
    assert_eq!(change(&mut state, Change::Deregister("web".to_owned())).len(), CHECKS_MAX + 1);
}

#[test]
fn what_was_kept_comes_back_without_orphans() {
    let orphan = Check { service_id: "gone".to_owned(), ..ttl("orphan") };
    let state = State::restore(vec![service("web", "web", 80)], vec![ttl("node"), orphan]);
    assert_eq!(state.keys(), [ItemKey::Service("web".to_owned()), ItemKey::Check("node".to_owned())]);
}
