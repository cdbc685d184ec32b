//! The open ends of pipes of a process.

use std::{collections::BTreeSet, os::unix::fs::MetadataExt, path::PathBuf};

use rustix::fs::{FileType, Stat, stat};

/// A pipe or a named pipe of this machine: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PipeId {
    device: u64,
    inode: u64,
}

/// What a process has open.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenEnds {
    pub(super) read: BTreeSet<PipeId>,
    pub(super) write: BTreeSet<PipeId>,
    /// A descriptor for each end, by which its fill can be read.
    pub(super) descriptors: Vec<(PipeId, PathBuf)>,
    /// Files, sockets and terminals that it can read from, or write to.
    pub(super) other_read: Vec<String>,
    pub(super) other_write: Vec<String>,
}

/// Maximum number of descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;

/// Owner's permissions of a link in /proc/PID/fd: how the file was opened.
const OPEN_TO_READ: u32 = 0o400;
const OPEN_TO_WRITE: u32 = 0o200;

/// The descriptor of messages is no stream: what reads them is no stage, and they are not counted as traffic.
const STANDARD_ERROR: &str = "2";

impl OpenEnds {
    /// `None` if they cannot be read, as of other users' processes.
    pub(super) fn of(pid: i32) -> Option<OpenEnds> {
        let mut ends = OpenEnds::default();
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()?
            .take(DESCRIPTORS_MAX)
        {
            let Ok(entry) = entry else { continue };
            if entry.file_name() == STANDARD_ERROR {
                continue;
            }
            // It may be closed meanwhile.
            let (Ok(link), Ok(file)) = (entry.metadata(), stat(entry.path())) else {
                continue;
            };
            let (reads, writes) = (link.mode() & OPEN_TO_READ != 0, link.mode() & OPEN_TO_WRITE != 0);
            if FileType::from_raw_mode(file.st_mode) == FileType::Fifo {
                ends.add_pipe(&file, entry.path(), reads, writes);
            } else if let Some(name) = other(&entry.path(), &file) {
                if reads {
                    ends.other_read.push(name.clone());
                }
                if writes {
                    ends.other_write.push(name);
                }
            }
        }
        Some(ends)
    }

    fn add_pipe(&mut self, file: &Stat, path: PathBuf, reads: bool, writes: bool) {
        let id = PipeId {
            device: file.st_dev,
            inode: file.st_ino,
        };
        if reads {
            self.read.insert(id);
        }
        if writes {
            self.write.insert(id);
        }
        self.descriptors.push((id, path));
    }
}

/// The name of an open file that can carry traffic; `None` for /dev/null, and for what the kernel made for
/// itself (eventfd, epoll).
fn other(path: &std::path::Path, file: &Stat) -> Option<String> {
    let name = std::fs::read_link(path).ok()?.to_string_lossy().into_owned();
    let kind = FileType::from_raw_mode(file.st_mode);
    let is_device = kind == FileType::CharacterDevice && name == "/dev/null";
    if is_device || kind == FileType::Directory || name.starts_with("anon_inode:") {
        return None;
    }
    let last = name.rsplit('/').next().unwrap_or_default();
    Some(tuner::printable(last).into_owned())
}
