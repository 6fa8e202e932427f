//! Files of a sandbox, in pieces, whole or not at all.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use thane_api::wire::sandbox::Change;
use thane_api::wire::sidecar::{DirEntry, FileChunk, StatResponse, WriteFileChunk, WriteFileResponse};
use thane_executor::client::Executor;
use thane_executor::frame::DATA_MAX;
use thane_executor::message::{FileInfo, Reply, Request};
use tokio::sync::{RwLockReadGuard, mpsc};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use super::desk::{Desk, unexpected};
use super::executor;
use super::steps::Fact;

/// The longest path.
const PATH_MAX: usize = 4096;
/// Entries of one listing.
const ENTRIES_MAX: usize = 10_000;
/// Directories above each other in one listing.
const DEPTH_MAX: usize = 64;

/// Refuses what is no path. Where it leads is the sandbox's own affair: it is looked up inside.
pub(super) fn check(path: &str) -> Result<(), Status> {
    if path.is_empty() || path.contains('\0') || path.len() > PATH_MAX {
        return Err(Status::invalid_argument(format!("{:?} is no path", path.chars().take(80).collect::<String>())));
    }
    Ok(())
}

/// A file that is being written beside its place. What is dropped before it is there goes in the background.
struct Writing<'a> {
    desk: &'a Desk,
    /// How often the files had been brought back when it began: then what was written so far is gone.
    since: u64,
    executor: Executor,
    temporary: String,
    mode: Option<u32>,
    bytes: i64,
    sha: Sha256,
    /// What was written, as long as it is to be recorded.
    kept: Option<Vec<u8>>,
    /// Nothing is left beside its place.
    settled: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        // Whoever sent it has gone in the middle.
        let (files, run) = (Arc::clone(&self.desk.files), self.desk.room().run);
        let request = Request::Remove { path: std::mem::take(&mut self.temporary) };
        self.desk.tasks.spawn("unwritten", async move {
            let _files = files.read().await;
            // If the sandbox is gone, so is the file.
            if let Ok(mut executor) = Executor::connect(&run).await {
                let _ = executor.call(request).await;
            }
        });
    }
}

impl<'a> Writing<'a> {
    async fn begin(desk: &'a Desk, path: &str, mode: Option<u32>) -> Result<Self, Status> {
        check(path)?;
        let (parent, name) = path.rsplit_once('/').map_or(("", path), |(parent, name)| (parent, name));
        if name.is_empty() || name == "." || name == ".." {
            return Err(Status::invalid_argument(format!("{path:?} is no file")));
        }
        let mark: u64 = rand::random();
        let between = if path.contains('/') { "/" } else { "" };
        let temporary = format!("{parent}{between}.thane-{mark:016x}");
        let executor = desk.connect().await?;
        let since = *desk.files.read().await;
        let (sha, kept, settled) = (Sha256::new(), None, false);
        let mut writing = Self { desk, since, executor, temporary, mode, bytes: 0, sha, kept, settled };
        writing.piece(Vec::new()).await?;
        Ok(writing)
    }

    async fn piece(&mut self, content: Vec<u8>) -> Result<(), Status> {
        self.sha.update(&content);
        self.bytes += i64::try_from(content.len()).unwrap_or_default();
        let request = Request::WriteFile { path: self.temporary.clone(), mode: self.mode, append: true };
        let _files = self.still().await?;
        self.executor.write(content, request).await.map(|_| ()).map_err(executor::status)
    }

    async fn push(&mut self, content: &[u8]) -> Result<(), Status> {
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(content);
        }
        for piece in content.chunks(DATA_MAX) {
            self.piece(piece.to_vec()).await?;
        }
        Ok(())
    }

    async fn finish(mut self, path: &str, expected: &str) -> Result<WriteFileResponse, Status> {
        let sha256 = hex(&self.sha.finalize_reset());
        if !expected.is_empty() && !expected.eq_ignore_ascii_case(&sha256) {
            self.give_up().await;
            return Err(Status::invalid_argument(format!("the content's SHA-256 is {sha256}, not {expected}")));
        }
        if let Err(status) = self.put(path).await {
            self.give_up().await;
            return Err(status);
        }
        Ok(WriteFileResponse { path: path.to_owned(), bytes_written: self.bytes, sha256 })
    }

    async fn put(&mut self, path: &str) -> Result<(), Status> {
        let _files = self.still().await?;
        let rename = Request::Rename { from: self.temporary.clone(), to: path.to_owned() };
        self.executor.call(rename).await.map_err(executor::status)?;
        self.settled = true;
        if let Some(mode) = self.mode {
            let request = Request::WriteFile { path: path.to_owned(), mode: Some(mode), append: true };
            self.executor.write(Vec::new(), request).await.map_err(executor::status)?;
        }
        Ok(())
    }

    /// Keeps the files where they are while a part is written, unless they were brought back since it began.
    async fn still(&self) -> Result<RwLockReadGuard<'a, u64>, Status> {
        let files = self.desk.files.read().await;
        if *files == self.since {
            return Ok(files);
        }
        Err(Status::aborted("the files were brought back while this one was written: send it again"))
    }

    async fn give_up(&mut self) {
        // If the sandbox is gone, so is the file.
        let _files = self.desk.files.read().await;
        let _ = self.executor.call(Request::Remove { path: self.temporary.clone() }).await;
        self.settled = true;
    }
}

impl Desk {
    /// Writes a file at once.
    pub(super) async fn put_file(&self, path: &str, mode: Option<u32>, content: &[u8]) -> Result<(), Status> {
        let mut writing = Writing::begin(self, path, mode).await?;
        if let Err(status) = writing.push(content).await {
            writing.give_up().await;
            return Err(status);
        }
        writing.finish(path, "").await.map(|_| ())
    }

    /// Removes a file, or a directory with all it holds.
    pub(super) async fn remove(&self, path: &str) -> Result<(), Status> {
        let _files = self.files.read().await;
        self.ask(Request::Remove { path: path.to_owned() }).await.map(drop)
    }

    /// Writes a file as it comes; the first piece names it.
    pub(super) async fn write_file(
        &self,
        mut chunks: impl Stream<Item = Result<WriteFileChunk, Status>> + Unpin,
    ) -> Result<WriteFileResponse, Status> {
        let first = chunks.next().await.ok_or_else(|| Status::invalid_argument("nothing was sent"))??;
        let path = first.path.clone();
        let mut expected = first.expected_sha256;
        let mut writing = Writing::begin(self, &path, None).await?;
        writing.kept = self.room().layers.is_none().then(Vec::new);
        let mut content = Some(first.data);
        loop {
            if let Some(content) = content.take() {
                // What is too large to be recorded is not gathered either.
                writing.kept.take_if(|kept| !self.log.can_change(kept.len() + content.len()));
                if let Err(status) = writing.push(&content).await {
                    writing.give_up().await;
                    return Err(status);
                }
            }
            match chunks.next().await {
                Some(Ok(chunk)) => {
                    if !chunk.expected_sha256.is_empty() {
                        expected = chunk.expected_sha256;
                    }
                    content = Some(chunk.data);
                }
                Some(Err(status)) => {
                    writing.give_up().await;
                    return Err(status);
                }
                None => {
                    let kept = writing.kept.take();
                    let written = writing.finish(&path, &expected).await?;
                    self.uploaded(path, kept).await?;
                    return Ok(written);
                }
            }
        }
    }

    /// Records a file that was written, where files are not kept.
    async fn uploaded(&self, path: String, content: Option<Vec<u8>>) -> Result<(), Status> {
        match content {
            Some(content) => self.changed(Change { path, content: content.into(), removed: false }).await,
            None if self.room().layers.is_some() => Ok(()),
            None => self.append(vec![Fact::Changed(None)], false).await,
        }
    }

    /// Reads a file piece by piece; the last piece has its digest.
    pub(super) async fn read_file(&self, path: &str, tell: &mpsc::Sender<Result<FileChunk, Status>>) {
        let mut sha = Sha256::new();
        let mut offset = 0;
        let read = async {
            check(path)?;
            let mut executor = self.connect().await?;
            loop {
                let (file, data) = executor.read(path, offset, DATA_MAX as u64).await.map_err(executor::status)?;
                sha.update(&data);
                let (at, length) = (offset, data.len() as u64);
                let done = data.is_empty();
                offset += length;
                let chunk = FileChunk {
                    path: path.to_owned(),
                    data: data.into(),
                    offset: i64::try_from(at).unwrap_or(i64::MAX),
                    size_bytes: i64::try_from(if done { offset } else { file.size }).unwrap_or(i64::MAX),
                    sha256: if done { hex(&sha.finalize_reset()) } else { String::new() },
                    done,
                };
                if tell.send(Ok(chunk)).await.is_err() || done {
                    return Ok(());
                }
            }
        };
        if let Err(status) = read.await {
            let _ = tell.send(Err(status)).await;
        }
    }

    pub(super) async fn stat(&self, path: &str) -> Result<StatResponse, Status> {
        check(path)?;
        match self.ask(Request::Stat { path: path.to_owned() }).await {
            Ok(Reply::File { file }) => Ok(StatResponse {
                exists: true,
                is_dir: file.directory,
                size: file.size,
                mode: format!("{:04o}", file.mode),
                modified: modified(&file),
            }),
            Ok(other) => Err(unexpected(&other)),
            Err(status) if status.code() == tonic::Code::NotFound => Ok(StatResponse::default()),
            Err(status) => Err(status),
        }
    }

    /// What a directory holds, and with `recursive` what those in it hold; names are relative to it.
    pub(super) async fn list(&self, path: &str, recursive: bool) -> Result<Vec<DirEntry>, Status> {
        check(path)?;
        let mut executor = self.connect().await?;
        let mut entries = Vec::new();
        let mut left = vec![(String::new(), 0)];
        while let Some((below, depth)) = left.pop() {
            let mut after = String::new();
            loop {
                let at = if below.is_empty() { path.to_owned() } else { format!("{path}/{below}") };
                let reply = executor.call(Request::ListDirectory { path: at, after }).await;
                let (found, more) = match reply {
                    Ok(Reply::Directory { entries, more }) => (entries, more),
                    Ok(other) => return Err(unexpected(&other)),
                    // It has gone, or cannot be looked into; what it is in can.
                    Err(_) if !below.is_empty() => break,
                    Err(error) => return Err(executor::status(error)),
                };
                after = found.last().map(|last| last.name.clone()).unwrap_or_default();
                for file in found {
                    let name = if below.is_empty() { file.name } else { format!("{below}/{}", file.name) };
                    if entries.len() >= ENTRIES_MAX {
                        return Err(Status::resource_exhausted(format!("there are more than {ENTRIES_MAX} entries")));
                    }
                    if recursive && file.directory && depth < DEPTH_MAX {
                        left.push((name.clone(), depth + 1));
                    }
                    entries.push(DirEntry { name, is_dir: file.directory, size: file.size });
                }
                if !more || after.is_empty() {
                    break;
                }
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

fn modified(file: &FileInfo) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(file.modified_ns));
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_for_what_no_path_has() {
        for path in ["/a", "a", "../a", "/"] {
            assert!(check(path).is_ok(), "{path}");
        }
        for path in ["", "a\0b", &"a".repeat(5000)] {
            assert_eq!(check(path).unwrap_err().code(), tonic::Code::InvalidArgument);
        }
        assert_eq!(hex(&[0, 0xab]), "00ab");
    }
}
