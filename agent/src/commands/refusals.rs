//! Messages of commands by hand: each reason for a refusal once, a summary of the rest, and suggestions for
//! mistyped names.

use std::collections::BTreeMap;

use plan::FunctionName;
use tuner::{AddressSpace, Image, ImageError, Pid, SymbolKind, VariableError, VariableName};

use profile::format::{nearest, plural};

/// Results of a command in many processes.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    done: usize,
    /// Number of further refusals by reason; the process id is replaced in the reason.
    refused: BTreeMap<String, usize>,
    /// Processes that ended meanwhile.
    ended: usize,
    /// Processes and numbers of the changes that can be reverted.
    changes: Vec<(i32, u64)>,
}

impl Outcomes {
    pub(super) fn done(&mut self) {
        self.done += 1;
    }

    /// A change that can be reverted was made.
    pub(super) fn changed(&mut self, pid: Pid, change: u64) {
        self.changes.push((pid.number, change));
    }

    /// Prints how the changes in a target are reverted.
    pub(super) fn say_revert(&self, target: &str) {
        for command in crate::hint::undo_each(target, &self.changes) {
            say!("revert: {command}");
        }
    }

    /// Prints why it was refused in a process, once for all refusals with the same reason.
    pub(super) fn refused(&mut self, pid: Pid, why: &str) {
        let reason = why.replace(&pid.to_string(), "PID");
        match self.refused.get_mut(&reason) {
            Some(more) => *more += 1,
            None => {
                warn!("{why}");
                self.refused.insert(reason, 0);
            }
        }
    }

    /// A process ended before it was processed.
    pub(super) fn ended(&mut self, why: &str) {
        self.ended += 1;
        warn!("{why}");
    }

    /// Nothing was done because all processes have ended.
    pub(super) fn have_all_ended(&self) -> bool {
        self.ended > 0 && self.done == 0 && self.refused.is_empty()
    }

    /// The last sentence; `did` is `written` or `done`.
    pub(super) fn conclusion(&self, did: &str) -> String {
        let more: usize = self.refused.values().sum();
        let refused = more + self.refused.len();
        let same = match more {
            0 => String::new(),
            more => format!(" ({}: the same)", plural(more, "more process")),
        };
        match self.done {
            0 => format!("nothing was {did}{same}"),
            1 => format!(
                "1 of {} was {did}{same}, and stays; `tuneagent undo` reverts it",
                1 + refused
            ),
            done => format!(
                "{done} of {} were {did}{same}, and stay; `tuneagent undo` reverts them",
                done + refused
            ),
        }
    }
}

/// A suggestion for a variable name that does not exist; `None` if it exists.
pub(super) fn hint(space: &AddressSpace, variable: &str) -> Option<String> {
    let wanted = VariableName::from(variable);
    let Err(VariableError::NotFound { .. }) = space.variable(&wanted) else {
        return None;
    };
    let program = space.executable()?;
    let names = || -> Result<Vec<String>, ImageError> {
        let symbols = program.image.defined_symbols()?.into_iter();
        let variables = symbols.filter(|symbol| symbol.kind == SymbolKind::Variable);
        Ok(variables.map(|symbol| symbol.name).collect())
    };
    if let Some(name) = corrected(&names().unwrap_or_default(), variable) {
        return Some(format!("did you mean `{name}`?"));
    }
    is_stripped(&program.image).then(|| {
        format!(
            "{} is stripped: of its variables only those have names that it exports (strip -g would leave them)",
            program.path
        )
    })
}

/// The path to a variable with the nearest existing name in place of the mistyped one: of all of it, or of the
/// part before its first member, element or target.
fn corrected(names: &[String], typed: &str) -> Option<String> {
    let path = typed.trim_start_matches('*');
    let stars = &typed[..typed.len() - path.len()];
    let ends = [Some(path.len()), path.find(['.', '[', '-'])];
    ends.into_iter().flatten().find_map(|end| {
        let near = nearest(names.iter().cloned(), &path[..end])?;
        Some(format!("{stars}{near}{}", &path[end..]))
    })
}

/// A suggestion for the name of a function that does not exist; `None` if it exists, or if none is near.
pub(super) fn function_hint(space: &AddressSpace, function: &FunctionName) -> Option<String> {
    if space.every_function(function).is_ok() {
        return None;
    }
    // A similar name of a library is not the one that was removed.
    if let Some(program) = space.executable()
        && is_stripped(&program.image)
    {
        return Some(format!(
            "{} is stripped: of its functions only those have names that it exports (strip -g would leave them)",
            program.path
        ));
    }
    let symbols = space.modules.iter();
    let symbols = symbols.flat_map(|module| module.image.defined_symbols().unwrap_or_default());
    let is_code = |kind| matches!(kind, SymbolKind::Function | SymbolKind::IndirectFunction);
    let functions = symbols.filter(|symbol| is_code(symbol.kind));
    let near = nearest(functions.map(|symbol| symbol.name), &function.name)?;
    Some(format!("did you mean `{near}`?"))
}

/// Whether it has only exported symbols.
pub(super) fn is_stripped(image: &Image) -> bool {
    !image
        .static_symbols()
        .is_ok_and(|table| table.iter().next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_and_the_last_sentence_counts() {
        let pid = |number| Pid {
            number,
            start_time: 1,
        };
        let mut outcomes = Outcomes::default();
        for number in [500, 501, 502] {
            outcomes.refused(pid(number), &format!("process {number} has no variable `x`"));
        }
        assert_eq!(
            outcomes.conclusion("written"),
            "nothing was written (2 more processes: the same)"
        );
        outcomes.done();
        assert!(outcomes.conclusion("done").starts_with("1 of 4 was done (2 more"));
        assert_eq!(Outcomes::default().conclusion("written"), "nothing was written");
    }

    #[test]
    fn a_mistyped_variable_is_corrected_with_the_path_that_follows() {
        let names = ["limits", "cfg", "current"].map(str::to_owned);
        for (typed, wanted) in [
            ("limit", Some("limits")),
            ("limit[2]", Some("limits[2]")),
            ("cgf.solver.chunk", Some("cfg.solver.chunk")),
            ("curent->level", Some("current->level")),
            ("*curent", Some("*current")),
            ("nothing.like", None),
            ("x", None),
        ] {
            assert_eq!(corrected(&names, typed).as_deref(), wanted, "{typed}");
        }
    }

    #[test]
    fn a_process_that_ended_meanwhile_is_no_failure_unless_no_process_is_left() {
        let mut outcomes = Outcomes::default();
        outcomes.ended("process 7 has ended");
        assert!(outcomes.have_all_ended());
        outcomes.done();
        assert!(!outcomes.have_all_ended());
    }
}
