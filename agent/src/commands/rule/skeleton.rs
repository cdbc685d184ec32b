//! The template of a rule. It passes the check as it is, has a finding, and changes nothing; possible changes
//! are commented out.

use super::candidates::Candidates;

/// The template of a rule with this name, for a program with these candidates or for any program.
pub(super) fn skeleton(name: &str, candidates: Option<&Candidates>) -> String {
    let nothing = Candidates::default();
    let offered = candidates.unwrap_or(&nothing);
    let role = if offered.is_mpi { "member" } else { "program" };
    let (metrics, finding, objective) = match offered.functions.first() {
        None => ("", "", "sum(cpu.time)"),
        Some(_) => (
            "  part_time: mean(part.duration)\n  part_rate: count(part) / pulse.duration\n",
            "; part takes {part_time}",
            "part_rate",
        ),
    };
    let variable = offered.variables.first();
    let value = match variable.and_then(|variable| variable.of) {
        Some("bool") => "true",
        _ => "max(1, floor(min(cpus.available)))\n  #  range: 1 <= value <= 64",
    };
    let variable = variable.map_or("number_of_threads", |variable| &variable.name);
    let [roles, probes, captures] = [roles(offered), probes(offered, role), captures(offered)];
    format!(
        "# yaml-language-server: $schema=rule.schema.json
# For editors; `tuneagent rule schema > rule.schema.json` writes it. `tuneagent rule check FILE --pid PID` looks at it
# and at the program, `tuneagent attach PID --rules FILE` runs it, and with `--apply` it may change something.
rule: {name}
about: Processes that wait for a CPU are in each other's way.     # what the rule is for, in a sentence
source: none                      # where the idea comes from

parameters:                       # --param limit=30%
  limit: 20%

roles:                            # which processes the rule is about
{roles}
{probes}
{captures}windows:                          # when formulas are evaluated
  pulse: {{every: 500ms}}

metrics:                          # in any order; units are checked
  waiting: sum(runqueue.time) / sum(cpu.time + runqueue.time)
{metrics}
tune:
  - when: waiting > limit         # advice only
    for: 3                        # windows in a row
    finding: \"{{waiting:%}} of the time that the processes want a CPU they wait for one{finding}\"
  # A change. The guard keeps it only where {objective} has surely become better.
  #- set: {variable}
  #  role: {role}
  #  value: {value}
  #  when: waiting > limit
  #  for: 3
  #  guard:
  #    maximize: {objective}
  #    over: 5
  #    undo_if_worse_by: 5%
"
    )
}

fn roles(offered: &Candidates) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if offered.is_mpi {
        "  member: rank >= 0\n  master: rank == 0\n  worker: rank > 0\n".to_owned()
    } else if !offered.exe.is_empty() && offered.exe.chars().all(is_plain) {
        format!("  program: exe == \"{}\"\n", offered.exe)
    } else {
        "  program: exe != \"\"              # every process; better `exe == \"simulate\"`\n".to_owned()
    }
}

/// Probes the function with the most call sites, and lists the others.
fn probes(offered: &Candidates, role: &str) -> String {
    let Some((first, others)) = offered.functions.split_first() else {
        let hint = match offered.cxx_functions {
            0 => String::new(),
            many => format!(
                "# {many} functions of the program have C++ names: write them as the linker does (nm).\n"
            ),
        };
        return format!(
            "{hint}#probes:                          # functions that are watched: entry, return, or span for durations
#  step: {{role: {role}, span: do_step}}\n"
        );
    };
    let mut text = format!(
        "probes:                           # functions that are watched: entry, return, or span for durations
  part: {{role: {role}, span: {}}}\n",
        first.name
    );
    if !others.is_empty() {
        text += "  # Other functions of the program, with the number of places that call them:\n";
    }
    for function in others {
        text += &format!("  #   {:<30} {}\n", function.name, function.callers);
    }
    if offered.more_functions > 0 {
        text += &format!("  # and {} more\n", offered.more_functions);
    }
    text
}

fn captures(offered: &Candidates) -> String {
    let Some(first) = offered.variables.first() else {
        return String::new();
    };
    let mut text = String::new();
    if !offered.functions.is_empty() {
        text += &format!(
            "#capture:                         # what is read in the program at each hit
#  part.number: {}\n#  part.size: arg(0) as i32 * 1B\n\n",
            first.name
        );
    }
    text += "# Variables of the program that a rule can read and set, with type and value:\n";
    for variable in &offered.variables {
        let of = variable.of.unwrap_or("no debug information");
        let now = variable.now.as_ref().map(|now| format!(", now {now}"));
        text += &format!("#   {:<30} {of}{}\n", variable.name, now.unwrap_or_default());
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::candidates::{Function, Variable};
    use super::*;

    fn function(name: &str) -> Function {
        Function {
            name: name.into(),
            callers: 2,
        }
    }

    /// All combinations of what a program may offer.
    fn every() -> Vec<Candidates> {
        let programs = [
            (false, "simulate", Some("i32")),
            (true, "a b\"c: #", Some("bool")),
            (false, "x: \"y\" #z", None),
        ];
        let with = |functions: &[&str]| {
            programs.map(|(is_mpi, exe, of)| Candidates {
                exe: exe.into(),
                is_mpi,
                functions: functions.iter().map(|name| function(name)).collect(),
                variables: Vec::from_iter(of.map(|of| Variable {
                    name: "chunk".into(),
                    of: Some(of),
                    now: Some("4".into()),
                })),
                more_functions: 3,
                cxx_functions: 7,
            })
        };
        [with(&[]), with(&["step"]), with(&["step", "other"])].concat()
    }

    fn assert_checked(text: &str) {
        match rules::CheckedRule::from_source(text) {
            // A probe without a metric is the author's next step.
            Ok(rule) => assert!(rule.warnings().iter().all(|of| of.code == "E0152"), "{text}"),
            Err(wrong) => panic!("{text}\n{}", rules::render("new.yaml", text, &wrong)),
        }
    }

    /// Uncomments one part of the text.
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
        insta::assert_snapshot!("of_a_program", skeleton("new-rule", Some(&offered)));
        insta::assert_snapshot!("of_none", skeleton("new-rule", None));
    }
}
