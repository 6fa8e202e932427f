//! A container's log as people read it.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use thane_executor::exit;
use thane_executor::log::{self, Line};
use thane_runtime::pods::LogOptions;
use tokio::sync::mpsc;

use crate::files::open_given;

/// Files that may have been put aside.
const ROTATED_MAX: u32 = 16;
/// Pieces a log is sent in.
const PIECE: usize = 64 * 1024;

/// The log in a run directory; with `follow` until the container has ended.
pub(super) fn stream(run: PathBuf, options: &LogOptions) -> io::Result<BoxStream<'static, Bytes>> {
    // Watched before it is read, so that nothing is missed in between.
    let news = if options.follow { Some(watch(&run)?) } else { None };
    let mut reader = Reader { shown: Shown::new(options), run, place: None };
    let start = reader.start(options.tail_lines)?;
    let first = stream::iter(start.chunks(PIECE).map(Bytes::copy_from_slice).collect::<Vec<_>>());
    let Some((mut changes, watcher)) = news else { return Ok(first.boxed()) };
    let rest = async_stream(move |tell| async move {
        let _watcher = watcher;
        loop {
            // Looked at before the rest is read: what was said before the end is there by then.
            let ended = reader.run.join(exit::FILE).exists();
            let Ok(piece) = reader.more() else { return };
            if !piece.is_empty() && tell.send(Bytes::from(piece)).await.is_err() {
                return;
            }
            if ended || reader.shown.is_full() {
                return;
            }
            tokio::select! {
                change = changes.recv() => if change.is_none() { return },
                () = tell.closed() => return,
            }
        }
    });
    Ok(first.chain(rest).boxed())
}

/// A stream of what a future sends, driven by who reads it.
fn async_stream<F>(make: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> impl futures::Stream<Item = Bytes> + Send
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tell, hear) = mpsc::channel(4);
    let work = stream::once(make(tell)).filter_map(|()| async { None });
    let heard = stream::unfold(hear, |mut hear| async move { Some((hear.recv().await?, hear)) });
    stream::select(Box::pin(work), Box::pin(heard))
}

fn watch(run: &Path) -> io::Result<(mpsc::Receiver<()>, RecommendedWatcher)> {
    let (tell, hear) = mpsc::channel(1);
    // One that waits says as much as many.
    let told = move |_: notify::Result<notify::Event>| {
        let _ = tell.try_send(());
    };
    let mut watcher = notify::recommended_watcher(told).map_err(io::Error::other)?;
    watcher.watch(run, RecursiveMode::NonRecursive).map_err(io::Error::other)?;
    Ok((hear, watcher))
}

/// Lines in the form that was asked for.
struct Shown {
    timestamps: bool,
    since_ns: u64,
    left: u64,
    /// The next piece goes on with a line.
    within: bool,
}

impl Shown {
    fn new(options: &LogOptions) -> Self {
        let since_ns = options.since.and_then(|since| u64::try_from(since.as_nanosecond()).ok()).unwrap_or_default();
        let left = options.limit_bytes.unwrap_or(u64::MAX);
        Self { timestamps: options.timestamps, since_ns, left, within: false }
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }

    fn add(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        if line.time_ns < self.since_ns {
            return;
        }
        let before = out.len();
        if self.timestamps && !self.within {
            out.extend_from_slice(line.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(line.text);
        if line.whole {
            out.push(b'\n');
        }
        self.within = !line.whole;
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        out.truncate(before.saturating_add(most));
        self.left -= (out.len() - before) as u64;
    }
}

/// Where reading has got to.
struct Place {
    inode: u64,
    offset: u64,
}

struct Reader {
    run: PathBuf,
    shown: Shown,
    place: Option<Place>,
}

impl Reader {
    /// All there is, or the last lines of it.
    fn start(&mut self, tail: Option<u64>) -> io::Result<Vec<u8>> {
        let mut lines: VecDeque<Vec<u8>> = VecDeque::new();
        let mut out = Vec::new();
        let most = tail.and_then(|tail| usize::try_from(tail).ok());
        for number in (0..ROTATED_MAX).rev() {
            let Ok(file) = open_given(&self.run.join(log::rotated(number))) else { continue };
            let mut offset = 0;
            let inode = file.metadata()?.ino();
            for line in Lines(BufReader::new(file)) {
                let line = line?;
                offset += line.len() as u64;
                match most {
                    Some(most) => {
                        lines.push_back(line);
                        if lines.len() > most {
                            lines.pop_front();
                        }
                    }
                    None => self.show(&line, &mut out),
                }
            }
            self.place = Some(Place { inode, offset });
        }
        for line in lines {
            self.show(&line, &mut out);
        }
        Ok(out)
    }

    /// What was added since.
    fn more(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        // The file may have been put aside meanwhile: what was left of it comes first.
        let mut files = Vec::new();
        for number in 0..ROTATED_MAX {
            let Ok(file) = open_given(&self.run.join(log::rotated(number))) else { break };
            let inode = file.metadata()?.ino();
            let known = self.place.as_ref().is_some_and(|place| place.inode == inode);
            files.push((inode, file));
            if known {
                break;
            }
        }
        for (inode, mut file) in files.into_iter().rev() {
            let known = self.place.as_ref().filter(|place| place.inode == inode).map(|place| place.offset);
            let mut offset = known.unwrap_or_default();
            file.seek(SeekFrom::Start(offset))?;
            for line in Lines(BufReader::new(file)) {
                let line = line?;
                if !line.ends_with(b"\n") {
                    break;
                }
                offset += line.len() as u64;
                self.show(&line, &mut out);
            }
            self.place = Some(Place { inode, offset });
        }
        Ok(out)
    }

    fn show(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(line) = log::parse(line) {
            self.shown.add(&line, out);
        }
    }
}

/// Lines with their ends.
struct Lines<R>(R);

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(second: u8, tag: char, text: &str) -> String {
        format!("1970-01-01T00:00:{second:02}.000000000Z stdout {tag} {text}\n")
    }

    async fn read(run: &Path, options: LogOptions) -> String {
        let pieces: Vec<Bytes> = stream(run.to_owned(), &options).unwrap().collect().await;
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[tokio::test]
    async fn a_log_is_read_in_parts_and_from_files_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("log.1"), line(1, 'F', "one") + &line(2, 'F', "two")).unwrap();
        std::fs::write(folder.path().join("log"), line(3, 'P', "thr") + &line(3, 'F', "ee") + &line(4, 'F', "four"))
            .unwrap();
        let with = |change: fn(&mut LogOptions)| {
            let mut options = LogOptions::default();
            change(&mut options);
            read(folder.path(), options)
        };
        assert_eq!(with(|_| ()).await, "one\ntwo\nthree\nfour\n");
        assert_eq!(with(|options| options.tail_lines = Some(1)).await, "four\n");
        assert_eq!(with(|options| options.tail_lines = Some(0)).await, "");
        assert_eq!(with(|options| options.limit_bytes = Some(5)).await, "one\nt");
        let since = jiff::Timestamp::from_second(4).unwrap();
        assert_eq!(read(folder.path(), LogOptions { since: Some(since), ..LogOptions::default() }).await, "four\n");
        assert!(with(|options| options.timestamps = true).await.starts_with("1970-01-01T00:00:01.000000000Z one\n"));
    }

    #[tokio::test]
    async fn following_ends_with_the_container() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, line(1, 'F', "one")).unwrap();
        let options = LogOptions { follow: true, ..LogOptions::default() };
        let mut stream = stream(folder.path().to_owned(), &options).unwrap();
        assert_eq!(stream.next().await.unwrap(), "one\n");
        std::fs::rename(&path, folder.path().join("log.1")).unwrap();
        let mut old = std::fs::OpenOptions::new().append(true).open(folder.path().join("log.1")).unwrap();
        old.write_all(line(2, 'F', "two").as_bytes()).unwrap();
        std::fs::write(&path, line(3, 'F', "three")).unwrap();
        std::fs::write(folder.path().join(exit::FILE), "{}").unwrap();
        let rest: Vec<Bytes> = stream.collect().await;
        assert_eq!(rest.concat(), b"two\nthree\n");
    }
}
