//! Packs one static program as an OCI image archive, byte for byte the same for the same program.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Nobody's user and group in images without a password file.
const USER: u32 = 65532;

/// The processor of this machine, as images call it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The archive of an image for this machine whose only content is `program`, as `/NAME`; it is run with `arguments`.
pub fn archive(name: &str, tag: &str, arguments: &[&str], program: &[u8]) -> Vec<u8> {
    let mut layer = Tar::default();
    layer.folder("tmp/", 0o1777);
    layer.file(name, 0o755, program);
    let run = json!({
        "User": format!("{USER}:{USER}"),
        "Entrypoint": [format!("/{name}")],
        "Cmd": arguments,
        "WorkingDir": "/",
        "Env": ["PATH=/"],
    });
    packed(tag, &layer.finish(), &run, &format!("make image: /{name}"))
}

/// The archive of an image like busybox's or alpine's: a shell, and all that busybox can do as commands; root's.
pub fn userland(tag: &str, busybox: &[u8], commands: &[&str]) -> Vec<u8> {
    let mut layer = Tar::default();
    for (folder, mode) in [("bin/", 0o755), ("etc/", 0o755), ("root/", 0o755), ("tmp/", 0o1777)] {
        layer.folder(folder, mode);
    }
    layer.file("bin/busybox", 0o755, busybox);
    for command in commands.iter().filter(|command| **command != "busybox") {
        layer.link(&format!("bin/{command}"), "busybox");
    }
    layer.file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
    packed(tag, &layer.finish(), &json!({"Cmd": ["sh"], "WorkingDir": "/", "Env": ["PATH=/bin"]}), "userland")
}

/// The archive of an image of one layer.
fn packed(tag: &str, layer: &[u8], run: &Value, by: &str) -> Vec<u8> {
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created_by": by}],
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["annotations"] = json!({"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": tag});
    let index =
        json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]});

    let mut out = Tar::default();
    out.file("oci-layout", 0o644, json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes());
    out.file("index.json", 0o644, index.to_string().as_bytes());
    for blob in [config.as_slice(), &manifest, layer] {
        out.file(&format!("blobs/sha256/{}", hexadecimal(blob)), 0o644, blob);
    }
    // The older list, for `docker load`.
    let older = json!([{
        "Config": format!("blobs/sha256/{}", hexadecimal(&config)),
        "RepoTags": [tag],
        "Layers": [format!("blobs/sha256/{}", hexadecimal(layer))],
    }]);
    out.file("manifest.json", 0o644, older.to_string().as_bytes());
    out.finish()
}

fn descriptor(media: &str, blob: &[u8]) -> Value {
    json!({"mediaType": media, "digest": digest(blob), "size": blob.len()})
}

fn digest(blob: &[u8]) -> String {
    format!("sha256:{}", hexadecimal(blob))
}

fn hexadecimal(blob: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    Sha256::digest(blob).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Just enough of the ustar format: plain files, links and folders, all dated at the epoch and owned by root.
#[derive(Default)]
struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    fn folder(&mut self, name: &str, mode: u32) {
        self.header(name, mode, 0, b'5', "");
    }

    fn link(&mut self, name: &str, target: &str) {
        self.header(name, 0o777, 0, b'2', target);
    }

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.header(name, mode, content.len(), b'0', "");
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }

    fn header(&mut self, name: &str, mode: u32, size: usize, kind: u8, target: &str) {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{size:011o}"));
        put(136, "00000000000");
        put(148, "        ");
        put(157, target);
        put(257, "ustar");
        put(263, "00");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_same_program_gives_the_same_archive() {
        let pack = || archive("thane", "localhost/thane:1", &[], b"program");
        assert_eq!(pack(), pack());
        assert_ne!(pack(), archive("thane", "localhost/thane:1", &[], b"another"));
    }

    #[test]
    fn tar_reads_it_and_digests_hold() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image.tar");
        std::fs::write(&file, archive("thane", "localhost/thane:1", &[], b"program")).unwrap();
        let done = Command::new("tar").arg("-C").arg(folder.path()).arg("-xf").arg(&file).status().unwrap();
        assert!(done.success());
        let read = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
        let index: Value = serde_json::from_slice(&read("index.json")).unwrap();
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let blob = read(&format!("blobs/sha256/{digest}"));
            assert_eq!(hexadecimal(&blob), digest);
            assert_eq!(descriptor["size"], blob.len());
            blob
        };
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], digest(&layer));
    }
}
