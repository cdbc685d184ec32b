//! Checks whether a rule fits a program: the names of the rule exist in it, unambiguously, with a usable
//! type.
//!
//! The caller passes the properties of the program as data. [`CheckedRule::request`] has the relevant names.

mod request;

use std::collections::{BTreeMap, BTreeSet};

use plan::{Action, Keyword, ValueType};
use syntax::diag::{Diagnostic, Span, did_you_mean};

use crate::eval::constant_mismatch;
use crate::facts::ProcessFacts;
use crate::file::RuleFile;
use crate::plan::{PlannedProbe, PlannedVariable, VariableKind};
use crate::read::{Base, Layout, PlannedCapture};
use crate::rule::CheckedRule;
use crate::target::Target;
use crate::value::WhyUnknown;

/// The properties of a process that are relevant to a rule.
#[derive(Clone, Debug, Default)]
pub struct SeenProcess {
    /// Its name in messages: `process 8123`.
    pub name: String,
    pub facts: ProcessFacts,
    /// The requested functions that it has, each with the files that define it.
    pub functions: BTreeMap<String, Vec<String>>,
    /// Types of parameters from the debug information, by function and index from 0.
    pub parameters: BTreeMap<(String, u8), String>,
    /// The requested marks that it has.
    pub marks: BTreeMap<String, SeenMark>,
    pub variables: BTreeMap<String, Result<SeenVariable, NoVariable>>,
    /// Its program has only exported symbols.
    pub is_stripped: bool,
}

/// Help for a name that is missing in a stripped program.
const STRIPPED: &str =
    "its program is stripped and has no such names: build it without -s, or install its debug file";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenMark {
    pub files: Vec<String>,
    /// The type of each argument, such as `i32`, or why it cannot be read; combined over all places.
    pub arguments: Vec<Result<String, WhyUnknown>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenVariable {
    pub file: String,
    /// Its type, such as `i32`; `None` if the debug information has none, or it is not a number.
    pub of: Option<String>,
    /// Its present value, as text.
    pub now: Option<String>,
    /// Why it cannot be written as the rule requires; `None` if it can, or if no rule writes it.
    pub refusal: Option<WriteObstacle>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteObstacle {
    /// The program relies on its being constant.
    ReadOnly(String),
    /// It has another type, or its type is unknown.
    Type(String),
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoVariable {
    Missing,
    /// Several exist: the files and addresses.
    Several(Vec<String>),
    /// Another reason, in words.
    Other(String),
}

/// The names of a program that a rule uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitRequest {
    /// Functions that are probed or serve as sync points.
    pub functions: BTreeSet<String>,
    /// Marks that are probed, as `provider:name`.
    pub marks: BTreeSet<String>,
    /// Functions and indices of the parameters that are read.
    pub parameters: BTreeSet<(String, u8)>,
    pub variables: BTreeSet<String>,
    /// Variables that are written, with their types if the rule states them.
    pub written: BTreeMap<String, Option<ValueType>>,
}

/// All names of a program, for suggestions.
#[derive(Clone, Debug, Default)]
pub struct AllNames {
    pub functions: Vec<String>,
    pub marks: Vec<String>,
    pub variables: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFit {
    pub diagnostics: Vec<Diagnostic>,
    /// No process has a role of the rule.
    pub is_for_other_programs: bool,
    /// The effects of the rule on this program, one sentence each.
    pub effects: Vec<String>,
}

/// Compares a rule with a program. `file` is the source of `rule`, to whose text places refer.
pub fn fit(file: &RuleFile, rule: &CheckedRule, program: &[SeenProcess], names: &AllNames) -> RuleFit {
    let mut fitting = Fitting {
        file,
        names,
        by_role: BTreeMap::new(),
        fit: RuleFit::default(),
    };
    for process in program {
        for role in rule.roles_of(&process.facts) {
            fitting.by_role.entry(role).or_default().push(process);
        }
    }
    fitting.roles(program.len());
    for probe in &rule.plan.probes {
        fitting.probe(probe);
    }
    for variable in &rule.plan.variables {
        fitting.written(variable);
    }
    fitting.constants(rule);
    fitting.windows(rule);
    fitting.points();
    fitting.arguments(rule);
    let mut fit = fitting.fit;
    fit.diagnostics
        .sort_by_key(|one| one.labels.first().map_or(0, |(span, _)| span.start));
    fit
}

struct Fitting<'a> {
    file: &'a RuleFile,
    names: &'a AllNames,
    by_role: BTreeMap<&'a str, Vec<&'a SeenProcess>>,
    fit: RuleFit,
}

impl<'a> Fitting<'a> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.fit.diagnostics.push(diagnostic);
    }

    fn members(&self, role: &str) -> Vec<&'a SeenProcess> {
        self.by_role.get(role).cloned().unwrap_or_default()
    }

    /// A role without processes may get some later; if all roles of a rule have none, the rule is for other
    /// programs.
    fn roles(&mut self, processes: usize) {
        let file = self.file;
        self.fit.is_for_other_programs = self.by_role.is_empty();
        for role in &file.roles {
            if self.by_role.contains_key(role.name.raw.as_str()) {
                continue;
            }
            let (name, no_process) = (&role.name.raw, self.by_role.is_empty());
            let message = match processes {
                1 => format!("the process does not have the role `{name}`"),
                many => format!("none of the {many} processes has the role `{name}`"),
            };
            let wrong = if no_process {
                Diagnostic::error("E0160", message)
            } else {
                Diagnostic::warning("E0160", message)
            };
            let span = role.expr.as_ref().map_or(role.name.span, |expr| expr.span);
            let wrong = wrong.at(span, "false or unknown for every process");
            self.report(wrong.help("nothing is measured or changed for this role until a process fits it"));
        }
    }

    /// A window that several processes begin joins their instances by the key of the hits.
    fn windows(&mut self, rule: &CheckedRule) {
        let file = self.file;
        for (window, entry) in rule.windows.iter().zip(&file.windows) {
            let Some(boundaries) = window.boundaries() else {
                continue;
            };
            let begin = boundaries.begins_at();
            let key = begin.and_then(|probe| boundaries.keys.get(probe).copied().flatten());
            let role = rule
                .role_of_begin(boundaries)
                .and_then(|role| rule.roles.get(role));
            let (None, Some(role), false) = (key, role, rule.is_bounded_by_loop(boundaries)) else {
                continue;
            };
            let members = self.members(&role.name).len();
            if members > 1 {
                let name = &entry.name.raw;
                let message = format!(
                    "the window `{name}` has no values: {members} processes begin it, and it has no key"
                );
                let wrong =
                    Diagnostic::warning("E0182", message).at(entry.name.span, "begun by each of them");
                self.report(wrong.help(
                    "add `key:`, a captured number of the iteration, or take `from:` of a role with one process",
                ));
            }
        }
    }

    fn probe(&mut self, probe: &PlannedProbe) {
        let file = self.file;
        let Some(entry) = file.probes.iter().find(|entry| entry.name.raw == probe.name) else {
            return;
        };
        let members = self.members(&probe.role);
        match &probe.target {
            Target::Mark(mark) => return self.mark(mark, entry.function.span, probe, &members),
            Target::LoopIteration => return self.effect(&members, crate::plan::FOLLOWS_LOOP.to_owned()),
            _ => {}
        }
        let Some(function) = probe.target.function() else {
            return self.effect(&members, format!("probes {}", probe.function));
        };
        if !self.function(function, entry.function.span, &members) {
            return;
        }
        if let (Some(to), Some(text)) = (probe.to.as_ref().and_then(Target::function), &entry.to)
            && !self.function(to, text.span, &members)
        {
            return;
        }
        for capture in &probe.captures {
            self.capture(probe, capture, &members);
        }
        let files: BTreeSet<&str> = members
            .iter()
            .filter_map(|process| process.functions.get(function))
            .flatten()
            .map(String::as_str)
            .collect();
        self.effect(
            &members,
            format!("probes {} in {}", probe.function, joined(files)),
        );
    }

    fn mark(&mut self, name: &str, span: Span, probe: &PlannedProbe, members: &[&SeenProcess]) {
        let has = |process: &&&SeenProcess| process.marks.contains_key(name);
        let lacking: Vec<_> = members.iter().filter(|process| !has(process)).collect();
        if let Some(first) = lacking.first() {
            let message = format!(
                "{} no mark `{name}`",
                who(lacking.len(), members.len(), &first.name)
            );
            let near = nearest(name, &self.names.marks);
            let wrong = Diagnostic::wrong("E0168", span, message);
            let help = "`tuneagent symbols` lists the marks of a program";
            return self.report(wrong.help(near.unwrap_or_else(|| help.to_string())));
        }
        for capture in &probe.captures {
            let Base::Argument(number) = capture.source.base else {
                self.capture(probe, capture, members);
                continue;
            };
            let mut marks = members.iter().filter_map(|process| process.marks.get(name));
            let why = marks.find_map(|mark| match mark.arguments.get(usize::from(number)) {
                Some(Ok(_)) => None,
                Some(Err(why)) => Some(format!(
                    "argument {number} of the mark `{name}` cannot be read: {why}"
                )),
                None => Some(format!(
                    "the mark `{name}` has no argument {number}: it passes {}",
                    mark.arguments.len()
                )),
            });
            if let Some(why) = why {
                let index = self.place_of(probe, capture);
                self.report(Diagnostic::wrong("E0168", index, why));
            }
        }
        let marks = members.iter().filter_map(|process| process.marks.get(name));
        let files: BTreeSet<&str> = marks.flat_map(|mark| &mark.files).map(String::as_str).collect();
        self.effect(members, format!("probes the mark {name} in {}", joined(files)));
    }

    fn points(&mut self) {
        let file = self.file;
        for tune in &file.tunes {
            let (Some(at), Some(role)) = (&tune.at, &tune.role) else {
                continue;
            };
            let members = self.members(&role.raw);
            let bound = file.bound(&at.function.raw);
            if let Some(name) = Target::named(&bound).as_ref().and_then(Target::function) {
                self.function(name, at.function.span, &members);
            }
        }
    }

    /// An argument cannot be set if neither the rule nor the program states its type.
    fn arguments(&mut self, rule: &CheckedRule) {
        for (number, function, argument, stated) in rule.arguments() {
            let action = self.file.tunes.get(number).and_then(|tune| tune.action.as_ref());
            let role = rule.tunes[number].action.as_ref().map(|wanted| wanted.role);
            let (Some(action), Some(role)) = (action, role.and_then(|role| rule.roles.get(role))) else {
                continue;
            };
            let key = (function.to_owned(), argument);
            let is_unknown = |process: &&SeenProcess| {
                process.functions.contains_key(function) && !process.parameters.contains_key(&key)
            };
            if stated.is_none() && self.members(&role.name).iter().any(is_unknown) {
                let what = format!("{function}({argument})");
                self.type_not_known(&what, action.target.span);
            }
        }
    }

    /// Whether each of the processes has the function.
    fn function(&mut self, name: &str, span: Span, members: &[&SeenProcess]) -> bool {
        let lacking: Vec<&&SeenProcess> = members
            .iter()
            .filter(|process| !process.functions.contains_key(name))
            .collect();
        if let Some(first) = lacking.first() {
            let near = nearest(name, &self.names.functions);
            let message = format!(
                "{} no function `{name}`",
                who(lacking.len(), members.len(), &first.name)
            );
            let wrong = Diagnostic::wrong("E0161", span, message);
            let help = match first.is_stripped {
                true => STRIPPED.to_string(),
                false => format!("it may be inlined everywhere, or spelt differently: `--bind {name}=OTHER`"),
            };
            self.report(wrong.help(near.unwrap_or(help)));
            return false;
        }
        let several = members
            .iter()
            .find(|process| process.functions.get(name).is_some_and(|files| files.len() > 1));
        if let Some(process) = several {
            let files = process
                .functions
                .get(name)
                .map(|files| files.join(", "))
                .unwrap_or_default();
            let message = format!("{} has several functions `{name}`: in {files}", process.name);
            let wrong = Diagnostic::warning("E0163", message).at(span, "each of them is probed");
            self.report(wrong);
        }
        !members.is_empty()
    }

    fn capture(&mut self, probe: &PlannedProbe, capture: &PlannedCapture, members: &[&SeenProcess]) {
        let span = self.place_of(probe, capture);
        match (&capture.source.base, capture.source.steps.as_slice()) {
            (Base::Global(name), []) => {
                for process in members {
                    let Some(Ok(seen)) = process.variables.get(name) else {
                        return self.no_variable(name, span, process, members);
                    };
                    if seen.of.is_none() && capture.layout.is_none() {
                        return self.type_not_known(name, span);
                    }
                    let stated = capture.layout.map(Layout::name);
                    if let (Some(stated), Some(of)) = (stated, &seen.of)
                        && stated != *of
                    {
                        let message =
                            format!("`{name}` is read as {stated}, and the program says that it is {of}");
                        let wrong = Diagnostic::warning("E0165", message).at(span, "");
                        return self
                            .report(wrong.help(format!("write `{name} as {of}`, or leave the type out")));
                    }
                }
            }
            (Base::Argument(number), []) => {
                let key = (probe.function.clone(), *number);
                let known = members.iter().find_map(|process| process.parameters.get(&key));
                match known {
                    Some(of) if of.starts_with('f') => {
                        let message = format!(
                            "parameter {number} of `{}` is {of}, which a probe cannot read",
                            probe.function
                        );
                        let wrong = Diagnostic::wrong("E0165", span, message);
                        self.report(
                            wrong.help("let the program keep it in a global variable, and name that"),
                        );
                    }
                    None if capture.layout.is_none() && !members.is_empty() => {
                        self.type_not_known(&format!("arg({number})"), span);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn type_not_known(&mut self, what: &str, span: Span) {
        let message =
            format!("the type of `{what}` is not known: the program has no debug information on it");
        let wrong = Diagnostic::wrong("E0164", span, message);
        self.report(wrong.help(format!("state it: `{what} as i32`")));
    }

    fn written(&mut self, variable: &PlannedVariable) {
        let file = self.file;
        let is_of = |set: &str| {
            let name = set.rsplit_once(" as ").map_or(set, |(name, _)| name.trim());
            file.bound(name) == variable.name
        };
        let sets = file.tunes.iter().filter_map(|tune| tune.action.as_ref());
        let sets = sets
            .filter(|action| action.keyword == Keyword::Set)
            .map(|action| &action.target);
        let Some(set) = sets.into_iter().find(|set| is_of(&set.raw)) else {
            return;
        };
        let members = self.members(&variable.role);
        for process in &members {
            if variable.everywhere
                && matches!(
                    process.variables.get(&variable.name),
                    Some(Err(NoVariable::Several(_)))
                )
            {
                let text = format!("writes {}, every copy of it, as the rule says it", variable.name);
                return self.effect(&members, text);
            }
            let Some(Ok(seen)) = process.variables.get(&variable.name) else {
                return self.no_variable(&variable.name, set.span, process, &members);
            };
            let wrong = match &seen.refusal {
                Some(WriteObstacle::ReadOnly(why)) => Diagnostic::error("E0166", why.clone()),
                Some(WriteObstacle::Type(why)) => Diagnostic::error("E0165", why.clone()),
                Some(WriteObstacle::Other(why)) => Diagnostic::error("E0167", why.clone()),
                None if variable.kind == VariableKind::Number && seen.of.as_deref() == Some("bool") => {
                    let message = format!(
                        "`{}` is true or false in the program, and the rule sets it to a number",
                        variable.name
                    );
                    Diagnostic::error("E0165", message).help("compare: `x > 1`, or write `true`")
                }
                None => continue,
            };
            return self.report(wrong.at(set.span, ""));
        }
        let seen = members
            .iter()
            .filter_map(|process| process.variables.get(&variable.name)?.as_ref().ok());
        if let Some(first) = seen.into_iter().next() {
            let of = first.of.as_deref().unwrap_or("of the size of the value");
            let now = first
                .now
                .as_ref()
                .map_or(String::new(), |now| format!(", now {now}"));
            let range = variable
                .range
                .as_ref()
                .map_or(String::new(), |range| format!(", only where {range}"));
            let text = format!("writes {} ({of}{range}{now}) in {}", variable.name, first.file);
            self.effect(&members, text);
        }
    }

    /// Reports constants that the variable's type cannot represent: 1.5 for an integer.
    fn constants(&mut self, rule: &CheckedRule) {
        for change in rule.tunes.iter().filter_map(|tune| tune.action.as_ref()) {
            let (Action::Set(set), [formula], Some(role)) = (
                &change.action,
                change.formulas.as_slice(),
                rule.roles.get(change.role),
            ) else {
                continue;
            };
            for process in self.members(&role.name) {
                let Some(Ok(seen)) = process.variables.get(&set.variable) else {
                    continue;
                };
                // Variables that cannot be written, and numbers for booleans, are reported already.
                let of = seen.of.as_ref().and_then(|of| of.parse().ok());
                let of = of.filter(|of| seen.refusal.is_none() && *of != ValueType::Bool);
                if let Some(why) = of.and_then(|of| constant_mismatch(&formula.value, of)) {
                    self.report(Diagnostic::wrong("E0165", formula.value.span, why.to_string()));
                    break;
                }
            }
        }
    }

    fn no_variable(&mut self, name: &str, span: Span, process: &SeenProcess, members: &[&SeenProcess]) {
        let wrong = match process.variables.get(name) {
            Some(Err(NoVariable::Several(indices))) => {
                let message = format!(
                    "`{name}` means several variables of {}: {}",
                    process.name,
                    indices.join(", ")
                );
                Diagnostic::wrong("E0163", span, message)
                    .help("which of them the program uses is not known: `in: all` of a tune sets every copy, or name another variable")
            }
            Some(Err(NoVariable::Other(why))) => Diagnostic::wrong("E0167", span, why.clone()),
            _ => {
                let has = |process: &&&SeenProcess| matches!(process.variables.get(name), Some(Ok(_)));
                let lacking = members.len() - members.iter().filter(has).count();
                let message = format!(
                    "{} no variable `{name}`",
                    who(lacking, members.len(), &process.name)
                );
                let near = nearest(name, &self.names.variables);
                let help = match process.is_stripped {
                    true => STRIPPED.to_string(),
                    false => format!("it may be optimised away, or spelt differently: `--bind {name}=OTHER`"),
                };
                Diagnostic::wrong("E0162", span, message).help(near.unwrap_or(help))
            }
        };
        self.report(wrong);
    }

    /// Where the rule states the capture.
    fn place_of(&self, probe: &PlannedProbe, capture: &PlannedCapture) -> Span {
        let entries = self
            .file
            .captures
            .iter()
            .filter(|entry| entry.probe.raw == probe.name);
        let mut indices = entries.flat_map(|entry| entry.expr.names());
        let wanted = match &capture.source.base {
            Base::Global(name) => name.as_str(),
            Base::Argument(_) | Base::NamedArgument(_) => "arg",
            Base::ReturnValue => "ret",
            Base::Known(_) => return self.file.name.span,
        };
        let found = indices.find(|(name, _)| *name == wanted || self.file.bound(name) == wanted);
        found.map_or(self.file.name.span, |(_, span)| span)
    }

    fn effect(&mut self, members: &[&SeenProcess], text: String) {
        let text = match members {
            [] => return,
            [one] => format!("{text}, {}", one.name),
            many => format!("{text}, {} processes", many.len()),
        };
        self.fit.effects.push(text);
    }
}

fn who(lacking: usize, members: usize, first: &str) -> String {
    match (lacking, members) {
        (1, _) => format!("{first} has"),
        (lacking, members) if lacking == members => format!("the {members} processes have"),
        (lacking, members) => format!("{lacking} of the {members} processes have"),
    }
}

/// The name nearest to `name`, among very many.
fn nearest(name: &str, all: &[String]) -> Option<String> {
    let length = name.len();
    let near = all
        .iter()
        .filter(|other| other.len().abs_diff(length) <= 1 + length / 4);
    did_you_mean(name, near.map(String::as_str))
}

fn joined(parts: BTreeSet<&str>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
