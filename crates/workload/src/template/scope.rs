//! Variables by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Variables by their whole name ("inputs.parameters.x"); a layer over others costs nothing.
///
/// Null is an output that is absent for good: its node was skipped and nothing stands in for it.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    below: Option<Arc<Scope>>,
    values: BTreeMap<String, Value>,
}

impl Scope {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// A layer over others.
    pub fn over(below: &Arc<Self>) -> Self {
        Self { below: Some(Arc::clone(below)), values: BTreeMap::new() }
    }

    /// Sets a variable in this layer.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.values.insert(name.into(), value.into());
    }

    /// The variable of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name).or_else(|| self.below.as_ref().and_then(|below| below.get(name)))
    }

    /// Whether there is a variable of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether there is a variable of that name or below it.
    pub fn reaches(&self, name: &str) -> bool {
        let prefix = format!("{name}.");
        let mut layer = Some(self);
        while let Some(scope) = layer {
            let next = scope.values.range(prefix.clone()..).next();
            if scope.values.contains_key(name) || next.is_some_and(|(key, _)| key.starts_with(&prefix)) {
                return true;
            }
            layer = scope.below.as_deref();
        }
        false
    }

    /// All variables, by name.
    pub fn flat(&self) -> BTreeMap<&str, &Value> {
        let mut all = self.below.as_ref().map(|below| below.flat()).unwrap_or_default();
        all.extend(self.values.iter().map(|(name, value)| (name.as_str(), value)));
        all
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Scope {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut scope = Self::new();
        for (name, value) in pairs {
            scope.insert(name, value);
        }
        scope
    }
}
