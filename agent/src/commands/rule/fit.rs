//! Looks up the names of a rule in a program, in the form that `rules` needs. Reads the program, and changes
//! nothing.

use std::collections::BTreeSet;

use job::{Job, Member};
use plan::ValueType;
use profile::mpi;
use rules::{
    AllNames, CheckedRule, FitRequest, NoVariable, SeenMark, SeenProcess, SeenVariable, WriteObstacle,
};
use tuner::{SymbolKind, VariableError, VariableName, WritablePlace, WritablePlaceError};

use crate::{commands::by_hand, rulebook::facts};

/// Every process of the job, as far as the rule refers to it.
pub(super) fn seen(job: &Job, rule: &CheckedRule) -> Vec<SeenProcess> {
    let request = rule.request();
    let members = job.members.iter();
    members.map(|member| process(member, rule, &request)).collect()
}

fn process(member: &Member, rule: &CheckedRule, request: &FitRequest) -> SeenProcess {
    let mut seen = SeenProcess {
        name: format!("process {}", member.process.pid),
        facts: facts(member, &rule.plan().symbols),
        is_stripped: member
            .space
            .executable()
            .is_some_and(|program| program.image.is_stripped()),
        ..SeenProcess::default()
    };
    for name in &request.functions {
        let files = functions(member, name);
        if !files.is_empty() {
            seen.functions.insert(name.clone(), files);
        }
    }
    for name in &request.marks {
        if let Some(mark) = mark(member, name) {
            seen.marks.insert(name.clone(), mark);
        }
    }
    for (function, number) in &request.parameters {
        if let Some((_, of)) = member.parameter(function, *number) {
            seen.parameters.insert((function.clone(), *number), of.to_owned());
        }
    }
    for name in &request.variables {
        seen.variables.insert(name.clone(), variable(member, name, None));
    }
    for (name, of) in &request.written {
        seen.variables
            .insert(name.clone(), variable(member, name, Some(*of)));
    }
    seen
}

/// The files that define the function; an MPI function belongs to the library that defines MPI.
fn functions(member: &Member, name: &str) -> Vec<String> {
    if mpi::find(name).is_some() {
        let mpi = member.mpi.as_ref();
        let has = mpi.filter(|mpi| mpi.sites.iter().any(|site| site.name == name));
        return has.map(|mpi| mpi.library.clone()).into_iter().collect();
    }
    let found = member.space.functions(&[name]).unwrap_or_default();
    found.into_iter().map(|(module, _)| module.path.clone()).collect()
}

/// All places of a mark combined: an argument that cannot be read at one of them is reported.
fn mark(member: &Member, name: &str) -> Option<SeenMark> {
    let mut seen: Option<SeenMark> = None;
    for module in &member.space.modules {
        let marks = module.image.marks().unwrap_or_default();
        for mark in marks.iter().filter(|mark| mark.name == name) {
            let arguments = mark.arguments().into_iter().map(|argument| match argument {
                Ok(argument) => Ok(argument.type_name.to_owned()),
                Err(why) => Err(why.to_string()),
            });
            let seen = seen.get_or_insert_with(SeenMark::default);
            if !seen.files.contains(&module.path) {
                seen.files.push(module.path.clone());
            }
            for (place, argument) in arguments.enumerate() {
                match seen.arguments.get_mut(place) {
                    None => seen.arguments.push(argument),
                    Some(known) if argument.is_err() => *known = argument,
                    Some(_) => {}
                }
            }
        }
    }
    seen
}

/// `written` is the type that the rule states for a variable that it writes; `None` if it does not write it.
fn variable(
    member: &Member,
    name: &str,
    written: Option<Option<ValueType>>,
) -> Result<SeenVariable, NoVariable> {
    let found = member.space.variable(&VariableName::from(name));
    let location = found.map_err(|error| match error {
        VariableError::NotFound { .. } => NoVariable::Missing,
        VariableError::Ambiguous { places, .. } => {
            NoVariable::Several(places.iter().map(ToString::to_string).collect())
        }
        other => NoVariable::Other(other.to_string()),
    })?;
    let refusal = written.and_then(|stated| {
        // The same check as the actuator's before it writes.
        let slot = WritablePlace::validate(&location, stated);
        slot.err().map(refusal)
    });
    let of = location.value_type().map(|of| of.name().to_owned());
    let value = by_hand::read(&member.space, name);
    Ok(SeenVariable {
        file: location.module.path.clone(),
        of,
        now: value.and_then(|text| text.split(" (").next().map(str::to_owned)),
        refusal,
    })
}

fn refusal(error: WritablePlaceError) -> WriteObstacle {
    let text = error.to_string();
    match error {
        WritablePlaceError::ReadOnly { .. } => WriteObstacle::ReadOnly(text),
        WritablePlaceError::TypeUnknown { .. }
        | WritablePlaceError::WrongSize { .. }
        | WritablePlaceError::WrongType { .. }
        | WritablePlaceError::IsCompound { .. }
        | WritablePlaceError::IsPointer { .. }
        | WritablePlaceError::Misaligned { .. } => WriteObstacle::Type(text),
        _ => WriteObstacle::Other(text),
    }
}

/// All names of the processes if a name of the rule is missing: only then are suggestions needed.
pub(super) fn all_names(job: &Job, seen: &[SeenProcess], request: &FitRequest) -> AllNames {
    let lacks = |process: &SeenProcess| {
        request
            .functions
            .iter()
            .any(|name| !process.functions.contains_key(name))
            || request.marks.iter().any(|name| !process.marks.contains_key(name))
            || process.variables.values().any(|variable| variable.is_err())
    };
    let mut names = AllNames::default();
    let mut known = BTreeSet::new();
    for (member, _) in job.members.iter().zip(seen).filter(|(_, process)| lacks(process)) {
        for module in &member.space.modules {
            if !known.insert((format!("{:?}", module.device), module.inode)) {
                continue;
            }
            let marks = module.image.marks().unwrap_or_default();
            names.marks.extend(marks.iter().map(|mark| mark.name.clone()));
            for symbol in module.image.defined_symbols().unwrap_or_default() {
                match symbol.kind {
                    SymbolKind::Function => names.functions.push(symbol.name),
                    SymbolKind::Variable => names.variables.push(symbol.name),
                    _ => {}
                }
            }
        }
    }
    names
}
