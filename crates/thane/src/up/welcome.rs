//! What `thane up` tells a person once everything runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use owo_colors::OwoColorize;

/// Where to find what runs and what to do first; colours are taken out where nobody can see them.
pub(super) fn welcome(servers: &[(&str, String)], endpoints: &BTreeMap<String, String>, data: &Path) -> String {
    let mut text = format!("{}\n\n", "thane is up".green().bold());
    let metrics = format!("{}/metrics", endpoints["metrics"].trim_end_matches('/'));
    let rows = servers.iter().map(|(name, url)| (*name, url.clone(), "Kubernetes API"));
    let rows: Vec<_> = rows
        .chain(endpoints.get("hub").map(|hub| ("agents", hub.clone(), "where agents call")))
        .chain(
            endpoints.get("discovery").map(|api| ("discovery", api.clone(), "Consul's API; asks for no credentials")),
        )
        .chain(endpoints.get("dns").map(|dns| ("dns", dns.clone(), "names of services")))
        .chain(endpoints.get("gateway").map(|url| ("gateway", url.clone(), "sandboxes; asks for no credentials")))
        .chain([("metrics", metrics, "health and metrics"), ("data", data.display().to_string(), "kept when it stops")])
        .collect();
    let width = |of: &dyn Fn(&(&str, String, &str)) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let (names, places) = (width(&|row| row.0.len()), width(&|row| row.1.len()));
    for (name, place, what) in &rows {
        let name = format!("{name:<names$}");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}  {place:<places$}  {}", name.bold(), what.dimmed());
    }
    let kubeconfig = data.join("kubeconfig");
    let kubeconfig = quoted(&kubeconfig.display().to_string());
    let commands = [
        format!("kubectl --kubeconfig {kubeconfig} --context hub get namespaces"),
        format!("thane get crds --kubeconfig {kubeconfig}"),
    ];
    let _ = writeln!(text, "\n{}", "next, in another terminal:".bold());
    for command in commands {
        let _ = writeln!(text, "  {}", command.cyan());
    }
    let _ = write!(text, "\nCtrl-C stops it");
    text
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_where_everything_is_and_what_to_do_next() {
        let servers =
            [("hub", "https://127.0.0.1:6443".to_owned()), ("cluster-1", "https://127.0.0.1:6444".to_owned())];
        let endpoints = [
            ("dns", "udp://127.0.0.1:8600"),
            ("discovery", "http://127.0.0.1:8502"),
            ("hub", "https://127.0.0.1:8443"),
            ("metrics", "http://127.0.0.1:8000"),
        ];
        let endpoints = endpoints.map(|(name, url)| (name.to_owned(), url.to_owned())).into();
        let text = welcome(&servers, &endpoints, Path::new("my data/.thane"));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
    }

    #[test]
    fn paths_survive_the_shell() {
        for (path, expected) in [(".thane/kubeconfig", ".thane/kubeconfig"), ("a b", "'a b'"), ("it's", r"'it'\''s'")] {
            assert_eq!(quoted(path), expected);
        }
    }
}
