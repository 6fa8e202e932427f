//! What an API that says no is told in one line: which right is missing, and what gives it.

/// Why a request failed; for one that is not allowed, the right it takes and what to do.
pub fn explain(error: &kube::Error, verb: &str, path: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 && is_about_rights(&status.message) => denied(verb, path),
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API answered {}", status.code),
        other => other.to_string(),
    }
}

/// Quotas, admission and namespaces that end also forbid, and say so themselves.
fn is_about_rights(message: &str) -> bool {
    message.is_empty() || message.contains(" cannot ")
}

fn denied(verb: &str, path: &str) -> String {
    let (resource, place) = named(path);
    format!(
        "the right to {verb} {resource} in {place} is missing: apply 20-rights.yaml of deploy/, or allow it to the user this runs as"
    )
}

/// The resource of a path and where it is.
fn named(path: &str) -> (String, String) {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.trim_start_matches('/').split('/');
    let group = match parts.next() {
        Some("apis") => parts.next().unwrap_or_default(),
        _ => "",
    };
    let parts: Vec<&str> = parts.skip(1).collect();
    let (plural, place) = match parts.as_slice() {
        ["namespaces", namespace, plural, ..] => (*plural, format!("namespace {namespace}")),
        [plural, ..] => (*plural, "all namespaces".to_owned()),
        [] => (path, "all namespaces".to_owned()),
    };
    let dot = if group.is_empty() { "" } else { "." };
    (format!("{plural}{dot}{group}"), place)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn error(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    #[test]
    fn a_missing_right_is_named_by_verb_resource_and_place() {
        let cannot = error(403, "x is forbidden: User \"u\" cannot list resource \"x\" in API group \"\"");
        for (path, expected) in [
            ("/apis/thane.dev/v1alpha1/agents?limit=1", "list agents.thane.dev in all namespaces"),
            ("/apis/argoproj.io/v1alpha1/namespaces/a/applications/b", "list applications.argoproj.io in namespace a"),
            ("/api/v1/namespaces/argocd/secrets", "list secrets in namespace argocd"),
            ("/api/v1/namespaces/argocd", "list namespaces in all namespaces"),
            ("/", "list / in all namespaces"),
        ] {
            let found = explain(&cannot, "list", path);
            assert!(found.starts_with(&format!("the right to {expected} is missing: ")), "{path}: {found}");
            assert!(!found.contains('\n') && found.contains("20-rights.yaml"), "{found}");
        }
    }

    #[test]
    fn other_refusals_speak_for_themselves() {
        for (code, message, expected) in [
            (403, "exceeded quota: small", "exceeded quota: small"),
            (404, "not found", "not found"),
            (500, "", "the API answered 500"),
        ] {
            assert_eq!(explain(&error(code, message), "get", "/api/v1/secrets"), expected);
        }
    }
}
