//! Nodes that are too many to be written out: gzip, then base64, as Argo's `compressedNodes`.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::{Nodes, WorkflowStatus};

/// A status larger than this is stored with its nodes compressed.
pub const PLAIN_MAX: usize = 1 << 20;
/// What nodes may grow to when they are read again; a larger one was not written by a controller.
const UNPACKED_MAX: u64 = 256 << 20;

/// Why stored nodes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They are in a database, which only Argo's own controller has.
    #[error("the nodes are offloaded to a database")]
    Offloaded,
    /// Not base64.
    #[error("decode compressed nodes: {0}")]
    Encoding(#[from] base64::DecodeError),
    /// Not gzip, or too large.
    #[error("decompress nodes: {0}")]
    Compression(#[from] std::io::Error),
    /// Not nodes.
    #[error("parse nodes: {0}")]
    Json(#[from] serde_json::Error),
    /// Larger than any controller writes.
    #[error("the nodes are larger than {UNPACKED_MAX} bytes")]
    TooLarge,
}

/// Nodes as they are stored when they are many.
pub fn pack(nodes: &[u8]) -> Result<String, Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(nodes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// Such nodes as JSON.
pub fn unpack(stored: &str) -> Result<Vec<u8>, Error> {
    let bytes = STANDARD.decode(stored)?;
    let mut text = Vec::new();
    GzDecoder::new(bytes.as_slice()).take(UNPACKED_MAX).read_to_end(&mut text)?;
    if text.len() as u64 >= UNPACKED_MAX {
        return Err(Error::TooLarge);
    }
    Ok(text)
}

/// The status as it is stored: nodes compressed if it is larger than `max`.
pub fn packed(status: &WorkflowStatus, max: usize) -> Result<WorkflowStatus, Error> {
    let mut stored = status.clone();
    stored.compressed_nodes.clear();
    if serde_json::to_vec(&stored)?.len() > max {
        stored.compressed_nodes = pack(&serde_json::to_vec(&stored.nodes)?)?;
        stored.nodes = Nodes::default();
    }
    Ok(stored)
}

/// The status with its nodes written out.
pub fn unpacked(mut stored: WorkflowStatus) -> Result<WorkflowStatus, Error> {
    if stored.rest.contains_key("offloadNodeStatusVersion") {
        return Err(Error::Offloaded);
    }
    if !stored.compressed_nodes.is_empty() {
        stored.nodes = serde_json::from_slice(&unpack(&stored.compressed_nodes)?)?;
        stored.compressed_nodes.clear();
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(nodes: usize) -> WorkflowStatus {
        let nodes: serde_json::Map<_, _> = (0..nodes)
            .map(|n| {
                let id = format!("wf-{n}");
                (
                    id.clone(),
                    serde_json::json!({"id": id, "name": format!("wf.{n}"), "type": "Pod", "phase": "Running"}),
                )
            })
            .collect();
        serde_json::from_value(serde_json::json!({"phase": "Running", "nodes": nodes})).expect("a status")
    }

    #[test]
    fn many_nodes_are_compressed_and_come_back() {
        let few = status(3);
        assert_eq!(packed(&few, PLAIN_MAX).expect("packs"), few);
        let many = status(3000);
        let stored = packed(&many, 10_000).expect("packs");
        assert!(stored.nodes.is_empty() && !stored.compressed_nodes.is_empty());
        assert_eq!(unpacked(stored).expect("unpacks"), many);
    }

    #[test]
    fn what_is_no_compressed_status_is_refused() {
        for text in ["!", "aGVsbG8="] {
            let bad = WorkflowStatus { compressed_nodes: text.to_owned(), ..WorkflowStatus::default() };
            assert!(unpacked(bad).is_err(), "{text}");
        }
        let offloaded: WorkflowStatus =
            serde_json::from_value(serde_json::json!({"offloadNodeStatusVersion": "1"})).expect("a status");
        assert!(matches!(unpacked(offloaded), Err(Error::Offloaded)));
    }
}
