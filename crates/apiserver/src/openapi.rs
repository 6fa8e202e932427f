//! stub
use crate::catalog::Types;
use bytes::Bytes;
#[derive(Default)]
pub struct Documents;
impl Documents {
    pub fn index(&self, _types: &Types) -> Bytes {
        Bytes::new()
    }
    pub fn document(&self, _types: &Types, _group: &str, _version: &str) -> Option<Bytes> {
        None
    }
}
