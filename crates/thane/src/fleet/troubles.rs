//! What a hub has noted about an agent that cannot be done before somebody puts it right.

use serde_json::Value;

/// One object in trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Whose API says no: `agent` or `hub`.
    pub(crate) of: &'static str,
    /// Which object, and why.
    pub(crate) message: String,
    /// What to do.
    pub(crate) next: String,
}

/// What the agent's object says of both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// The first of them.
    pub(crate) named: Vec<Trouble>,
    /// How many more there are.
    pub(crate) unnamed: u64,
}

impl Troubles {
    /// Reads them from the agent's object.
    pub(crate) fn read(record: &Value) -> Self {
        let mut troubles = Self::default();
        for of in ["agent", "hub"] {
            let report = &record["status"]["troubles"][of];
            let items = report["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let count = report["count"].as_u64().unwrap_or_default();
            troubles.unnamed += count.saturating_sub(items.len() as u64);
            troubles.named.extend(items.iter().map(|item| Trouble::read(of, item)));
        }
        troubles
    }
}

impl Trouble {
    fn read(of: &'static str, item: &Value) -> Self {
        let text = |field: &str| item[field].as_str().unwrap_or_default();
        let why = text("message");
        let message = format!("{} {}/{}: {why}", text("kind"), text("namespace"), text("name"));
        Self { of, message, next: next(of, why) }
    }
}

/// What helps against it, by what the API or the other side said.
fn next(of: &str, why: &str) -> String {
    let says = |words: &str| why.contains(words);
    if says("right to ") || (says("forbidden") && says(" cannot ")) {
        format!("apply the roles and bindings of deploy/{of} there, or allow it to the user the {of} runs as")
    } else if says("not one of those allowed") {
        "name the namespace in the agent's setting agent.allowedNamespaces, or put the Application into another"
            .to_owned()
    } else if says("not to be taken over") || says("is there already") {
        "remove what is there, or let the agent adopt it with its setting agent.adoption".to_owned()
    } else if says("could not find the requested resource") {
        "install Argo CD's custom resource definitions there".to_owned()
    } else if says("no cluster secret") {
        "make the agent known with `thane agents create`".to_owned()
    } else {
        "correct what it names where the object comes from; it is tried again by itself".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_sides_are_read_and_each_trouble_has_a_next_step() {
        let item = |name: &str, message: &str| json!({"kind": "Application", "namespace": "a", "name": name, "message": message});
        let items = [
            item("1", "applications.argoproj.io is forbidden: User \"x\" cannot create resource"),
            item("2", "namespace b is not one of those allowed"),
        ];
        let hub = [item("3", "spec.project: Required value")];
        let record = json!({"status": {"troubles": {
            "agent": {"count": 12, "items": items}, "hub": {"count": 1, "items": hub},
        }}});
        let troubles = Troubles::read(&record);
        assert_eq!(troubles.unnamed, 10);
        let told: Vec<(&str, bool)> = troubles
            .named
            .iter()
            .zip(["deploy/agent", "agent.allowedNamespaces", "correct what it names"])
            .map(|(trouble, words)| (trouble.of, trouble.next.contains(words)))
            .collect();
        assert_eq!(told, [("agent", true), ("agent", true), ("hub", true)]);
        assert_eq!(troubles.named[1].message, "Application a/2: namespace b is not one of those allowed");
        assert_eq!(Troubles::read(&json!({})), Troubles::default());
    }
}
