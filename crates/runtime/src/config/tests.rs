use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::units::{ByteSize, Span};
use super::*;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Sample {
    log: Log,
    up: Up,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Log {
    level: String,
    max_size: ByteSize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Up {
    clusters: u32,
    ephemeral_ports: bool,
    grace: Span,
    names: Vec<String>,
    data: Option<String>,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), max_size: ByteSize(64 << 20) }
    }
}

impl Default for Up {
    fn default() -> Self {
        let grace = Span(Duration::from_secs(10));
        Self { clusters: 1, ephemeral_ports: false, grace, names: Vec::new(), data: None }
    }
}

fn defaults() -> Layers {
    Layers::from_defaults(&Sample::default()).unwrap()
}

fn with_file(text: &str) -> Result<Layers, Error> {
    defaults().with_file(Path::new("thane.yaml"), text)
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn later_layers_win_and_every_value_knows_its_origin() {
    let loaded: Loaded<Sample> =
        with_file("# comment\nlog:\n  level: debug\n  maxSize: 1MiB\nup:\n  clusters: 2\n  grace: 1m\n")
            .unwrap()
            .with_environment(variables(&[
                ("THANE_UP_CLUSTERS", "3"),
                ("THANE_UP_EPHEMERAL_PORTS", "true"),
                ("THANE_UP_NAMES", "a, b"),
                ("THANE_LOG_LEVEL", ""),
                ("THANE_UP_CLUSTERZ", "9"),
                ("THANE_HUB_SERVICE_HOST", "10.0.0.1"),
                ("THANE_HUB_PORT", "tcp://10.0.0.1:443"),
                ("PATH", "/bin"),
            ]))
            .with_flag("up.data", "data", Some(json!("/tmp/x")))
            .with_flag("up.clusters", "clusters", None)
            .load()
            .unwrap();
    assert_eq!(
        loaded.value,
        Sample {
            log: Log { level: "debug".to_owned(), max_size: ByteSize(1 << 20) },
            up: Up {
                clusters: 3,
                ephemeral_ports: true,
                grace: Span(Duration::from_mins(1)),
                names: vec!["a".to_owned(), "b".to_owned()],
                data: Some("/tmp/x".to_owned()),
            },
        }
    );
    assert_eq!(loaded.unknown_variables, ["THANE_UP_CLUSTERZ"]);
    let rows: Vec<String> =
        loaded.rows().iter().map(|row| format!("{}={} {} {}", row.key, row.value, row.origin, row.variable)).collect();
    assert_eq!(
        rows,
        [
            r#"log.level="debug" thane.yaml:3 THANE_LOG_LEVEL"#,
            r#"log.maxSize="1MiB" thane.yaml:4 THANE_LOG_MAX_SIZE"#,
            "up.clusters=3 THANE_UP_CLUSTERS THANE_UP_CLUSTERS",
            r#"up.data="/tmp/x" --data THANE_UP_DATA"#,
            "up.ephemeralPorts=true THANE_UP_EPHEMERAL_PORTS THANE_UP_EPHEMERAL_PORTS",
            r#"up.grace="1m" thane.yaml:7 THANE_UP_GRACE"#,
            r#"up.names=["a","b"] THANE_UP_NAMES THANE_UP_NAMES"#,
        ]
    );
    assert_eq!(loaded.tree()["up"]["clusters"], 3);
}

#[test]
fn errors_name_origin_and_path() {
    let check = |layers: Result<Layers, Error>, expected: &str| {
        let error = layers.and_then(Layers::load::<Sample>).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error:?} should start with {expected:?}");
    };
    check(with_file("up:\n  clusters: many\n"), "thane.yaml:2: up.clusters: invalid type: string \"many\"");
    check(with_file("up:\n  clusterz: 2\n"), "thane.yaml:2: up.clusterz: unknown field `clusterz`");
    check(with_file("\n\nupp: 2\n"), "thane.yaml:3: upp: unknown field `upp`");
    check(with_file("up: 7\n"), "thane.yaml:1: up: invalid type");
    check(with_file("up:\n  grace: soon\n"), "thane.yaml:2: up.grace: \"soon\" is not a duration");
    check(with_file("log:\n  maxSize: -1\n"), "thane.yaml:2: log.maxSize: \"-1\" is not a size");
    check(with_file("- a\n"), "thane.yaml: the file must be a mapping");
    check(with_file("up: [\n"), "thane.yaml: ");
    let environment = |name: &str, value: &str| Ok(defaults().with_environment(variables(&[(name, value)])));
    check(environment("THANE_UP_CLUSTERS", "x"), "THANE_UP_CLUSTERS: up.clusters: invalid type: string \"x\"");
    check(environment("THANE_UP_EPHEMERAL_PORTS", "1"), "THANE_UP_EPHEMERAL_PORTS: up.ephemeralPorts: invalid type");
    let flag = defaults().with_flag("up.grace", "grace", Some(json!("x")));
    check(Ok(flag), "--grace: up.grace: \"x\" is not a duration");
}

#[test]
fn an_empty_file_or_section_changes_nothing() {
    for text in ["", "# nothing\n", "---\n", "up: {}\n"] {
        let loaded: Loaded<Sample> = with_file(text).unwrap().load().unwrap();
        assert_eq!(loaded.value, Sample::default(), "{text:?}");
    }
}

#[test]
fn units_are_read_and_written() {
    let span = |text: &str| text.parse::<Span>().ok().map(|span| (span.0.as_millis(), span.to_string()));
    assert_eq!(span("1h30m"), Some((5_400_000, "1h30m".to_owned())));
    assert_eq!(span("90 m"), None);
    assert_eq!(span("36h"), Some((129_600_000, "1d12h".to_owned())));
    assert_eq!(span("1s 500ms"), Some((1_500, "1s500ms".to_owned())));
    assert_eq!(span("0s"), Some((0, "0s".to_owned())));
    for bad in ["", "5", "s", "-1s", "1.5h", "1y", "99999999999999999999d", "18446744073709551615d"] {
        assert_eq!(span(bad), None, "{bad}");
    }
    let size = |text: &str| text.parse::<ByteSize>().ok().map(|size| (size.0, size.to_string()));
    assert_eq!(size("64MiB"), Some((64 << 20, "64MiB".to_owned())));
    assert_eq!(size("3 MB"), Some((3_000_000, "3MB".to_owned())));
    assert_eq!(size("1536"), Some((1536, "1536B".to_owned())));
    for bad in ["", "MiB", "-1", "1 mib", "99999999999TiB"] {
        assert_eq!(size(bad), None, "{bad}");
    }
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
        prop::collection::vec(any::<u8>().prop_map(Value::from), 0..3).prop_map(Value::from),
    ];
    let node = leaf.prop_recursive(4, 32, 4, |inner| {
        prop::collection::btree_map("[a-c]", inner, 1..4).prop_map(|map| Value::Object(map.into_iter().collect()))
    });
    prop::collection::btree_map("[a-c]", node, 1..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// The obvious recursive merge, as the model.
fn merge(lower: &mut Value, upper: &Value) {
    match (lower, upper) {
        (Value::Object(lower), Value::Object(upper)) => {
            for (name, value) in upper {
                merge(lower.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (lower, upper) => *lower = upper.clone(),
    }
}

proptest! {
    #[test]
    fn laying_over_is_a_recursive_merge(layers in prop::collection::vec(tree(), 1..4)) {
        let mut model = json!({});
        let mut leaves = Leaves::default();
        for (index, layer) in layers.iter().enumerate() {
            merge(&mut model, layer);
            leaves.put_over(Leaves::from_tree(layer.clone(), &Origin::Flag(index.to_string())));
        }
        prop_assert_eq!(leaves.to_tree(), model);
        // Every leaf's origin is the last layer that says something about it.
        for (path, leaf) in leaves.iter() {
            let pointer = format!("/{}", path.join("/"));
            let last = layers.iter().rposition(|layer| layer.pointer(&pointer).is_some()).unwrap();
            prop_assert_eq!(&leaf.origin, &Origin::Flag(last.to_string()));
        }
    }

    #[test]
    fn spans_and_sizes_survive_writing_and_reading(millis in 0..u64::MAX / 2, bytes in any::<u64>()) {
        let span = Span(Duration::from_millis(millis));
        prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        prop_assert_eq!(ByteSize(bytes).to_string().parse::<ByteSize>().unwrap(), ByteSize(bytes));
    }

    #[test]
    fn no_text_makes_reading_panic(text in "\\PC{0,200}") {
        let _ = with_file(&text).and_then(Layers::load::<Sample>);
        let _ = (text.parse::<Span>(), text.parse::<ByteSize>());
        let _ = defaults().with_environment([("THANE_UP_CLUSTERS".to_owned(), text)]).load::<Sample>();
    }
}
