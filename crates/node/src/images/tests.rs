use std::io::Write;

use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::*;

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// An archive of entries: path, kind, content or target of a link.
fn archive(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let mut header = header(*kind, if is_link { 0 } else { content.len() as u64 });
        // By hand: the library refuses to write what we must refuse to read.
        let name = path.as_bytes();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        if is_link {
            let to = content.as_bytes();
            header.as_old_mut().linkname[..to.len()].copy_from_slice(to);
        }
        header.set_cksum();
        builder.append(&header, if is_link { &[][..] } else { content.as_bytes() }).unwrap();
    }
    builder.into_inner().unwrap()
}

fn docker(layers: &[Vec<u8>]) -> Vec<u8> {
    let config = json!({"config": {"Cmd": ["sh"]}}).to_string();
    let names: Vec<String> = (0..layers.len()).map(|number| format!("layer{number}.tar")).collect();
    let manifest = json!([{"Config": "config.json", "RepoTags": ["app:1"], "Layers": names}]).to_string();
    let mut builder = Builder::new(Vec::new());
    let mut add = |name: &str, content: &[u8]| {
        let mut header = header(EntryType::Regular, content.len() as u64);
        builder.append_data(&mut header, name, content).unwrap();
    };
    add("config.json", config.as_bytes());
    add("manifest.json", manifest.as_bytes());
    for (name, layer) in names.iter().zip(layers) {
        add(name, layer);
    }
    builder.into_inner().unwrap()
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        let _ = writeln!(io::stderr(), "SKIPPED: layers have owners, which takes root");
    }
    root
}

#[test]
fn names_are_made_whole() {
    for (name, expected) in [
        ("app", "app:latest"),
        ("docker.io/library/app:1", "app:1"),
        ("host.example:5000/a/b", "host.example:5000/a/b:latest"),
    ] {
        assert_eq!(canonical(name).unwrap(), expected);
    }
    for bad in ["", "a b", "../x", "/x", "a;b"] {
        assert!(canonical(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_archive_is_imported_listed_and_removed() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let images = Images::open(folder.path().join("images")).unwrap();
    let lower = archive(&[
        ("bin/", EntryType::Directory, ""),
        ("bin/tool", EntryType::Regular, "program"),
        ("bin/link", EntryType::Symlink, "/bin/tool"),
        ("bin/same", EntryType::Link, "bin/tool"),
        ("old", EntryType::Regular, "x"),
    ]);
    let upper = archive(&[(".wh.old", EntryType::Regular, ""), ("bin/.wh..wh..opq", EntryType::Regular, "")]);
    let file = folder.path().join("image.tar");
    std::fs::write(&file, docker(&[lower, upper])).unwrap();
    let imported = images.import(&file, None).unwrap();
    assert_eq!(imported[0].names, ["app:1"]);
    assert_eq!(images.list().unwrap(), imported);
    let layers = images.layers(&images.find("docker.io/library/app:1").unwrap());
    assert_eq!(std::fs::read(layers[1].join("bin/same")).unwrap(), b"program");
    let gone = std::fs::symlink_metadata(layers[0].join("old")).unwrap();
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&gone.file_type()), "a whiteout hides the file");
    assert!(matches!(images.find("app:2"), Err(Error::Absent(_))));
    images.remove("app:1").unwrap();
    assert!(images.list().unwrap().is_empty() && !layers[0].exists());
}

#[test]
fn layers_and_archives_are_read_however_they_are_packed() {
    if !is_root() {
        return;
    }
    let gzip = |plain: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |plain: &[u8]| ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest);
    let content = "content ".repeat(100_000);
    let plain = archive(&[("file", EntryType::Regular, &content)]);
    let folder = tempfile::tempdir().unwrap();
    for (case, file) in [
        ("plain", docker(std::slice::from_ref(&plain))),
        ("gzip", docker(&[gzip(&plain)])),
        ("zstd", docker(&[zstd(&plain)])),
        ("all gzip", gzip(&docker(&[gzip(&plain)]))),
        ("all zstd", zstd(&docker(&[zstd(&plain)]))),
    ] {
        let images = Images::open(folder.path().join(case)).unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, file).unwrap();
        let imported = images.import(&path, None).unwrap_or_else(|error| panic!("{case}: {error}"));
        let layer = images.layers(&imported[0]).remove(0);
        assert!(std::fs::read(layer.join("file")).unwrap() == content.as_bytes(), "{case}");
        let left = std::fs::read_dir(folder.path().join(case).join("new")).unwrap().count();
        assert_eq!(left, 0, "{case}");
    }
}

#[test]
fn hostile_layers_are_refused_and_leave_nothing() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let target = outside.display().to_string();
    let cases = [
        ("upwards", vec![("../escaped", EntryType::Regular, "x")]),
        ("upwards within", vec![("a/../../escaped", EntryType::Regular, "x")]),
        ("through a link", vec![("out", EntryType::Symlink, &target), ("out/escaped", EntryType::Regular, "x")]),
        ("hard link out", vec![("hard", EntryType::Link, "../../outside")]),
        ("device", vec![("dev", EntryType::Char, "")]),
        ("block device", vec![("dev", EntryType::Block, "")]),
    ];
    for (case, entries) in cases {
        let images = Images::open(folder.path().join(case)).unwrap();
        let file = folder.path().join(format!("{case}.tar"));
        std::fs::write(&file, docker(&[archive(&[("fine", EntryType::Regular, "x")]), archive(&entries)])).unwrap();
        assert!(matches!(images.import(&file, None), Err(Error::Archive(_))), "{case}");
        assert!(images.list().unwrap().is_empty(), "{case}");
        for name in ["new", "layers"] {
            let left = std::fs::read_dir(folder.path().join(case).join(name)).unwrap().count();
            assert_eq!(left, 0, "{case}: {name}");
        }
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!folder.path().join("escaped").exists());
}

#[test]
fn a_directory_imported_again_leaves_what_runs_from_it() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (images, source) = (Images::open(folder.path().join("images")).unwrap(), folder.path().join("rootfs"));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "old").unwrap();
    let old = images.layers(&images.import(&source, Some("base")).unwrap()[0]).remove(0);
    std::fs::write(source.join("file"), "new").unwrap();
    let new = images.layers(&images.import(&source, Some("base")).unwrap()[0]).remove(0);
    assert_eq!(std::fs::read(old.join("file")).unwrap(), b"old", "it is still whole");
    assert_eq!(std::fs::read(new.join("file")).unwrap(), b"new");
    assert_eq!(images.list().unwrap().len(), 1, "the name is the new one's alone");
    std::fs::create_dir(folder.path().join("images/new/killed")).unwrap();
    images.sweep().unwrap();
    assert!(!old.exists() && new.exists() && !folder.path().join("images/new/killed").exists());
    // What cannot be imported leaves nothing.
    let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    assert!(images.import(&source, Some("base")).is_err());
    for (name, count) in [("new", 0), ("layers", 1)] {
        assert_eq!(std::fs::read_dir(folder.path().join("images").join(name)).unwrap().count(), count, "{name}");
    }
}

#[test]
fn an_absolute_path_stays_in_the_image() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let layer = folder.path().join("layer");
    std::fs::create_dir(&layer).unwrap();
    unpack::layer(&archive(&[("/etc/passwd", EntryType::Regular, "x")])[..], &layer).unwrap();
    assert!(layer.join("etc/passwd").is_file());
}

#[test]
fn what_is_no_archive_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let images = Images::open(folder.path().join("images")).unwrap();
    let file = folder.path().join("x");
    for content in [&b""[..], b"text", &[0x1f, 0x8b, 0, 0], &[0x28, 0xb5, 0x2f, 0xfd, 9], &[0; 4096]] {
        std::fs::write(&file, content).unwrap();
        assert!(images.import(&file, Some("x")).is_err());
        assert_eq!(std::fs::read_dir(folder.path().join("images/new")).unwrap().count(), 0);
    }
    assert!(images.import(&folder.path().join("absent"), None).is_err());
    assert!(images.import(folder.path(), None).is_err(), "a directory needs a name");
}

#[test]
fn an_image_that_is_used_stays() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, pod) = (folder.path().join("source.tar"), folder.path().join("pod"));
    fs::write(&source, docker(&[archive(&[("file", EntryType::Regular, "content")])])).unwrap();
    let images = Images::open(folder.path().join("images")).unwrap();
    let image = images.import(&source, None).unwrap().remove(0);
    fs::create_dir(&pod).unwrap();
    images.begin_use(&image.id, "u", "default/p", &pod).unwrap();
    let refused = images.remove("app:1").unwrap_err().to_string();
    assert!(refused.contains("default/p"), "{refused}");
    assert_eq!(images.find("app:1").unwrap(), image);
    assert!(images.layers(&image).iter().all(|layer| layer.exists()));
    fs::remove_dir(&pod).unwrap();
    images.remove("app:1").unwrap();
    assert!(images.layers(&image).iter().all(|layer| !layer.exists()));
    images.end_uses("u");
    assert_eq!(fs::read_dir(folder.path().join("images/uses")).unwrap().count(), 0);
}
