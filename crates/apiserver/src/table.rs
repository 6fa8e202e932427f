//! Objects as rows: what `kubectl get` asks for.

pub use age::{age, human_duration};

mod age;
