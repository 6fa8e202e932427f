//! What keeps a namespace from going, as its conditions tell it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::metadata;
use crate::resource::ResourceType;

/// Counts of what is left.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// By `resource.group`.
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Remains {
    pub(super) fn is_nothing(&self) -> bool {
        self.objects.is_empty()
    }

    pub(super) fn count(&mut self, kind: &ResourceType, object: &Value) {
        *self.objects.entry(format!("{}.{}", kind.plural, kind.group)).or_default() += 1;
        for finalizer in metadata::finalizers(object) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    /// Writes the conditions of a namespace that is going; answers whether they changed.
    pub(super) fn tell(&self, namespace: &mut Value, now: &str) -> bool {
        let mut conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let before = conditions.clone();
        for (name, holds, reason, message) in self.conditions() {
            let status = if holds { "True" } else { "False" };
            let old = conditions.iter_mut().find(|condition| condition["type"] == name);
            let since = match &old {
                Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
                _ => now.into(),
            };
            let new = json!({"type": name, "status": status, "lastTransitionTime": since, "reason": reason, "message": message});
            match old {
                Some(old) => *old = new,
                None => conditions.push(new),
            }
        }
        let changed = conditions != before;
        namespace["status"]["conditions"] = conditions.into();
        changed
    }

    fn conditions(&self) -> [(&'static str, bool, &'static str, String); 5] {
        let fine = |name, reason, message: &str| (name, false, reason, message.to_owned());
        let listed = |start: &str, counts: &BTreeMap<String, usize>, middle: &str| {
            let parts: Vec<String> =
                counts.iter().map(|(what, count)| format!("{what} {middle} {count} resource instances")).collect();
            format!("{start}: {}", parts.join(", "))
        };
        [
            fine("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
            fine(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            fine(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            if self.objects.is_empty() {
                fine("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
            } else {
                let message = listed("Some resources are remaining", &self.objects, "has");
                ("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
            },
            if self.finalizers.is_empty() {
                let message = "All content-preserving finalizers finished";
                fine("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", message)
            } else {
                let start = "Some content in the namespace has finalizers remaining";
                let message = listed(start, &self.finalizers, "in");
                ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_say_what_is_left_and_since_when() {
        let mut remains = Remains::default();
        remains.objects.insert("configmaps.".to_owned(), 2);
        let mut namespace = json!({"status": {"phase": "Terminating"}});
        assert!(remains.tell(&mut namespace, "then"));
        assert!(!remains.tell(&mut namespace, "later"));
        let condition = &namespace["status"]["conditions"][3];
        assert_eq!(condition["message"], "Some resources are remaining: configmaps. has 2 resource instances");
        remains.finalizers.insert("x.io/a".to_owned(), 1);
        assert!(remains.tell(&mut namespace, "later"));
        let conditions = &namespace["status"]["conditions"];
        assert_eq!(
            (&conditions[3]["lastTransitionTime"], &conditions[4]["lastTransitionTime"]),
            (&json!("then"), &json!("later"))
        );
        let expected = "Some content in the namespace has finalizers remaining: x.io/a in 1 resource instances";
        assert_eq!(conditions[4]["message"], expected);
    }
}
