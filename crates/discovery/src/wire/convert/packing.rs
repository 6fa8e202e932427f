//! Messages compressed, where that is worth it and the other side unpacks it.

use bytes::Bytes;
use prost::Message;
use thane_api::wire::discovery as wire;

/// Messages up to this size are not worth compressing.
const COMPRESS_ABOVE: usize = 256;
/// Bytes of a message once it is unpacked.
const UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Several changes of an agent, compressed if that is worth it.
pub fn packed_batch(batch: wire::BatchUpdateRequest) -> wire::BatchUpdateRequest {
    match squeezed(&batch) {
        Some(compressed_data) => wire::BatchUpdateRequest { compressed_data, ..wire::BatchUpdateRequest::default() },
        None => batch,
    }
}

/// The changes as they were before [`packed_batch`].
pub fn unpacked_batch(batch: wire::BatchUpdateRequest) -> Result<wire::BatchUpdateRequest, String> {
    if batch.compressed_data.is_empty() {
        return Ok(batch);
    }
    wire::BatchUpdateRequest::decode(expanded(&batch.compressed_data)?).map_err(|error| error.to_string())
}

/// How checks stand, compressed if that is worth it.
pub fn packed_report(report: wire::HealthReport) -> wire::HealthReport {
    match squeezed(&report) {
        Some(compressed_data) => wire::HealthReport { compressed_data, ..wire::HealthReport::default() },
        None => report,
    }
}

/// The report as it was before [`packed_report`].
pub fn unpacked_report(report: wire::HealthReport) -> Result<wire::HealthReport, String> {
    if report.compressed_data.is_empty() {
        return Ok(report);
    }
    wire::HealthReport::decode(expanded(&report.compressed_data)?).map_err(|error| error.to_string())
}

/// The message, compressed if that is worth it.
pub fn packed(reply: wire::FollowReply) -> wire::FollowReply {
    match squeezed(&reply) {
        Some(compressed_data) => {
            wire::FollowReply { current_index: reply.current_index, compressed_data, ..wire::FollowReply::default() }
        }
        None => reply,
    }
}

/// The message as it was before [`packed`].
pub fn unpacked(reply: wire::FollowReply) -> Result<wire::FollowReply, String> {
    if reply.compressed_data.is_empty() {
        return Ok(reply);
    }
    wire::FollowReply::decode(expanded(&reply.compressed_data)?).map_err(|error| error.to_string())
}

/// The same for the answer to a pull.
pub fn packed_sync(answer: wire::SyncResponse) -> wire::SyncResponse {
    match squeezed(&answer) {
        Some(compressed_data) => {
            wire::SyncResponse { current_index: answer.current_index, compressed_data, ..wire::SyncResponse::default() }
        }
        None => answer,
    }
}

/// The answer as it was before [`packed_sync`].
pub fn unpacked_sync(answer: wire::SyncResponse) -> Result<wire::SyncResponse, String> {
    if answer.compressed_data.is_empty() {
        return Ok(answer);
    }
    wire::SyncResponse::decode(expanded(&answer.compressed_data)?).map_err(|error| error.to_string())
}

fn squeezed(message: &impl Message) -> Option<Bytes> {
    if message.encoded_len() <= COMPRESS_ABOVE {
        return None;
    }
    let bytes = message.encode_to_vec();
    let squeezed = snap::raw::Encoder::new().compress_vec(&bytes).ok()?;
    (squeezed.len() < bytes.len()).then(|| squeezed.into())
}

fn expanded(bytes: &[u8]) -> Result<Bytes, String> {
    let length = snap::raw::decompress_len(bytes).map_err(|error| error.to_string())?;
    if length > UNPACKED_BYTES_MAX {
        return Err(format!("{length} bytes are more than a message may have"));
    }
    snap::raw::Decoder::new().decompress_vec(bytes).map(Bytes::from).map_err(|error| error.to_string())
}
