//! Files in and out.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;

use thane_api::wire::sandbox::{RemoveFileRequest, StepRequest};
use thane_api::wire::sidecar::{
    FileRequest, ListDirRequest, ReadFileRequest, ResetRequest, StatRequest, WriteFileChunk,
};
use tonic::Code;

use super::client::{Sandbox, shell, with_sidecars};

fn chunks(path: &str, sha256: &str, pieces: &[Vec<u8>]) -> tokio_stream::Iter<std::vec::IntoIter<WriteFileChunk>> {
    let all: Vec<WriteFileChunk> = pieces
        .iter()
        .map(|data| WriteFileChunk {
            path: path.to_owned(),
            data: data.clone().into(),
            expected_sha256: sha256.to_owned(),
        })
        .collect();
    tokio_stream::iter(all)
}

#[test]
fn files_go_in_and_out_whole() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let content: Vec<u8> = (0..2_500_000_u32).map(|number| number.to_le_bytes()[0] ^ 0x5a).collect();
        let pieces: Vec<Vec<u8>> = content.chunks(1_300_000).map(<[u8]>::to_vec).collect();
        let written = sandbox.agent.write_file(chunks("a/b/big", "", &pieces)).await.unwrap().into_inner();
        assert_eq!(written.bytes_written, 2_500_000);
        let inside = sandbox.look("sha256sum < /workspace/a/b/big | cut -d' ' -f1").await;
        assert_eq!(inside.trim(), written.sha256);
        let wrong = sandbox.agent.write_file(chunks("a/b/big", &"0".repeat(64), &[b"x".to_vec()])).await;
        assert_eq!(wrong.unwrap_err().code(), Code::InvalidArgument);
        let request = ReadFileRequest { path: "/workspace/a/b/big".to_owned() };
        let mut read = sandbox.agent.read_file(request).await.unwrap().into_inner();
        let (mut back, mut digest) = (Vec::new(), String::new());
        while let Some(chunk) = read.message().await.unwrap() {
            back.extend(chunk.data);
            digest = chunk.sha256;
        }
        assert!(back == content && digest == written.sha256);
        assert_eq!(sandbox.look("ls -A /workspace/a/b").await, "big\n", "nothing half written is left");
        let files = HashMap::from([("x".to_owned(), "1".to_owned()), ("d/y".to_owned(), "2".to_owned())]);
        let update = FileRequest { base_path: "/workspace/u".to_owned(), files, patch: String::new() };
        assert!(sandbox.agent.update_files(update).await.unwrap().into_inner().success);
        let patch = FileRequest { patch: "---".to_owned(), ..FileRequest::default() };
        assert!(!sandbox.agent.update_files(patch).await.unwrap().into_inner().success);
        let list = ListDirRequest { path: "u".to_owned(), recursive: true };
        let listed = sandbox.agent.list_dir(list).await.unwrap().into_inner().entries;
        let names: Vec<(&str, bool)> = listed.iter().map(|entry| (entry.name.as_str(), entry.is_dir)).collect();
        assert_eq!(names, [("d", true), ("d/y", false), ("x", false)]);
        sandbox.run("mkdir many && cd many && seq 5000 | xargs touch").await;
        let many = ListDirRequest { path: "many".to_owned(), recursive: false };
        assert_eq!(sandbox.agent.list_dir(many).await.unwrap().into_inner().entries.len(), 5000);
        sandbox.steps.remove_file(RemoveFileRequest { path: "u".to_owned() }).await.unwrap();
        let gone = sandbox.agent.stat(StatRequest { path: "/workspace/u".to_owned() }).await.unwrap().into_inner();
        assert!(!gone.exists);
        let found = sandbox.agent.stat(StatRequest { path: "a/b/big".to_owned() }).await.unwrap().into_inner();
        assert_eq!((found.exists, found.size, found.mode.as_str()), (true, 2_500_000, "0644"));
        bed.delete("p").await;
        bed
    });
}

#[test]
fn a_file_that_was_half_there_when_files_came_back_is_sent_again() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        let kept = sandbox.run("echo kept > file").await.snapshot;
        let (send, pieces) = tokio::sync::mpsc::channel(1);
        let piece = |data: &str| WriteFileChunk {
            path: "big".to_owned(),
            data: data.as_bytes().to_vec().into(),
            ..WriteFileChunk::default()
        };
        let mut other = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        let writing = other.agent.write_file(tokio_stream::wrappers::ReceiverStream::new(pieces));
        let between = async {
            send.send(piece("first")).await.unwrap();
            // The first part is there.
            while !sandbox.look("cat .thane-* 2>/dev/null || true").await.contains("first") {}
            sandbox.restore(&kept, "").await.unwrap();
            send.send(piece("second")).await.unwrap();
            drop(send);
        };
        let (written, ()) = tokio::join!(writing, between);
        assert_eq!(written.unwrap_err().code(), Code::Aborted);
        assert_eq!(sandbox.look("ls -A /workspace").await, "file\n", "no part of it is left");
        bed.delete("p").await;
        bed
    });
}

#[test]
fn what_breaks_off_leaves_the_file_as_it_was() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        sandbox.run("echo whole > file").await;
        let piece = |sha256: &str| WriteFileChunk {
            path: "file".to_owned(),
            data: b"first".to_vec().into(),
            expected_sha256: sha256.to_owned(),
        };
        // A digest that comes to nothing, as of a gateway whose client has gone.
        let ended = sandbox.agent.write_file(chunks("file", "unfinished", &[b"first".to_vec()])).await;
        assert_eq!(ended.unwrap_err().code(), Code::InvalidArgument);
        // Whoever sent it goes in the middle.
        let (send, pieces) = tokio::sync::mpsc::channel(1);
        let mut other = Sandbox::reach(&trust, sandbox.pod.clone()).await;
        let writing = other.agent.write_file(tokio_stream::wrappers::ReceiverStream::new(pieces));
        let begun = async {
            send.send(piece("unfinished")).await.unwrap();
            while !sandbox.look("cat .thane-* 2>/dev/null || true").await.contains("first") {}
        };
        tokio::select! {
            written = writing => panic!("{written:?}"),
            () = begun => {}
        }
        let clean = async {
            while sandbox.look("ls -A; cat file").await != "file\nwhole\n" {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(crate::bed::PATIENCE, clean).await.expect("nothing half written is left");
        bed.delete("p").await;
        bed
    });
}

#[test]
fn paths_lead_nowhere_else() {
    with_sidecars(|bed, trust| async move {
        let mut sandbox = Sandbox::new(&bed, &trust, "p").await;
        sandbox.run("ln -s /../../../../etc out").await;
        for path in
            ["../../../../../../etc/thane-escaped", "out/thane-escaped", concat!("/proc/1/root", "/etc/thane-escaped")]
        {
            // Refused or written inside: either is right.
            let _ = sandbox.agent.write_file(chunks(path, "", &[b"x".to_vec()])).await;
        }
        assert!(!std::path::Path::new("/etc/thane-escaped").exists());
        for path in ["", "a\0b", "/", ".."] {
            let refused = sandbox.agent.write_file(chunks(path, "", &[b"x".to_vec()])).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{path:?}");
        }
        for path in ["/nowhere", "/workspace/out/shadow"] {
            let mut read =
                sandbox.agent.read_file(ReadFileRequest { path: path.to_owned() }).await.unwrap().into_inner();
            assert_eq!(read.message().await.unwrap_err().code(), Code::NotFound, "{path}");
        }
        std::fs::set_permissions(bed.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let secret = bed.folder.path().join("secret");
        std::fs::write(&secret, "treasure").unwrap();
        sandbox.run("ln -s /proc/self/fd fds").await;
        for number in 3..32 {
            for before in ["/proc/self/fd", "/workspace/fds"] {
                let up = format!("{before}/{number}{}", "/..".repeat(16));
                let path = format!("{up}{}", secret.display());
                let request = ReadFileRequest { path: path.clone() };
                let mut read = sandbox.agent.read_file(request).await.unwrap().into_inner();
                let refused = read.message().await.unwrap_err().code();
                assert!(matches!(refused, Code::InvalidArgument | Code::NotFound), "{path}: {refused:?}");
                let listed = ListDirRequest { path: up.clone(), recursive: false };
                assert!(sandbox.agent.list_dir(listed).await.is_err(), "{up}");
                let (record, said) =
                    sandbox.step(StepRequest { working_dir: up.clone(), ..shell("ls") }).await.unwrap();
                assert!(record.failure.is_some() && said.is_empty(), "{up}: {record:?}");
            }
        }
        let lost = RemoveFileRequest { path: "nowhere".to_owned() };
        assert_eq!(sandbox.steps.remove_file(lost).await.unwrap_err().code(), Code::NotFound);
        assert!(sandbox.agent.reset(ResetRequest { preserve_files: false }).await.unwrap().into_inner().success);
        assert_eq!(sandbox.look("ls -A /workspace").await, "");
        bed.delete("p").await;
        bed
    });
}
