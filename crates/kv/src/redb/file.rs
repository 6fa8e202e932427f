//! How the one file is divided: a head, the journal, and behind them what redb sees as its own file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use redb::StorageBackend;

use super::journal::checksum;
use crate::fault::Fault;

/// Writes begin at multiples of this, so that no write touches what an earlier one made durable.
pub(super) const BLOCK: usize = 4096;

const MAGIC: &[u8; 8] = b"thanekv\n";
/// The division itself. A file with another number is refused.
const LAYOUT: u64 = 1;
/// More would only make a file that was not closed cleanly slow to open.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;
const HEAD_BYTES: usize = 32;

/// The file, as far as it is needed: a seam for a disk that loses what was not synced.
pub(super) trait Disk: std::fmt::Debug + Send + Sync + 'static {
    fn length(&self) -> io::Result<u64>;
    fn resize(&self, length: u64) -> io::Result<()>;
    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()>;
    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

impl Disk for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn resize(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(out, at)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(data, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Where the parts of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of the journal, a multiple of [`BLOCK`].
    pub(super) journal_bytes: u64,
}

impl Layout {
    /// A layout with a journal of about so many bytes.
    pub(super) fn new(journal_bytes: usize) -> Self {
        let blocks = (journal_bytes / BLOCK) as u64;
        Self { journal_bytes: blocks.clamp(1, JOURNAL_BYTES_MAX / BLOCK as u64) * BLOCK as u64 }
    }

    /// Where redb's part begins.
    pub(super) fn image_start(self) -> u64 {
        BLOCK as u64 + self.journal_bytes
    }

    /// Writes head and journal of a new file. The journal is written in full: overwriting what is already allocated is
    /// what makes a later sync of it quick.
    pub(super) fn write(self, disk: &dyn Disk) -> io::Result<()> {
        let mut head = vec![0; BLOCK];
        let numbers = [&MAGIC[..], &LAYOUT.to_le_bytes(), &self.journal_bytes.to_le_bytes()].concat();
        head[..numbers.len()].copy_from_slice(&numbers);
        head[numbers.len()..HEAD_BYTES].copy_from_slice(&checksum(&numbers).to_le_bytes());
        disk.write_at(&head, 0)?;
        let zeroes = vec![0; 64 * BLOCK];
        let mut at = BLOCK as u64;
        while at < self.image_start() {
            let count = usize::try_from(self.image_start() - at).unwrap_or(usize::MAX).min(zeroes.len());
            disk.write_at(&zeroes[..count], at)?;
            at += count as u64;
        }
        Ok(())
    }

    /// Reads the head of an existing file.
    pub(super) fn read(disk: &dyn Disk, length: u64) -> Result<Self, Fault> {
        let damaged = |reason: &str| Fault::Damaged(reason.to_owned());
        if length == 0 {
            return Err(damaged("it is empty"));
        }
        let mut head = [0; HEAD_BYTES];
        disk.read_at(&mut head, 0).map_err(|_| damaged("it ends early"))?;
        let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if head[..MAGIC.len()] != MAGIC[..] {
            return Err(damaged("it was made by another program"));
        }
        if number(24) != checksum(&head[..24]) {
            return Err(damaged("its head makes no sense"));
        }
        if number(8) != LAYOUT {
            return Err(Fault::Damaged(format!("its layout is {}, this program reads {LAYOUT}", number(8))));
        }
        let layout = Self { journal_bytes: number(16) };
        if layout.journal_bytes == 0
            || layout.journal_bytes > JOURNAL_BYTES_MAX
            || !layout.journal_bytes.is_multiple_of(BLOCK as u64)
        {
            return Err(damaged("its head makes no sense"));
        }
        if length <= layout.image_start() {
            return Err(damaged("it ends early"));
        }
        Ok(layout)
    }
}

/// Redb's part of the file.
#[derive(Debug)]
pub(super) struct Image {
    disk: Arc<dyn Disk>,
    start: u64,
}

impl Image {
    pub(super) fn new(disk: Arc<dyn Disk>, layout: Layout) -> Self {
        Self { disk, start: layout.image_start() }
    }
}

impl StorageBackend for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.length()?.saturating_sub(self.start))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(out, self.start + offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.resize(self.start + length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write_at(data, self.start + offset)
    }
}
