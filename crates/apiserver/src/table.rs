//! Objects as rows: what `kubectl get` asks for.

pub use age::{age, human_duration};

mod age;
// stub below
#[derive(Clone, Copy)]
pub enum Include {
    None,
    Metadata,
    Object,
}
impl Include {
    pub fn parse(_: Option<&str>) -> crate::failure::Result<Self> {
        Ok(Self::Metadata)
    }
}
pub struct Printer<'a> {
    _x: &'a (),
}
impl<'a> Printer<'a> {
    pub fn builtin(_: &'static dyn crate::builtin::Strategy, _: jiff::Timestamp) -> Self {
        Self { _x: &() }
    }
    pub fn custom(_: &'a [crate::crd::Column], _: jiff::Timestamp) -> Self {
        Self { _x: &() }
    }
    pub fn table(
        &self,
        _i: &[serde_json::Value],
        _inc: Include,
        _rv: &str,
        _c: Option<&str>,
        _r: Option<u64>,
    ) -> serde_json::Value {
        serde_json::Value::Null
    }
}
pub fn partial_object_metadata(v: &serde_json::Value) -> serde_json::Value {
    v.clone()
}
pub fn partial_object_metadata_list(
    _: &[serde_json::Value],
    _rv: &str,
    _c: Option<&str>,
    _r: Option<u64>,
) -> serde_json::Value {
    serde_json::Value::Null
}
