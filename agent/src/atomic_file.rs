//! Files that readers find either complete or not at all, even if the writer gives up the right to open files
//! before it completes them.
//!
//! A file is written under a temporary name in the same folder, and renamed when it is complete. Root without
//! capabilities may not rename in the folder of another user. There a new file has its final name from the
//! start, but only root may read it until it is complete; an existing file of that user is rewritten at the
//! end.
//!
//! The folder is opened once, and names are looked up in it without following links. A link as the last part
//! of a name is followed here, by the kernel's rule for sticky folders (`fs.protected_symlinks`) regardless
//! of that setting: links of other users are not followed. A file that is replaced keeps its mode, and its
//! owner if we may change owners.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Permissions},
    io::{self, Write},
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
    process::geteuid,
};

/// The sticky bit of a folder: only the owner of a file in it may replace the file.
const STICKY: u32 = 0o1000;

/// Maximum number of links that the kernel follows in one name.
const LINKS_MAX: usize = 40;

/// The magic number of procfs, whose links are not paths.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// A file that is being written. If it is dropped before it is complete, it is removed if that is permitted.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    file: File,
    place: TargetFile,
    until_complete: Hidden,
}

/// How readers are kept from the incomplete file.
#[derive(Debug)]
enum Hidden {
    Named(OsString),
    /// Not readable. It gets this mode when it is complete.
    Closed(u32),
    /// Not at all, but the old content stays until the new content is complete.
    Rewritten,
    /// Not at all: a pipe or a device.
    Open,
}

impl AtomicFile {
    pub(crate) fn create(name: &str) -> io::Result<AtomicFile> {
        let place = match TargetFile::find(Path::new(name))? {
            Destination::Name(place) => place,
            Destination::Open(file, place) => {
                return Ok(AtomicFile {
                    file,
                    place,
                    until_complete: Hidden::Open,
                });
            }
        };
        let replaced = place.stat()?;
        if let Some(replaced) = &replaced {
            place.refuse_anothers(replaced, "file")?;
            if !is_regular(replaced) {
                let file = place.open(OFlags::WRONLY)?;
                return Ok(AtomicFile {
                    file,
                    place,
                    until_complete: Hidden::Open,
                });
            }
        }
        if place.may_rename_later(replaced.as_ref())? {
            return AtomicFile::beside(place, replaced.as_ref());
        }
        match place.open(OFlags::WRONLY | OFlags::NONBLOCK) {
            Ok(file) if place.is_of_folders_owner(&file)? => Ok(AtomicFile {
                file,
                place,
                until_complete: Hidden::Rewritten,
            }),
            _ => AtomicFile::closed(place, replaced.as_ref()),
        }
    }

    /// Under a temporary name in the same folder.
    fn beside(place: TargetFile, replaced: Option<&Stat>) -> io::Result<AtomicFile> {
        let draft = place.draft();
        // Left by a session with the same process id that was killed.
        place.remove(&draft)?;
        let file = place.new_file(&draft, if replaced.is_some() { 0o600 } else { 0o666 })?;
        let file = AtomicFile {
            file,
            place,
            until_complete: Hidden::Named(draft),
        };
        if let Some(replaced) = replaced {
            keep_owner_and_mode(&file.file, replaced)?;
        }
        Ok(file)
    }

    /// Under its final name, but not readable.
    fn closed(place: TargetFile, replaced: Option<&Stat>) -> io::Result<AtomicFile> {
        place.remove(&place.name)?;
        // Mode 0666 less the umask, as for any new file, so that exactly the same users may read it later.
        let file = place.new_file(&place.name, if replaced.is_some() { 0 } else { 0o666 })?;
        let mode = match replaced {
            Some(replaced) => permissions(replaced),
            None => permissions(&rustix::fs::fstat(&file)?),
        };
        file.set_permissions(Permissions::from_mode(0o0))?;
        Ok(AtomicFile {
            file,
            place,
            until_complete: Hidden::Closed(mode),
        })
    }

    /// Writes the complete content, and makes it visible.
    pub(crate) fn complete(mut self, text: &[u8]) -> io::Result<()> {
        if matches!(self.until_complete, Hidden::Rewritten) {
            self.file.set_len(0)?;
        }
        self.file.write_all(text)?;
        match std::mem::replace(&mut self.until_complete, Hidden::Open) {
            Hidden::Named(draft) => Ok(rustix::fs::renameat(
                &self.place.folder,
                &draft,
                &self.place.folder,
                &self.place.name,
            )?),
            Hidden::Closed(mode) => self.file.set_permissions(Permissions::from_mode(mode)),
            Hidden::Rewritten | Hidden::Open => Ok(()),
        }
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Hidden::Named(draft) = &self.until_complete {
            // If it cannot be removed, a useless hidden file remains.
            let _ = self.place.remove(draft);
        }
    }
}

/// A name in an open folder. It was not a link when it was looked up.
#[derive(Debug)]
struct TargetFile {
    folder: OwnedFd,
    name: OsString,
    shown: PathBuf,
}

/// The destination of a name.
enum Destination {
    Name(TargetFile),
    /// An open descriptor (`/dev/stdout`, `/dev/fd/63`): only the kernel can follow such a link.
    Open(File, TargetFile),
}

impl TargetFile {
    /// Resolves `name`, following links.
    fn find(name: &Path) -> io::Result<Destination> {
        let mut place = TargetFile::below(rustix::fs::CWD, name)?;
        for _ in 0..LINKS_MAX {
            let Some(link) = place.link()? else {
                return Ok(Destination::Name(place));
            };
            if rustix::fs::fstatfs(&link)?.f_type as i64 == PROC_SUPER_MAGIC {
                let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(&place.folder, &place.name, flags, Mode::empty())?;
                return Ok(Destination::Open(opened.into(), place));
            }
            place.refuse_anothers(&rustix::fs::fstat(&link)?, "link")?;
            let target = rustix::fs::readlinkat(&link, "", Vec::new())?.into_bytes();
            place = TargetFile::below(&place.folder, Path::new(&OsString::from_vec(target)))?;
        }
        Err(Errno::LOOP.into())
    }

    /// Opens the folder of `name`; the last part is not resolved. The kernel follows links in the folder's
    /// path, except those that it protects from.
    fn below(folder: impl rustix::fd::AsFd, name: &Path) -> io::Result<TargetFile> {
        let last = name.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(TargetFile {
            folder: rustix::fs::openat(folder, parent, flags, Mode::empty())?,
            name: last,
            shown: name.to_owned(),
        })
    }

    /// Opens the link with this name itself; `None` if it does not exist or is not a link.
    fn link(&self) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
        Ok((kind == FileType::Symlink).then_some(opened))
    }

    /// The current state of this name; `None` if it does not exist.
    fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            stat => Ok(Some(stat?)),
        }
    }

    /// In a sticky folder that is writable for everybody, another user may have planted this file.
    fn refuse_anothers(&self, found: &Stat, what: &str) -> io::Result<()> {
        let folder = rustix::fs::fstat(&self.folder)?;
        let is_shared = folder.st_mode & STICKY != 0 && folder.st_mode & 0o002 != 0;
        let is_anothers = found.st_uid != geteuid().as_raw() && found.st_uid != folder.st_uid;
        if !(is_shared && is_anothers) {
            return Ok(());
        }
        let (name, owner) = (self.shown.display(), found.st_uid);
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{name} is a {what} of user {owner} in a sticky folder that everybody may write: remove it or choose another name"
            ),
        ))
    }

    /// Opens the existing file; fails if it was replaced by a link meanwhile.
    fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Creates a file; fails if the name exists by now, in particular as a link.
    fn new_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::openat(&self.folder, name, flags, mode)?.into())
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    fn draft(&self) -> OsString {
        let mut draft = OsString::from(".");
        draft.push(&self.name);
        draft.push(format!(".{}", std::process::id()));
        draft
    }

    /// Whether a file of ours can be renamed to this name after root has dropped its capabilities. Other
    /// users have none anyway.
    fn may_rename_later(&self, replaced: Option<&Stat>) -> io::Result<bool> {
        let own = geteuid();
        let folder = rustix::fs::fstat(&self.folder)?;
        let is_open = folder.st_mode & 0o002 != 0;
        let is_sticky = folder.st_mode & STICKY != 0;
        let is_anothers = replaced.is_some_and(|known| known.st_uid != own.as_raw());
        Ok(!own.is_root() || folder.st_uid == own.as_raw() || is_open && !(is_sticky && is_anothers))
    }

    /// Whether the file belongs to the owner of the folder and has only one name, so that rewriting it does
    /// not affect other users.
    fn is_of_folders_owner(&self, file: &File) -> io::Result<bool> {
        let file = rustix::fs::fstat(file)?;
        let owner = rustix::fs::fstat(&self.folder)?.st_uid;
        Ok(is_regular(&file) && file.st_nlink == 1 && file.st_uid == owner)
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

/// Gives `file` the mode, the group and the owner of the file that it replaces, as far as permitted.
fn keep_owner_and_mode(file: &File, replaced: &Stat) -> io::Result<()> {
    let own = rustix::fs::fstat(file)?;
    let has_group = own.st_gid == replaced.st_gid
        || rustix::fs::fchown(file, None, Some(Gid::from_raw(replaced.st_gid))).is_ok();
    // Permissions of the old group must not be granted to another group.
    let group = if has_group { 0o070 } else { 0 };
    let mode = permissions(replaced) & (0o707 | group);
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    if own.st_uid != replaced.st_uid {
        // Only root may change owners; for other users the new file belongs to them.
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(replaced.st_uid)), None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, chown, symlink},
    };

    use super::*;

    const ANOTHER: u32 = 65_534;

    fn mode(name: &Path) -> u32 {
        fs::metadata(name).unwrap().mode() & 0o777
    }

    fn set_mode(name: &Path, mode: u32) {
        fs::set_permissions(name, Permissions::from_mode(mode)).unwrap();
    }

    fn is_root() -> bool {
        assert!(
            geteuid().is_root() || std::env::var_os("TUNEAGENT_REQUIRE_ALL").is_none(),
            "this needs root"
        );
        geteuid().is_root()
    }

    #[test]
    fn a_reader_finds_the_old_file_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        fs::write(&name, "old").unwrap();
        let file = AtomicFile::create(name.to_str().unwrap()).unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"old");
        file.complete(b"new and longer").unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"new and longer");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn a_file_that_was_not_completed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        drop(AtomicFile::create(name.to_str().unwrap()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let (name, link) = (folder.path().join("table.csv"), folder.path().join("newest"));
        fs::write(&name, "old").unwrap();
        symlink(&name, &link).unwrap();
        let file = AtomicFile::create(link.to_str().unwrap()).unwrap();
        file.complete(b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&name).unwrap(), b"new");
        AtomicFile::create("/dev/null").unwrap().complete(b"new").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_file_behind_a_descriptor_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        let file = File::create(&name).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        AtomicFile::create(&format!("/proc/self/fd/{number}"))
            .unwrap()
            .complete(b"new")
            .unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"new");
        let (read, write) = rustix::pipe::pipe().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&write);
        AtomicFile::create(&format!("/dev/fd/{number}"))
            .unwrap()
            .complete(b"new")
            .unwrap();
        let mut bytes = [0; 3];
        assert_eq!(rustix::io::read(read, &mut bytes).unwrap(), 3);
    }

    #[test]
    fn links_that_lead_to_each_other_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        symlink(&one, &other).unwrap();
        symlink(&other, &one).unwrap();
        let error = AtomicFile::create(one.to_str().unwrap()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        for kept in [0o600, 0o640, 0o666] {
            fs::write(&name, "old").unwrap();
            set_mode(&name, kept);
            AtomicFile::create(name.to_str().unwrap())
                .unwrap()
                .complete(b"new")
                .unwrap();
            assert_eq!((mode(&name), fs::read(&name).unwrap()), (kept, b"new".to_vec()));
        }
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_owner() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("table.csv");
        fs::write(&name, "old").unwrap();
        chown(&name, Some(ANOTHER), Some(ANOTHER)).unwrap();
        set_mode(&name, 0o640);
        AtomicFile::create(name.to_str().unwrap())
            .unwrap()
            .complete(b"new")
            .unwrap();
        let meta = fs::metadata(&name).unwrap();
        assert_eq!((meta.uid(), meta.gid(), mode(&name)), (ANOTHER, ANOTHER, 0o640));
    }

    #[test]
    fn files_of_other_users_in_a_sticky_folder_are_refused() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        set_mode(folder.path(), 0o1777);
        let own = tempfile::tempdir().unwrap();
        let victim = own.path().join("victim");
        fs::write(&victim, "old").unwrap();
        set_mode(&victim, 0o600);
        let found = folder.path().join("table.csv");
        let named = |name: &Path| AtomicFile::create(name.to_str().unwrap()).map(drop);
        symlink(&victim, &found).unwrap();
        assert!(named(&found).is_ok(), "a link of our own is followed");
        std::os::unix::fs::lchown(&found, Some(ANOTHER), Some(ANOTHER)).unwrap();
        // Regardless of how the link is reached.
        let way = own.path().join("way");
        symlink(&found, &way).unwrap();
        for name in [&found, &way] {
            let error = named(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            assert!(error.to_string().contains("user 65534"), "{error}");
        }
        assert_eq!(
            (mode(&victim), fs::read(&victim).unwrap()),
            (0o600, b"old".to_vec())
        );
        fs::remove_file(&found).unwrap();
        fs::write(&found, "planted").unwrap();
        chown(&found, Some(ANOTHER), None).unwrap();
        assert!(
            named(&found).is_err(),
            "a file of another user is not ours to replace"
        );
        chown(&found, Some(0), None).unwrap();
        assert!(named(&found).is_ok());
    }

    #[test]
    fn in_a_folder_of_another_user_the_file_is_closed_until_it_is_complete() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), Some(ANOTHER), None).unwrap();
        let name = folder.path().join("table.csv");
        let begun = || AtomicFile::create(name.to_str().unwrap()).unwrap();
        let content = || fs::read(&name).unwrap();
        let file = begun();
        assert_eq!(mode(&name), 0);
        file.complete(b"new").unwrap();
        assert_eq!((mode(&name), content()), (0o644, b"new".to_vec()));
        // A file of our own keeps its mode; a file of another user keeps its owner.
        set_mode(&name, 0o600);
        begun().complete(b"newer").unwrap();
        assert_eq!((mode(&name), content()), (0o600, b"newer".to_vec()));
        chown(&name, Some(ANOTHER), None).unwrap();
        let file = begun();
        assert_eq!(content(), b"newer");
        file.complete(b"last").unwrap();
        let owner = fs::metadata(&name).unwrap().uid();
        assert_eq!(
            (owner, mode(&name), content()),
            (ANOTHER, 0o600, b"last".to_vec())
        );
    }
}
