use thane_link::Passage;
use thane_redis::command::{Commands, Piece};
use thane_runtime::net::Tcp;
use tokio::io::DuplexStream;

use super::*;

/// Every key is an agent's.
struct One;

impl Owners for One {
    fn agent_of(&self, _: &str) -> Option<String> {
        Some("one".to_owned())
    }
}

fn door(tasks: &Tasks) -> Door {
    let timeout = Duration::from_secs(20);
    let (host, username, password) = ("127.0.0.1".to_owned(), String::new(), String::new());
    Door {
        config: Config::default(),
        owners: Arc::new(One),
        upstream: Server { host, port: 1, username, password, tls: None, timeout },
        network: Tcp::shared(),
        desk: Desk::new(Passage::default(), timeout),
        tls: None,
        metrics: Metrics::default(),
        tasks: tasks.clone(),
    }
}

/// The hub's Redis: everything is fine with it.
async fn fine(mut stream: DuplexStream) {
    let (mut asked, mut buffer) = (Commands::new(|_| true), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        asked.push(&buffer[..read]);
        while let Ok(Some(Piece::Whole(..))) = asked.next_piece() {
            stream.write_all(b"+OK\r\n").await.unwrap();
        }
    }
}

/// Whether what was told was taken, given every chance to.
async fn is_taken(told: &Told) -> bool {
    for _ in 0..100 {
        if told.is_empty() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_let_go_and_does_not_read_is_gone() {
    let (tasks, _) = Tasks::root("test");
    let door = door(&tasks);
    let (near, mut client) = tokio::io::duplex(16);
    let (upstream, far) = tokio::io::duplex(1024);
    let mut connection = Connection::new(&door, Box::new(near), Box::new(upstream));
    client.write_all(b"*x\r\n").await.unwrap();
    let started = tokio::time::Instant::now();
    connection.run().await.unwrap();
    assert_eq!(started.elapsed(), CLOSE_TIMEOUT);
    drop((client, far));
}

#[tokio::test]
async fn messages_wait_for_a_reader_that_is_slow() {
    let (tasks, _) = Tasks::root("test");
    let door = door(&tasks);
    let (near, mut client) = tokio::io::duplex(1024);
    let (upstream, far) = tokio::io::duplex(1024 * 1024);
    let mut connection = Connection::new(&door, Box::new(near), Box::new(upstream));
    let told = Arc::clone(&connection.told);
    let channel = "x".repeat(32 * 1024);
    let reader = async {
        client.write_all(&thane_redis::write::command(&["SUBSCRIBE", &channel])).await.unwrap();
        // Its confirmation: from then on there are messages.
        let mut read = vec![0; channel.len()];
        client.read_exact(&mut read).await.unwrap();
        let mut messages = 0;
        while messages < 1_000 {
            told.tell(&channel);
            if !is_taken(&told).await {
                break;
            }
            messages += 1;
        }
        assert!(messages < 2 * UNSENT_MAX / channel.len(), "{messages} wait to be read");
        // As soon as it reads, it is told.
        let mut buffer = vec![0; READ];
        while !told.is_empty() {
            assert!(client.read(&mut buffer).await.unwrap() > 0);
        }
        drop(client);
    };
    let serving = async move {
        // The client leaves in the middle of what it is told.
        let _ = connection.run().await;
    };
    tokio::join!(reader, serving, fine(far));
    assert!(tasks.shutdown(Duration::from_secs(10)).await.is_empty());
}
