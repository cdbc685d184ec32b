//! Reads the policy of the node from its file, which only root may be able to write.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rules::{Diagnostic, policy::NodePolicy};
use tuner::foreign;

/// Upper bound of the bytes that are read.
const BYTES_MAX: u64 = 64 << 10;

/// Permission bits of the group and of others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub(super) enum PolicyError {
    #[error("the policy {} cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("the policy {} is no regular file; remove it, or write one in its place", path.display())]
    NoFile { path: PathBuf },
    #[error(
        "{} or its folder can be written by others than root, so it is no policy: both must belong to root, and chmod go-w",
        path.display()
    )]
    Writable { path: PathBuf },
    #[error("the policy {} has mistakes", path.display())]
    Wrong {
        path: PathBuf,
        text: String,
        wrong: Vec<Diagnostic>,
    },
}

/// The policy in this file; the default if there is none.
///
/// # Errors
/// If the file is not a regular one, can be written by others than root, or has a mistake.
pub(super) fn read(path: &Path) -> Result<NodePolicy, PolicyError> {
    let unreadable = |error| PolicyError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let is_file = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NodePolicy::default()),
        found => found.map_err(unreadable)?.is_file(),
    };
    if !is_file {
        return Err(PolicyError::NoFile {
            path: path.to_owned(),
        });
    }
    let file = foreign::open(path).map_err(unreadable)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or(Path::new("."))).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    let is_roots = |meta: &fs::Metadata| meta.uid() == 0 && meta.mode() & WRITABLE_BY_OTHERS == 0;
    if !is_roots(&meta) || !is_roots(&folder) {
        return Err(PolicyError::Writable {
            path: path.to_owned(),
        });
    }
    let text = text(&file).map_err(unreadable)?;
    NodePolicy::parse(&text).map_err(|wrong| PolicyError::Wrong {
        path: path.to_owned(),
        text,
        wrong,
    })
}

fn text(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// The kind of refusal: its first letter; `p` for a policy.
    fn kind(path: &Path) -> char {
        match read(path) {
            Ok(_) => 'p',
            Err(PolicyError::Unreadable { .. }) => 'u',
            Err(PolicyError::NoFile { .. }) => 'n',
            Err(PolicyError::Writable { .. }) => 'w',
            Err(PolicyError::Wrong { .. }) => 'm',
        }
    }

    #[test]
    fn only_a_regular_file_that_root_alone_can_write_is_a_policy() -> tuneagent_e2e::Outcome {
        tuneagent_e2e::require!(Root);
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        let (good, wrong) = (at("good"), at("wrong"));
        fs::write(&good, "watch: none\n")?;
        fs::write(&wrong, "wacht: none\n")?;
        let mode = |bits: u32| fs::set_permissions(&good, fs::Permissions::from_mode(bits));
        mode(0o644)?;
        assert_eq!(read(&at("absent")).ok(), Some(NodePolicy::default()));
        assert!(read(&good).is_ok_and(|policy| !policy.watches_own));
        assert_eq!(kind(&wrong), 'm');
        symlink(&good, at("link"))?;
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        fs::create_dir(at("folder"))?;
        let kinds = ["link", "fifo", "folder"].map(|name| kind(&at(name)));
        assert_eq!(kinds, ['n', 'n', 'n']);
        for bits in [0o664, 0o646] {
            mode(bits)?;
            assert_eq!(kind(&good), 'w', "{bits:o}");
        }
        mode(0o644)?;
        chown(&good, Some(54_321), None)?;
        assert_eq!(kind(&good), 'w');
        chown(&good, Some(0), None)?;
        // A user who can write into the folder can replace the file.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        assert_eq!(kind(&good), 'w');
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        assert_eq!(kind(&good), 'p');
        Ok(())
    }
}
