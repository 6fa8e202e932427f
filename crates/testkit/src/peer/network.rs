//! A network of one's own, for programs whose ports cannot be moved.

use std::process::Command;

use super::Absence;

/// Says to the program that it is in there.
const INSIDE: &str = "THANE_OWN_NETWORK";
/// Loopback is down in a new network.
const ENTER: &str = r#"ip link set lo up && exec "$@""#;

/// Whether this is a network of its own. If not, this program is run once more in one, with the arguments; that ends with
/// it, whatever happens here.
///
/// # Panics
/// When the program fails in there, or networks are not to be had although `THANE_PEERS_REQUIRED=1`.
pub fn in_own_network(arguments: &[&str]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if let Err(absence) = available() {
        absence.tell();
        return false;
    }
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("this program is nowhere: {error}"));
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", ENTER, "enter"]).arg(program).args(arguments).env(INSIDE, "1");
    let ended = command.status().unwrap_or_else(|error| panic!("unshare: {error}"));
    assert!(ended.success(), "it failed in a network of its own: {ended}");
    false
}

fn available() -> Result<(), Absence> {
    match Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).output() {
        Ok(made) if made.status.success() => Ok(()),
        Ok(made) => {
            let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            Err(Absence::because(format!("networks are not to be had here: {why}")))
        }
        Err(error) => Err(Absence::because(format!("unshare: {error}"))),
    }
}
