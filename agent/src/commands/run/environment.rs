//! The environment of the command, which is that of the user.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    process::Command,
};

use crate::rights;

/// The environment to pass on; `None` if it is our own.
#[derive(Debug, Default)]
pub(in crate::commands) struct Environment(Option<Vec<(OsString, OsString)>>);

impl Environment {
    /// Our initial environment. If the file of a program has capabilities, the C library removes variables
    /// that could mislead it, such as LD_LIBRARY_PATH; the kernel still has them. Must be called before
    /// rights are given up.
    pub(in crate::commands) fn given() -> Environment {
        let given = || std::fs::read("/proc/self/environ").ok();
        Environment(rights::is_lent().then(given).flatten().map(|text| parsed(&text)))
    }

    /// The value of a variable in it.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        match &self.0 {
            None => std::env::var_os(name),
            Some(variables) => {
                let mut found = variables.iter().filter(|(known, _)| known == name);
                found.next().map(|(_, value)| value.clone())
            }
        }
    }

    /// Applies it to a command.
    pub(super) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.0 {
            None => command,
            Some(variables) => command.env_clear().envs(variables.iter().cloned()),
        }
    }
}

fn parsed(text: &[u8]) -> Vec<(OsString, OsString)> {
    let lines = text.split(|byte| *byte == 0);
    let variables = lines.filter_map(|line| {
        let middle = line.iter().position(|byte| *byte == b'=')?;
        let text = |bytes| OsStr::from_bytes(bytes).to_owned();
        Some((text(&line[..middle]), text(&line[middle + 1..])))
    });
    variables.filter(|(name, _)| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_read_as_the_kernel_keeps_it() {
        let text = |(name, value): (OsString, OsString)| {
            format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
        };
        let found: Vec<String> = parsed(b"A=1\0B=x=y\0=odd\0none\0LD_LIBRARY_PATH=/opt\0")
            .into_iter()
            .map(text)
            .collect();
        assert_eq!(found, ["A=1", "B=x=y", "LD_LIBRARY_PATH=/opt"]);
    }
}
