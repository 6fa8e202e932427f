//! A container's process from the pod and its image: what runs, as whom, where, with which privileges.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, SecurityContext};
use thane_executor::plan::{Main, User};

use crate::environment::expand;
use crate::ids::COUNT;
use crate::images::ImageConfig;
use crate::pod::PodExt;

/// Capabilities a pod may have back, by their bits: those that mean something inside a user namespace of its own.
const GRANTABLE: [(&str, u32); 14] = [
    ("CHOWN", 0),
    ("DAC_OVERRIDE", 1),
    ("FOWNER", 3),
    ("FSETID", 4),
    ("KILL", 5),
    ("SETGID", 6),
    ("SETUID", 7),
    ("SETPCAP", 8),
    ("NET_BIND_SERVICE", 10),
    ("NET_RAW", 13),
    ("SYS_CHROOT", 18),
    ("MKNOD", 27),
    ("AUDIT_WRITE", 29),
    ("SETFCAP", 31),
];

/// Program and arguments: what the pod says replaces what the image says.
pub(crate) fn command(
    container: &Container,
    image: &ImageConfig,
    env: &BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    let own = container.command.clone().filter(|list| !list.is_empty());
    let arguments = container.args.clone().filter(|list| !list.is_empty());
    let fill = |list: Vec<String>| list.into_iter().map(|word| expand(&word, env)).collect::<Vec<_>>();
    let command = match (own, arguments) {
        (Some(command), arguments) => [fill(command), fill(arguments.unwrap_or_default())].concat(),
        (None, Some(arguments)) => [image.entrypoint.clone(), fill(arguments)].concat(),
        (None, None) => [image.entrypoint.clone(), image.command.clone()].concat(),
    };
    if command.is_empty() {
        return Err("no command specified, neither in the pod nor in the image".to_owned());
    }
    Ok(command)
}

/// The container of a pod that others run steps in.
const SANDBOX: &str = "thane.dev/sandbox-container";

/// Whether a container has no process of its own, but others run steps in it.
fn waits(pod: &Pod, container: &Container) -> bool {
    let marked = pod.metadata.annotations.as_ref().and_then(|all| all.get(SANDBOX));
    marked == Some(&container.name) && container.command.as_ref().is_none_or(Vec::is_empty)
}

/// Whether what is written in a container can be kept: where nothing runs between steps.
pub(crate) fn keeps(pod: &Pod, container: &Container) -> bool {
    let context = container.security_context.as_ref();
    waits(pod, container) && context.and_then(|context| context.read_only_root_filesystem) != Some(true)
}

/// What runs in a container by itself. One that others run steps in has nothing unless the pod names a command.
pub(crate) fn main(
    pod: &Pod,
    container: &Container,
    image: &ImageConfig,
    env: &BTreeMap<String, String>,
) -> Result<Option<Main>, String> {
    if waits(pod, container) {
        return Ok(None);
    }
    let command = command(container, image, env)?;
    let (terminal, stdin) = (container.tty == Some(true), container.stdin == Some(true));
    Ok(Some(Main { command, terminal, stdin }))
}

/// Where it starts.
pub(crate) fn working_directory(container: &Container, image: &ImageConfig) -> String {
    let own = container.working_dir.clone().filter(|path| !path.is_empty());
    let path = own.unwrap_or_else(|| image.working_directory.clone());
    if path.is_empty() { "/".to_owned() } else { path }
}

/// Who it runs as; `find` looks a name up in the image's files.
pub(crate) fn user(
    pod: &Pod,
    container: &Container,
    image: &ImageConfig,
    find: impl Fn(&str) -> Option<(u32, u32)>,
) -> Result<User, String> {
    let of_pod = pod.spec().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let (name, group) = image.user.split_once(':').unwrap_or((image.user.as_str(), ""));
    let found = match name.parse::<u32>() {
        Ok(uid) => Some((uid, 0)),
        Err(_) if name.is_empty() => Some((0, 0)),
        Err(_) => find(name),
    };
    let asked = own.run_as_user.or(of_pod.run_as_user).map(|uid| u32::try_from(uid).unwrap_or(u32::MAX));
    let (uid, mut gid) = match (asked, found) {
        (Some(uid), _) => (uid, 0),
        (None, Some(found)) => found,
        (None, None) => return Err(format!("the image's user {name:?} is not in its /etc/passwd")),
    };
    if asked.is_none()
        && let Ok(number) = group.parse()
    {
        gid = number;
    }
    if let Some(asked) = own.run_as_group.or(of_pod.run_as_group) {
        gid = u32::try_from(asked).unwrap_or(u32::MAX);
    }
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) && uid == 0 {
        return Err("container has runAsNonRoot and image will run as root".to_owned());
    }
    let groups = of_pod.supplemental_groups.unwrap_or_default().into_iter().chain(of_pod.fs_group);
    let groups: Vec<u32> = groups.filter_map(|group| u32::try_from(group).ok()).collect();
    match [uid, gid].iter().chain(&groups).find(|id| **id >= COUNT) {
        Some(id) => Err(format!("user or group {id} is not below {COUNT}")),
        None => Ok(User { uid, gid, groups }),
    }
}

/// The capabilities it keeps: none unless asked for, and only harmless ones.
pub(crate) fn capabilities(container: &Container) -> Result<u64, String> {
    let context = container.security_context.clone().unwrap_or_default();
    check(&context)?;
    let mut kept = 0;
    let capabilities = context.capabilities.unwrap_or_default();
    for name in capabilities.add.iter().flatten() {
        let short = name.strip_prefix("CAP_").unwrap_or(name);
        if short == "ALL" {
            kept = GRANTABLE.iter().map(|(_, bit)| 1 << bit).sum();
        } else {
            let bit = GRANTABLE.iter().find(|(known, _)| *known == short).map(|(_, bit)| *bit);
            kept |= 1_u64 << bit.ok_or_else(|| format!("capability {name} cannot be had in a sandbox"))?;
        }
    }
    for name in capabilities.drop.iter().flatten() {
        let short = name.strip_prefix("CAP_").unwrap_or(name);
        match GRANTABLE.iter().find(|(known, _)| *known == short) {
            Some((_, bit)) => kept &= !(1_u64 << bit),
            None if short == "ALL" && capabilities.add.is_none() => kept = 0,
            None => {}
        }
    }
    Ok(kept)
}

fn check(context: &SecurityContext) -> Result<(), String> {
    if context.privileged == Some(true) {
        return Err("privileged containers are not run".to_owned());
    }
    Ok(())
}

/// What a pod asks for that would give it the machine.
pub(crate) fn refused(pod: &Pod) -> Option<String> {
    let spec = pod.spec()?;
    for (set, what) in [(spec.host_pid, "hostPID"), (spec.host_ipc, "hostIPC")] {
        if set == Some(true) {
            return Some(format!("{what} is not supported: containers never see the machine's own"));
        }
    }
    let volumes = spec.volumes.iter().flatten();
    let host = volumes.filter(|volume| volume.host_path.is_some()).map(|volume| volume.name.as_str()).next();
    host.map(|name| format!("volume {name:?} is a hostPath: containers get no paths of the machine"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(value: Value) -> Container {
        let mut value = value;
        value["name"] = "a".into();
        serde_json::from_value(value).unwrap()
    }

    fn image() -> ImageConfig {
        ImageConfig {
            entrypoint: vec!["entry".to_owned()],
            command: vec!["cmd".to_owned()],
            user: "web:7".to_owned(),
            working_directory: "/srv".to_owned(),
            ..ImageConfig::default()
        }
    }

    #[test]
    fn the_pods_command_replaces_the_images() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (own, expected) in [
            (json!({}), vec!["entry", "cmd"]),
            (json!({"args": ["$(A)"]}), vec!["entry", "1"]),
            (json!({"command": ["c", "$(B)"]}), vec!["c", "$(B)"]),
            (json!({"command": ["c"], "args": ["d"]}), vec!["c", "d"]),
        ] {
            assert_eq!(command(&container(own), &image(), &env).unwrap(), expected);
        }
        assert!(command(&container(json!({})), &ImageConfig::default(), &env).is_err());
    }

    #[test]
    fn a_sandbox_waits_unless_the_pod_names_a_command() {
        let pod = |annotations: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": {"containers": []}}))
                .unwrap()
        };
        let marked = pod(json!({SANDBOX: "a"}));
        let run = |pod: &Pod, own: Value| {
            main(pod, &container(own), &image(), &BTreeMap::new()).unwrap().map(|main| main.command)
        };
        assert_eq!(run(&marked, json!({})), None);
        assert_eq!(run(&marked, json!({"args": ["x"]})), None);
        assert_eq!(run(&marked, json!({"command": ["c"]})), Some(vec!["c".to_owned()]));
        assert!(run(&pod(json!({SANDBOX: "other"})), json!({})).is_some());
        assert!(run(&pod(json!({})), json!({})).is_some());
    }

    #[test]
    fn users_come_from_pod_container_and_image() {
        let pod = |context: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "securityContext": context}}))
                .unwrap()
        };
        let find = |name: &str| (name == "web").then_some((33, 34));
        for (of_pod, own, expected) in [
            (json!({}), json!({}), Ok((33, 7))),
            (json!({"runAsUser": 5, "runAsGroup": 6}), json!({}), Ok((5, 6))),
            (json!({"runAsUser": 5}), json!({"runAsUser": 9}), Ok((9, 0))),
            (json!({"runAsNonRoot": true}), json!({"runAsUser": 0}), Err(())),
            (json!({"runAsUser": 100_000}), json!({}), Err(())),
        ] {
            let own = container(json!({"securityContext": own}));
            let found = user(&pod(of_pod), &own, &image(), find).map(|user| (user.uid, user.gid)).map_err(|_| ());
            assert_eq!(found, expected);
        }
        let stranger = ImageConfig { user: "who".to_owned(), ..ImageConfig::default() };
        assert!(user(&pod(json!({})), &container(json!({})), &stranger, find).is_err());
    }

    #[test]
    fn only_harmless_capabilities_come_back() {
        let with = |value: Value| capabilities(&container(json!({"securityContext": value})));
        assert_eq!(with(json!({})), Ok(0));
        assert_eq!(with(json!({"capabilities": {"add": ["NET_BIND_SERVICE", "CAP_CHOWN"]}})), Ok(1 << 10 | 1));
        assert_eq!(with(json!({"capabilities": {"drop": ["ALL"]}})), Ok(0));
        assert_eq!(with(json!({"capabilities": {"drop": ["ALL"], "add": ["KILL"]}})), Ok(1 << 5));
        assert!(with(json!({"capabilities": {"add": ["SYS_ADMIN"]}})).is_err());
        assert!(with(json!({"privileged": true})).is_err());
    }
}
