//! A shell over a WebSocket.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::bed::Bed;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_is_talked_to() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    let url = format!("ws://{}/v1/sessions/{id}/shell", bed.address());
    let stream = TcpStream::connect(bed.address()).await.unwrap();
    let (mut socket, _) = client_async(url, stream).await.unwrap();
    let said = [
        (json!({"type": "input", "data": "ls\n"}), json!({"type": "output", "data": "said ls\n"})),
        (json!({"type": "resize", "rows": 5, "cols": 6}), json!({"type": "output", "data": "size 5x6"})),
        (json!({"type": "signal", "signal": "SIGINT"}), json!({"type": "output", "data": "signal SIGINT"})),
        (json!({"type": "input", "data": "exit\n"}), json!({"type": "exit", "exit_code": 7})),
    ];
    for (sent, expected) in said {
        socket.send(Message::text(sent.to_string())).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(answer.to_text().unwrap()).unwrap(), expected);
    }
    assert!(matches!(socket.next().await, None | Some(Ok(Message::Close(_)) | Err(_))));

    let stream = TcpStream::connect(bed.address()).await.unwrap();
    let url = format!("ws://{}/v1/sessions/{id}/shell", bed.address());
    let (mut socket, _) = client_async(url, stream).await.unwrap();
    socket.send(Message::text("{}")).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(answer.to_text().unwrap()).unwrap()["type"], "error");
    drop(socket);
    assert_eq!(bed.get(&format!("/v1/sessions/{id}/shell")).await.fault(), (400, "user".to_owned()));
    bed.end().await;
}
