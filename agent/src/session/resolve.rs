//! Resolves a pattern to one function of a process. Libraries rename the functions that they bundle
//! (`scipy_openblas_set_num_threads64_`), so that a bindings file may contain `*openblas_set_num_threads*` or
//! `libgomp*.so*:omp_set_num_threads`. Names without a pattern are resolved by the tuner.

use std::collections::BTreeSet;

use plan::{Action, FunctionName, SyncPoint};
use tuner::{AddressSpace, Module, Pid};

use probe::FileSelections;
use profile::matches_glob;
use profile::probe::ProbeSelector;

/// Maximum number of functions that a message lists.
const LISTED_MAX: usize = 6;

/// Why a pattern could not be resolved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotOne {
    #[error("no function of process {pid} fits `{pattern}`")]
    Nothing { pid: Pid, pattern: String },
    #[error("`{pattern}` fits {} functions of process {pid}: {}; say which", .found.len(), listed(.found))]
    Several {
        pid: Pid,
        pattern: String,
        /// The matching functions, with their files.
        found: Vec<String>,
    },
}

fn listed(found: &[String]) -> String {
    let mut shown: Vec<String> = found.iter().take(LISTED_MAX).cloned().collect();
    if found.len() > LISTED_MAX {
        shown.push(format!("and {} more", found.len() - LISTED_MAX));
    }
    shown.join(", ")
}

/// Resolves every pattern in the place of a function.
pub(super) fn functions(action: &Action, space: &AddressSpace) -> Result<Action, NotOne> {
    let mut action = action.clone();
    for name in action.functions_mut() {
        if is_pattern(&name.name) || name.module.as_deref().is_some_and(is_pattern) {
            *name = the_one(name, space)?;
        }
    }
    Ok(action)
}

/// A call at a sync point, once for each library that has all of its functions: a process may have several copies
/// of a runtime, each with settings of its own (Python wheels bring their own libgomp). Empty if it is not a call,
/// if its names mean one function each or state which, or if no library has all of them.
pub(super) fn in_each_library(
    action: &Action,
    at: &SyncPoint,
    space: &AddressSpace,
) -> Vec<(Action, SyncPoint)> {
    let mut wanted = action.clone();
    let named = wanted.functions_mut();
    let is_stated = |name: &FunctionName| name.module.is_some() || is_pattern(&name.name);
    if !matches!(action, Action::Call(_)) || at.module.is_some() || named.iter().any(|name| is_stated(name)) {
        return Vec::new();
    }
    let names: Vec<&str> = named.iter().map(|name| name.name.as_str()).collect();
    let mut modules: Vec<&Module> = space.modules.iter().collect();
    let mut is_ambiguous = false;
    for name in names.into_iter().chain([at.function.as_str()]) {
        // The tuner reports what cannot be read.
        let found = space.functions(&[name]).unwrap_or_default();
        is_ambiguous |= found.len() > 1;
        modules.retain(|module| found.iter().any(|(of, _)| of.path == module.path));
    }
    if !is_ambiguous {
        return Vec::new();
    }
    // As for a sync point: the program's own function is preferred.
    if let Some(own) = modules.iter().position(|module| module.is_executable) {
        modules = vec![modules[own]];
    }
    let is_unique = |module: &Module| {
        let same = space
            .modules
            .iter()
            .filter(|other| other.is_called(module.file_name()));
        same.count() == 1
    };
    let within = |module: &&Module| {
        let library = match is_unique(module) {
            true => Some(module.file_name().to_owned()),
            false => Some(module.path.clone()),
        };
        let (mut action, mut at) = (action.clone(), at.clone());
        for name in action.functions_mut() {
            name.module.clone_from(&library);
        }
        at.module = library;
        (action, at)
    };
    modules.iter().map(within).collect()
}

/// C++ has a function name that contains a star.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?']) && !text.contains("operator")
}

fn the_one(wanted: &FunctionName, space: &AddressSpace) -> Result<FunctionName, NotOne> {
    let (pid, pattern) = (space.process.pid, || wanted.to_string());
    let selector = ProbeSelector::Pattern(wanted.name.clone());
    let is_in = |file: &str| {
        wanted
            .module
            .as_deref()
            .is_none_or(|module| matches_glob(module, file))
    };
    let mut found = BTreeSet::new();
    let modules = space.modules.iter();
    for module in modules.filter(|module| is_in(module.file_name())) {
        for seen in FileSelections::default().functions(module, &selector) {
            found.insert((module.path.clone(), seen.symbol.clone()));
        }
    }
    let mut found = found.into_iter();
    match (found.next(), found.len()) {
        (None, _) => Err(NotOne::Nothing {
            pid,
            pattern: pattern(),
        }),
        (Some((path, name)), 0) => Ok(FunctionName {
            name,
            module: Some(path),
        }),
        (Some(first), _) => Err(NotOne::Several {
            pid,
            pattern: pattern(),
            found: std::iter::once(first)
                .chain(found)
                .map(|(path, name)| format!("{name} in {path}"))
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        process::{Command, Stdio},
    };

    use plan::{Inverse, Invocation};

    use super::*;
    use job::Discovery;

    fn call(function: &str) -> Action {
        Action::call(Invocation::parse(function).unwrap(), Inverse::Unstated)
    }

    #[test]
    fn a_pattern_means_one_function_or_none_at_all() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Once it has answered, its libraries are loaded.
        child.stdin.as_mut().unwrap().write_all(b"a").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let job = Discovery::default().job_of(child.id() as i32).unwrap();
        let space = &job.members[0].space;
        let resolved = |function: &str| {
            let resolved = functions(&call(function), space)?;
            match resolved {
                Action::Call(request) => Ok(request.function),
                other => panic!("{other:?}"),
            }
        };
        let found = resolved("libc.so*:mall?c_trim").unwrap();
        assert_eq!(found.name, "malloc_trim");
        assert!(found.module.unwrap().contains("libc.so"), "the file that has it");
        assert_eq!(resolved("no_pattern").unwrap(), FunctionName::from("no_pattern"));
        assert!(matches!(resolved("no_such_*_here"), Err(NotOne::Nothing { .. })));
        let several = resolved("libc.so*:str*").unwrap_err();
        assert!(matches!(&several, NotOne::Several { found, .. } if found.len() > 10));
        assert!(several.to_string().ends_with(" more; say which"), "{several}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
