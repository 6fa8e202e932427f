use proptest::prelude::*;

use super::*;

/// A request: method, group/version, namespace, resource, name, subresource.
fn request(method: &str, [group, version, namespace, resource, name, subresource]: [&str; 6]) -> ResourceRequest {
    ResourceRequest {
        method: method.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        body: Bytes::from_static(b"{}"),
        params: [("dryRun", "All"), ("force", "true"), ("limit", "5"), ("watch", "true"), ("fieldManager", "a b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..ResourceRequest::default()
    }
}

/// A plan in one line.
fn line(plan: Result<Plan, Refusal>) -> String {
    let call = |call: Call| format!("{} {} {}", call.method, call.uri, call.content_type);
    match plan {
        Ok(Plan::Groups) => "groups".to_owned(),
        Ok(Plan::Read(path)) => format!("read {path}"),
        Ok(Plan::Object(path)) => format!("object {path}"),
        Ok(Plan::Create(made)) => format!("create {}", call(made)),
        Ok(Plan::Change { object, call: done }) => format!("if {object}: {}", call(done)),
        Err(refusal) => refusal.status.to_string(),
    }
}

#[test]
fn requests_become_calls() {
    let cases = [
        ("GET", ["", "", "", "", "", ""], "groups"),
        ("GET", ["", "v1", "", "", "", ""], "read /api/v1"),
        ("GET", ["apps", "v1", "", "", "", ""], "read /apis/apps/v1"),
        ("GET", ["", "v1", "shop", "events", "", ""], "read /api/v1/namespaces/shop/events?limit=5"),
        ("GET", ["", "v1", "", "events", "", ""], "read /api/v1/events?limit=5"),
        ("GET", ["", "v1", "shop", "secrets", "", ""], "403"),
        ("GET", ["", "v1", "shop", "configmaps", "web", ""], "object /api/v1/namespaces/shop/configmaps/web"),
        ("GET", ["", "v1", "", "namespaces", "shop", ""], "object /api/v1/namespaces/shop"),
        (
            "GET",
            ["apps", "v1", "shop", "deployments", "web", "scale"],
            "if /apis/apps/v1/namespaces/shop/deployments/web: GET /apis/apps/v1/namespaces/shop/deployments/web/scale application/json",
        ),
        (
            "POST",
            ["batch", "v1", "shop", "jobs", "", ""],
            "create POST /apis/batch/v1/namespaces/shop/jobs?dryRun=All&fieldManager=a%20b application/json",
        ),
        (
            "PATCH",
            ["", "v1", "shop", "configmaps", "web", ""],
            "if /api/v1/namespaces/shop/configmaps/web: PATCH /api/v1/namespaces/shop/configmaps/web?dryRun=All&force=true&fieldManager=a%20b application/merge-patch+json",
        ),
        (
            "DELETE",
            ["", "v1", "shop", "pods", "web", ""],
            "if /api/v1/namespaces/shop/pods/web: DELETE /api/v1/namespaces/shop/pods/web application/json",
        ),
        ("DELETE", ["", "v1", "shop", "pods", "", ""], "405"),
        ("POST", ["", "v1", "shop", "pods", "web", ""], "405"),
        ("PUT", ["", "v1", "shop", "pods", "web", ""], "405"),
        ("", ["", "v1", "shop", "pods", "web", ""], "405"),
        ("GET", ["", "v1", "shop", "", "web", ""], "405"),
        ("GET", ["", "", "shop", "pods", "web", ""], "400"),
        ("GET", ["", "v1", "..", "pods", "web", ""], "400"),
        ("GET", ["", "v1", "shop", "pods", "a/b", ""], "400"),
        ("GET", ["", "v1", "shop", "pods", "a?b", ""], "400"),
        ("GET", ["", "v1", "shop", "pods", "a%2fb", ""], "400"),
    ];
    for (method, parts, expected) in cases {
        assert_eq!(line(plan(&request(method, parts))), expected, "{method} {parts:?}");
    }
}

#[test]
fn a_patch_of_a_subresource_may_be_of_another_kind() {
    let mut patch = request("PATCH", ["apps", "v1", "shop", "deployments", "web", "scale"]);
    for (asked, expected) in [
        ("", Ok(MERGE_PATCH)),
        (JSON_PATCH, Ok(JSON_PATCH)),
        (STRATEGIC_PATCH, Ok(STRATEGIC_PATCH)),
        ("application/apply-patch+yaml", Err(415)),
    ] {
        patch.params.insert("content-type".to_owned(), asked.to_owned());
        assert_eq!(patch_type(&patch).map_err(|refusal| refusal.status), expected, "{asked}");
    }
    patch.subresource.clear();
    assert_eq!(patch_type(&patch).unwrap(), MERGE_PATCH, "a plain object is merged");
}

proptest! {
    #[test]
    fn no_request_leaves_its_path(parts in proptest::array::uniform6("[a-z./?#%:\\\\-]{0,6}")) {
        let [group, version, namespace, resource, name, subresource] = &parts;
        let asked = request("GET", [group, version, namespace, resource, name, subresource]);
        let path = match plan(&asked) {
            Ok(Plan::Read(path) | Plan::Object(path)) => path,
            Ok(Plan::Change { call, .. }) => call.uri,
            _ => return Ok(()),
        };
        let path = path.split('?').next().unwrap_or_default();
        prop_assert!(path.parse::<http::Uri>().is_ok());
        let is_traversal = |segment: &str| segment == "." || segment.contains("..") || segment.contains('%');
        prop_assert!(!path.split('/').any(is_traversal) && !path.contains('#'), "{}", path);
    }
}
