//! Stable codes of errors people see. A number is never reused for something else.

use std::fmt;

use serde::{Serialize, Serializer};

/// How a command ends, as the shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// It was asked wrongly.
    Usage = 2,
    /// It could not reach whom it needed.
    Unreachable = 3,
    /// It was not allowed to.
    Unauthorised = 4,
    /// It took too long.
    TimedOut = 5,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit as Self
    }
}

/// One kind of error: its number, what it means, how the command ends and what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The number after `THANE-`.
    pub number: u16,
    /// What it means, in a few words.
    pub text: &'static str,
    /// How the command ends.
    pub exit: Exit,
    /// What to do next.
    pub hint: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "THANE-{}", self.number)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

macro_rules! table {
    ($($name:ident = $number:literal, $exit:ident, $text:literal, $hint:literal;)+) => {
        $(#[doc = $text] pub const $name: Code = Code { number: $number, text: $text, exit: Exit::$exit, hint: $hint };)+
        /// Every code, in order.
        pub const ALL: &[Code] = &[$($name),+];
    };
}

table! {
    CONFIG_INVALID = 1001, Usage, "configuration is not valid",
        "run `thane config show --origin` to see every value and where it comes from";
    PORT_TAKEN = 1002, Failed, "a port is already taken",
        "stop the process that uses the port, or start with --ephemeral-ports";
    FILE_FAILED = 1003, Failed, "a file could not be read or written",
        "check the path and its permissions";
    TASK_FAILED = 1004, Failed, "a part of the process failed",
        "look at the log above; `--log-level debug` shows more";
    DATA_IN_USE = 1005, Failed, "another process uses the data directory",
        "stop the other process, or choose another directory with --data";
    DATA_UNUSABLE = 1006, Failed, "the data cannot be used",
        "restore the file from a copy, or move it away to start empty; it is never reset by itself";
    CERTIFICATE_UNUSABLE = 1101, Failed, "a certificate or key cannot be used",
        "run `thane pki inspect FILE` to see what a certificate says";
    FILE_EXISTS = 1102, Failed, "a file is already there",
        "choose another name or directory, or give --force to replace it";
    KUBECONFIG_UNUSABLE = 1201, Usage, "there is no usable kubeconfig",
        "start a hub with `thane up`, or give --kubeconfig FILE and --context NAME";
    UNREACHABLE = 1202, Unreachable, "the API server cannot be reached",
        "check that it runs, and that the kubeconfig's server address and authority are right";
    NOT_AUTHORISED = 1203, Unauthorised, "the API server does not allow this",
        "use a context whose user may do this, or ask for a role binding";
    TIMED_OUT = 1204, TimedOut, "the API server did not answer in time",
        "try again, or allow more time with --request-timeout";
    REFUSED = 1205, Failed, "the API server refused the request",
        "correct what the message names and try again";
    KIND_UNKNOWN = 1206, Failed, "the API server does not have such a kind",
        "check the spelling, or install the custom resource definition first";
    NOT_GONE = 1207, TimedOut, "a deleted object is still there",
        "something holds it with a finalizer; look at metadata.finalizers with `thane get -o yaml`";
    MANIFEST_UNREADABLE = 1301, Failed, "a manifest cannot be read",
        "each document needs apiVersion, kind and metadata.name";
    SECRET_MISSING = 1401, Failed, "a Secret that is needed is not there",
        "make it with `thane pki` or `thane jwt`, or name another one";
    SECRET_UNUSABLE = 1402, Failed, "a Secret does not hold what it should",
        "look at its keys with `thane get secret NAME -o yaml`, then make it again";
    OPTION_REFUSED = 1403, Usage, "an option of argocd-agent is not taken here",
        "leave it out; `--help` lists what there is instead";
    AGENT_UNKNOWN = 1404, Failed, "there is no such agent",
        "look at `thane agents list`, or make it with `thane agents create`";
    AGENT_EXISTS = 1405, Failed, "there is such an agent already",
        "choose another name, or give it new certificates with `thane agents rotate`";
    SECRET_EXISTS = 1406, Failed, "there is such a Secret already",
        "give --force to replace it";
    FLEET_IN_TROUBLE = 1407, Failed, "something is wrong between hub and agent",
        "do what each finding says, then ask again";
    DISCOVERY_UNREACHABLE = 1501, Unreachable, "the discovery API cannot be reached",
        "check that `thane up` or an agent runs here, or say where with --address";
    DISCOVERY_DENIED = 1502, Unauthorised, "the discovery API does not allow this",
        "show a token that may do this with --token";
    DISCOVERY_REFUSED = 1503, Failed, "the discovery API refused the request",
        "correct what the message names and try again";
    DISCOVERY_ABSENT = 1504, Failed, "it is not registered",
        "look at what is there with `list`";
    DISCOVERY_TIMED_OUT = 1505, TimedOut, "the discovery API did not answer in time",
        "try again, or allow more time with --request-timeout";
    NOT_SWAPPED = 1506, Failed, "the key is no longer as it was expected to be",
        "look at it again with `thane kv get -o json`";
    IMAGE_UNUSABLE = 1601, Failed, "an image cannot be imported, found or removed",
        "see what is here with `thane image list`; archives are those of `docker save` and OCI layouts, without devices";
    GATEWAY_UNREACHABLE = 1701, Unreachable, "the gateway cannot be reached",
        "check that `thane up` or `thane gateway` runs, or say where with --gateway";
    GATEWAY_DENIED = 1702, Unauthorised, "the gateway does not allow this",
        "show a key that may do this with --key or $THANE_API_KEY";
    GATEWAY_REFUSED = 1703, Failed, "the gateway refused the request",
        "correct what the message names and try again";
    SANDBOX_ABSENT = 1704, Failed, "there is no such sandbox, pool or step",
        "look at `thane sandbox list` and `thane pool list`";
    GATEWAY_TIMED_OUT = 1705, TimedOut, "the gateway did not answer in time",
        "try again, or allow more time with --request-timeout";
    SANDBOX_LOST = 1706, Failed, "the sandbox or what it runs on failed",
        "nothing is wrong with the command: try again in a new sandbox";
    STEP_FAILED = 1707, Failed, "the command in the sandbox failed",
        "look at what it said with `thane sandbox logs`";
    POLICY_UNUSABLE = 1801, Failed, "a policy or its input cannot be used",
        "correct what the message names; `thane policy explain` shows what a policy looks at";
    WORKLOAD_ABSENT = 1802, Failed, "there is no such workload, or no gate of it that waits",
        "look at `thane workload list`";
    USAGE = 1901, Usage, "the command line is not valid",
        "run the command with --help";
    BUG = 1999, Failed, "something happened that should not",
        "please report it with the command you ran";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_unique_and_ascend() {
        let numbers: Vec<u16> = ALL.iter().map(|code| code.number).collect();
        let unique: BTreeSet<u16> = numbers.iter().copied().collect();
        assert_eq!(numbers, unique.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn texts_are_fragments_and_errors_do_not_exit_with_zero() {
        for code in ALL {
            for text in [code.text, code.hint] {
                assert!(text.starts_with(|c: char| c.is_lowercase()) && !text.ends_with('.'), "{code}: {text}");
            }
            assert_ne!(code.exit, Exit::Ok, "{code}");
        }
        assert_eq!(serde_json::to_value(UNREACHABLE).unwrap(), "THANE-1202");
        assert_eq!(u8::from(Exit::TimedOut), 5);
    }
}
