//! Predicts the files that the processes of a command will use: those named on its command line, the
//! libraries they need, and the possible MPI of its launcher. Nothing is executed: a word may name a file
//! that is only data for the command. Files that are missed here are found when the process exists.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use clap::Args;
use job::is_launcher;
use profile::format::suggestion;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use tuner::{Search, foreign};

use super::Environment;
use crate::{
    cli::RunArgs,
    exit::{Code, Failure},
};

/// Maximum number of words of a command that are checked, since a list of input files may be long.
const WORDS_MAX: usize = 256;

/// Maximum length of the first line of a script, as in the kernel.
const LINE_BYTES: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExpectedFiles {
    /// Each program and the libraries that it needs; the program comes first.
    pub(super) programs: Vec<Vec<String>>,
    /// The launcher among them, by its file name.
    pub(super) launcher: Option<String>,
    /// Possible MPI libraries of the launcher, the most likely first.
    pub(super) mpi: Vec<String>,
}

impl ExpectedFiles {
    pub(super) fn of(command: &[OsString], environment: &Environment) -> ExpectedFiles {
        let mut found = ExpectedFiles::default();
        let search = Search::of(|name| environment.variable(name));
        let mut known = BTreeSet::new();
        for file in command.iter().take(WORDS_MAX).filter_map(|word| named(word)) {
            // A script runs in its interpreter.
            let Some(program) = program_of(&file).filter(|program| known.insert(program.clone())) else {
                continue;
            };
            let needed = search.needed(&program);
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            if found.launcher.is_none() && is_launcher(&name) {
                found.mpi = near_launcher(&program, &needed, &search);
                found.launcher = Some(name.into_owned());
            }
            found
                .programs
                .push(needed.iter().map(|file| shown(file)).collect());
        }
        found
    }
}

/// The options of `run`, which come before its command.
fn options() -> impl Iterator<Item = String> {
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let long = |option: &clap::Arg| option.get_long().map(|name| format!("--{name}"));
    let options: Vec<_> = command.get_arguments().filter_map(long).collect();
    options.into_iter()
}

/// The program of a command's first word, as a shell finds it.
pub(super) fn program(word: &OsStr) -> Result<PathBuf, Failure> {
    let shown = word.to_string_lossy();
    let found: Vec<PathBuf> = candidates(word)
        .into_iter()
        .filter(|file| file.exists())
        .collect();
    if let Some(program) = found.iter().find(|file| is_executable(file)) {
        return Ok(program.clone());
    }
    Err(match found.first() {
        Some(file) => Failure::new(
            Code::NOT_EXECUTABLE,
            format!("{} exists, but you may not execute it", file.display()),
        ),
        None if word.as_bytes().contains(&b'/') => {
            Failure::new(Code::NO_COMMAND, format!("{shown}: there is no such file"))
        }
        None if shown.starts_with('-') => {
            let near = match &*shown {
                "--plain" => ": it prints lines without it".to_owned(),
                _ => suggestion(options(), &shown),
            };
            Failure::new(Code::NOT_STARTED, format!("run has no option {shown}{near}"))
        }
        None => Failure::new(
            Code::NO_COMMAND,
            format!("{shown}: there is no such command in PATH"),
        ),
    })
}

fn candidates(word: &OsStr) -> Vec<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(word)];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path)
        .map(|folder| folder.join(word))
        .collect()
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// The executable file that a word names, if any. Launchers search the current folder too.
fn named(word: &OsStr) -> Option<PathBuf> {
    if word.is_empty() || word.as_bytes().starts_with(b"-") {
        return None;
    }
    let here = PathBuf::from(word);
    let found = candidates(word)
        .into_iter()
        .chain([here])
        .find(|file| is_executable(file))?;
    fs::canonicalize(found).ok()
}

/// The program that runs when a file is executed: the file itself, or its interpreter.
fn program_of(file: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    let mut opened = foreign::open(file).ok()?.take(LINE_BYTES as u64);
    opened.read_to_end(&mut head).ok()?;
    if head.starts_with(b"\x7fELF") {
        return Some(file.to_owned());
    }
    let interpreter = named(&interpreter(&head)?)?;
    let mut magic = [0; 4];
    foreign::open(&interpreter).ok()?.read_exact(&mut magic).ok()?;
    (&magic == b"\x7fELF").then_some(interpreter)
}

/// The interpreter in the first line of a script: `#!/usr/bin/env -S NAME=VALUE python3 -u` gives python3.
fn interpreter(head: &[u8]) -> Option<OsString> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    let word = match first.rsplit(|byte| *byte == b'/').next() {
        Some(b"env") => words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))?,
        _ => first,
    };
    Some(OsString::from_vec(word.to_vec()))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Libraries with the names of MPI libraries: next to the libraries that the launcher needs, in the
/// launcher's installation, and those known to the linker.
fn near_launcher(launcher: &Path, needed: &[PathBuf], search: &Search) -> Vec<String> {
    let prefix = launcher.parent().and_then(Path::parent);
    let own = prefix
        .into_iter()
        .flat_map(|prefix| [prefix.join("lib"), prefix.join("lib64")]);
    let beside = needed
        .iter()
        .skip(1)
        .filter_map(|path| Some(path.parent()?.to_owned()));
    let mut folders: Vec<PathBuf> = own.chain(beside).collect();
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    let in_folders = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|folder| {
            let mut files: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
            files.sort();
            files
        });
    let listed = search.listed().iter().map(|(_, path)| path.clone());
    let all = in_folders.chain(listed);
    let mut seen = BTreeSet::new();
    all.filter(|path| is_called_as_mpi(path))
        .filter_map(|path| fs::canonicalize(path).ok())
        .filter(|path| seen.insert(path.clone()))
        .map(|path| shown(&path))
        .collect()
}

fn is_called_as_mpi(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libmpi.so") || name.starts_with("libmpich.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_only_attach_has_is_refused_with_what_run_does_instead() {
        let said = |word: &str| program(word.as_ref()).unwrap_err().error.to_string();
        assert_eq!(
            said("--plain"),
            "run has no option --plain: it prints lines without it"
        );
        assert_eq!(said("--xyzzy"), "run has no option --xyzzy");
    }

    #[test]
    fn a_script_is_run_by_what_its_first_line_names() {
        for (head, expected) in [
            ("#!/bin/bash\necho", Some("/bin/bash")),
            ("#! /bin/sh -e\n", Some("/bin/sh")),
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S A=1 python3 -u\n", Some("python3")),
            ("#!\n", None),
            ("echo\n", None),
        ] {
            let found = interpreter(head.as_bytes());
            assert_eq!(found, expected.map(OsString::from), "{head}");
        }
    }

    #[test]
    fn a_command_that_is_not_there_is_distinguished_from_one_that_cannot_be_executed() {
        let code = |word: &str| program(OsStr::new(word)).map_err(|failure| failure.code).err();
        assert_eq!(code("sh"), None);
        assert_eq!(code("no-such-command-anywhere"), Some(Code::NO_COMMAND));
        assert_eq!(code("/no/such/file"), Some(Code::NO_COMMAND));
        assert_eq!(code("/etc/passwd"), Some(Code::NOT_EXECUTABLE));
    }

    #[test]
    fn the_words_of_a_command_that_name_programs_are_expected_with_what_they_need() {
        let words = ["env", "-n", "4", "/no/such", "sh", "sh"].map(OsString::from);
        let found = ExpectedFiles::of(&words, &Environment::default());
        let names: Vec<&str> = found
            .programs
            .iter()
            .filter_map(|files| files.first()?.rsplit('/').next())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(names[0], "env");
        let has_libc = |files: &Vec<String>| files.iter().any(|file| file.contains("libc.so"));
        assert!(found.programs.iter().all(has_libc), "{found:?}");
    }
}
