//! Attempts to get out. Each would succeed, and its test fail, if what holds it back were taken away.

use serde_json::json;

use crate::bed::{on_bed, phase_of, state, with_bed};

/// Scripts that exit with 0 when they got what they should not get.
const ATTEMPTS: [(&str, &str); 24] = [
    ("shadow", "cat /etc/shadow"),
    ("host-root", "cd /proc/1/root && test -e etc/shadow"),
    ("write-programs", "touch /usr/bin/escaped || touch /bin/escaped || touch /lib/escaped"),
    ("remount", "mount -o remount,rw,bind /usr"),
    ("mount-tmpfs", "mount -t tmpfs none /tmp"),
    ("mount-proc", "mount -t proc none /tmp"),
    ("umount-mask", "umount /proc/keys || umount /dev/null || umount /usr"),
    ("new-user-namespace", "unshare -Ur true"),
    ("new-mount-namespace", "unshare -m true"),
    ("enter-namespace", "nsenter -t 1 -m true || nsenter -t 1 -n true"),
    ("chroot", "chroot / true"),
    ("raw-device", "mknod /tmp/disk b 252 0 || mknod /tmp/mem c 1 1"),
    ("see-devices", "ls /dev/vda || ls /dev/sda || ls /dev/kvm || ls /dev/mem"),
    ("kernel-memory", "head -c 1 /proc/kcore | grep -q . || head -c 1 /dev/kmsg || dmesg"),
    ("sysctl", "echo 1 > /proc/sys/kernel/panic || echo 0 > /proc/sys/kernel/randomize_va_space"),
    ("sysrq", "echo b > /proc/sysrq-trigger"),
    ("kernel-modules", "modprobe dummy || insmod /tmp/x.ko"),
    ("write-sys", "echo x > /sys/kernel/uevent_helper || touch /sys/fs/cgroup/x"),
    ("control-groups", "mkdir -p /tmp/g && mount -t cgroup2 none /tmp/g"),
    ("set-clock", "date -s 2000-01-01"),
    ("set-host-name", "hostname escaped"),
    ("trace-first", "python3 -c \"import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16,1,0,0)==0 else 1)\""),
    ("signal-first", "kill -9 1 && sleep 1 && ! test -d /proc/1"),
    ("low-memory-score", "echo -1000 > /proc/self/oom_score_adj"),
];

/// What the attempts are made with: without it they would fail for want of a program.
const TOOLS: &str =
    "cat ls mount umount unshare nsenter chroot mknod head grep dmesg mkdir date hostname python3 kill touch";

/// Attempts that come to nothing worse, made on the machine itself: where nothing holds them back they succeed.
const CONTROLS: [&str; 7] =
    ["shadow", "mount-tmpfs", "mount-proc", "new-user-namespace", "new-mount-namespace", "chroot", "set-host-name"];

#[test]
fn attempts_succeed_where_nothing_holds_them_back() {
    on_bed(|bed| async {
        for name in CONTROLS {
            let (_, script) = ATTEMPTS.iter().find(|(other, _)| *other == name).unwrap();
            // Mounts and the host's name of its own go when it ends.
            let mut command = std::process::Command::new("unshare");
            let done = command.args(["-m", "-u", "--propagation", "private", "sh", "-c", script]).output().unwrap();
            assert!(done.status.success(), "{name}: {done:?}");
        }
        bed
    });
}

#[test]
fn nothing_of_the_machine_can_be_had() {
    on_bed(|bed| async {
        let (_, said) = bed
            .outcome("tools", &format!("for t in {TOOLS}; do command -v $t >/dev/null || echo no $t; done"), json!({}))
            .await;
        assert_eq!(said, "", "attempts without their programs say nothing");
        // One pod tries them all, so that one failing start cannot pass for many.
        let tries: Vec<String> = ATTEMPTS
            .iter()
            .map(|(name, script)| format!("if ( {script} ) >/dev/null 2>&1; then echo ESCAPED {name}; fi"))
            .collect();
        let script = format!("{}\necho tried", tries.join("\n"));
        let (code, said) = bed.outcome("p", &script, json!({})).await;
        assert_eq!((code, said.as_str()), (0, "tried\n"));
        bed
    });
}

#[test]
fn privileges_are_gone_for_good() {
    on_bed(|bed| async {
        let script = "grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; cat /proc/self/uid_map";
        let (_, said) = bed.outcome("p", script, json!({})).await;
        let words: Vec<&str> = said.split_whitespace().collect();
        let none = "0000000000000000";
        let expected = ["CapPrm:", none, "CapEff:", none, "CapBnd:", none, "NoNewPrivs:", "1", "Seccomp:", "2"];
        assert_eq!(words[..10], expected);
        assert_eq!(words[10..], ["0", "1879048192", "65536"]);
        bed
    });
}

#[test]
fn other_pods_cannot_be_seen_or_touched() {
    on_bed(|bed| async {
        let secret = json!({"container": {"env": [{"name": "SECRET", "value": "xyzzy"}]}});
        bed.script("victim", "echo treasure > /workspace/file; exec sleep 4242", secret).await;
        bed.phase("victim", "Running").await;
        let script = "exec 2>/dev/null; grep -al 'xyzzy' /proc/[0-9]*/environ; grep -al 4242 /proc/[0-9]*/cmdline | grep -v self; \
            ls /proc | grep -c '^[0-9]'; cat /workspace/file; ipcs -m | grep -c 0x; echo done";
        let (_, said) = bed.outcome("thief", script, json!({})).await;
        let lines: Vec<&str> = said.lines().collect();
        // Its own shell's command line has the number; nothing else does.
        assert!(!said.contains("treasure") && !said.contains("environ"), "{said}");
        let processes: usize = lines.iter().find_map(|line| line.parse().ok()).unwrap();
        assert!(processes < 8, "{said}");
        bed.delete("victim").await;
        bed
    });
}

#[test]
fn the_network_leads_nowhere() {
    on_bed(|bed| async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let targets = [("127.0.0.1", port), ("169.254.169.254", 80), ("10.0.0.1", 80), ("1.1.1.1", 53)];
        let reach: Vec<String> = targets.iter().map(|(host, port)| format!("('{host}',{port})")).collect();
        let script = format!(
            "python3 -c \"\nimport socket\nfor t in [{}]:\n  s=socket.socket(); s.settimeout(3)\n  try:\n    s.connect(t); print('REACHED',t)\n  except OSError as e: pass\nprint('tried')\n\"; ls /sys/class/net",
            reach.join(",")
        );
        let (_, said) = bed.outcome("p", &script, json!({})).await;
        assert_eq!(said, "tried\nlo\n");
        assert!(listener.accept().is_err(), "nobody came");
        bed
    });
}

#[test]
fn egress_opens_one_way_and_no_other() {
    on_bed(|bed| async {
        let (open, closed) =
            (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let (port, other) = (open.local_addr().unwrap().port(), closed.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            use std::io::Write;
            let (mut stream, _) = open.accept().unwrap();
            stream.write_all(b"welcome").unwrap();
        });
        let connect = |port: u16| {
            format!(
                "python3 -c \"import socket; print(socket.create_connection(('127.0.0.1',{port}),5).recv(99))\" 2>/dev/null"
            )
        };
        let script = format!("{}; {} || echo refused", connect(port), connect(other));
        let spec = json!({"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "host", "command": ["sh", "-c", script]},
        ]});
        bed.create("p", spec, json!({"thane.dev/egress": format!("127.0.0.1:{port}")})).await;
        let pod = bed.until("p", "ended", |pod| matches!(phase_of(pod), "Succeeded" | "Failed")).await;
        assert_eq!(bed.log(&pod, "main", 0), "b'welcome'\nrefused\n");
        server.join().unwrap();
        bed
    });
}

/// By what a container's first process has open of the machine.
#[test]
fn no_working_directory_leads_out() {
    on_bed(|bed| async {
        let container = |number: u32| {
            json!({"name": format!("c{number}"), "image": "host", "command": ["sh", "-c", "ls; echo ESCAPED"],
                "workingDir": format!("/proc/self/fd/{number}{}", "/..".repeat(number as usize % 2 * 12))})
        };
        let numbers = 3..24;
        let containers: Vec<_> = numbers.clone().map(container).collect();
        bed.create("p", json!({"restartPolicy": "Never", "containers": containers}), json!({})).await;
        let pod = bed.phase("p", "Failed").await;
        for name in numbers.map(|number| format!("c{number}")) {
            let ended = state(&pod, &name).terminated.unwrap_or_else(|| panic!("{name}: {:?}", pod.status));
            assert_eq!(ended.reason.as_deref(), Some("StartError"), "{name}: {ended:?}");
            assert_eq!(bed.log(&pod, &name, 0), "");
        }
        bed
    });
}

#[test]
fn a_fork_bomb_ends_at_its_bound() {
    on_bed(|bed| async {
        let script = "python3 -c \"\nimport os,time\nn=0\ntry:\n  while n<2000:\n    if os.fork()==0: time.sleep(60); os._exit(0)\n    n+=1\nexcept OSError: pass\nprint('forked', n<512)\n\"";
        let (_, said) = bed.outcome("p", script, json!({})).await;
        assert_eq!(said, "forked True\n");
        bed
    });
}

#[test]
fn a_full_disk_is_the_pods_own() {
    with_bed(
        |config| config.disk_bytes_max = 64 << 20,
        |bed| async {
            bed.script(
                "p",
                "i=0; while head -c 4M /dev/urandom > /workspace/$i; do i=$((i+1)); sleep 0.02; done",
                json!({}),
            )
            .await;
            let pod = bed.phase("p", "Failed").await;
            assert_eq!(pod.status.as_ref().unwrap().reason.as_deref(), Some("Evicted"), "{:?}", pod.status);
            bed
        },
    );
}

#[test]
fn files_without_a_name_count_as_the_pods_own() {
    with_bed(
        |config| config.disk_bytes_max = 64 << 20,
        |bed| async {
            let script = "for n in 3 4; do eval \"exec $n>/workspace/f\"; rm /workspace/f; head -c 40M /dev/zero >&$n; done; sleep 600";
            bed.script("p", script, json!({})).await;
            let pod = bed.phase("p", "Failed").await;
            assert_eq!(pod.status.as_ref().unwrap().reason.as_deref(), Some("Evicted"), "{:?}", pod.status);
            bed
        },
    );
}

#[test]
fn when_the_disk_is_nearly_full_the_largest_pod_goes() {
    with_bed(
        |config| config.disk_free_min = Some(u64::MAX),
        |bed| async {
            bed.script("small", "sleep 600", json!({})).await;
            bed.phase("small", "Running").await;
            bed.script("large", "head -c 64M /dev/zero > /workspace/x; sleep 600", json!({})).await;
            let pod = bed.phase("large", "Failed").await;
            let status = pod.status.unwrap();
            assert_eq!(status.reason.as_deref(), Some("Evicted"));
            assert!(status.message.unwrap_or_default().contains("low on resource"));
            bed.phase("small", "Running").await;
            bed.delete("small").await;
            bed
        },
    );
}

#[test]
fn the_machine_is_refused_by_name() {
    on_bed(|bed| async {
        let container = json!({"name": "main", "image": "host", "command": ["true"]});
        let host_path = json!({"containers": [container], "volumes": [{"name": "h", "hostPath": {"path": "/"}}]});
        bed.create("path", host_path, json!({})).await;
        bed.create("pids", json!({"containers": [container], "hostPID": true}), json!({})).await;
        for name in ["path", "pids"] {
            let pod = bed.phase(name, "Failed").await;
            assert_eq!(pod.status.unwrap().reason.as_deref(), Some("Forbidden"));
        }
        let mut privileged = container.clone();
        privileged["securityContext"] = json!({"privileged": true});
        bed.create("privileged", json!({"containers": [privileged]}), json!({})).await;
        let refused = bed.until("privileged", "refused", |pod| {
            state(pod, "main").waiting.is_some_and(|waiting| waiting.message.is_some())
        });
        let waiting = state(&refused.await, "main").waiting.unwrap();
        assert!(waiting.message.unwrap().contains("privileged"));
        bed
    });
}

#[test]
fn what_a_volume_holds_cannot_lead_out_of_it() {
    on_bed(|bed| async {
        let share = |path: &str, below: Option<&str>| json!([{"name": "v", "mountPath": path, "subPath": below}]);
        let init = json!([{"name": "plant", "image": "host", "command": ["sh", "-c", "ln -s / /v/link"], "volumeMounts": share("/v", None)}]);
        let more = json!({
            "initContainers": init,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "container": {"volumeMounts": share("/out", Some("link"))},
        });
        let (_, said) = bed.outcome("p", "ls -d /out/etc /out/boot /out/sys 2>/dev/null; echo done", more).await;
        assert_eq!(said, "done\n");
        bed
    });
}

#[test]
fn processor_time_is_bounded() {
    on_bed(|bed| async {
        let more = json!({"container": {"resources": {"limits": {"cpu": "200m"}}}});
        // Busy for a second of wall time; at a fifth of a processor that is about 0.2 s of its own.
        let script = "python3 -c \"\nimport time,resource\ne=time.time()+3\nwhile time.time()<e: pass\nu=resource.getrusage(resource.RUSAGE_SELF)\nprint(u.ru_utime+u.ru_stime<1.5)\n\"";
        let (_, said) = bed.outcome("p", script, more).await;
        assert_eq!(said, "True\n");
        bed
    });
}
