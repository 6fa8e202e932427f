//! stub
pub fn decode(_: &[u8]) -> crate::failure::Result<serde_json::Value> {
    Err(crate::failure::Failure::bad_request("stub"))
}
