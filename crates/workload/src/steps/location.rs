//! Where an artifact is: one of Argo's locations, read from its JSON.

use serde_json::{Map, Value, json};

/// Where the directory of artifacts is mounted in `init` and `wait`.
pub const DIRECTORY: &str = "/argo/artifacts";
/// The plugin, in Argo's terms, that keeps artifacts in a directory of a claim.
pub const DIRECTORY_PLUGIN: &str = "thane-directory";
/// Key of an artifact's folder where a repository names no other.
const KEY: &str = "{{workflow.name}}/{{pod.name}}";
/// All locations Argo has, and the field with the key.
const KINDS: [(&str, &str); 10] = [
    ("s3", "key"),
    ("plugin", "key"),
    ("http", "url"),
    ("git", "repo"),
    ("raw", "data"),
    ("gcs", "key"),
    ("azure", "blob"),
    ("oss", "key"),
    ("hdfs", "path"),
    ("artifactory", "url"),
];

/// The kind of location an artifact has.
pub fn kind(artifact: &Value) -> Option<&'static str> {
    KINDS.iter().map(|(name, _)| *name).find(|name| artifact[*name].is_object())
}

/// Whether nothing of its location is missing.
pub fn is_located(artifact: &Value) -> bool {
    let Some(kind) = kind(artifact) else { return false };
    let has = |name: &str| artifact[kind][name].as_str().is_some_and(|text| !text.is_empty());
    match kind {
        "s3" => has("endpoint") && has("bucket") && has("key"),
        "plugin" => has("name") && has("key"),
        "raw" => true,
        other => KINDS.iter().any(|(name, key)| *name == other && has(key)),
    }
}

/// Whether it can be found with what a repository adds.
pub fn has_key(artifact: &Value) -> bool {
    is_located(artifact) || key(artifact).is_some()
}

/// The key of an artifact.
pub fn key(artifact: &Value) -> Option<&str> {
    let kind = kind(artifact)?;
    let (_, field) = KINDS.iter().find(|(name, _)| *name == kind)?;
    artifact[kind][*field].as_str().filter(|key| !key.is_empty())
}

/// The location that artifacts without one get, as a template's `archiveLocation`; null where there is none.
pub(crate) fn of_repository(repository: Option<&Value>, claim: Option<&str>) -> Value {
    if let Some(repository) = repository
        && let Some(kind) = kind(repository)
    {
        let mut fields: Map<String, Value> = repository[kind].as_object().cloned().unwrap_or_default();
        let format = fields.remove("keyFormat").or_else(|| fields.remove("blobNameFormat"));
        let prefix = fields.remove("keyPrefix");
        let prefix = prefix.as_ref().and_then(Value::as_str).filter(|prefix| !prefix.is_empty());
        let key = match (format.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty()), prefix) {
            (Some(format), _) => format.to_owned(),
            (None, Some(prefix)) => format!("{}/{KEY}", prefix.trim_end_matches('/')),
            (None, None) => KEY.to_owned(),
        };
        fields.insert(if kind == "azure" { "blob" } else { "key" }.to_owned(), json!(key));
        return json!({kind: fields});
    }
    match claim {
        Some(_) => json!({"plugin": {"name": DIRECTORY_PLUGIN, "key": KEY}}),
        None => Value::Null,
    }
}

/// An artifact whose location is whole: its own, or the archive's with its own key or the one given.
pub(crate) fn relocated(artifact: &Value, archive: &Value, file: Option<&str>) -> Result<Value, String> {
    let mut whole = artifact.clone();
    if is_located(artifact) {
        return Ok(whole);
    }
    let Some(base) = kind(archive) else {
        return Err("artifact storage is not configured; see the docs for setup instructions: \
                    https://argo-workflows.readthedocs.io/en/latest/configure-artifact-repository/"
            .to_owned());
    };
    let own = key(artifact).map(str::to_owned);
    let key = match (own, key(archive), file) {
        (Some(own), _, _) => own,
        (None, Some(folder), Some(file)) => format!("{}/{file}", folder.trim_end_matches('/')),
        _ => return Err("key unsupported: the artifact has none".to_owned()),
    };
    if let Some(before) = kind(artifact)
        && let Some(fields) = whole.as_object_mut()
    {
        fields.remove(before);
    }
    whole[base] = archive[base].clone();
    let field = KINDS.iter().find(|(name, _)| *name == base).map_or("key", |(_, field)| *field);
    whole[base][field] = json!(key);
    Ok(whole)
}

/// Whether it is in the directory of artifacts.
pub(crate) fn is_directory(artifact: &Value) -> bool {
    artifact["plugin"]["name"] == DIRECTORY_PLUGIN
}

/// What an artifact's place asks for that is not done here, where leaving it out would be silent: bytes would go in plain, or
/// somewhere in another's name.
pub(crate) fn unsupported(artifact: &Value) -> Option<&'static str> {
    let s3 = &artifact["s3"];
    let says = |name: &str| s3[name].as_str().is_some_and(|text| !text.is_empty());
    let asked = [
        (s3["encryptionOptions"]["enableEncryption"] == true, "s3.encryptionOptions"),
        (s3["useSDKCreds"] == true, "s3.useSDKCreds"),
        (says("roleARN"), "s3.roleARN"),
    ];
    asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, name)| name)
}

/// Names and keys of the secrets a location refers to.
pub(crate) fn secrets(artifact: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if let Some(kind) = kind(artifact) {
        collect(&artifact[kind], &mut found);
    }
    found
}

fn collect(value: &Value, found: &mut Vec<(String, String)>) {
    let Some(fields) = value.as_object() else { return };
    for (name, field) in fields {
        if name.ends_with("Secret") {
            if let (Some(name), Some(key)) = (field["name"].as_str(), field["key"].as_str()) {
                found.push((name.to_owned(), key.to_owned()));
            }
        } else {
            collect(field, found);
        }
    }
}

/// The server of a location as `host:port`, where it has one.
pub(crate) fn address(artifact: &Value) -> Option<String> {
    let with_port = |host: &str, port: u16| if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    let of_url = |url: &str| {
        let (scheme, rest) = url.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            "ssh" => 22,
            _ => return None,
        };
        Some(with_port(host, port))
    };
    match kind(artifact)? {
        "s3" => {
            let port = if artifact["s3"]["insecure"] == true { 80 } else { 443 };
            artifact["s3"]["endpoint"].as_str().filter(|host| !host.is_empty()).map(|host| with_port(host, port))
        }
        "http" => artifact["http"]["url"].as_str().and_then(of_url),
        "git" => artifact["git"]["repo"].as_str().and_then(of_url),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_whole_or_not() {
        let cases = [
            (json!({}), false, false),
            (json!({"s3": {"key": "k"}}), false, true),
            (json!({"s3": {"endpoint": "e", "bucket": "b", "key": "k"}}), true, true),
            (json!({"s3": {"endpoint": "e", "bucket": "b"}}), false, false),
            (json!({"raw": {"data": ""}}), true, true),
            (json!({"http": {"url": "http://x"}}), true, true),
            (json!({"git": {"repo": ""}}), false, false),
            (json!({"plugin": {"name": "p", "key": "k"}}), true, true),
        ];
        for (artifact, whole, keyed) in cases {
            assert_eq!((is_located(&artifact), has_key(&artifact)), (whole, keyed), "{artifact}");
        }
    }

    #[test]
    fn repositories_become_locations() {
        let s3 = |more: Value| {
            let mut fields = json!({"endpoint": "e", "bucket": "b"});
            for (name, value) in more.as_object().unwrap() {
                fields[name] = value.clone();
            }
            json!({"s3": fields})
        };
        let cases = [
            (Some(s3(json!({}))), None, s3(json!({"key": KEY}))),
            (Some(s3(json!({"keyFormat": "a/{{pod.name}}"}))), None, s3(json!({"key": "a/{{pod.name}}"}))),
            (Some(s3(json!({"keyPrefix": "p/"}))), Some("c"), s3(json!({"key": format!("p/{KEY}")}))),
            (None, Some("c"), json!({"plugin": {"name": DIRECTORY_PLUGIN, "key": KEY}})),
            (None, None, Value::Null),
        ];
        for (repository, claim, expected) in cases {
            assert_eq!(of_repository(repository.as_ref(), claim), expected);
        }
        let archive = s3(json!({"key": "w/p"}));
        let made = relocated(&json!({"name": "a"}), &archive, Some("a.tgz")).unwrap();
        assert_eq!(made, json!({"name": "a", "s3": {"endpoint": "e", "bucket": "b", "key": "w/p/a.tgz"}}));
        let made = relocated(&json!({"s3": {"key": "own"}}), &archive, Some("a.tgz")).unwrap();
        assert_eq!(made, s3(json!({"key": "own"})));
        assert!(
            relocated(&json!({"name": "a"}), &Value::Null, Some("f"))
                .unwrap_err()
                .contains("artifact storage is not configured")
        );
    }

    #[test]
    fn what_would_be_left_out_in_silence_is_named() {
        for (s3, expected) in [
            (json!({"key": "k"}), None),
            (json!({"encryptionOptions": {"enableEncryption": false}, "useSDKCreds": false, "roleARN": ""}), None),
            (json!({"encryptionOptions": {"enableEncryption": true}}), Some("s3.encryptionOptions")),
            (json!({"useSDKCreds": true}), Some("s3.useSDKCreds")),
            (json!({"roleARN": "arn:aws:iam::1:role/r"}), Some("s3.roleARN")),
        ] {
            assert_eq!(unsupported(&json!({"s3": s3})), expected, "{s3}");
        }
        assert_eq!(unsupported(&json!({"raw": {"data": ""}})), None);
    }

    #[test]
    fn servers_and_secrets_are_found() {
        let cases = [
            (json!({"s3": {"endpoint": "127.0.0.1:9000", "insecure": true}}), Some("127.0.0.1:9000")),
            (json!({"s3": {"endpoint": "s3.example"}}), Some("s3.example:443")),
            (json!({"http": {"url": "https://u:p@h.example/x"}}), Some("h.example:443")),
            (json!({"git": {"repo": "http://h:81/x.git"}}), Some("h:81")),
            (json!({"git": {"repo": "file:///x"}}), None),
            (json!({"raw": {}}), None),
        ];
        for (artifact, expected) in cases {
            assert_eq!(address(&artifact).as_deref(), expected, "{artifact}");
        }
        let s3 = json!({"s3": {"accessKeySecret": {"name": "n", "key": "a"}, "secretKeySecret": {"name": "n", "key": "b"}, "caSecret": {}}});
        let pair = |key: &str| ("n".to_owned(), key.to_owned());
        assert_eq!(secrets(&s3), [pair("a"), pair("b")]);
        let http = json!({"http": {"url": "x", "auth": {"basicAuth": {"usernameSecret": {"name": "n", "key": "a"}}}}});
        assert_eq!(secrets(&http), [pair("a")]);
    }
}
