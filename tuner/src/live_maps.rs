//! The mappings of one address space, one at a time: cheap enough to be read at every write.
//!
//! Kernels since 6.11 have a query for one address (PROCMAP_QUERY, half a microsecond). On older ones the
//! text is read up to the mapping: those of the program are at its begin, those of libraries far behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::address::{Address, FileOffset};
use crate::maps::{self, Backing, Device, Mapping, Permissions};
use crate::memory::MemoryError;
use crate::process::Pid;
use crate::space::SpaceError;
use crate::sys::{self, MappingQuery};

/// Bytes of the text that are read at once, which is also the kernel's own unit.
const PIECE_BYTES: usize = 4096;

/// An open /proc/PID/maps. Like an open /proc/PID/mem, it is bound to the address space that it was opened
/// for.
#[derive(Debug)]
pub(crate) struct LiveMaps {
    pid: Pid,
    file: File,
}

impl LiveMaps {
    /// For the program that the process runs now.
    pub(crate) fn open(pid: Pid) -> Result<LiveMaps, SpaceError> {
        let path = pid.proc_path("maps");
        let file = File::open(&path).map_err(|source| pid.io_error(&path, source))?;
        Ok(LiveMaps { pid, file })
    }

    /// The mapping that has the byte at `address`. A mapping without a file may lack its name.
    pub(crate) fn at(&self, address: Address) -> Result<Option<Mapping>, SpaceError> {
        match sys::mapping(&self.file, address.0) {
            Ok(found) => Ok(Some(mapping(&found))),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(None),
                Some(libc::ESRCH) => Err(MemoryError::Gone { pid: self.pid }.into()),
                // The kernel has no such query, or a seccomp filter does not permit it.
                _ => self.at_in_text(address),
            },
        }
    }

    fn at_in_text(&self, address: Address) -> Result<Option<Mapping>, SpaceError> {
        let mut found = None;
        self.read(|mapping| {
            let is_it = mapping.contains(address, 1);
            let is_behind = mapping.start > address;
            found = is_it.then_some(mapping);
            is_it || is_behind
        })?;
        Ok(found)
    }

    /// All mappings, by address.
    pub(crate) fn all(&self) -> Result<Vec<Mapping>, SpaceError> {
        let mut all = Vec::new();
        self.read(|mapping| {
            all.push(mapping);
            false
        })?;
        Ok(all)
    }

    /// Passes each mapping, by address, to `is_enough` until that returns true.
    fn read(&self, mut is_enough: impl FnMut(Mapping) -> bool) -> Result<(), SpaceError> {
        let pid = self.pid;
        let (mut text, mut piece, mut offset) = (Vec::new(), [0; PIECE_BYTES], 0);
        loop {
            let count = match self.file.read_at(&mut piece, offset) {
                Ok(0) if offset > 0 => return Ok(()),
                Ok(0) => return Err(MemoryError::Gone { pid }.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(pid.io_error(pid.proc_path("maps"), error).into()),
            };
            offset += count as u64;
            text.extend_from_slice(&piece[..count]);
            let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
                continue;
            };
            let lines: Vec<u8> = text.drain(..=end).collect();
            let found = maps::parse(&String::from_utf8_lossy(&lines));
            for mapping in found.map_err(|error| SpaceError::Maps { pid, error })? {
                if is_enough(mapping) {
                    return Ok(());
                }
            }
        }
    }
}

fn mapping(found: &MappingQuery) -> Mapping {
    let may = |flag| found.flags & flag != 0;
    Mapping {
        start: Address(found.start),
        end: Address(found.end),
        permissions: Permissions {
            read: may(MappingQuery::READABLE),
            write: may(MappingQuery::WRITABLE),
            execute: may(MappingQuery::EXECUTABLE),
            shared: may(MappingQuery::SHARED),
        },
        offset: FileOffset(found.offset),
        device: Device {
            major: found.device_major,
            minor: found.device_minor,
        },
        inode: found.inode,
        backing: match found.inode {
            0 => Backing::Anonymous,
            _ => Backing::File {
                path: Arc::from(""),
                deleted: false,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mapping_is_the_same_by_question_by_its_line_and_among_all() {
        let status = std::fs::read_to_string("/proc/self/stat").unwrap();
        let number = std::process::id().cast_signed();
        let start_time = status
            .rsplit_once(')')
            .unwrap()
            .1
            .split_ascii_whitespace()
            .nth(19);
        let start_time = start_time.unwrap().parse().unwrap();
        let live = LiveMaps::open(Pid { number, start_time }).unwrap();
        let of = |mapping: &Mapping| {
            let is_file = matches!(mapping.backing, Backing::File { .. });
            (
                mapping.start,
                mapping.permissions,
                mapping.offset,
                mapping.device,
                mapping.inode,
                is_file,
            )
        };
        static DATA: u64 = 7;
        let code: fn() = one_mapping_is_the_same_by_question_by_its_line_and_among_all;
        for address in [std::ptr::from_ref(&DATA).addr(), code as usize] {
            let address = Address(address as u64);
            let among = live.all().unwrap();
            let among = among.iter().find(|mapping| mapping.contains(address, 1)).unwrap();
            assert_eq!(of(&live.at(address).unwrap().unwrap()), of(among));
            assert_eq!(of(&live.at_in_text(address).unwrap().unwrap()), of(among));
        }
        assert_eq!(live.at(Address(4096)).unwrap(), None);
        assert_eq!(live.at_in_text(Address(4096)).unwrap(), None);
    }
}
