use std::io;

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap()
    }
}

fn config(level: &str, format: Format) -> LogConfig {
    LogConfig { level: level.to_owned(), format }
}

#[test]
fn levels_are_per_subsystem_and_change_while_running() {
    let captured = Captured::default();
    let writer = captured.clone();
    let (subscriber, levels) =
        subscriber(&config("info,kv=debug", Format::Human), false, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        let emit = || {
            tracing::debug!(target: "thane_kv::store", "from kv");
            tracing::debug!(target: "thane_apiserver", "from apiserver");
        };
        emit();
        let text = captured.take();
        assert!(text.contains("from kv") && !text.contains("from apiserver"), "{text}");
        levels.change("warn,apiserver=debug").unwrap();
        assert_eq!(levels.current(), "warn,apiserver=debug");
        emit();
        let text = captured.take();
        assert!(!text.contains("from kv") && text.contains("from apiserver"), "{text}");
        assert!(levels.change("loud,kv=").is_err());
        assert_eq!(levels.current(), "warn,apiserver=debug");
        emit();
        assert!(captured.take().contains("from apiserver"));
    });
}

#[test]
fn output_is_json_unless_a_person_reads_it() {
    let line = |format, terminal| {
        let captured = Captured::default();
        let writer = captured.clone();
        let (subscriber, _levels) = subscriber(&config("info", format), terminal, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || tracing::info!(port = 8080, "listening"));
        captured.take()
    };
    for (format, terminal) in [(Format::Auto, false), (Format::Json, true)] {
        let parsed: serde_json::Value = serde_json::from_str(&line(format, terminal)).unwrap();
        assert_eq!(
            (&parsed["message"], &parsed["port"], &parsed["level"]),
            (&"listening".into(), &8080.into(), &"INFO".into())
        );
    }
    assert!(line(Format::Auto, true).contains('\u{1b}'), "colours on a terminal");
    let human = line(Format::Human, false);
    assert!(human.contains("listening port=8080") && !human.contains('\u{1b}'), "{human}");
}

#[test]
fn bad_levels_are_refused() {
    for text in ["", " ", "loud", "info,kv=loudly", "=,=", "kv", "kv=", "k v=info", "info,", &"a".repeat(5000)] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    for text in ["info", " info , kv=debug ", "kv=debug", "warn,hyper=error,apiserver=trace", "off"] {
        assert!(parse(text).is_ok(), "{text:?}");
    }
}

#[test]
fn every_crate_has_a_level_of_its_own() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(crates).unwrap().map(name).collect();
    // The program itself begins all their names.
    names.retain(|name| name != "thane");
    names.sort();
    assert_eq!(names, SUBSYSTEMS);
}

#[test]
fn who_asked_for_what_is_told_at_every_level_but_off() {
    let told = |level: &str| {
        let captured = Captured::default();
        let writer = captured.clone();
        let (subscriber, _levels) = subscriber(&config(level, Format::Json), false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || tracing::info!(target: "thane::audit", "asked"));
        captured.take().contains("asked")
    };
    for level in ["info", "warn", "error,hub=debug", "hub=warn", "off,thane::audit=info", "trace"] {
        assert!(told(level), "{level}");
    }
    for level in ["off", "info,off", "thane::audit=warn", "info,thane::audit=off"] {
        assert!(!told(level), "{level}");
    }
}
