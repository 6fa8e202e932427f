//! Attempts to get out of a sandbox that a kubelet runs.

use anyhow::{Result, ensure};
use serde_json::json;
use thane_testkit::deployed::Sandboxes;

use super::POOL;
use super::session::Session;

/// Scripts that exit with 0 when they got what they should not get.
const ATTEMPTS: [(&str, &str); 27] = [
    ("token", "cat /var/run/secrets/kubernetes.io/serviceaccount/token"),
    ("certificates", "cat /.thane/certificates/tls.key"),
    ("records", "ls /.thane/records"),
    ("executor", "echo x > /.thane/bin/thane-executor || rm /.thane/bin/thane-executor || touch /.thane/bin/x"),
    ("inside-the-sidecar", "wget -q -T 3 -O - http://127.0.0.1:8000/metrics"),
    ("sidecar-in-plain", "wget -q -T 3 -O - http://127.0.0.1:50051/"),
    ("sidecar-process", "for one in /proc/[0-9]*; do readlink $one/exe; done | grep -q '^/thane$'"),
    ("host-root", "cd /proc/1/root && test -e etc/shadow"),
    ("write-programs", "touch /busybox || touch /escaped"),
    ("mount-tmpfs", "mount -t tmpfs none /tmp"),
    ("mount-proc", "mount -t proc none /tmp"),
    ("umount-mask", "umount /proc/keys || umount /dev/null || umount /.thane/bin"),
    ("new-user-namespace", "unshare -U true"),
    ("new-mount-namespace", "unshare -m true"),
    ("enter-namespace", "nsenter -t 1 -m true || nsenter -t 1 -n true"),
    ("chroot", "chroot / /busybox true"),
    ("raw-device", "mknod /tmp/disk b 252 0 || mknod /tmp/mem c 1 1"),
    ("see-devices", "ls /dev/vda || ls /dev/sda || ls /dev/kvm || ls /dev/mem"),
    ("kernel-memory", "head -c 1 /proc/kcore | grep -q . || head -c 1 /dev/kmsg || dmesg"),
    ("sysctl", "echo 1 > /proc/sys/kernel/panic || echo 0 > /proc/sys/kernel/randomize_va_space"),
    ("sysrq", "echo b > /proc/sysrq-trigger"),
    ("kernel-modules", "modprobe dummy || insmod /tmp/x.ko"),
    ("write-sys", "echo x > /sys/kernel/uevent_helper || touch /sys/fs/cgroup/x"),
    ("control-groups", "mkdir -p /tmp/g && mount -t cgroup2 none /tmp/g"),
    ("set-clock", "date -s '2000-01-01 00:00'; test $(date +%Y) = 2000"),
    ("set-host-name", "hostname escaped"),
    ("signal-first", "kill -9 1 && sleep 1 && ! test -d /proc/1"),
];

pub(super) async fn contained(site: &Sandboxes) -> Result<()> {
    let session = Session::begin(site, POOL, &json!({})).await?;
    let tries: Vec<String> = ATTEMPTS
        .iter()
        .map(|(name, script)| format!("if ( {script} ) >/dev/null 2>&1; then echo ESCAPED {name}; fi"))
        .collect();
    let said = session.said(&format!("{}\necho tried", tries.join("\n"))).await?;
    ensure!(said == "tried\n", "{said}");
    let status = session.said("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status").await?;
    let words: Vec<&str> = status.split_whitespace().collect();
    let none = "0000000000000000";
    ensure!(words == ["CapEff:", none, "CapBnd:", none, "NoNewPrivs:", "1", "Seccomp:", "2"], "{status}");
    bounded(&session).await?;
    session.end().await
}

/// Memory has a bound, and what exceeds it is told as that.
async fn bounded(session: &Session<'_>) -> Result<()> {
    let bomb = session.step("tail /dev/zero").await?;
    ensure!(bomb["output"]["exit_code"] == 137 && bomb["error"]["kind"] == "oom", "{bomb}");
    ensure!(session.said("echo alive").await? == "alive\n", "the sandbox outlives it");
    Ok(())
}
