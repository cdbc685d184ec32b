//! Command lines for commands that need root.

use rustix::process::geteuid;

/// A command line for a command that needs root, as the user types it: root needs no sudo, which containers
/// lack. If this process was started with sudo, the user's shell does not belong to root.
pub fn as_root(command: &str) -> String {
    let came_by_sudo = std::env::var_os("SUDO_UID").is_some();
    typed(command, geteuid().is_root() && !came_by_sudo)
}

fn typed(command: &str, by_root: bool) -> String {
    match by_root {
        true => command.to_owned(),
        false => format!("sudo {command}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_offered_no_sudo_and_other_users_are() {
        let command = "tuneagent attach 8123";
        assert_eq!(typed(command, true), command);
        assert_eq!(typed(command, false), "sudo tuneagent attach 8123");
    }
}
