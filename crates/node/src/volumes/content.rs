//! Volumes whose files come from the API: `ConfigMap`s, Secrets, fields of the pod, tokens.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume};

use crate::environment::{Whereabouts, field_value, resource_value};
use crate::pod::PodExt;

const MODE: i32 = 0o644;

/// A file of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where in the volume.
    pub(crate) path: String,
    /// Its content.
    pub(crate) content: Vec<u8>,
    /// Its permissions.
    pub(crate) mode: u32,
}

/// Something a volume's files are made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Needs {
    /// Keys of a `ConfigMap`.
    ConfigMap(Keys),
    /// Keys of a Secret.
    Secret(Keys),
    /// Known already.
    File(Entry),
    /// A token for the pod's service account.
    Token {
        /// Where it goes.
        path: String,
        /// Whom it is for.
        audience: Option<String>,
        /// How long it is good.
        seconds: i64,
        /// Its permissions.
        mode: u32,
    },
}

/// Keys of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Keys {
    /// The object.
    pub(crate) name: String,
    /// It need not exist.
    pub(crate) optional: bool,
    items: Option<Vec<KeyToPath>>,
    mode: i32,
}

impl Keys {
    fn new(name: Option<&String>, optional: Option<bool>, items: Option<&Vec<KeyToPath>>, mode: Option<i32>) -> Self {
        Self {
            name: name.cloned().unwrap_or_default(),
            optional: optional == Some(true),
            items: items.cloned(),
            mode: mode.unwrap_or(MODE),
        }
    }

    /// The files, from the object's content.
    pub(crate) fn entries(&self, values: &BTreeMap<String, Vec<u8>>) -> Result<Vec<Entry>, String> {
        let Some(items) = &self.items else {
            let entry = |(key, content): (&String, &Vec<u8>)| Entry {
                path: key.clone(),
                content: content.clone(),
                mode: mode(self.mode),
            };
            return Ok(values.iter().map(entry).collect());
        };
        let mut entries = Vec::new();
        for item in items {
            match values.get(&item.key) {
                Some(content) => entries.push(Entry {
                    path: item.path.clone(),
                    content: content.clone(),
                    mode: mode(item.mode.unwrap_or(self.mode)),
                }),
                None if self.optional => {}
                None => return Err(format!("{:?} has no key {:?}", self.name, item.key)),
            }
        }
        Ok(entries)
    }
}

fn mode(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or(0o644) & 0o777
}

/// What the files of a volume are made from; nothing for volumes of other kinds.
pub(crate) fn needs(pod: &Pod, volume: &Volume, whereabouts: &Whereabouts) -> Result<Vec<Needs>, String> {
    if let Some(from) = &volume.config_map {
        let keys = Keys::new(Some(&from.name), from.optional, from.items.as_ref(), from.default_mode);
        return Ok(vec![Needs::ConfigMap(keys)]);
    }
    if let Some(from) = &volume.secret {
        let keys = Keys::new(from.secret_name.as_ref(), from.optional, from.items.as_ref(), from.default_mode);
        return Ok(vec![Needs::Secret(keys)]);
    }
    if let Some(from) = &volume.downward_api {
        let items = from.items.as_deref().unwrap_or_default();
        return items.iter().map(|item| field(pod, item, from.default_mode, whereabouts)).collect();
    }
    let Some(projected) = &volume.projected else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for source in projected.sources.iter().flatten() {
        let default = projected.default_mode;
        if let Some(from) = &source.config_map {
            all.push(Needs::ConfigMap(Keys::new(Some(&from.name), from.optional, from.items.as_ref(), default)));
        }
        if let Some(from) = &source.secret {
            all.push(Needs::Secret(Keys::new(Some(&from.name), from.optional, from.items.as_ref(), default)));
        }
        for item in source.downward_api.iter().flat_map(|from| from.items.iter().flatten()) {
            all.push(field(pod, item, default, whereabouts)?);
        }
        if let Some(from) = &source.service_account_token {
            all.push(Needs::Token {
                path: from.path.clone(),
                audience: from.audience.clone().filter(|audience| !audience.is_empty()),
                seconds: from.expiration_seconds.unwrap_or(3600),
                mode: mode(default.unwrap_or(MODE)),
            });
        }
    }
    Ok(all)
}

fn field(
    pod: &Pod,
    item: &DownwardAPIVolumeFile,
    default: Option<i32>,
    whereabouts: &Whereabouts,
) -> Result<Needs, String> {
    let content = match (&item.field_ref, &item.resource_field_ref) {
        (Some(field), _) => field_value(pod, field, whereabouts)?,
        (None, Some(resource)) => {
            let first = pod.containers().first().ok_or("a pod without containers")?;
            resource_value(pod, first, resource)?
        }
        (None, None) => String::new(),
    };
    let mode = mode(item.mode.or(default).unwrap_or(MODE));
    Ok(Needs::File(Entry { path: item.path.clone(), content: content.into_bytes(), mode }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_become_files() {
        let values = BTreeMap::from([("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())]);
        let entry = |path: &str, content: &[u8], mode| Entry { path: path.to_owned(), content: content.to_vec(), mode };
        let keys = |volume: serde_json::Value| -> Keys {
            let volume: Volume = serde_json::from_value(json!({"name": "v", "configMap": volume})).unwrap();
            match needs(&Pod::default(), &volume, &Whereabouts::default()).unwrap().remove(0) {
                Needs::ConfigMap(keys) => keys,
                other => panic!("{other:?}"),
            }
        };
        let all = keys(json!({"name": "c", "defaultMode": 256}));
        assert_eq!(all.entries(&values).unwrap(), [entry("a", b"1", 0o400), entry("b", b"2", 0o400)]);
        let some = keys(json!({"name": "c", "items": [{"key": "b", "path": "x/y", "mode": 511}]}));
        assert_eq!(some.entries(&values).unwrap(), [entry("x/y", b"2", 0o777)]);
        let missing = json!({"name": "c", "items": [{"key": "z", "path": "z"}]});
        assert!(keys(missing.clone()).entries(&values).is_err());
        let mut optional = missing;
        optional["optional"] = true.into();
        assert_eq!(keys(optional).entries(&values).unwrap(), []);
    }
}
