//! Files that readers find whole or not at all, though whoever writes them gives up the right to open files long before.
//!
//! A file is written under another name in the same folder, and gets its own when it is complete. Root that has given up its
//! capabilities may not rename in the folder of another user: there the file has its name from the start, but nobody may read it
//! (nobody but root) until it is complete.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

/// The sticky bit of a folder: what is in it may be replaced by its owner only.
const STICKY: u32 = 0o1000;

/// A file that is being made. Dropped before it is complete it goes away, as far as that is permitted.
#[derive(Debug)]
pub struct Whole {
    file: File,
    name: PathBuf,
    until_complete: Hidden,
}

/// How readers are kept from it.
#[derive(Debug)]
enum Hidden {
    /// It has another name.
    Named(PathBuf),
    /// Nobody may read it.
    Closed,
    /// Not at all: a pipe or a device.
    Open,
}

impl Whole {
    /// Begins the file.
    pub fn create(name: &str) -> io::Result<Whole> {
        // Of a link, what it leads to is replaced and not the link.
        let name = fs::canonicalize(name).unwrap_or_else(|_| PathBuf::from(name));
        if fs::metadata(&name).is_ok_and(|known| !known.is_file()) {
            return Ok(Whole {
                file: OpenOptions::new().write(true).open(&name)?,
                name,
                until_complete: Hidden::Open,
            });
        }
        if !may_rename_later(&name) {
            remove(&name)?;
            return Ok(Whole {
                file: new_file(&name, 0)?,
                name,
                until_complete: Hidden::Closed,
            });
        }
        let draft = draft_of(&name)?;
        // Of a session that was killed, and had our number.
        remove(&draft)?;
        Ok(Whole {
            file: new_file(&draft, 0o666)?,
            name,
            until_complete: Hidden::Named(draft),
        })
    }

    /// Writes all of it: now it is there.
    pub fn complete(mut self, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text)?;
        match std::mem::replace(&mut self.until_complete, Hidden::Open) {
            Hidden::Named(draft) => fs::rename(draft, &self.name),
            Hidden::Closed => self.file.set_permissions(Permissions::from_mode(0o644)),
            Hidden::Open => Ok(()),
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Hidden::Named(draft) = &self.until_complete {
            // What cannot be removed is a hidden file of no use.
            let _ = fs::remove_file(draft);
        }
    }
}

fn new_file(name: &Path, mode: u32) -> io::Result<File> {
    // A name that somebody has put there meanwhile is refused, a link above all.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(name)
}

fn remove(name: &Path) -> io::Result<()> {
    match fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn folder_of(name: &Path) -> &Path {
    match name.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn draft_of(name: &Path) -> io::Result<PathBuf> {
    let last = name.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let draft = format!(".{}.{}", last.to_string_lossy(), std::process::id());
    Ok(folder_of(name).join(draft))
}

/// Whether a file of ours can get this name once root has no more capabilities; others have none now.
fn may_rename_later(name: &Path) -> bool {
    let own = geteuid();
    if !own.is_root() {
        return true;
    }
    let Ok(folder) = fs::metadata(folder_of(name)) else {
        return true;
    };
    if folder.uid() == own.as_raw() {
        return true;
    }
    let is_open = folder.mode() & 0o002 != 0;
    let is_sticky = folder.mode() & STICKY != 0;
    let is_anothers = fs::metadata(name).is_ok_and(|known| known.uid() != own.as_raw());
    is_open && !(is_sticky && is_anothers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_finds_the_old_file_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        fs::write(&name, "old").unwrap();
        let whole = Whole::create(name.to_str().unwrap()).unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"old");
        whole.complete(b"new and longer").unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"new and longer");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn what_was_never_completed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        drop(Whole::create(name.to_str().unwrap()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let (name, link) = (folder.path().join("table.csv"), folder.path().join("newest"));
        fs::write(&name, "old").unwrap();
        std::os::unix::fs::symlink(&name, &link).unwrap();
        let whole = Whole::create(link.to_str().unwrap()).unwrap();
        whole.complete(b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&name).unwrap(), b"new");
        Whole::create("/dev/null").unwrap().complete(b"new").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn in_a_folder_of_another_user_the_file_is_closed_until_it_is_complete_as_root() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(4711), None).unwrap();
        let name = folder.path().join("table.csv");
        fs::write(&name, "old").unwrap();
        let mode = || fs::metadata(&name).unwrap().mode() & 0o777;
        let whole = Whole::create(name.to_str().unwrap()).unwrap();
        assert_eq!(mode(), 0);
        whole.complete(b"new").unwrap();
        assert_eq!((mode(), fs::read(&name).unwrap()), (0o644, b"new".to_vec()));
    }
}
