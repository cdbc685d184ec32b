//! The folder of the sockets: a folder of the user that other users may not enter.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// It cannot be used.
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// It belongs to another user, or others may enter it.
    #[error("{}: it must be yours, with mode 0700", path.display())]
    Unsafe { path: PathBuf },
}

/// The folder of the caller's sockets: `tuneagent` in $XDG_RUNTIME_DIR, or for root in /run; otherwise a
/// folder in /tmp.
pub(crate) fn folder() -> PathBuf {
    let own = geteuid();
    let runtime = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    // Under sudo the variable may name the folder of another user, which root must not use.
    let is_ours = |path: &PathBuf| !own.is_root() || fs::metadata(path).is_ok_and(|meta| meta.uid() == 0);
    match runtime.filter(is_ours) {
        Some(path) => path.join("tuneagent"),
        None if own.is_root() => PathBuf::from("/run/tuneagent"),
        None => env::temp_dir().join(format!("tuneagent-{}", own.as_raw())),
    }
}

/// Creates the folder if it is missing, and refuses one that others may enter.
pub(super) fn create(path: &Path) -> Result<(), FolderError> {
    let io_error = |error| FolderError::Io {
        path: path.to_owned(),
        error,
    };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error(error)),
        _ => {}
    }
    // Does not follow a link, which another user could have created in /tmp.
    let meta = fs::symlink_metadata(path).map_err(io_error)?;
    if meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(FolderError::Unsafe {
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_may_enter_or_that_is_a_link_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let made = base.path().join("made");
        create(&made).unwrap();
        create(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&made, &link).unwrap();
        assert!(matches!(create(&link), Err(FolderError::Unsafe { .. })));
        fs::set_permissions(&made, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(create(&made), Err(FolderError::Unsafe { .. })));
        assert!(matches!(
            create(&base.path().join("no/such")),
            Err(FolderError::Io { .. })
        ));
    }
}
