//! Commands of this program that a user is advised to run: with the full path, quoted for a shell.

use std::{collections::BTreeSet, ffi::OsStr, path::Path};

use rustix::process::geteuid;

const NAME: &str = "tuneagent";

/// The command with root's rights.
pub(crate) fn as_root(arguments: &str) -> String {
    job::as_root(&with_path(arguments))
}

/// The command for the current user, because each user has separate journals and sockets.
pub(crate) fn as_we_are(arguments: &str) -> String {
    match geteuid().is_root() {
        true => as_root(arguments),
        false => with_path(arguments),
    }
}

/// The commands that revert the changes in targets, given as they were typed.
pub(crate) fn undo(targets: &str) -> String {
    let commands = targets
        .split(' ')
        .map(|target| as_we_are(&format!("undo {target}")));
    commands.collect::<Vec<_>>().join("; ")
}

/// The commands that revert changes, each the newest of its process, given by process and number: one for all
/// processes of a target, unless a process has several. `are_all` if no other change of the target is in force: then one
/// command reverts several, too.
pub(crate) fn undo_each(target: &str, changes: &[(i32, u64)], are_all: bool) -> Vec<String> {
    let pids: BTreeSet<i32> = changes.iter().map(|(pid, _)| *pid).collect();
    if pids.len() > 1 && pids.len() == changes.len() {
        return vec![as_we_are(&format!("undo {} --last", quote(target)))];
    }
    if changes.len() > 1 && are_all {
        return vec![as_we_are(&format!("undo {}", quote(target)))];
    }
    let one = |(pid, change): &(i32, u64)| as_we_are(&format!("undo {pid} {change}"));
    changes.iter().map(one).collect()
}

/// The typed command with root's rights.
pub(crate) fn as_root_again() -> String {
    as_root(&typed_arguments())
}

/// With the full path where that is needed: sudo does not search where cargo installs.
fn with_path(arguments: &str) -> String {
    let own = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").filter(|_| geteuid().is_root());
    let program = match &own {
        Some(own) if !path.is_some_and(|path| is_found(own, &path)) => own.display().to_string(),
        _ => NAME.to_owned(),
    };
    format!("{program} {arguments}")
}

/// Whether a shell with this PATH runs this file under our name.
fn is_found(own: &Path, path: &OsStr) -> bool {
    let first = std::env::split_paths(path).map(|folder| folder.join(NAME));
    let first = first.into_iter().find_map(|file| file.canonicalize().ok());
    first.is_some_and(|first| own.canonicalize().is_ok_and(|own| own == first))
}

/// The typed command, for this program name.
pub(crate) fn as_typed(program: &str) -> String {
    format!("{program} {}", typed_arguments())
}

fn typed_arguments() -> String {
    let arguments = std::env::args().skip(1).map(|argument| quote(&argument));
    arguments.collect::<Vec<_>>().join(" ")
}

/// Quotes an argument for a shell.
pub(crate) fn quote(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{is_found, quote, undo, undo_each};

    /// The second word of `undo` is the number of a change.
    #[test]
    fn each_target_is_reverted_by_its_own_command() {
        assert_eq!(undo("7").matches("undo ").count(), 1);
        let both = undo("7 8");
        assert!(both.contains("undo 7; ") && both.ends_with("undo 8"), "{both}");
    }

    #[test]
    fn one_change_of_each_process_is_reverted_by_one_command() {
        let ends_of = |changes: &[(i32, u64)], are_all| -> Vec<String> {
            let commands = undo_each("heat", changes, are_all);
            let words = commands.iter().filter_map(|command| command.split_once(" undo "));
            words.map(|(_, words)| words.to_owned()).collect()
        };
        let ends = |changes: &[(i32, u64)]| ends_of(changes, false);
        assert_eq!(ends_of(&[(7, 4), (7, 5), (8, 4), (8, 5)], true), ["heat"]);
        assert_eq!(ends_of(&[(7, 4), (8, 4)], true), ["heat --last"]);
        assert_eq!(ends_of(&[(7, 4)], true), ["7 4"]);
        assert_eq!(ends(&[(7, 4), (8, 4), (9, 5)]), ["heat --last"]);
        assert_eq!(ends(&[(7, 4)]), ["7 4"]);
        assert_eq!(ends(&[(7, 4), (7, 5), (8, 4)]), ["7 4", "7 5", "8 4"]);
        assert_eq!(ends(&[]), [""; 0]);
    }

    #[test]
    fn a_file_that_path_finds_under_our_name_needs_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("tuneagent");
        std::fs::write(&own, "").unwrap();
        let path = |folders: &[&std::path::Path]| std::env::join_paths(folders).unwrap();
        let nowhere = std::path::Path::new("/nowhere");
        assert!(is_found(&own, &path(&[nowhere, folder.path()])));
        assert!(!is_found(&own, &path(&[nowhere])));
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("tuneagent"), "").unwrap();
        assert!(!is_found(&own, &path(&[other.path(), folder.path()])));
    }

    #[test]
    fn arguments_come_back_as_they_were_typed() {
        assert_eq!(quote("--apply=a,b"), "--apply=a,b");
        assert_eq!(quote("two words"), "'two words'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
