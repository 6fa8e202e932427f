//! Control groups of containers, for either version of the kernel's interface and for both at once.

use std::io;
use std::path::{Path, PathBuf};

use thane_executor::plan::{CgroupDirectory, Cgroups};

use crate::resources::{Bounds, PIDS_KEPT};

/// Controllers that are used of version 1.
const CONTROLLERS: [&str; 4] = ["memory", "cpu", "pids", "cpuacct"];
const PERIOD: u64 = 100_000;

/// Where the machine has its control groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Hierarchies of version 1, by controller.
    v1: Vec<(String, PathBuf)>,
    /// The hierarchy of version 2, and the controllers it has.
    v2: Option<(PathBuf, Vec<String>)>,
}

impl Layout {
    /// Reads it from the table of mounts; `controllers` tells what a hierarchy of version 2 has.
    pub(crate) fn read(mounts: &str, controllers: impl Fn(&Path) -> String) -> Self {
        let mut layout = Self::default();
        for line in mounts.lines() {
            let mut fields = line.split(' ');
            let (Some(_), Some(point), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let point = PathBuf::from(point);
            match kind {
                "cgroup2" if layout.v2.is_none() => {
                    let known = controllers(&point).split_whitespace().map(str::to_owned).collect();
                    layout.v2 = Some((point, known));
                }
                "cgroup" => {
                    let named = options.split(',').find(|option| CONTROLLERS.contains(option));
                    layout.v1.extend(named.map(|name| (name.to_owned(), point)));
                }
                _ => {}
            }
        }
        layout
    }

    /// As this machine has it.
    pub(crate) fn of_machine() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self::read(&mounts, |point| std::fs::read_to_string(point.join("cgroup.controllers")).unwrap_or_default())
    }

    /// Controllers containers need that neither version has.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        ["memory", "cpu", "pids"].into_iter().filter(|name| !self.in_v1(name) && !self.in_v2(name)).collect()
    }

    fn in_v1(&self, name: &str) -> bool {
        self.v1.iter().any(|(known, _)| known == name)
    }

    fn in_v2(&self, name: &str) -> bool {
        self.v2.as_ref().is_some_and(|(_, known)| known.iter().any(|one| one == name))
    }

    fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.v1.iter().map(|(_, root)| root).chain(self.v2.iter().map(|(root, _)| root))
    }

    /// The groups of one container: `top/pod/container`, and in it where the executor stays and where its work goes.
    pub(crate) fn plan(&self, top: &str, pod: &str, container: &str, bounds: &Bounds) -> Cgroups {
        let mut cgroups = Cgroups::default();
        for (controller, root) in &self.v1 {
            let own = self.parents(&mut cgroups, root, &[top, pod], &[]).join(container);
            let work = own.join("steps");
            let settings = v1_settings(controller, bounds);
            let kept = if controller == "pids" { vec![pids(bounds.pids - PIDS_KEPT)] } else { Vec::new() };
            cgroups.directories.push(directory(&own, settings, false));
            cgroups.directories.push(directory(&work, kept, false));
            if controller == "memory" {
                cgroups.oom.push(work.join("memory.oom_control"));
            }
            cgroups.join.push(own);
            cgroups.work.push(work);
        }
        if let Some((root, controllers)) = &self.v2 {
            let own = self.parents(&mut cgroups, root, &[top, pod], controllers).join(container);
            let (stay, work) = (own.join("init"), own.join("steps"));
            cgroups.directories.push(directory(&own, v2_settings(controllers, bounds), true));
            cgroups.directories.push(directory(&stay, Vec::new(), false));
            let kept = if self.in_v2("pids") { vec![pids(bounds.pids - PIDS_KEPT)] } else { Vec::new() };
            cgroups.later.push(directory(&work, kept, true));
            if self.in_v2("memory") && !self.in_v1("memory") {
                cgroups.oom.push(own.join("memory.events"));
            }
            cgroups.join.push(own.clone());
            cgroups.settle.push(stay);
            cgroups.pass_on.push(own);
            cgroups.track = Some(work);
        }
        cgroups
    }

    /// The groups above a container's; each passes on what it has.
    #[expect(clippy::unused_self, reason = "it belongs to the layout")]
    fn parents(&self, cgroups: &mut Cgroups, root: &Path, names: &[&str], controllers: &[String]) -> PathBuf {
        let used = ["memory", "cpu", "pids"].into_iter().filter(|name| controllers.iter().any(|one| one == name));
        let passed: Vec<String> = used.map(|name| format!("+{name}")).collect();
        let written = ("cgroup.subtree_control".to_owned(), passed.join(" "));
        let settings = || if passed.is_empty() { Vec::new() } else { vec![written.clone()] };
        let mut path = root.to_owned();
        if !passed.is_empty() {
            // Who made the machine's own top may not have passed them on; where that cannot be done it is said.
            cgroups.directories.push(directory(&path, settings(), false));
        }
        for name in names {
            path.push(name);
            cgroups.directories.push(directory(&path, settings(), false));
        }
        path
    }

    /// The directories of one container's groups, or of a pod's, or of all.
    pub(crate) fn directories(&self, names: &[&str]) -> Vec<PathBuf> {
        self.roots().map(|root| names.iter().fold(root.clone(), |path, name| path.join(name))).collect()
    }
}

fn directory(path: &Path, settings: Vec<(String, String)>, delegated: bool) -> CgroupDirectory {
    CgroupDirectory { path: path.to_owned(), settings, delegated }
}

fn pids(most: u64) -> (String, String) {
    ("pids.max".to_owned(), most.to_string())
}

/// Shares of version 1 for thousandths of a processor.
fn shares(millis: u64) -> u64 {
    (millis * 1024 / 1000).clamp(2, 262_144)
}

fn v1_settings(controller: &str, bounds: &Bounds) -> Vec<(String, String)> {
    let set = |name: &str, value: u64| (name.to_owned(), value.to_string());
    match controller {
        "memory" => bounds.memory.iter().map(|bytes| set("memory.limit_in_bytes", *bytes)).collect(),
        "cpu" => {
            let mut settings = vec![set("cpu.shares", shares(bounds.cpu_request))];
            if let Some(millis) = bounds.cpu {
                settings.push(set("cpu.cfs_period_us", PERIOD));
                settings.push(set("cpu.cfs_quota_us", (millis * PERIOD / 1000).max(1000)));
            }
            settings
        }
        "pids" => vec![pids(bounds.pids)],
        _ => Vec::new(),
    }
}

fn v2_settings(controllers: &[String], bounds: &Bounds) -> Vec<(String, String)> {
    let has = |name: &str| controllers.iter().any(|one| one == name);
    let set = |name: &str, value: String| (name.to_owned(), value);
    let mut settings = Vec::new();
    if has("memory")
        && let Some(bytes) = bounds.memory
    {
        settings.push(set("memory.max", bytes.to_string()));
        settings.push(set("memory.swap.max", "0".to_owned()));
    }
    if has("cpu") {
        // The two scales, 2 to 262144 and 1 to 10000, mapped as runtimes do.
        let weight = 1 + (shares(bounds.cpu_request) - 2) * 9999 / 262_142;
        settings.push(set("cpu.weight", weight.to_string()));
        settings.extend(
            bounds.cpu.map(|millis| set("cpu.max", format!("{} {PERIOD}", (millis * PERIOD / 1000).max(1000)))),
        );
    }
    if has("pids") {
        settings.push(pids(bounds.pids));
    }
    settings
}

/// Removes groups with all below them; those whose processes are still ending are tried again for a moment.
pub(crate) fn remove(paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        remove_one(path)?;
    }
    Ok(())
}

fn remove_one(path: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_one(&entry.path())?;
        }
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
";
    const BOUNDS: Bounds = Bounds { cpu_request: 500, cpu: Some(250), memory: Some(1 << 25), pids: 512 };

    fn written(cgroups: &Cgroups) -> Vec<String> {
        let each = |directory: &CgroupDirectory| {
            let path = directory.path.display().to_string();
            let all = directory.settings.iter().map(move |(file, value)| format!("{path}/{file}={value}"));
            all.collect::<Vec<_>>()
        };
        cgroups.directories.iter().chain(&cgroups.later).flat_map(each).collect()
    }

    #[test]
    fn a_hybrid_machine_is_bounded_by_version_one_and_tracked_by_version_two() {
        let layout = Layout::read(HYBRID, |_| "hugetlb".to_owned());
        assert!(layout.missing().is_empty());
        let cgroups = layout.plan("top", "pod", "c", &BOUNDS);
        assert_eq!(
            written(&cgroups),
            [
                "/sys/fs/cgroup/cpu/top/pod/c/cpu.shares=512",
                "/sys/fs/cgroup/cpu/top/pod/c/cpu.cfs_period_us=100000",
                "/sys/fs/cgroup/cpu/top/pod/c/cpu.cfs_quota_us=25000",
                "/sys/fs/cgroup/memory/top/pod/c/memory.limit_in_bytes=33554432",
                "/sys/fs/cgroup/pids/top/pod/c/pids.max=512",
                "/sys/fs/cgroup/pids/top/pod/c/steps/pids.max=480",
            ]
        );
        assert_eq!(cgroups.track, Some(PathBuf::from("/sys/fs/cgroup/unified/top/pod/c/steps")));
        assert_eq!(cgroups.oom, [PathBuf::from("/sys/fs/cgroup/memory/top/pod/c/steps/memory.oom_control")]);
        assert_eq!(layout.directories(&["top"]).len(), 4);
    }

    #[test]
    fn a_machine_of_version_two_does_both() {
        let layout = Layout::read("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", |_| "cpu memory pids".to_owned());
        assert!(layout.missing().is_empty());
        let cgroups = layout.plan("top", "pod", "c", &BOUNDS);
        assert_eq!(
            written(&cgroups),
            [
                "/sys/fs/cgroup/cgroup.subtree_control=+memory +cpu +pids",
                "/sys/fs/cgroup/top/cgroup.subtree_control=+memory +cpu +pids",
                "/sys/fs/cgroup/top/pod/cgroup.subtree_control=+memory +cpu +pids",
                "/sys/fs/cgroup/top/pod/c/memory.max=33554432",
                "/sys/fs/cgroup/top/pod/c/memory.swap.max=0",
                "/sys/fs/cgroup/top/pod/c/cpu.weight=20",
                "/sys/fs/cgroup/top/pod/c/cpu.max=25000 100000",
                "/sys/fs/cgroup/top/pod/c/pids.max=512",
                "/sys/fs/cgroup/top/pod/c/steps/pids.max=480",
            ]
        );
        assert_eq!(cgroups.later.len(), 1, "the bound of the steps is there once controllers are passed on");
        assert_eq!(cgroups.oom, [PathBuf::from("/sys/fs/cgroup/top/pod/c/memory.events")]);
        assert_eq!(Layout::read("", |_| String::new()).missing(), ["memory", "cpu", "pids"]);
    }
}
