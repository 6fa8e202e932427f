use serde_json::json;
use thane_kv::{MemoryOptions, MemoryStore};

use super::*;
use crate::catalog::Catalog;

struct Bed {
    objects: Objects,
    catalog: Catalog,
}

impl Bed {
    fn new(options: MemoryOptions) -> Self {
        let store = MemoryStore::new(options);
        let objects = Objects::new(store, Arc::new(Encryption::default()), 1 << 20, Duration::from_hours(1));
        Self { objects, catalog: Catalog::default() }
    }

    async fn create(&self, plural: &str, name: &str, home: Option<&Home>) -> Created {
        let kind = self.catalog.builtin("", plural);
        let namespace = if kind.namespaced { "here" } else { "" };
        self.objects.create(&kind, namespace, name, &json!({"metadata": {"name": name}}), home).await.unwrap()
    }

    async fn made(&self, plural: &str, name: &str) -> Stored {
        match self.create(plural, name, None).await {
            Created::Done(stored) => stored,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn nothing_new_is_stored_in_a_namespace_that_changed_since() {
    let bed = Bed::new(MemoryOptions::default());
    let namespaces = bed.catalog.builtin("", "namespaces");
    let namespace = bed.made("namespaces", "here").await;
    let home = Home::new(&namespaces, "here", &namespace);
    assert!(matches!(bed.create("configmaps", "a", Some(&home)).await, Created::Done(_)));
    let marked = json!({"metadata": {"name": "here", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let swapped = bed.objects.replace(&namespaces, "", "here", namespace.revision, &marked).await.unwrap();
    let Swap::Done(marked) = swapped else { panic!("{swapped:?}") };
    assert!(matches!(bed.create("configmaps", "b", Some(&home)).await, Created::Moved));
    assert!(matches!(bed.create("configmaps", "a", Some(&home)).await, Created::Taken(_)), "the name says more");
    bed.objects.delete(&namespaces, "", "here", &marked).await.unwrap();
    assert!(matches!(bed.create("configmaps", "b", Some(&home)).await, Created::Moved));
    let maps = bed.catalog.builtin("", "configmaps");
    assert!(bed.objects.get(&maps, "here", "b").await.unwrap().is_none());
}

#[tokio::test]
async fn events_that_fill_a_lease_go_on_with_another() {
    let mut options = MemoryOptions::default();
    options.limits.lease_keys = 3;
    let bed = Bed::new(options);
    for number in 0..10 {
        bed.made("events", &format!("e{number}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_shared_by_so_many_and_for_so_long() {
    let store = MemoryStore::new(MemoryOptions::default());
    let leases = EventLease::new(Duration::from_hours(1));
    let first = leases.get(&*store).await.unwrap();
    for _ in 1..4096 {
        assert_eq!(leases.get(&*store).await.unwrap(), first);
    }
    let second = leases.get(&*store).await.unwrap();
    assert_ne!(second, first);
    tokio::time::advance(Duration::from_secs(61)).await;
    let third = leases.get(&*store).await.unwrap();
    assert_ne!(third, second);
    leases.give_up(second).await;
    assert_eq!(leases.get(&*store).await.unwrap(), third, "another one was given up");
    leases.give_up(third).await;
    assert_ne!(leases.get(&*store).await.unwrap(), third);
}
