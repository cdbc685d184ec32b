//! The text of a rule to begin with. It passes the check as it is, finds something, and changes nothing; what could be
//! changed is there as a comment.

use std::fmt::Write;

use super::candidates::{Candidates, Function, Part};

/// For what a rule probes, in the order they are written, the name of the probe.
const PROBES: &[(Part, &str)] = &[
    (Part::Step, "step"),
    (Part::Send, "send"),
    (Part::Receive, "receive"),
    (Part::Exchange, "exchange"),
    (Part::Compute, "compute"),
];

/// What the rule is written around.
struct Plan<'a> {
    /// The role whose processes are measured.
    role: &'static str,
    /// Begin and end of the loop.
    borders: Option<(&'a str, &'a str)>,
    /// Name of the probe, and function.
    spans: Vec<(&'static str, &'a str)>,
}

impl<'a> Plan<'a> {
    fn new(candidates: &'a Candidates) -> Plan<'a> {
        let of = |part: Part| {
            let mut functions = candidates.functions.iter();
            functions.find(|function| function.part == Some(part))
        };
        let named = |(part, name): &(Part, &'static str)| Some((*name, of(*part)?.name.as_str()));
        let mut spans: Vec<_> = PROBES.iter().filter_map(named).collect();
        if let ([], Some(first)) = (spans.as_slice(), candidates.functions.first()) {
            spans.push(("part", &first.name));
        }
        let name = |function: &'a Function| function.name.as_str();
        Plan {
            role: if candidates.is_mpi { "everyone" } else { "program" },
            borders: of(Part::Begin).map(name).zip(of(Part::End).map(name)),
            spans,
        }
    }

    fn window(&self) -> &'static str {
        if self.borders.is_some() {
            "iteration"
        } else {
            "pulse"
        }
    }
}

/// The text of a rule called `name` for a program that offers this; without a program for any.
pub(super) fn skeleton(name: &str, candidates: Option<&Candidates>) -> String {
    let nothing = Candidates::default();
    let offered = candidates.unwrap_or(&nothing);
    let plan = Plan::new(offered);
    let mut text = format!(
        "# yaml-language-server: $schema=rule.schema.json
# For editors; `tuneagent rule schema > rule.schema.json` writes it. `tuneagent rule check FILE --pid PID` looks at it
# and at the program, `tuneagent attach PID --rules FILE` runs it, and with `--apply` it may change something.
rule: {name}
about: Processes that wait for a CPU are in each other's way.     # what the rule is for, in a sentence
source: none                      # where the idea comes from

parameters:                       # --param limit=30%
  limit: 20%

"
    );
    roles(&mut text, offered);
    probes(&mut text, offered, &plan);
    captures(&mut text, offered, &plan);
    metrics(&mut text, &plan);
    tune(&mut text, offered, &plan);
    text
}

/// Writing into memory does not fail.
macro_rules! line {
    ($text:expr, $($argument:tt)*) => {{ let _ = writeln!($text, $($argument)*); }};
}

fn roles(text: &mut String, offered: &Candidates) {
    line!(
        text,
        "roles:                            # which processes the rule is about"
    );
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let exe = Some(offered.exe.as_str()).filter(|exe| !exe.is_empty() && exe.chars().all(is_plain));
    if offered.is_mpi {
        line!(text, "  everyone: rank >= 0");
        line!(text, "  master:   rank == 0");
        line!(text, "  worker:   rank > 0\n");
    } else if let Some(exe) = exe {
        line!(text, "  program: exe == \"{exe}\"\n");
    } else {
        line!(
            text,
            "  program: exe != \"\"              # every process; better `exe == \"simulate\"`\n"
        );
    }
}

fn probes(text: &mut String, offered: &Candidates, plan: &Plan<'_>) {
    if plan.spans.is_empty() {
        if offered.cxx_functions > 0 {
            let many = offered.cxx_functions;
            line!(
                text,
                "# {many} functions of the program have C++ names: write them as the linker does (nm)."
            );
        }
        line!(
            text,
            "#probes:                          # functions that are watched: entry, return, or span for durations"
        );
        line!(text, "#  step: {{role: {}, span: do_step}}\n", plan.role);
        return;
    }
    line!(
        text,
        "probes:                           # functions that are watched; guessed from their names"
    );
    if let Some((begin, end)) = plan.borders {
        let role = if offered.is_mpi { "master" } else { plan.role };
        line!(text, "  begin: {{role: {role}, entry: {begin}}}");
        line!(text, "  end: {{role: {role}, return: {end}}}");
    }
    for (name, function) in &plan.spans {
        line!(text, "  {name}: {{role: {}, span: {function}}}", plan.role);
    }
    let is_used = |name: &str| {
        plan.spans.iter().any(|(_, function)| *function == name)
            || plan
                .borders
                .is_some_and(|(begin, end)| name == begin || name == end)
    };
    let others: Vec<&Function> = offered
        .functions
        .iter()
        .filter(|function| !is_used(&function.name))
        .collect();
    if !others.is_empty() {
        line!(
            text,
            "  # Other functions of the program, with the number of places that call them:"
        );
    }
    for function in others {
        line!(text, "  #   {:<30} {}", function.name, function.callers);
    }
    if offered.more_functions > 0 {
        line!(text, "  # and {} more", offered.more_functions);
    }
    text.push('\n');
}

fn captures(text: &mut String, offered: &Candidates, plan: &Plan<'_>) {
    if let (Some((probe, _)), Some(variable)) = (plan.spans.first(), offered.variables.first()) {
        line!(
            text,
            "#capture:                         # what is read in the program at each hit"
        );
        line!(text, "#  {probe}.number: {}", variable.name);
        line!(text, "#  {probe}.size: arg(0) as i32 * 1B\n");
    }
    if !offered.variables.is_empty() {
        line!(
            text,
            "# Variables of the program that a rule can read and set, with type and value:"
        );
        for variable in &offered.variables {
            let of = variable.of.unwrap_or("no debug information");
            let now = variable
                .now
                .as_deref()
                .map_or(String::new(), |now| format!(", now {now}"));
            line!(text, "#   {:<30} {of}{now}", variable.name);
        }
        text.push('\n');
    }
}

fn metrics(text: &mut String, plan: &Plan<'_>) {
    line!(
        text,
        "windows:                          # when formulas are evaluated"
    );
    match plan.borders {
        Some(_) => line!(text, "  iteration: {{from: begin, to: end}}\n"),
        None => line!(text, "  pulse: {{every: 500ms}}\n"),
    }
    line!(
        text,
        "metrics:                          # in any order; units are checked"
    );
    line!(
        text,
        "  waiting: sum(runqueue.time) / sum(cpu.time + runqueue.time)"
    );
    for (probe, _) in &plan.spans {
        line!(text, "  {probe}_time: mean({probe}.duration)");
        line!(
            text,
            "  {probe}_rate: count({probe}) / {}.duration",
            plan.window()
        );
    }
    text.push('\n');
}

fn tune(text: &mut String, offered: &Candidates, plan: &Plan<'_>) {
    let role = plan.role;
    line!(text, "tune:");
    line!(text, "  - when: waiting > limit         # advice only");
    line!(text, "    for: 3                        # windows in a row");
    let finding = match plan.spans.first() {
        Some((probe, _)) => format!(", {probe} takes {{{probe}_time}}"),
        None => String::new(),
    };
    line!(
        text,
        "    finding: \"{{waiting:%}} of the time is spent waiting for a CPU{finding}\""
    );
    let (variable, is_boolean) = match offered.variables.first() {
        Some(variable) => (variable.name.as_str(), variable.of == Some("bool")),
        None => ("number_of_threads", false),
    };
    let objective = plan
        .spans
        .first()
        .map_or("sum(cpu.time)".to_owned(), |(probe, _)| format!("{probe}_rate"));
    line!(
        text,
        "  # A change. It is undone when the guard sees the program become slower."
    );
    line!(text, "  #- set: {variable}");
    line!(text, "  #  role: {role}");
    if is_boolean {
        line!(text, "  #  value: true");
    } else {
        line!(text, "  #  value: max(1, floor(min(cpus.available)))");
        line!(text, "  #  range: 1 <= value <= 64");
    }
    line!(text, "  #  when: waiting > limit");
    line!(text, "  #  for: 3");
    line!(text, "  #  guard:");
    line!(text, "  #    maximize: {objective}");
    line!(text, "  #    over: 5");
    line!(text, "  #    undo_if_worse_by: 5%");
}

#[cfg(test)]
mod tests {
    use super::super::candidates::Variable;
    use super::*;

    fn function(name: &str, part: Option<Part>) -> Function {
        Function {
            name: name.into(),
            part,
            callers: 2,
        }
    }

    /// Every combination of what a program may offer.
    fn every() -> Vec<Candidates> {
        let parts = [
            Part::Begin,
            Part::End,
            Part::Step,
            Part::Send,
            Part::Receive,
            Part::Exchange,
            Part::Compute,
        ];
        let mut all = Vec::new();
        for chosen in 0..1_u32 << parts.len() {
            let mut functions: Vec<Function> = parts
                .iter()
                .enumerate()
                .filter(|(place, _)| chosen & (1 << place) != 0)
                .map(|(_, part)| function(&format!("{part:?}_it").to_lowercase(), Some(*part)))
                .collect();
            if chosen % 2 == 0 {
                functions.push(function("other", None));
            }
            for (is_mpi, exe, of) in [
                (false, "simulate", Some("i32")),
                (true, "a b\"c: #", Some("bool")),
                (false, "x: \"y\" #z", None),
            ] {
                let variables = of.map(|of| Variable {
                    name: "chunk".into(),
                    of: Some(of),
                    now: Some("4".into()),
                });
                all.push(Candidates {
                    exe: exe.into(),
                    is_mpi,
                    functions: functions.clone(),
                    variables: variables.into_iter().collect(),
                    more_functions: 3,
                    cxx_functions: 7,
                });
            }
        }
        all
    }

    fn assert_checked(text: &str) {
        match rules::CheckedRule::from_source(text) {
            // A probe without a metric is what its author goes on with.
            Ok(rule) => assert!(rule.warnings().iter().all(|of| of.code == "E0152"), "{text}"),
            Err(wrong) => panic!("{text}\n{}", rules::render("new.yaml", text, &wrong)),
        }
    }

    /// The text with one part no longer a comment.
    fn with(text: &str, part: &str) -> Option<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let first = lines
            .iter()
            .position(|line| line.trim_start().starts_with(part))?;
        for line in &mut lines[first..] {
            if !line.trim_start().starts_with('#') {
                break;
            }
            *line = line.replacen('#', "", 1);
        }
        Some(lines.join("\n"))
    }

    #[test]
    fn every_skeleton_passes_the_check_as_it_is_and_with_its_change_and_its_captures() {
        for candidates in every().iter().map(Some).chain([None]) {
            let text = skeleton("new-rule", candidates);
            assert_checked(&text);
            assert_eq!(
                rules::CheckedRule::from_source(&text).unwrap().warnings(),
                [],
                "{text}"
            );
            for part in ["#probes:", "#capture:", "#- set:"] {
                if let Some(text) = with(&text, part) {
                    assert_checked(&text);
                }
            }
            assert!(with(&text, "#- set:").is_some());
        }
    }

    #[test]
    fn a_skeleton_reads_well() {
        let mut offered = every().pop().unwrap();
        offered.exe = "simulate".into();
        offered.is_mpi = true;
        offered.variables = vec![Variable {
            name: "chunk".into(),
            of: Some("i32"),
            now: Some("4".into()),
        }];
        offered.functions.push(function("other", None));
        insta::assert_snapshot!("of_a_program", skeleton("new-rule", Some(&offered)));
        insta::assert_snapshot!("of_none", skeleton("new-rule", None));
    }
}
