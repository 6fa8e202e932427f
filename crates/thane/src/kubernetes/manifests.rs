//! Manifests from files, directories and stdin.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thane_api::code;

use crate::failure::Failure;

/// All manifests of one source together are never larger.
const SOURCE_BYTES_MAX: u64 = 64 << 20;
/// Objects in one `List`, or documents in one file.
const OBJECTS_MAX: usize = 100_000;

/// One object as it was written, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) source: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) object: Value,
}

/// Reads files, the manifests in directories, and stdin for `-`, in the order given.
pub(crate) fn read(sources: &[PathBuf]) -> Result<Vec<Manifest>, Failure> {
    let mut manifests = Vec::new();
    for source in sources {
        for file in files(source)? {
            let text = text(&file)?;
            manifests.extend(parse(&file.display().to_string(), &text)?);
        }
    }
    if manifests.is_empty() {
        return Err(Failure::new(code::MANIFEST_UNREADABLE, "there is no object in what was given"));
    }
    Ok(manifests)
}

/// Reads objects that may leave their name to the server; each with where it is from.
pub(crate) fn read_unnamed(sources: &[PathBuf]) -> Result<Vec<(String, Value)>, Failure> {
    let mut objects = Vec::new();
    for source in sources {
        for file in files(source)? {
            let name = file.display().to_string();
            objects.extend(documents(&name, &text(&file)?)?.into_iter().map(|object| (name.clone(), object)));
        }
    }
    Ok(objects)
}

/// The texts of files, of the manifests in directories, and of stdin for `-`, each with its name.
pub(crate) fn texts(sources: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let mut texts = Vec::new();
    for source in sources {
        for file in files(source)? {
            texts.push((file.display().to_string(), text(&file)?));
        }
    }
    Ok(texts)
}

fn files(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let failed = |error| unreadable(&source.display().to_string(), &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(source).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let manifest = path.extension().is_some_and(|e| ["yaml", "yml", "json"].iter().any(|known| e == *known));
        if manifest && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| unreadable(&file.display().to_string(), &error);
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(SOURCE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        fs::File::open(file).and_then(|open| open.take(SOURCE_BYTES_MAX + 1).read_to_string(&mut text))
    };
    let size = read.map_err(failed)?;
    if u64::try_from(size).unwrap_or(u64::MAX) > SOURCE_BYTES_MAX {
        return Err(unreadable(&file.display().to_string(), &"larger than 64 MiB"));
    }
    Ok(text)
}

/// Every object of a YAML or JSON text; a `List` counts as its items.
pub(crate) fn parse(source: &str, text: &str) -> Result<Vec<Manifest>, Failure> {
    let mut manifests = Vec::new();
    for document in documents(source, text)? {
        add(source, document, &mut manifests)?;
    }
    Ok(manifests)
}

fn documents(source: &str, text: &str) -> Result<Vec<Value>, Failure> {
    let options = serde_saphyr::options! {
        // What kubectl accepts: file modes are written 0644.
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_events: 20_000_000, max_nodes: 10_000_000, max_documents: OBJECTS_MAX },
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| unreadable(source, &error.without_snippet()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn add(source: &str, mut document: Value, manifests: &mut Vec<Manifest>) -> Result<(), Failure> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if is_list && let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) {
        for item in items {
            manifests.push(manifest(source, item)?);
        }
        return Ok(());
    }
    manifests.push(manifest(source, document)?);
    Ok(())
}

fn manifest(source: &str, object: Value) -> Result<Manifest, Failure> {
    let field = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let required = |pointer: &str| {
        let name = pointer.trim_start_matches('/').replace('/', ".");
        field(pointer).map(str::to_owned).ok_or_else(|| unreadable(source, &format!("an object has no {name}")))
    };
    Ok(Manifest {
        source: source.to_owned(),
        api_version: required("/apiVersion")?,
        kind: required("/kind")?,
        name: required("/metadata/name")?,
        namespace: field("/metadata/namespace").map(str::to_owned),
        object,
    })
}

fn unreadable(source: &str, reason: &dyn std::fmt::Display) -> Failure {
    Failure::new(code::MANIFEST_UNREADABLE, format!("{source}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<String> {
        parse("x.yaml", text).unwrap().iter().map(|m| format!("{}/{}/{}", m.api_version, m.kind, m.name)).collect()
    }

    #[test]
    fn documents_and_lists_become_objects() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n";
        let list =
            r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}}]}"#;
        assert_eq!(labels(&format!("---\n{pod}---\n# only a comment\n---\n{list}\n")), ["v1/Pod/a", "v1/Node/b"]);
        let empty = r#"{"apiVersion":"v1","kind":"List","items":[]}"#;
        assert_eq!(labels(empty), Vec::<String>::new());
    }

    #[test]
    fn file_modes_are_octal_as_kubectl_reads_them() {
        let text = "apiVersion: v1\nkind: X\nmetadata: {name: a}\nmode: 0644\ntext: '0644'\n";
        let object = &parse("x.yaml", text).unwrap()[0].object;
        assert_eq!((&object["mode"], &object["text"]), (&420.into(), &"0644".into()));
    }

    #[test]
    fn broken_manifests_name_their_source() {
        let check = |text: &str, expected: &str| {
            let message = format!("{:?}", parse("x.yaml", text).unwrap_err());
            assert!(message.contains("x.yaml: ") && message.contains(expected), "{message}");
        };
        check("a: [", "");
        check("just text", "an object has no apiVersion");
        check("apiVersion: v1\nmetadata: {name: a}\n", "an object has no kind");
        check("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "an object has no metadata.name");
        check("apiVersion: v1\nkind: Pod\nkind: Node\nmetadata: {name: a}\n", "duplicate");
    }
}
