use futures::StreamExt;
use futures::future::BoxFuture;

use super::*;
use crate::controllers::testing;

/// A source that always has more.
struct Endless;

impl Watch for Endless {
    fn next(&mut self) -> BoxFuture<'_, thane_kv::Result<WatchBatch>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(WatchBatch { revision: 1, events: Vec::new() })
        })
    }

    fn try_next(&mut self) -> thane_kv::Result<Option<WatchBatch>> {
        Ok(None)
    }
}

fn behind(life: Duration) -> Watcher {
    let server = Arc::clone(testing::server().inner());
    let place = server.inflight.watch().unwrap();
    let feed = Feed {
        kind: server.catalog.builtin("", "configmaps"),
        server,
        filter: Filter::open(),
        view: View::Full,
        include: table::Include::default(),
        headed: false,
        floor: 0,
    };
    Watcher {
        feed,
        source: Box::new(Endless),
        start: Start::default(),
        pending: VecDeque::new(),
        end: Instant::now() + life,
        next_bookmark: None,
        seen: 0,
        asked: 0,
        closed: false,
        _place: place,
    }
}

#[tokio::test]
async fn a_watch_that_is_always_behind_ends_in_time_and_with_its_server() {
    let timed = behind(Duration::from_millis(20)).lines();
    let stopped = behind(Duration::from_hours(1));
    stopped.feed.server.stopping.cancel();
    for lines in [timed.boxed(), stopped.lines().boxed()] {
        let ended = tokio::time::timeout(Duration::from_secs(10), lines.count()).await;
        assert_eq!(ended, Ok(0));
    }
}
