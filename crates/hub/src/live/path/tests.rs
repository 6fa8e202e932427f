use proptest::prelude::*;

use super::*;

/// What a request is, in one line.
fn line(method: &str, uri: &str, content_type: Option<&str>) -> String {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    match read(&method.parse().unwrap(), path, &Query::parse(query), content_type) {
        Ok(Asked::Version) => "version".to_owned(),
        Ok(Asked::Discovery(document)) => format!("{document:?}"),
        Ok(Asked::Resource(r)) => {
            let params: Vec<String> = r.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let parts = [r.group, r.version, r.namespace, r.resource, r.name, r.subresource].join("|");
            format!("{} {parts} {}", r.method, params.join("&")).trim_end().to_owned()
        }
        Ok(Asked::Log(log)) => format!("log {}/{} {} {}", log.namespace, log.pod_name, log.container, log.follow),
        Ok(Asked::Exec(exec)) => format!("exec {}/{} {:?} {}", exec.namespace, exec.pod_name, exec.command, exec.tty),
        Err(Refused::Unsupported(_)) => "unsupported".to_owned(),
        Err(Refused::Status(status, _)) => status.to_string(),
    }
}

#[test]
fn paths_become_requests() {
    let cases = [
        ("GET", "/version", "version"),
        ("POST", "/version", "405"),
        ("GET", "/api", "Core"),
        ("GET", "/apis/", "Groups"),
        ("GET", "/apis/apps", "Group(\"apps\")"),
        ("GET", "/api/v1", "GET |v1||||"),
        ("GET", "/apis/apps/v1", "GET apps|v1||||"),
        ("GET", "/api/v1/namespaces/shop", "GET |v1||namespaces|shop|"),
        ("GET", "/api/v1/namespaces/shop/status", "GET |v1||namespaces|shop|status"),
        ("GET", "/api/v1/namespaces/shop/configmaps/web", "GET |v1|shop|configmaps|web|"),
        ("GET", "/api/v1/nodes/n1", "GET |v1||nodes|n1|"),
        (
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "GET rbac.authorization.k8s.io|v1||clusterroles|system:node|",
        ),
        (
            "GET",
            "/api/v1/namespaces/shop/events?limit=5&limit=6&fieldSelector=a%3Db",
            "GET |v1|shop|events|| fieldSelector=a=b&limit=5",
        ),
        ("GET", "/api/v1/namespaces/shop/pods", "unsupported"),
        ("GET", "/api/v1/namespaces", "unsupported"),
        ("GET", "/api/v1/namespaces/shop/events?watch=1", "unsupported"),
        ("GET", "/api/v1/watch/pods", "unsupported"),
        ("GET", "/apis/apps/v1/namespaces/shop/deployments/web/scale", "GET apps|v1|shop|deployments|web|scale"),
        ("POST", "/apis/batch/v1/namespaces/shop/jobs?dryRun=All", "POST batch|v1|shop|jobs|| dryRun=All"),
        ("DELETE", "/api/v1/namespaces/shop/pods/web", "DELETE |v1|shop|pods|web|"),
        ("DELETE", "/api/v1/namespaces/shop/pods", "unsupported"),
        ("PUT", "/api/v1/namespaces/shop/pods/web", "unsupported"),
        ("HEAD", "/api/v1/namespaces/shop/pods/web", "unsupported"),
        ("GET", "/api/v1/namespaces/shop/pods/web/log?container=c&follow=true", "log shop/web c true"),
        (
            "POST",
            "/api/v1/namespaces/shop/pods/web/exec?command=sh&command=-c&tty=1",
            "exec shop/web [\"sh\", \"-c\"] true",
        ),
        ("GET", "/api/v1/namespaces/shop/pods/web/portforward", "unsupported"),
        ("GET", "/api/v1/namespaces/shop/pods/web/proxy/deep/er", "unsupported"),
        ("GET", "/openapi/v3", "unsupported"),
        ("GET", "/metrics", "404"),
        ("GET", "/", "400"),
        ("GET", "/api/v1/../../etc", "400"),
        ("GET", "/api/v1/namespaces/shop%2F..%2Fother/pods/x", "400"),
        ("GET", "/api/one/pods/x", "400"),
        ("GET", "//api", "400"),
    ];
    for (method, uri, expected) in cases {
        assert_eq!(line(method, uri, None), expected, "{method} {uri}");
    }
}

#[test]
fn patches_say_what_they_are() {
    let (plain, scale) = ("/api/v1/namespaces/s/configmaps/c", "/apis/apps/v1/namespaces/s/deployments/d/scale");
    let cases = [
        (
            plain,
            Some("application/merge-patch+json"),
            "PATCH |v1|s|configmaps|c| content-type=application/merge-patch+json",
        ),
        (plain, None, "PATCH |v1|s|configmaps|c| content-type=application/merge-patch+json"),
        (plain, Some("application/json-patch+json"), "415"),
        (plain, Some("application/apply-patch+yaml"), "415"),
        (
            scale,
            Some("application/json-patch+json"),
            "PATCH apps|v1|s|deployments|d|scale content-type=application/json-patch+json",
        ),
    ];
    for (uri, kind, expected) in cases {
        assert_eq!(line("PATCH", uri, kind), expected, "{uri} {kind:?}");
    }
}

proptest! {
    #[test]
    fn no_path_makes_trouble(path in "[ -~é]{0,40}", query in "[ -~]{0,20}") {
        let _ = read(&Method::GET, &path, &Query::parse(&query), None);
    }

    #[test]
    fn names_come_through_as_they_are(name in "[a-zA-Z0-9:+~_-]{1,12}") {
        let asked = read(&Method::GET, &format!("/api/v1/namespaces/s/configmaps/{name}"), &Query::default(), None);
        let Ok(Asked::Resource(request)) = asked else { return Err(TestCaseError::fail("no request")) };
        prop_assert_eq!(request.name, name);
    }
}
