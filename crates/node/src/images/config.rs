//! What an image says about processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Debian's.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The process an image wants to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// Program and first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program.
    pub command: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Where it starts.
    pub working_directory: String,
    /// Who it runs as: `user`, `user:group`, by name or number.
    pub user: String,
}

impl ImageConfig {
    /// Reads it from the configuration of an image, of either form.
    pub(super) fn read(config: &Value) -> Self {
        let inner = &config["config"];
        let list = |name: &str| -> Vec<String> {
            let items = inner[name].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let text = |name: &str| inner[name].as_str().unwrap_or_default().to_owned();
        let mut env: BTreeMap<String, String> = list("Env")
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
        Self {
            entrypoint: list("Entrypoint"),
            command: list("Cmd"),
            env,
            working_directory: text("WorkingDir"),
            user: text("User"),
        }
    }

    /// For a directory, which says nothing.
    pub(super) fn of_directory() -> Self {
        Self { env: BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]), ..Self::default() }
    }
}

/// User and group of a name in the text of a `passwd` file.
pub(super) fn find_user(text: &str, name: &str) -> Option<(u32, u32)> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations_are_read() {
        let config = json!({"config": {
            "Entrypoint": ["/e"], "Cmd": ["c"], "Env": ["A=1=2", "bad"], "WorkingDir": "/w", "User": "u",
        }});
        let read = ImageConfig::read(&config);
        assert_eq!((read.entrypoint, read.command), (vec!["/e".to_owned()], vec!["c".to_owned()]));
        assert_eq!(read.env["A"], "1=2");
        assert_eq!(read.env["PATH"], PATH);
        assert_eq!((read.working_directory.as_str(), read.user.as_str()), ("/w", "u"));
        assert_eq!(ImageConfig::read(&json!({"config": null})).entrypoint, Vec::<String>::new());
    }

    #[test]
    fn users_are_found_by_name() {
        let text = "root:x:0:0:root:/:/bin/sh\nbroken\nweb:x:33:34::/:\n";
        assert_eq!(find_user(text, "web"), Some((33, 34)));
        assert_eq!(find_user(text, "broken"), None);
        assert_eq!(find_user(text, "who"), None);
    }
}
