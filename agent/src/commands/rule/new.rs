//! `tuneagent rule new`: a template of a rule, from the symbols of a program. Reads the program, and changes
//! nothing.

use std::{
    error::Error,
    fs::OpenOptions,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use job::Discovery;
use tuner::{AddressSpace, Image, foreign};

use super::{candidates::Candidates, skeleton::skeleton};
use crate::{
    cli::NewRuleArgs,
    commands::{by_hand, target},
    exit::{Code, CommandResult, Failure},
};

pub(super) fn run(args: &NewRuleArgs) -> CommandResult {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !args.name.split('-').all(is_word) {
        return Err(Failure::invalid(format!(
            "`{}` cannot be a rule's name: small letters, digits and single dashes between them",
            args.name
        )));
    }
    let candidates = match (&args.pid, &args.file) {
        (Some(target), _) => Some(of_process(target, args.users.any_user)?),
        (None, Some(file)) => Some(of_file(file)?),
        (None, None) => None,
    };
    let text = skeleton(&args.name, candidates.as_ref());
    let path = PathBuf::from(format!("{}.yaml", args.name));
    let shown = path.display();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::failed(there_already(&path)),
            _ => Failure::invalid(format!("{shown} cannot be written")).caused_by(&error),
        })?;
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::failed(format!("{shown} could not be written")).caused_by(&error))?;
    say!("{shown} written{}", reported(candidates.as_ref()));
    let with = args
        .pid
        .as_ref()
        .map_or_else(String::new, |target| format!(" --pid {target}"));
    say!("next: edit it, then tuneagent rule check {shown}{with}");
    Ok(Code::Done)
}

/// Why nothing was written. The shell has made an empty file before `rule new NAME > NAME.yaml` begins.
fn there_already(path: &Path) -> String {
    let shown = path.display();
    let is_empty = path.metadata().is_ok_and(|file| file.len() == 0);
    let why = match is_empty {
        true => format!(
            " and is empty; remove it, and leave out `> {shown}`: this command writes the file itself"
        ),
        false => String::new(),
    };
    format!("{shown} is there already{why}; nothing was written")
}

fn reported(candidates: Option<&Candidates>) -> String {
    candidates.map_or(String::new(), |found| {
        let kind = if found.is_mpi { ", an MPI program" } else { "" };
        format!(
            " for {}{kind}: {}, {}",
            found.exe,
            profile::format::plural(found.functions.len(), "function"),
            profile::format::plural(found.variables.len(), "variable"),
        )
    })
}

fn of_file(path: &Path) -> Result<Candidates, Failure> {
    let shown = path.display();
    let wrong = |error: &(dyn Error + 'static)| Failure::invalid(shown.to_string()).caused_by(error);
    let file = foreign::open(path).map_err(|error| wrong(&error))?;
    let image = Image::read(file).map_err(|error| wrong(&error))?;
    let exe = path.file_name().unwrap_or_default().to_string_lossy();
    Candidates::of(&exe, &image).map_err(|error| wrong(&error))
}

fn of_process(target: &str, any_user: bool) -> Result<Candidates, Failure> {
    let job = target::job(&mut Discovery::default(), target, any_user)?;
    let Some(member) = job.members.first() else {
        return Err(Failure::invalid(format!(
            "no process of {target} could be inspected"
        )));
    };
    let Some(program) = member.space.executable() else {
        return Err(Failure::invalid(format!(
            "the program of process {} is not among its files that can be read",
            member.process.pid
        )));
    };
    let mut candidates = Candidates::of(&member.program(), &program.image)
        .map_err(|error| Failure::invalid(program.path.clone()).caused_by(&error))?;
    candidates.is_mpi |= member.mpi.is_some();
    add_values(&mut candidates, &member.space);
    Ok(candidates)
}

/// Adds current values; a variable that cannot be read has none.
fn add_values(candidates: &mut Candidates, space: &AddressSpace) {
    for variable in &mut candidates.variables {
        let read = by_hand::read(space, &variable.name);
        // Without the type, which is shown separately.
        variable.now = read.and_then(|text| text.split(" (").next().map(str::to_owned));
    }
}
