//! Names and passwords: a file of `name:bcrypt` lines.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::name::is_label;
use super::refusal::{Reason, Refusal};

/// Passwords that are checked at once: each keeps a core busy for a while.
const AT_ONCE: usize = 2;
/// How long an attempt waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// Bytes of the file.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of a password; bcrypt looks at the first 72.
const PASSWORD_MAX: usize = 1024;
/// What bcrypt costs by default; spent on unknown names too, so that time does not tell whether a name is known.
const COST: u32 = 10;

/// Checks names and passwords against a file.
#[derive(Debug, Clone)]
pub(super) struct Passwords {
    turns: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Passwords {
    /// Whether name and password are in the file.
    pub(super) async fn check(&self, file: &Path, name: &str, password: &str) -> Result<(), Refusal> {
        let wrong = || Refusal::new(Reason::Password, "name and password do not match");
        if password.len() > PASSWORD_MAX || !is_label(name) {
            return Err(wrong());
        }
        let busy = || Refusal::new(Reason::Busy, "too many passwords wait to be checked");
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.turns).acquire_owned());
        let turn = turn.await.ok().and_then(Result::ok).ok_or_else(busy)?;
        let (file, name, password) = (PathBuf::from(file), name.to_owned(), password.to_owned());
        let checked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            is_known(&file, &name, &password)
        });
        match checked.await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(wrong()),
            Ok(Err(error)) => Err(Refusal::new(Reason::Internal, format!("file of passwords: {error}"))),
            Err(error) => Err(Refusal::new(Reason::Internal, format!("check of a password: {error}"))),
        }
    }
}

fn is_known(file: &Path, name: &str, password: &str) -> std::io::Result<bool> {
    static NOBODY: OnceLock<String> = OnceLock::new();
    let mut text = String::new();
    std::fs::File::open(file)?.take(FILE_MAX).read_to_string(&mut text)?;
    let known = read(&text);
    let Some(hash) = known.get(name) else {
        let nobody = NOBODY.get_or_init(|| bcrypt::hash("nobody", COST).unwrap_or_default());
        let _ = bcrypt::verify(password, nobody);
        return Ok(false);
    };
    Ok(bcrypt::verify(password, hash).unwrap_or(false))
}

/// The lines that can be used; others are as good as absent.
fn read(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.starts_with("//"));
    let pairs = lines.filter_map(|line| line.split_once(':'));
    pairs.filter(|(name, hash)| is_label(name) && is_hash(hash)).collect()
}

fn is_hash(text: &str) -> bool {
    let rest = ["$2a$", "$2b$", "$2x$", "$2y$"].iter().find_map(|prefix| text.strip_prefix(prefix));
    rest.is_some_and(|rest| rest.len() > 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_file_decides() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passwords");
        let hash = bcrypt::hash("secret", 4).unwrap();
        let upper = "// comment: none\n# alice:x\n\nNOT-A-LABEL:$2a$04$x\nbob:plain\nno colon\n";
        std::fs::write(&file, format!("{upper}  alice:{hash}  \n")).unwrap();
        let passwords = Passwords::default();
        assert_eq!(passwords.check(&file, "alice", "secret").await, Ok(()));
        let long = "x".repeat(PASSWORD_MAX + 1);
        for (name, password) in
            [("alice", "Secret"), ("alice", ""), ("bob", "plain"), ("carol", "secret"), ("", ""), ("alice", &*long)]
        {
            let refused = passwords.check(&file, name, password).await.unwrap_err();
            assert_eq!(refused.reason, Reason::Password, "{name}");
        }
        std::fs::write(&file, format!("bob:{}\n", bcrypt::hash("other", 4).unwrap())).unwrap();
        assert!(passwords.check(&file, "alice", "secret").await.is_err());
        assert_eq!(passwords.check(&file, "bob", "other").await, Ok(()));
        let gone = passwords.check(&dir.path().join("absent"), "alice", "secret").await.unwrap_err();
        assert_eq!(gone.reason, Reason::Internal);
    }

    #[test]
    fn hashes_of_other_programs_are_recognised() {
        for (text, expected) in [("$2y$10$abc", true), ("$2b$04$", true), ("$1$abc", false), ("$2a$xx$a", false)] {
            assert_eq!(is_hash(text), expected, "{text}");
        }
    }
}
