//! How a check is run, in little room: most checks anywhere but on their own agent say nothing of it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CheckDefinition;

/// What a definition is that says nothing.
static NOTHING: LazyLock<CheckDefinition> = LazyLock::new(CheckDefinition::default);

/// How a check is run, shared by those who have the check.
#[derive(Debug, Clone, Default)]
pub struct Definition(Option<Arc<CheckDefinition>>);

impl From<CheckDefinition> for Definition {
    fn from(definition: CheckDefinition) -> Self {
        Self((definition != *NOTHING).then(|| Arc::new(definition)))
    }
}

impl Deref for Definition {
    type Target = CheckDefinition;

    fn deref(&self) -> &CheckDefinition {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Definition {
    fn deref_mut(&mut self) -> &mut CheckDefinition {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) if Arc::ptr_eq(one, other) => true,
            _ => **self == **other,
        }
    }
}

impl Eq for Definition {}

impl Serialize for Definition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Definition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CheckDefinition::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_says_nothing_takes_nothing_and_reads_the_same() {
        let said = CheckDefinition { ttl: Duration::from_secs(1), ..CheckDefinition::default() };
        let mut changed = Definition::from(said.clone());
        for definition in [CheckDefinition::default(), said] {
            let small = Definition::from(definition.clone());
            assert_eq!((*small == definition, small.0.is_none()), (true, definition == CheckDefinition::default()));
            let text = serde_json::to_string(&definition).unwrap();
            assert_eq!(serde_json::to_string(&small).unwrap(), text);
            assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), small);
        }
        changed.ttl = Duration::ZERO;
        assert_eq!(changed, Definition::default());
        assert!(size_of::<crate::model::Check>() < 256, "{}", size_of::<crate::model::Check>());
    }
}
