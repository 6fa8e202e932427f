//! Who is woken, and what readers see when.

use super::*;
use crate::backend::Consistency;

fn key(name: &str) -> Topic {
    Topic::Key(name.to_owned())
}

fn keys(prefix: &str) -> Topic {
    Topic::Keys(prefix.to_owned())
}

#[tokio::test]
async fn only_those_are_woken_whose_topic_changed() {
    let running = Running::open(&memory()).await;
    let registry = &running.registry;
    running.run(instance("n1", "web", "w1")).await;
    running.run(instance("n2", "db", "d1")).await;
    let own = |text: &str| text.to_owned();
    let cases: Vec<(Command, Vec<Topic>, Vec<Topic>)> = vec![
        (
            instance("n1", "web", "w2"),
            vec![Topic::Service(own("web")), Topic::Node(own("n1")), Topic::Instances, Topic::Checks],
            vec![Topic::Service(own("db")), Topic::Node(own("n2")), Topic::Services, Topic::Nodes, keys("")],
        ),
        (
            set("a/b/c", "1"),
            vec![key("a/b/c"), keys("a/b/c"), keys("a/"), keys("")],
            vec![key("a/b"), keys("b"), keys("a/b/cd"), Topic::Services, Topic::Sessions],
        ),
        (set("a/b/c", "1"), vec![], vec![key("a/b/c"), keys("a/"), keys("")]),
        (instance("n1", "web", "w2"), vec![], vec![Topic::Service(own("web")), Topic::Nodes, Topic::Instances]),
        (session("s", "n1", None), vec![Topic::Sessions], vec![Topic::Node(own("n1")), Topic::Nodes]),
    ];
    for (command, woken, asleep) in cases {
        let woken: Vec<_> = woken.iter().map(|topic| (topic.clone(), registry.changed(topic))).collect();
        let asleep: Vec<_> = asleep.iter().map(|topic| (topic.clone(), registry.changed(topic))).collect();
        let name = format!("{command:?}");
        running.run(command).await;
        for (topic, wake) in woken {
            assert!(wake.now_or_never().is_some(), "{name}: {topic:?}");
        }
        for (topic, wake) in asleep {
            assert!(wake.now_or_never().is_none(), "{name}: {topic:?}");
        }
    }
}

#[tokio::test]
async fn a_follower_is_told_which_of_its_topics_changed() {
    let running = Running::open(&memory()).await;
    let mut follower = running.registry.follower();
    for topic in [key("a"), keys("a"), key("b"), Topic::Services] {
        assert!(follower.follow(&topic) && follower.follow(&topic));
    }
    running.run(set("a", "1")).await;
    running.run(set("b", "1")).await;
    assert_eq!(follower.changed().await.into_iter().collect::<Vec<_>>(), [key("a"), key("b"), keys("a")]);
    follower.unfollow(&key("a"));
    running.run(set("a", "2")).await;
    assert_eq!(follower.changed().await.into_iter().collect::<Vec<_>>(), [keys("a")]);
    assert!(follower.changed().now_or_never().is_none());
    assert_eq!(follower.len(), 3);
    drop(follower);
    running.run(set("a", "3")).await;
    assert_eq!(running.registry.shared.hot.read().slots.len(), 0, "nobody wants anything any more");
}

#[tokio::test]
async fn nothing_is_seen_before_it_is_stored() {
    let store = Moody::new(memory());
    let running = Running::open(&(Arc::clone(&store) as Arc<dyn Store>)).await;
    let registry = Arc::clone(&running.registry);
    running.run(set("warm", "1")).await;
    let warm = registry.topic(&key("warm")).await;
    let ready = |topic: &Topic| registry.ready(topic, Consistency::Consistent).map(|reading| reading.data.index);
    let closed = store.gate.acquire().await.expect("never closed");
    let mut writes = Box::pin(futures::future::join(
        registry.write_from(None, set("warm", "2")),
        registry.write_from(None, set("cold", "1")),
    ));
    while registry.metrics().commits.get() < 2 {
        assert!(futures::poll!(&mut writes).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(ready(&key("cold")), None);
    assert_eq!(ready(&key("warm")), Some(warm.index), "what was there before");
    assert_eq!(ready(&key("other")), Some(0), "what nobody writes can be read");
    assert_eq!(registry.index(), 1);
    let prefix = keys("co");
    let mut cold = Box::pin(registry.delta(&prefix, 0));
    assert!(futures::poll!(&mut cold).is_pending());
    drop(closed);
    let (first, second) = writes.await;
    assert!(first.is_ok() && second.is_ok());
    assert_eq!((cold.await.changed.len(), ready(&key("warm")), registry.index()), (1, Some(2), 3));
}

#[tokio::test]
async fn topics_nobody_reads_any_more_are_let_go() {
    let options = Options { topics: 100, ..Options::default() };
    let running = Running::open_with(&memory(), options, clock()).await;
    let waited = running.registry.changed(&key("waited"));
    for number in 0..1000 {
        running.registry.topic(&key(&number.to_string())).await;
        running.registry.topic(&key("often")).await;
        let kept = running.registry.shared.hot.read().slots.len();
        assert!(kept <= 101, "{kept}");
    }
    running.run(set("waited", "1")).await;
    assert!(waited.now_or_never().is_some());
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_so() {
    let store = Moody::new(memory());
    let options = Options { queue: 4, ..Options::default() };
    let running = Running::open_with(&(Arc::clone(&store) as Arc<dyn Store>), options, clock()).await;
    let writes = (0..64).map(|number| running.registry.write_from(None, set(&number.to_string(), "v")));
    let done = futures::future::join_all(writes).await;
    let busy = done.iter().filter(|done| matches!(done, Err(Refusal::Busy(_)))).count();
    let written = done.iter().filter(|done| done.is_ok()).count();
    assert!(busy > 0 && busy + written == 64, "{busy} busy, {written} written");
    assert_eq!(running.registry.metrics().busy.get(), busy as u64);
    assert_eq!(running.rows(keys("")).await.len(), written);
}
