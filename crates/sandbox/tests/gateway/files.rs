//! Files in and out.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::bed::{Bed, PATIENCE};
use crate::fake::hex;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_in_and_come_out_as_they_were() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_be_bytes()[3]).collect();
    let (upload, download) = (format!("/v1/sessions/{id}/upload-file"), format!("/v1/sessions/{id}/download-file"));
    let digest = hex(&content);
    let headers = [("x-arl-path", "/workspace/big"), ("x-arl-sha256", digest.as_str())];
    let written = bed.call(Method::POST, &upload, &headers, content.clone()).await.expect(200);
    assert_eq!(written, json!({"path": "/workspace/big", "sizeBytes": content.len(), "sha256": digest}));
    let read = bed.post(&download, json!({"path": "/workspace/big"})).await;
    assert!(read.status == 200 && read.body == content);
    assert_eq!(read.trailers["x-arl-sha256"], digest.as_str());
    assert_eq!(read.trailers["x-arl-size-bytes"], content.len().to_string().as_str());

    let empty = bed.call(Method::POST, &upload, &[("x-arl-path", "/workspace/empty")], "").await.expect(200);
    assert_eq!(empty["sizeBytes"], 0);
    let read = bed.post(&download, json!({"path": "/workspace/empty"})).await;
    assert!(read.status == 200 && read.body.is_empty());

    let wrong = [("x-arl-path", "/workspace/f"), ("x-arl-sha256", "00")];
    assert_eq!(bed.call(Method::POST, &upload, &wrong, "x").await.fault(), (400, "user".to_owned()));
    assert_eq!(bed.call(Method::POST, &upload, &[], "x").await.fault(), (400, "user".to_owned()));
    let outside = [("x-arl-path", "/workspace/../../etc/passwd")];
    assert_eq!(bed.call(Method::POST, &upload, &outside, "x").await.fault(), (400, "user".to_owned()));
    assert_eq!(bed.post(&download, json!({"path": "/none"})).await.fault(), (404, "user".to_owned()));

    let remove = format!("/v1/sessions/{id}/delete-file");
    bed.post(&remove, json!({"path": "/workspace/big"})).await.expect(204);
    assert_eq!(bed.post(&remove, json!({"path": "/workspace/big"})).await.fault(), (404, "user".to_owned()));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_breaks_off_changes_nothing() {
    let bed = Bed::new().await;
    bed.pool("p", 1, true).await;
    let id = bed.session("p").await;
    let upload = format!("/v1/sessions/{id}/upload-file");
    bed.call(Method::POST, &upload, &[("x-arl-path", "/workspace/f")], "whole").await.expect(200);
    // Of a length that is not reached, and in pieces of which the last does not come.
    for (length, part) in [("content-length: 100", "first"), ("transfer-encoding: chunked", "5\r\nfirst\r\n")] {
        let writes = bed.fake(&id).calls("WriteFile");
        let mut stream = TcpStream::connect(bed.address()).await.unwrap();
        let head = format!("POST {upload} HTTP/1.1\r\nhost: {}\r\nx-arl-path: /workspace/f\r\n", bed.address());
        stream.write_all(format!("{head}{length}\r\n\r\n{part}").as_bytes()).await.unwrap();
        let begun = async {
            while bed.fake(&id).calls("WriteFile") == writes {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, begun).await.unwrap();
        drop(stream);
        let over = async {
            while bed.fake(&id).calls("WroteFile") == writes {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, over).await.unwrap();
        assert_eq!(bed.fake(&id).state.lock().files["/workspace/f"], "whole", "{length}");
    }
    bed.end().await;
}
