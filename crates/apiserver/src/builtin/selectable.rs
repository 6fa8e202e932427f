//! Field selectors over built-in kinds.

use std::borrow::Cow;

use serde_json::Value;

use super::Kind;
use crate::metadata;
use crate::selector::Fields;

impl Kind {
    /// Why a field selector cannot be used on this kind, in the words of Kubernetes.
    pub(crate) fn field_selector_error(&self, fields: &Fields) -> Option<String> {
        fields.names().find(|name| !self.knows_field(name)).map(|name| self.strategy.unknown_field(name))
    }

    /// Whether a field selector selects an object of this kind.
    pub(crate) fn is_selected(&self, object: &Value, fields: &Fields) -> bool {
        if fields.is_empty() {
            return true;
        }
        let own = self.strategy.selectable(object);
        fields.matches(|name| match alias(self.kind, name) {
            "metadata.name" => Cow::Borrowed(metadata::name(object)),
            "metadata.namespace" => Cow::Borrowed(metadata::namespace(object)),
            name => own
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(Cow::Borrowed(""), |(_, value)| Cow::Owned(value.clone())),
        })
    }

    fn knows_field(&self, name: &str) -> bool {
        match alias(self.kind, name) {
            "metadata.name" => true,
            // Kinds that list their fields say so only where it can be set.
            "metadata.namespace" => self.namespaced || self.strategy.selectable_names().is_empty(),
            name => self.strategy.selectable_names().contains(&name),
        }
    }
}

/// An old name of a field that clients still use.
fn alias<'a>(kind: &str, name: &'a str) -> &'a str {
    if kind == "Pod" && name == "spec.host" { "spec.nodeName" } else { name }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::kinds;
    use super::*;

    fn kind(plural: &str) -> &'static Kind {
        kinds().iter().find(|kind| kind.plural == plural).expect("a built-in kind")
    }

    #[test]
    fn unknown_fields_are_refused() {
        const GENERIC: &str = "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        for (plural, selector, expected) in [
            ("pods", "x=y", Some("field label not supported: x")),
            ("pods", "spec.host=y,status.phase!=Failed,metadata.namespace=a", None),
            ("nodes", "metadata.namespace=a", Some("field label not supported: metadata.namespace")),
            ("nodes", "spec.unschedulable=true", None),
            ("namespaces", "metadata.namespace=a", Some("field label not supported: metadata.namespace")),
            ("namespaces", "name=a", Some("field label not supported: name")),
            ("configmaps", "x=y", Some(GENERIC)),
            ("clusterroles", "metadata.namespace=a", None),
            ("secrets", "type=Opaque", None),
            ("services", "x=y", Some("field label not supported: x")),
            ("leases", "metadata.name=a", None),
        ] {
            let fields = Fields::parse(selector).expect("valid selector");
            assert_eq!(kind(plural).field_selector_error(&fields).as_deref(), expected, "{plural} {selector}");
        }
    }

    #[test]
    fn objects_are_selected() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"nodeName": "n", "hostNetwork": true},
            "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}]},
        });
        for (selector, expected) in [
            ("", true),
            ("metadata.name=a,metadata.namespace=b", true),
            ("spec.nodeName=n,spec.host=n", true),
            ("status.phase!=Running", false),
            ("spec.hostNetwork=true,status.podIP=1.2.3.4", true),
            ("spec.serviceAccountName=", true),
        ] {
            let fields = Fields::parse(selector).expect("valid selector");
            assert_eq!(kind("pods").is_selected(&pod, &fields), expected, "{selector}");
        }
        let event = json!({"involvedObject": {"name": "x", "uid": "1"}, "reportingComponent": "c", "type": "Normal"});
        let fields = Fields::parse("involvedObject.name=x,source=c,type=Normal").expect("valid selector");
        assert!(kind("events").is_selected(&event, &fields));
    }
}
