//! Names of output files: each output has its own, and one that cannot be written has the reason in words.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::exit::Failure;

/// The name that stands for standard output.
pub(crate) const STDOUT: &str = "-";

/// Refuses outputs that would be written to the same place. Each is a flag and what was typed after it, in
/// which `%h` is the host's name.
pub(crate) fn refuse_shared(outputs: &[(&'static str, Option<&str>)], host: &str) -> Result<(), Failure> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    for (flag, name) in outputs {
        let Some(place) = name.and_then(|name| place(&name.replace("%h", host))) else {
            continue;
        };
        if let Some((other, _)) = known.iter().find(|(_, other)| *other == place) {
            return Err(Failure::invalid(match place.to_str() {
                Some(STDOUT) => {
                    format!("{other} and {flag} cannot both use standard output: give one of them a file")
                }
                _ => format!(
                    "{other} and {flag} cannot both be written to {}: give one of them another file",
                    name.unwrap_or_default()
                ),
            }));
        }
        known.push((flag, place));
    }
    Ok(())
}

/// Refuses an output that would overwrite a file that is read.
pub(crate) fn refuse_overwriting(
    outputs: &[(&'static str, Option<&str>)],
    input: &Path,
) -> Result<(), Failure> {
    let input = input.to_str().and_then(place);
    let same = outputs
        .iter()
        .find(|(_, name)| input.is_some() && name.and_then(place) == input);
    match same {
        Some((flag, name)) => Err(Failure::invalid(format!(
            "{flag} would overwrite {}, which is read: give it another file",
            name.unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// What identifies a file, whether or not it exists; `None` for pipes and devices, which take any number of
/// outputs.
fn place(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    if name == STDOUT {
        return Some(path.to_owned());
    }
    if let Ok(existing) = path.canonicalize() {
        return existing.is_file().then_some(existing);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    Some(folder.ok()?.join(path.file_name()?))
}

/// A file could not be opened for writing.
pub(crate) fn cannot_be_written(name: &str, error: &io::Error) -> Failure {
    Failure::invalid(format!("{name} cannot be written: {}", reason(name, error)))
}

/// Why a file cannot be written, without the error number of the operating system where words say it.
pub(crate) fn reason(name: &str, error: &io::Error) -> String {
    let folder = Path::new(name).parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match error.kind() {
        // It has words of its own.
        _ if error.get_ref().is_some() => error.to_string(),
        io::ErrorKind::NotFound if !folder.exists() => format!("there is no folder {}", folder.display()),
        io::ErrorKind::NotFound => format!("{} takes no new files", folder.display()),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => format!("{} is not a folder", folder.display()),
        io::ErrorKind::PermissionDenied if fs::metadata(name).is_ok() => {
            "you have no right to write this file".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("you have no right to write in {}", folder.display()),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_never_have_the_same_file_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        fs::write(named("old"), "x").unwrap();
        std::os::unix::fs::symlink(named("old"), named("link")).unwrap();
        let (new, other) = (named("new"), named("other"));
        // The names of three outputs, and the beginning of the refusal.
        let rows = [
            (
                [Some("-"), None, Some("-")],
                "--json and --html cannot both use standard output",
            ),
            (
                [Some(&*new), Some(&*new), None],
                "--json and --csv cannot both be written to ",
            ),
            (
                [None, Some(&*named("./new")), Some(&*new)],
                "--csv and --html cannot both be ",
            ),
            (
                [Some(&*named("%h")), Some(&*named("here")), None],
                "--json and --csv cannot both be ",
            ),
            (
                [Some(&*named("old")), Some(&*named("link")), None],
                "--json and --csv cannot both be ",
            ),
            ([Some(&*new), Some(&*other), Some("-")], ""),
            ([Some("/dev/null"), Some("/dev/null"), None], ""),
            ([Some("/nowhere/a"), Some("/nowhere/a"), None], ""),
        ];
        for ([json, csv, html], wanted) in rows {
            let outputs = [("--json", json), ("--csv", csv), ("--html", html)];
            let said = refuse_shared(&outputs, "here")
                .err()
                .map(|failure| failure.error.message);
            let said = said.unwrap_or_default();
            assert!(
                said.starts_with(wanted) && said.is_empty() == wanted.is_empty(),
                "{outputs:?}: {said}"
            );
        }
    }

    #[test]
    fn a_file_that_is_read_is_not_overwritten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().to_str().unwrap();
        let outputs = [("--csv", Some("-")), ("--json", Some(name))];
        let failure = refuse_overwriting(&outputs, file.path()).unwrap_err();
        assert!(
            failure.error.message.starts_with("--json would overwrite "),
            "{}",
            failure.error.message
        );
        assert!(refuse_overwriting(&outputs[..1], file.path()).is_ok());
        assert!(refuse_overwriting(&outputs, Path::new("/nowhere/a")).is_ok());
    }

    #[test]
    fn why_a_file_cannot_be_written_is_said_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().display();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for (name, wanted) in [
            ("/nowhere/a".to_owned(), "there is no folder /nowhere".to_owned()),
            ("/proc/x.rec".to_owned(), "/proc takes no new files".to_owned()),
            (shown.to_string(), "it is a folder".to_owned()),
            (format!("{shown}/file/a"), format!("{shown}/file is not a folder")),
        ] {
            let error = fs::File::create(&name).unwrap_err();
            assert_eq!(reason(&name, &error), wanted);
            let failure = cannot_be_written(&name, &error);
            assert_eq!(
                failure.error.message,
                format!("{name} cannot be written: {wanted}")
            );
        }
    }
}
