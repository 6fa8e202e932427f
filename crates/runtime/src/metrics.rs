//! Prometheus metrics. The registry is a value: each process, or simulated node, has its own.

use std::collections::HashMap;
use std::fmt;
use std::fs;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
pub use prometheus_client::registry::Registry;

use crate::tasks::Tasks;

/// The content type of [`encode`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What names of ours begin with.
pub const PREFIX: &str = "thane";
/// The last line of the text format.
const END: &str = "# EOF";

/// A registry with the metrics of the process itself; names begin with `thane_`.
pub fn registry(version: &str, started: Timestamp, tasks: &Tasks) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    register_process(&mut registry, version, started, tasks);
    registry
}

/// The same for a role that has metrics under other names too: only the process's own begin with `thane_`.
pub fn open_registry(version: &str, started: Timestamp, tasks: &Tasks) -> Registry {
    let mut registry = Registry::default();
    register_process(registry.sub_registry_with_prefix(PREFIX), version, started, tasks);
    registry
}

fn register_process(registry: &mut Registry, version: &str, started: Timestamp, tasks: &Tasks) {
    let labels = vec![("version".to_owned(), version.to_owned())];
    registry.register("build", "The version of this program", Info::new(labels));
    let start: Gauge = Gauge::default();
    start.set(started.as_second());
    registry.register("process_start_time_seconds", "When the process started, in seconds since 1970", start);
    registry.register_collector(Box::new(Process { tasks: tasks.clone() }));
}

/// Every metric in the text format.
pub fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(grouped(&text))
}

/// The same text with each name described once: parts of a process may have metrics of the same name and different
/// labels, and readers want all samples of a name together.
fn grouped(text: &str) -> String {
    let mut families: Vec<String> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let (mut place, mut known) = (None, false);
    for line in text.lines() {
        let described = line.strip_prefix("# HELP ").and_then(|rest| rest.split(' ').next());
        if let Some(name) = described {
            known = places.contains_key(name);
            place = Some(*places.entry(name).or_insert(families.len()));
            if !known {
                families.push(String::new());
            }
        }
        let Some(family) = place.and_then(|at| families.get_mut(at)) else { continue };
        if line != END && !(known && line.starts_with('#')) {
            family.push_str(line);
            family.push('\n');
        }
    }
    families.push(format!("{END}\n"));
    families.concat()
}

/// What is read at the moment somebody asks.
struct Process {
    tasks: Tasks,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process")
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let running = u64::try_from(self.tasks.running().len()).ok();
        let gauges = [
            ("tasks_running", "Supervised tasks that are running", running),
            ("process_resident_memory_bytes", "Memory the process holds", resident_bytes()),
            ("process_open_fds", "File descriptors the process holds", open_files()),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value.and_then(|value| i64::try_from(value).ok()) else { continue };
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn open_files() -> Option<u64> {
    u64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[tokio::test]
    async fn two_registries_do_not_know_each_other() {
        let (tasks, _supervisor) = Tasks::root("test");
        let started = Timestamp::from_second(1_700_000_000).unwrap();
        let mut first = registry("1.2.3", started, &tasks);
        let requests = Counter::<u64>::default();
        first.register("requests", "Requests", requests.clone());
        requests.inc();
        tasks.spawn("waits", std::future::pending::<()>());
        let text = encode(&first).unwrap();
        for line in [
            "thane_build_info{version=\"1.2.3\"} 1",
            "thane_process_start_time_seconds 1700000000",
            "thane_requests_total 1",
            "thane_tasks_running 1",
            "thane_process_resident_memory_bytes ",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} missing in\n{text}");
        }
        let mut open = open_registry("1.2.3", started, &tasks);
        open.register("argocd_requests", "Requests", Counter::<u64>::default());
        let text = encode(&open).unwrap();
        assert!(text.contains("\nargocd_requests_total 0") && text.contains("\nthane_tasks_running 1"), "{text}");
        assert!(!encode(&registry("1.2.3", started, &tasks)).unwrap().contains("requests"));
    }

    #[test]
    fn a_name_is_described_once_however_many_parts_have_it() {
        let mut registry = Registry::default();
        for server in ["hub", "cluster-1"] {
            let part = registry.sub_registry_with_label(("server".into(), server.into()));
            let (requests, queued) = (Counter::<u64>::default(), Gauge::<i64>::default());
            requests.inc();
            part.register("requests", "Requests", requests);
            part.register("queued", "Requests that wait", queued);
        }
        let expected = r#"# HELP requests Requests.
# TYPE requests counter
requests_total{server="hub"} 1
requests_total{server="cluster-1"} 1
# HELP queued Requests that wait.
# TYPE queued gauge
queued{server="hub"} 0
queued{server="cluster-1"} 0
# EOF
"#;
        assert_eq!(encode(&registry).unwrap(), expected);
        assert_eq!(encode(&Registry::default()).unwrap(), "# EOF\n");
    }
}
