//! Artifacts that are Git repositories, brought by the `git` program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use super::{Error, Result, Stores};

/// How long one command of `git` may take.
const PATIENCE: Duration = Duration::from_mins(30);

/// Clones a repository, at the revision it asks for.
pub(super) async fn load(git: &Value, stores: &Stores, to: &Path) -> Result<()> {
    let text = |name: &str| git[name].as_str().filter(|text| !text.is_empty());
    let repository = text("repo").ok_or_else(|| Error::Failed("git: the repository has no address".to_owned()))?;
    for (name, value) in [("repo", Some(repository)), ("revision", text("revision")), ("branch", text("branch"))] {
        if value.is_some_and(|value| value.starts_with('-')) {
            return Err(Error::Failed(format!("git: {name} cannot start with a dash")));
        }
    }
    let key = Key::write(git, stores)?;
    let address = with_credentials(repository, git, stores)?;
    let run = |arguments: Vec<String>, at: Option<&Path>| {
        run(arguments, at.map(Path::to_owned), key.as_ref().map(Key::command))
    };
    let mut clone: Vec<String> = vec!["clone".to_owned(), "--quiet".to_owned()];
    if let Some(depth) = git["depth"].as_u64() {
        clone.extend(["--depth".to_owned(), depth.to_string()]);
    }
    if git["singleBranch"] == true {
        clone.push("--single-branch".to_owned());
    }
    if let Some(branch) = text("branch") {
        clone.extend(["--branch".to_owned(), branch.to_owned()]);
    }
    clone.extend(["--".to_owned(), address, to.display().to_string()]);
    run(clone, None).await?;
    for reference in git["fetch"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let fetch = ["fetch", "--quiet", "origin", "--", reference].map(str::to_owned);
        run(fetch.to_vec(), Some(to)).await?;
    }
    if let Some(revision) = text("revision") {
        let checkout = ["checkout", "--quiet", "--force", revision].map(str::to_owned);
        run(checkout.to_vec(), Some(to)).await?;
    }
    if git["disableSubmodules"] != true && to.join(".gitmodules").exists() {
        let update = ["submodule", "update", "--quiet", "--init", "--recursive", "--force"].map(str::to_owned);
        run(update.to_vec(), Some(to)).await?;
    }
    Ok(())
}

/// A key for SSH, in a file that only we can read.
struct Key(PathBuf);

impl Key {
    fn write(git: &Value, stores: &Stores) -> Result<Option<Self>> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let Some(text) = stores.secret(&git["sshPrivateKeySecret"])? else { return Ok(None) };
        let path = std::env::temp_dir().join(format!("key-{}", uuid::Uuid::new_v4()));
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| Error::file(&path, &error))?;
        Ok(Some(Self(path)))
    }

    fn command(&self) -> String {
        let check = "-o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes";
        format!("ssh -i {} {check}", self.0.display())
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with_credentials(repository: &str, git: &Value, stores: &Stores) -> Result<String> {
    let user = stores.secret(&git["usernameSecret"])?;
    let password = stores.secret(&git["passwordSecret"])?;
    let Some((scheme, rest)) = repository.split_once("://") else { return Ok(repository.to_owned()) };
    if user.is_none() && password.is_none() {
        return Ok(repository.to_owned());
    }
    let quoted = |text: Option<String>| super::s3::encoded(text.unwrap_or_default().trim(), false);
    Ok(format!("{scheme}://{}:{}@{rest}", quoted(user), quoted(password)))
}

async fn run(arguments: Vec<String>, at: Option<PathBuf>, ssh: Option<String>) -> Result<()> {
    let mut command = Command::new("git");
    // Nobody is there to be asked.
    command.args(&arguments).env("GIT_TERMINAL_PROMPT", "0").kill_on_drop(true).stdin(std::process::Stdio::null());
    if let Some(at) = at {
        command.current_dir(at);
    }
    if let Some(ssh) = ssh {
        command.env("GIT_SSH_COMMAND", ssh);
    }
    let verb = arguments.first().cloned().unwrap_or_default();
    let output = match tokio::time::timeout(PATIENCE, command.output()).await {
        Err(_) => return Err(Error::Failed(format!("git {verb} took too long"))),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Failed("git artifacts need the program git beside thane".to_owned()));
        }
        Ok(Err(error)) => return Err(Error::failed(format!("git {verb}"), error)),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // What it says may repeat the address, and with it a password.
    let said: Vec<String> = said.split_whitespace().map(without_credentials).collect();
    Err(Error::Failed(format!("git {verb}: {}", said.join(" "))))
}

fn without_credentials(word: &str) -> String {
    match word.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://{rest}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn repositories_are_cloned_at_a_revision() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("origin");
        let script = "git init -q -b main origin && cd origin && git config user.email a@b && git config user.name a \
                      && echo 1 > f && git add f && git commit -qm 1 && git tag one && echo 2 > f && git commit -qam 2";
        let made = std::process::Command::new("sh").args(["-c", script]).current_dir(folder.path()).status().unwrap();
        assert!(made.success());
        let stores = Stores { secrets: folder.path().to_owned(), directory: folder.path().to_owned() };
        let address = format!("file://{}", origin.display());
        for (more, expected) in [(json!({}), "2\n"), (json!({"revision": "one"}), "1\n"), (json!({"depth": 1}), "2\n")]
        {
            let to = tempfile::tempdir().unwrap();
            let mut git = more;
            git["repo"] = json!(address);
            load(&git, &stores, &to.path().join("x")).await.unwrap();
            assert_eq!(std::fs::read_to_string(to.path().join("x/f")).unwrap(), expected, "{git}");
        }
        let to = folder.path().join("none");
        let failed = load(&json!({"repo": "file:///nowhere"}), &stores, &to).await.unwrap_err();
        assert!(failed.to_string().starts_with("git clone:"), "{failed}");
        assert!(load(&json!({"repo": "--upload-pack=x"}), &stores, &to).await.is_err());
        let secret = json!({"repo": "https://h/x", "passwordSecret": {"name": "none", "key": "p"}});
        assert!(load(&secret, &stores, &to).await.unwrap_err().to_string().contains("secret none has no key p"));
        assert_eq!(without_credentials("https://u:p@h/x'"), "https://h/x'");
    }
}
