//! The user for whom a change is recorded. Names come from /etc/passwd and are only for display.

use std::fs;

use serde::{Deserialize, Serialize};

/// The user and process behind a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    pub uid: u32,
    /// The user's name; under sudo, that of the user who called it.
    pub user: String,
    /// The process that acted.
    pub pid: i32,
}

impl Author {
    /// The calling process and its user.
    pub fn current() -> Author {
        let uid = rustix::process::getuid().as_raw();
        let user = match std::env::var("SUDO_USER") {
            Ok(requested) if uid == 0 => format!("{requested} (sudo)"),
            _ => user_name(uid),
        };
        Author {
            uid,
            user,
            pid: std::process::id().cast_signed(),
        }
    }
}

/// The name of a user, or `uid N` if /etc/passwd has none.
pub fn user_name(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_in(&passwd, uid).unwrap_or_else(|| format!("uid {uid}"))
}

fn name_in(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_is_shown_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/home/ana:/bin/sh\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ana"));
        assert_eq!(name_in(passwd, 7), None);
        assert_eq!(user_name(u32::MAX), "uid 4294967295");
    }
}
