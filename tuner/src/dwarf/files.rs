//! Finds debug information outside of a file: a separate file (by build id or debug link), the file that
//! several of those share (dwz), and the compiler's `.dwo` and `.dwp` files. Opens files, and reads them only
//! for checksums.
//!
//! A file is accepted only with the same build id, or with the checksum that the debug link states. Names are
//! looked up in the root folder of the process first, since a container has its own, then in ours.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::file::DebugFile;
use crate::elf::{BuildId, Elf};
use crate::foreign;

/// Where a file was found, to find the files that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The root folders in which names are looked up, in order.
    pub roots: Vec<PathBuf>,
    /// Its path below them.
    pub path: PathBuf,
}

const DEBUG: &str = "/usr/lib/debug";

impl Origin {
    /// A file of this machine.
    pub fn here(path: &Path) -> Origin {
        Origin {
            roots: vec![PathBuf::from("/")],
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        }
    }

    /// A regular file below the roots. Names and links are resolved inside of a root.
    fn open(&self, path: &Path) -> Option<File> {
        self.roots
            .iter()
            .find_map(|root| foreign::open_in(root, path).ok())
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// The file that has the debug information stripped from `image`.
pub(crate) fn separate(image: &DebugFile) -> Option<DebugFile> {
    let origin = &image.origin;
    let by_id = image.build_id().and_then(|id| {
        let path = by_build_id(&id.to_string())?;
        open_if(origin, &path, |found| found.build_id() == Some(id))
    });
    by_id.or_else(|| by_link(image))
}

fn by_build_id(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(format!("{DEBUG}/.build-id/{first}/{rest}.debug").into())
}

fn open_if(origin: &Origin, path: &Path, belongs: impl Fn(&Elf) -> bool) -> Option<DebugFile> {
    let found = Elf::read(origin.open(path)?).ok()?;
    belongs(&found).then(|| {
        let origin = Origin {
            roots: origin.roots.clone(),
            path: path.to_path_buf(),
        };
        DebugFile::new(found, origin)
    })
}

/// The debug link: a name, zeros up to a multiple of four, and the CRC-32 of the file.
fn by_link(image: &DebugFile) -> Option<DebugFile> {
    let link = image.section_bytes(".gnu_debuglink").ok()?;
    let (name, sum) = parse_link(&link)?;
    let origin = &image.origin;
    let folder = origin.folder();
    let global = Path::new(DEBUG).join(folder.strip_prefix("/").unwrap_or(folder));
    [
        folder.join(name),
        folder.join(".debug").join(name),
        global.join(name),
    ]
    .iter()
    .filter(|path| **path != origin.path)
    .find_map(|path| {
        open_if(origin, path, |found| match (image.build_id(), found.build_id()) {
            (Some(id), Some(other)) => id == other,
            _ => crc32(found.file()) == Some(sum),
        })
    })
}

fn parse_link(link: &[u8]) -> Option<(&str, u32)> {
    let end = link.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(link.get(..end)?).ok()?;
    let at = (end + 1).next_multiple_of(4);
    let sum = link.get(at..at + 4)?.try_into().ok()?;
    // A name, not a path.
    (!name.is_empty() && !name.contains('/')).then_some((name, u32::from_le_bytes(sum)))
}

/// Bytes of the longest file that is read for its checksum.
const SUMMED_BYTES_MAX: u64 = 4 << 30;

fn crc32(mut file: &File) -> Option<u32> {
    use std::io::Seek;
    file.metadata()
        .ok()
        .filter(|meta| meta.len() <= SUMMED_BYTES_MAX)?;
    file.rewind().ok()?;
    let mut hasher = crc32fast::Hasher::new();
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block).ok()? {
            0 => return Some(hasher.finalize()),
            count => hasher.update(block.get(..count)?),
        }
    }
}

/// The file with which `image`, a file of debug information, shares parts (dwz): a name and a build id in
/// `.gnu_debugaltlink`.
pub(crate) fn supplementary(image: &DebugFile) -> Option<DebugFile> {
    let link = image.section_bytes(".gnu_debugaltlink").ok()?;
    let end = link.iter().position(|byte| *byte == 0)?;
    let name = Path::new(std::str::from_utf8(link.get(..end)?).ok()?);
    let id: String = link
        .get(end + 1..)?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let is_it = |found: &Elf| found.build_id().map(BuildId::to_string).as_deref() == Some(&id);
    let named = open_if(&image.origin, &image.origin.folder().join(name), is_it);
    named.or_else(|| open_if(&image.origin, &by_build_id(&id)?, is_it))
}

/// The `.dwp` file with all `.dwo` files of a program, next to the program or its debug file.
pub(crate) fn package(image: &DebugFile) -> Option<DebugFile> {
    let mut path = image.origin.path.clone().into_os_string();
    path.push(".dwp");
    open_if(&image.origin, Path::new(&path), |_| true)
}

/// The `.dwo` file of one unit: where it was compiled, or next to the program.
pub(crate) fn split(image: &DebugFile, compiled_in: &str, name: &str) -> Option<DebugFile> {
    let compiled = Path::new(compiled_in).join(name);
    let beside = image.origin.folder().join(Path::new(name).file_name()?);
    [compiled, beside]
        .iter()
        .find_map(|path| open_if(&image.origin, path, |_| true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_debug_link_is_a_name_and_a_sum() {
        assert_eq!(parse_link(b"a.debug\0\x01\0\0\0"), Some(("a.debug", 1)));
        assert_eq!(parse_link(b"ab\0\0\x02\0\0\0"), Some(("ab", 2)));
        assert_eq!(parse_link(b"../evil\0\x01\0\0\0"), None);
        assert_eq!(parse_link(b"a.debug"), None);
    }

    proptest! {
        #[test]
        fn no_link_makes_the_search_panic(bytes in proptest::collection::vec(0u8..4, 0..24)) {
            let _ = parse_link(&bytes);
        }
    }
}
