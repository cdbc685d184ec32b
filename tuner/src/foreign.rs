//! Files that others name: those that a watched program has mapped, debug information, libraries, scripts.
//! The user who runs the program chooses their names and contents, and may have fewer rights than we have.
//!
//! Only regular files are opened. A name is looked up without opening anything (`O_PATH`), and the result is
//! opened once it is known to be a regular file: opening a FIFO would wait for a writer, opening a device can
//! have effects. No other module opens such files.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

/// Bound on links and `..` in one name; for links, the kernel's own.
const DETOURS_MAX: usize = 40;

/// Bound on the parts of a name, including those of its links.
const PARTS_MAX: usize = 4_096;

/// Looks a name up without opening anything.
const LOOKUP: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens the regular file at `path` for reading.
pub fn open(path: &Path) -> io::Result<File> {
    open_found(&openat(CWD, path, LOOKUP, Mode::empty())?)
}

/// Opens the regular file at `path` as seen by a process with the root folder `root`: absolute links and `..`
/// do not lead out of it.
pub(crate) fn open_in(root: &Path, path: &Path) -> io::Result<File> {
    let root = openat(CWD, root, LOOKUP | OFlags::DIRECTORY, Mode::empty())?;
    open_found(&find(&root, path)?)
}

/// Opens what was looked up, if it is a regular file.
fn open_found(found: &OwnedFd) -> io::Result<File> {
    if kind(found)? != FileType::RegularFile {
        let why = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let name = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(openat(CWD, name, flags, Mode::empty())?.into())
}

fn kind(file: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

/// Looks `path` up below `root`, part by part. `openat2` can do the same, but a seccomp filter cannot inspect
/// its flags.
fn find(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut left = parts(path);
    // The path to `here`, without links.
    let mut way: Vec<OsString> = Vec::new();
    let mut here = root.try_clone()?;
    let (mut seen, mut detours) = (0, 0);
    while let Some(part) = left.pop_front() {
        seen += 1;
        if seen > PARTS_MAX || detours > DETOURS_MAX {
            return Err(Errno::LOOP.into());
        }
        let again = if part == ".." {
            way.pop();
            PathBuf::from_iter(std::mem::take(&mut way))
        } else {
            match step(&here, &part, !left.is_empty())? {
                FolderEntry::Found(found) => {
                    here = found;
                    way.push(part);
                    continue;
                }
                FolderEntry::Link(target) if target.is_absolute() => {
                    way.clear();
                    target
                }
                FolderEntry::Link(target) => PathBuf::from_iter(std::mem::take(&mut way)).join(target),
            }
        };
        // Starts at the root again.
        detours += 1;
        here = root.try_clone()?;
        let mut first = parts(&again);
        first.append(&mut left);
        left = first;
    }
    Ok(here)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

/// What a name in a folder is.
enum FolderEntry {
    Found(OwnedFd),
    Link(PathBuf),
}

fn step(folder: &OwnedFd, name: &OsString, is_folder: bool) -> io::Result<FolderEntry> {
    let flags = LOOKUP | OFlags::NOFOLLOW;
    if is_folder {
        // Opening it as a folder mounts it, if it is an automount point.
        match openat(folder, name, flags | OFlags::DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR) => {}
            opened => return Ok(FolderEntry::Found(opened?)),
        }
    }
    let opened = openat(folder, name, flags, Mode::empty())?;
    if kind(&opened)? != FileType::Symlink {
        return Ok(FolderEntry::Found(opened));
    }
    let target = readlinkat(&opened, "", Vec::new())?.into_bytes();
    Ok(FolderEntry::Link(PathBuf::from(OsString::from_vec(target))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(file: io::Result<File>) -> Result<String, io::ErrorKind> {
        let mut text = String::new();
        file.and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|error| error.kind())?;
        Ok(text)
    }

    /// A FIFO without a writer: opening it for reading would block for ever.
    #[test]
    fn a_fifo_and_a_device_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let link = folder.path().join("link");
        symlink("fifo", &link).unwrap();
        for name in [&fifo, &link, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(text(open(name)), Err(io::ErrorKind::InvalidInput), "{name:?}");
            assert_eq!(
                text(open_in(Path::new("/"), name)),
                Err(io::ErrorKind::InvalidInput),
                "{name:?}"
            );
        }
    }

    #[test]
    fn no_name_leads_out_of_the_root_of_a_process() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("lib/deep")).unwrap();
        fs::write(outside.path().join("file"), "outside").unwrap();
        fs::write(root.join("file"), "inside").unwrap();
        let links = [
            ("absolute", "/file"),
            ("up", "../../../../file"),
            ("lib/beside", "../file"),
            ("lib/deep/far", "../../lib/./deep/../beside"),
            ("folder", "/lib"),
        ];
        for (link, target) in links {
            symlink(target, root.join(link)).unwrap();
        }
        let names = [
            "/file",
            "file",
            "../file",
            "/lib/../../../file",
            "/absolute",
            "/up",
            "/lib/beside",
            "/lib/deep/far",
            "/folder/deep/far",
        ];
        for name in names {
            assert_eq!(
                text(open_in(&root, Path::new(name))),
                Ok("inside".into()),
                "{name}"
            );
        }
        let outside = outside.path().join("file");
        assert_eq!(text(open_in(&root, &outside)), Err(io::ErrorKind::NotFound));
        assert_eq!(
            text(open_in(&root, Path::new("/file/x"))),
            Err(io::ErrorKind::NotADirectory)
        );
        assert_eq!(
            text(open_in(&root, Path::new("/"))),
            Err(io::ErrorKind::InvalidInput)
        );
    }

    #[test]
    fn links_that_lead_to_each_other_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        symlink("/b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        let error = open_in(root.path(), Path::new("/a")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn a_mapped_file_that_has_no_name_any_more_is_reached_through_proc() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::write(&file, b"kept").unwrap();
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(text(open(Path::new(&name))), Ok("kept".into()));
    }
}
