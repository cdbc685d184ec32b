//! Commands of this program that a user is advised to run: with the full path, quoted for a shell.

use rustix::process::geteuid;

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

/// The typed command with root's rights.
pub(crate) fn as_root_again() -> String {
    as_root(&typed_arguments())
}

/// With the full path, because sudo does not search where cargo installs.
fn with_path(arguments: &str) -> String {
    let program =
        std::env::current_exe().map_or_else(|_| "tuneagent".into(), |path| path.display().to_string());
    format!("{program} {arguments}")
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
    use super::{quote, undo};

    /// The second word of `undo` is the number of a change.
    #[test]
    fn each_target_is_reverted_by_its_own_command() {
        assert_eq!(undo("7").matches("undo ").count(), 1);
        let both = undo("7 8");
        assert!(both.contains("undo 7; ") && both.ends_with("undo 8"), "{both}");
    }

    #[test]
    fn arguments_come_back_as_they_were_typed() {
        assert_eq!(quote("--apply=a,b"), "--apply=a,b");
        assert_eq!(quote("two words"), "'two words'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
