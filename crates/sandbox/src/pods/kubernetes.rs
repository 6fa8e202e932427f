//! What a pod needs where a kubelet runs it: the executor brought in, a sidecar beside it, and no more rights than it must have.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, PodSpec, Probe, ResourceRequirements, SeccompProfile,
    SecretVolumeSource, SecurityContext, TCPSocketAction, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Kubernetes;
use crate::names;

/// Where the executor program is brought.
const PROGRAMS: &str = "/.thane/bin";
/// Where it and the sidecar meet.
const RUN: &str = "/.thane/run";
/// Where the sidecar records steps, out of their sight.
const RECORDS: &str = "/.thane/records";
/// Where the sidecar's certificates are, out of theirs too.
const CERTIFICATES: &str = "/.thane/certificates";
/// Who steps are, unless the template says otherwise.
const USER: i64 = 65532;

/// Completes a pod for a kubelet.
pub(super) fn complete(spec: &mut PodSpec, cluster: &Kubernetes) {
    restrict_pod(spec);
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        restrict(container);
    }
    let Some(sandbox) = spec.containers.first_mut() else { return };
    let work_dir = sandbox.working_dir.clone().unwrap_or_else(|| names::WORKSPACE.to_owned());
    serve(sandbox, &work_dir);
    let mut volumes = vec![empty("thane-bin"), empty("thane-run"), empty("thane-records"), secret(&cluster.secret)];
    let mounts = sandbox.volume_mounts.get_or_insert_default();
    if !mounts.iter().any(|mount| mount.mount_path == work_dir) {
        mounts.push(mount("thane-workspace", &work_dir, false));
        volumes.push(empty("thane-workspace"));
    }
    mounts.push(mount("thane-bin", PROGRAMS, true));
    mounts.push(mount("thane-run", RUN, false));
    spec.volumes.get_or_insert_default().extend(volumes);
    let ours = [installer(cluster), sidecar(cluster, &work_dir)];
    spec.init_containers.get_or_insert_default().splice(0..0, ours);
}

/// The executor is the first process; what the template names runs under it.
fn serve(sandbox: &mut Container, work_dir: &str) {
    let program = format!("{PROGRAMS}/thane-executor");
    let mut command: Vec<String> =
        [&program, "serve", "--directory", RUN, "--workdir", work_dir].map(str::to_owned).to_vec();
    if let Some(own) = sandbox.command.take().filter(|own| !own.is_empty()) {
        command.push("--".to_owned());
        command.extend(own);
        command.extend(sandbox.args.take().unwrap_or_default());
    }
    sandbox.command = Some(command);
    sandbox.args = None;
}

fn installer(cluster: &Kubernetes) -> Container {
    let mut container = ours("thane-executor", cluster, &["executor", "install", PROGRAMS]);
    container.volume_mounts = Some(vec![mount("thane-bin", PROGRAMS, false)]);
    container
}

/// It begins before the sandbox and is begun again if it ends, as init containers with a policy of their own are.
fn sidecar(cluster: &Kubernetes, work_dir: &str) -> Container {
    let port = names::SIDECAR_PORT;
    let arguments =
        ["sidecar", "--run", RUN, "--records", RECORDS, "--certificates", CERTIFICATES, "--work-dir", work_dir];
    let mut container = ours("sidecar", cluster, &arguments);
    container.restart_policy = Some("Always".to_owned());
    container.ports = Some(vec![ContainerPort {
        name: Some("grpc".to_owned()),
        container_port: i32::from(port),
        ..ContainerPort::default()
    }]);
    container.readiness_probe = Some(Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(i32::from(port)), host: None }),
        period_seconds: Some(1),
        ..Probe::default()
    });
    container.volume_mounts = Some(vec![
        mount("thane-run", RUN, false),
        mount("thane-records", RECORDS, false),
        mount("thane-certificates", CERTIFICATES, true),
    ]);
    container
}

fn ours(name: &str, cluster: &Kubernetes, arguments: &[&str]) -> Container {
    let quantities = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), Quantity((*value).to_owned()))).collect())
    };
    let mut container = Container {
        name: name.to_owned(),
        image: Some(cluster.image.clone()),
        args: Some(arguments.iter().map(|word| (*word).to_owned()).collect()),
        resources: Some(ResourceRequirements {
            requests: quantities(&[("cpu", "10m"), ("memory", "32Mi")]),
            limits: quantities(&[("memory", "256Mi")]),
            claims: None,
        }),
        ..Container::default()
    };
    restrict(&mut container);
    if let Some(context) = &mut container.security_context {
        context.read_only_root_filesystem = Some(true);
    }
    container
}

fn restrict_pod(spec: &mut PodSpec) {
    spec.host_network = None;
    spec.host_pid = None;
    spec.host_ipc = None;
    let context = spec.security_context.get_or_insert_default();
    context.run_as_non_root = Some(true);
    context.run_as_user.get_or_insert(USER);
    context.run_as_group.get_or_insert(USER);
    context.fs_group.get_or_insert(USER);
    // Whatever the template says: these are what keeps it inside.
    context.seccomp_profile = Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None });
    (context.app_armor_profile, context.se_linux_options, context.sysctls) = (None, None, None);
}

fn restrict(container: &mut Container) {
    let user = container.security_context.as_ref().and_then(|context| context.run_as_user).filter(|user| *user != 0);
    container.security_context = Some(SecurityContext {
        run_as_user: user,
        run_as_non_root: Some(true),
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    });
}

fn empty(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn secret(name: &str) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(name.to_owned()),
        default_mode: Some(0o440),
        ..SecretVolumeSource::default()
    };
    Volume { name: "thane-certificates".to_owned(), secret: Some(source), ..Volume::default() }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
