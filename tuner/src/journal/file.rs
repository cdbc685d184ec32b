//! Where the journals are, and how a line is appended.
//!
//! Any number of processes may append: a line is one write(2) to a file opened for appending, under an flock,
//! so that lines do not mix and numbers are given once.

use std::cell::OnceCell;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock, statfs};
use thiserror::Error;

use super::history::{History, JournalChange};
use super::record::{Intent, JournalRecord};
use crate::process::Pid;

/// A longer journal is not appended to: it has about 100 000 changes of one process, and a rule is out of
/// control.
const JOURNAL_BYTES_MAX: u64 = 128 << 20;

/// Initial capacity; most lines are shorter.
const LINE_BYTES: usize = 1024;

/// Bytes of the file that warm-ups append to; it is truncated beyond.
const SCRATCH_BYTES_MAX: u64 = 64 << 10;

/// Why the journal cannot be used. Nothing is written into the target then.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A file or directory is not usable.
    #[error("journal {}: {error}{}", path.display(), elsewhere(error))]
    Io { path: PathBuf, error: io::Error },
    /// Others could change its content.
    #[error("journal directory {}: others may write there; it must be yours, with mode 0700", path.display())]
    Unsafe { path: PathBuf },
    /// It is on a network file system.
    #[error(
        "journal directory {} is on {kind}, a file system of the network: what is written there may come late, or never; set \
         TUNEAGENT_STATE_DIR to a directory of this machine",
        path.display()
    )]
    Remote {
        path: PathBuf,
        /// The name of the file system.
        kind: &'static str,
    },
    /// The disk is full, or the file too long.
    #[error("journal {} is full: make room there, or set TUNEAGENT_STATE_DIR to another place", path.display())]
    Full { path: PathBuf },
    /// There is no place for it.
    #[error("no place for the journal: set TUNEAGENT_STATE_DIR or HOME")]
    NoPlace,
}

/// A hint where the journal may be kept instead.
fn elsewhere(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; set TUNEAGENT_STATE_DIR to a directory of yours",
        _ => "",
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> JournalError {
    move |error| JournalError::Io {
        path: path.to_owned(),
        error,
    }
}

/// The directory where journals are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// Uses `path`. Nothing is created before the first journal is opened for writing.
    pub fn at(path: impl Into<PathBuf>) -> StateDir {
        StateDir(path.into())
    }

    /// The default: $TUNEAGENT_STATE_DIR, else /var/lib/tuneagent for root, else $XDG_STATE_HOME/tuneagent or
    /// ~/.local/state/tuneagent.
    pub fn usual() -> Result<StateDir, JournalError> {
        let variable = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        if let Some(path) = variable("TUNEAGENT_STATE_DIR") {
            return Ok(StateDir(path));
        }
        if rustix::process::geteuid().is_root() {
            return Ok(StateDir(PathBuf::from("/var/lib/tuneagent")));
        }
        let base =
            variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
        base.map(|base| StateDir(base.join("tuneagent")))
            .ok_or(JournalError::NoPlace)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the journal of a process, whether it exists or not. Start times count from boot, so the
    /// name includes the boot id.
    pub fn journal_path(&self, pid: Pid) -> PathBuf {
        let boot = boot_id();
        let boot = boot.get(..8).unwrap_or("unknown");
        self.0
            .join("journal")
            .join(format!("{boot}-{}-{}.jsonl", pid.number, pid.start_time))
    }

    /// The journal of a process; empty if it has none. Does not write.
    pub fn history(&self, pid: Pid) -> Result<History, JournalError> {
        read(&self.journal_path(pid))
    }

    /// All journals of this directory, including those of processes that ended, newest first.
    pub fn histories(&self) -> Result<Vec<(PathBuf, History)>, JournalError> {
        let directory = self.0.join("journal");
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            result => result.map_err(io_error(&directory))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(io_error(&directory))?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                let modified = fs::metadata(&path)
                    .and_then(|meta| meta.modified())
                    .map_err(io_error(&path))?;
                found.push((modified, path));
            }
        }
        found.sort();
        found
            .into_iter()
            .rev()
            .map(|(_, path)| read(&path).map(|history| (path, history)))
            .collect()
    }

    fn create(&self) -> Result<(), JournalError> {
        for directory in [self.0.clone(), self.0.join("journal")] {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
            created.map_err(io_error(&directory))?;
            let meta = fs::metadata(&directory).map_err(io_error(&directory))?;
            let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
            if !is_ours || meta.permissions().mode() & 0o022 != 0 {
                return Err(JournalError::Unsafe { path: directory });
            }
            let system = statfs(&directory).map_err(|errno| io_error(&directory)(errno.into()))?;
            if let Some(kind) = network(system.f_type as u32) {
                return Err(JournalError::Remote {
                    path: directory,
                    kind,
                });
            }
        }
        Ok(())
    }
}

/// The name of a network file system. FUSE file systems do not state whether they are one.
fn network(kind: u32) -> Option<&'static str> {
    Some(match kind {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x00c3_6400 => "CephFS",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x2003_0528 => "OrangeFS",
        0xaad7_aaea => "PanFS",
        _ => return None,
    })
}

/// Read once: we do not outlive a boot.
pub(crate) fn boot_id() -> &'static str {
    static KNOWN: OnceLock<String> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let read = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        read.unwrap_or_default().trim().to_owned()
    })
}

fn read(path: &Path) -> Result<History, JournalError> {
    match fs::read(path) {
        Ok(text) => Ok(History::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(History::default()),
        Err(error) => Err(JournalError::Io {
            path: path.to_owned(),
            error,
        }),
    }
}

/// The journal of one process, open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    history: History,
    read_to: u64,
    ends_in_line: bool,
    /// Where warm-ups write lines; `None` if the file system does not support it.
    scratch: OnceCell<Option<File>>,
}

impl Journal {
    /// Opens the journal of a process, and creates it if needed.
    pub fn open(state: &StateDir, pid: Pid) -> Result<Journal, JournalError> {
        state.create()?;
        let path = state.journal_path(pid);
        let options = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .to_owned();
        let file = options
            .clone()
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(io_error(&path))?;
        let mut journal = Journal {
            path,
            file,
            history: History::default(),
            read_to: 0,
            ends_in_line: true,
            scratch: OnceCell::new(),
        };
        journal.refresh()?;
        Ok(journal)
    }

    /// Its content, as of the last append or opening.
    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn change(&self, number: u64) -> Option<JournalChange> {
        self.history.change(number)
    }

    /// Reads what others have appended.
    pub(crate) fn refresh(&mut self) -> Result<(), JournalError> {
        self.locked(|_| Ok(()))
    }

    /// Appends an intent under the next number, and returns the number.
    pub fn announce(&mut self, intent: Intent) -> Result<u64, JournalError> {
        self.locked(|journal| {
            let (change, record) = journal.numbered(intent);
            journal.write(record)?;
            Ok(change)
        })
    }

    /// The warm-up of an announcement: appends the line to an unnamed file in the same directory that is
    /// never read.
    pub(crate) fn warm_up(&self, intent: Intent) -> Result<(), JournalError> {
        let line = self.line(&self.numbered(intent).1)?;
        if let Some(scratch) = self.scratch.get_or_init(|| self.nameless()) {
            // The result is not needed.
            let _ = append_for_warm_up(scratch, &line);
        }
        Ok(())
    }

    /// A file on the journal's file system that vanishes when it is closed.
    fn nameless(&self) -> Option<File> {
        let mut options = OpenOptions::new();
        options.append(true).mode(0o600).custom_flags(libc::O_TMPFILE);
        options.open(self.path.parent()?).ok()
    }

    fn numbered(&self, intent: Intent) -> (u64, JournalRecord) {
        let change = self.history.newest() + 1;
        (
            change,
            JournalRecord::Intent(Box::new(Intent { change, ..intent })),
        )
    }

    pub fn append(&mut self, record: JournalRecord) -> Result<(), JournalError> {
        self.locked(|journal| journal.write(record))
    }

    fn locked<T>(
        &mut self,
        act: impl FnOnce(&mut Journal) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let lock = |journal: &Journal, operation| {
            flock(&journal.file, operation).map_err(|errno| io_error(&journal.path)(errno.into()))
        };
        lock(self, FlockOperation::LockExclusive)?;
        let result = self.catch_up().and_then(|()| act(self));
        lock(self, FlockOperation::Unlock)?;
        result
    }

    /// Reads what others have appended.
    fn catch_up(&mut self) -> Result<(), JournalError> {
        let length = self.file.metadata().map_err(io_error(&self.path))?.len();
        if length > self.read_to {
            let mut text = vec![0; (length - self.read_to) as usize];
            self.file
                .read_exact_at(&mut text, self.read_to)
                .map_err(io_error(&self.path))?;
            self.history.extend(&text);
            self.ends_in_line = text.last() == Some(&b'\n');
            self.read_to = length;
        }
        Ok(())
    }

    /// A record as a line. After a torn line it starts with a newline, so that only the torn one is lost.
    fn line(&self, record: &JournalRecord) -> Result<Vec<u8>, JournalError> {
        if self.read_to > JOURNAL_BYTES_MAX {
            return Err(JournalError::Full {
                path: self.path.clone(),
            });
        }
        let mut line = Vec::with_capacity(LINE_BYTES);
        if !self.ends_in_line {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, record).map_err(|error| io_error(&self.path)(error.into()))?;
        line.push(b'\n');
        Ok(line)
    }

    fn write(&mut self, record: JournalRecord) -> Result<(), JournalError> {
        let line = self.line(&record)?;
        let full = || JournalError::Full {
            path: self.path.clone(),
        };
        let written = self.file.write(&line).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(),
            _ => io_error(&self.path)(error),
        })?;
        if written != line.len() {
            return Err(full());
        }
        let length = self.file.metadata().map_err(io_error(&self.path))?.len();
        if !self.ends_in_line || length != self.read_to + line.len() as u64 {
            return self.catch_up();
        }
        // The file has grown by exactly this line, so nothing has to be read.
        self.history.add(record);
        self.read_to = length;
        Ok(())
    }
}

/// All system calls of an announcement.
fn append_for_warm_up(mut scratch: &File, line: &[u8]) -> io::Result<()> {
    flock(scratch, FlockOperation::LockExclusive)?;
    if scratch.metadata()?.len() > SCRATCH_BYTES_MAX {
        scratch.set_len(0)?;
    }
    scratch.write_all(line)?;
    scratch.metadata()?;
    Ok(flock(scratch, FlockOperation::Unlock)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_the_network_is_distinguished_from_one_of_this_machine() {
        let (ext, tmpfs, overlay, xfs, btrfs) = (0xef53, 0x0102_1994, 0x794c_7630, 0x5846_5342, 0x9123_683e);
        for kind in [ext, tmpfs, overlay, xfs, btrfs] {
            assert_eq!(network(kind), None, "{kind:#x}");
        }
        assert_eq!(network(0x6969), Some("NFS"));
        assert_eq!(network(0x0bd0_0bd0), Some("Lustre"));
        let error = JournalError::Remote {
            path: PathBuf::from("/home/ana/.local/state/tuneagent"),
            kind: "NFS",
        };
        assert!(error.to_string().contains("is on NFS"), "{error}");
        assert!(error.to_string().contains("TUNEAGENT_STATE_DIR"), "{error}");
        let here = tempfile::tempdir().unwrap();
        StateDir::at(here.path().join("state")).create().unwrap();
    }
}
