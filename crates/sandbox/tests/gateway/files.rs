//! Files in and out.

use http::Method;
use serde_json::json;

use crate::bed::Bed;
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
