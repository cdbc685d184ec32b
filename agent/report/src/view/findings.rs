//! What the rules found, or why they are silent, in lines.

use std::{collections::BTreeSet, time::Duration};

use profile::{
    format::{duration, percent, plural},
    snapshot::{FindingView, RuleView, Snapshot, Standing, outcome::REVERTED},
};

/// Findings shown; of more, users read none.
const FINDINGS_SHOWN: usize = 5;
/// In a shorter time few windows of rules close.
const SHORT: Duration = Duration::from_millis(500);
/// A program that wants fewer CPUs than this loses nothing by waiting for them.
const WANTED_MIN: f64 = 0.5;
/// Waiting for a greater share of the time is worth a word.
const WAITING_SHOWN: f64 = 0.2;

/// What the rules found, or that there is nothing; verbosely also what each rule saw.
pub(super) fn lines(snapshot: &Snapshot, is_verbose: bool) -> Vec<String> {
    if snapshot.rules.is_empty() {
        return Vec::new();
    }
    if snapshot.findings.is_empty() {
        return no_lines(snapshot, is_verbose);
    }
    let mut lines = vec![format!(" {}", plural(snapshot.findings.len(), "finding"))];
    for (index, finding) in snapshot.findings.iter().take(FINDINGS_SHOWN).enumerate() {
        lines.extend(block(index + 1, finding));
        // What is repaired fails its conditions now: that is no state of it.
        let is_in_force = |rule: &RuleView| matches!(rule.standing, Standing::Applied | Standing::OnTrial);
        let tunes = shown_rules(snapshot).filter(|rule| rule.name == finding.rule);
        let tunes = tunes.filter(|rule| !(is_in_force(rule) && was_reverted(snapshot, &rule.name)));
        let tunes = tunes.filter(|rule| !finding.repaired || finding.now.is_none() && is_in_force(rule));
        lines.extend(state(tunes).map(|state| format!("    state  {state}")));
        let left_out = shown_rules(snapshot).find(|rule| rule.name == finding.rule);
        let left_out = left_out.and_then(RuleView::left_out);
        lines.extend(left_out.map(|text| format!("    {text}")));
    }
    let rest = snapshot.findings.len().saturating_sub(FINDINGS_SHOWN);
    if rest > 0 {
        lines.push(format!(
            " and {}; the report has all",
            plural(rest, "more finding")
        ));
    }
    lines.extend(conflict_lines(snapshot));
    lines
}

/// All that a rule changed is as it was: the session is over, and what its tunes say of it is not so any
/// more.
fn was_reverted(snapshot: &Snapshot, rule: &str) -> bool {
    let mut changes = snapshot
        .changes
        .iter()
        .filter(|change| change.rule == rule)
        .peekable();
    changes.peek().is_some() && changes.all(|change| change.outcome == REVERTED)
}

/// The state of a rule: that of the tune that got farthest. What another one waits for contradicts it.
pub(super) fn state<'a>(tunes: impl Iterator<Item = &'a RuleView>) -> Option<&'a str> {
    let farthest = |one: &'a RuleView, other: &'a RuleView| match other.standing > one.standing {
        true => other,
        false => one,
    };
    tunes.reduce(farthest).map(|rule| rule.state.as_str())
}

/// Of each finding when it was made, its first sentence and its command.
pub(super) fn brief(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![format!(
        " {}, all of it in Rules",
        plural(snapshot.findings.len(), "finding")
    )];
    for (index, finding) in snapshot.findings.iter().take(FINDINGS_SHOWN).enumerate() {
        let first = block(index + 1, finding).swap_remove(0);
        let at = duration(finding.at.as_nanos() as f64);
        lines.push(format!("{} (after {at})", first.trim_end_matches(':')));
        let command = finding.now.as_deref().and_then(|now| now.lines().next());
        lines.extend(command.map(|command| format!("    now    {command}")));
    }
    lines
}

/// Rules without a finding, which only follow what they measure, and give way to another rule.
fn conflict_lines(snapshot: &Snapshot) -> Vec<String> {
    let has_found = |rule: &RuleView| snapshot.findings.iter().any(|finding| finding.rule == rule.name);
    let gives_way = |rule: &RuleView| rule.standing == Standing::GivesWay;
    let mut reported = BTreeSet::new();
    let conflicts = shown_rules(snapshot).filter(|rule| gives_way(rule) && !has_found(rule));
    let conflicts = conflicts.filter(|rule| reported.insert((&rule.name, &rule.state)));
    conflicts.map(state_line).collect()
}

fn state_line(rule: &RuleView) -> String {
    let left_out = rule.left_out();
    let left_out = left_out.map_or_else(String::new, |text| format!("\n    {:<22} {text}", ""));
    format!("    {:<22} {}{left_out}", rule.name, rule.state)
}

/// That there is none. Why a rule has no finding is shown for rules that the user named, and verbosely for
/// all.
fn no_lines(snapshot: &Snapshot, is_verbose: bool) -> Vec<String> {
    let all = names(&snapshot.rules).len();
    let fitting = names(snapshot.rules.iter().filter(|rule| rule.had_processes)).len();
    let counting = names(shown_rules(snapshot).filter(|rule| rule.standing == Standing::Counting));
    let had_value = snapshot.rules.iter().any(|rule| rule.had_value);
    let mut lines = Vec::new();
    if !counting.is_empty() {
        let counting: Vec<&str> = counting.into_iter().collect();
        lines.push(format!(
            " no findings yet: the conditions of {} hold, and are checked for some more windows",
            counting.join(", ")
        ));
    } else if snapshot.elapsed < SHORT && has_ended(snapshot) {
        lines.push(" no findings: this was too short".to_owned());
    } else if has_ended(snapshot) && !had_value {
        lines.push(format!(
            " no findings: none of {} had a value while the program ran",
            plural(all, "rule")
        ));
    } else {
        let fitting = match fitting {
            0 => "no rule fits".to_owned(),
            1 => "1 rule fits".to_owned(),
            more => format!("{more} rules fit"),
        };
        lines.push(format!(" no findings: {fitting} this program"));
        lines.extend(waits_for_others(snapshot));
        if is_verbose {
            lines.extend(silent_lines(snapshot));
        }
    }
    // Each tune of a rule has a line of its own, unless it says the same. Where few rules are loaded, the user has chosen them.
    let mut reported = BTreeSet::new();
    let are_chosen = all <= FINDINGS_SHOWN;
    let states = shown_rules(snapshot).filter(|rule| is_verbose || are_chosen || !is_shipped(&rule.name));
    let states = states.filter(|rule| reported.insert((&rule.name, &rule.state)));
    lines.extend(states.map(state_line));
    lines
}

pub(super) fn is_shipped(rule: &str) -> bool {
    let mut shipped = rules::library().iter().chain(rules::models());
    shipped.any(|(name, _)| *name == rule)
}

/// The rules with something to show. When a program ends, its last window is one that no process ran to the
/// end: that it has no value says nothing about the program, and every rule would show it. The report has it.
fn shown_rules(snapshot: &Snapshot) -> impl Iterator<Item = &RuleView> {
    let has_ended = has_ended(snapshot);
    let rules = snapshot.rules.iter();
    rules.filter(move |rule| !(has_ended && rule.saw_no_process))
}

/// Of the others those that had none before either, once the program has ended: there was no process for
/// them, or why, the report has.
fn silent_lines(snapshot: &Snapshot) -> Vec<String> {
    if !has_ended(snapshot) {
        return Vec::new();
    }
    let spoke = names(
        snapshot
            .rules
            .iter()
            .filter(|rule| rule.had_value || !rule.saw_no_process),
    );
    let is_other = |rule: &RuleView| !rule.had_processes && rule.standing == Standing::NoValue;
    let line = |what: &str, others: bool| {
        let mut silent = names(snapshot.rules.iter().filter(|rule| is_other(rule) == others));
        silent.retain(|name| !spoke.contains(name));
        (!silent.is_empty()).then(|| format!("    {what}: {}", Vec::from_iter(silent).join(", ")))
    };
    let lines = [
        line("matched no process", true),
        line("no value while it ran", false),
    ];
    lines.into_iter().flatten().collect()
}

fn has_ended(snapshot: &Snapshot) -> bool {
    !snapshot.processes.is_empty() && snapshot.running().next().is_none()
}

/// Of rules, each once.
fn names<'a>(rules: impl IntoIterator<Item = &'a RuleView>) -> BTreeSet<&'a str> {
    rules.into_iter().map(|rule| rule.name.as_str()).collect()
}

/// What no rule of this program's can change: others have its CPUs.
fn waits_for_others(snapshot: &Snapshot) -> Option<String> {
    let rates = snapshot
        .processes
        .iter()
        .filter_map(|process| process.rates.or(process.overall));
    let (cpu, waiting) = rates.fold((0.0, 0.0), |sum, rates| {
        (sum.0 + rates.cpu, sum.1 + rates.runqueue)
    });
    let share = waiting / (cpu + waiting);
    let allowed = snapshot.cpus.as_ref().map(|cpus| cpus.allowed);
    let advice = match allowed.filter(|allowed| cpu + waiting > *allowed) {
        Some(allowed) => format!(
            "it wants {:.1} CPUs and may use {allowed:.1}: start fewer ranks or threads",
            cpu + waiting
        ),
        None => "other programs use its CPUs (tuneagent ps names them): wait for them, or use other CPUs"
            .to_owned(),
    };
    let waits = cpu + waiting > WANTED_MIN && share > WAITING_SHOWN;
    waits.then(|| {
        format!(
            "    but it waits for a CPU {} of the time that it wants one; {advice}",
            percent(share)
        )
    })
}

pub(super) fn block(number: usize, finding: &FindingView) -> Vec<String> {
    let mut lines = Vec::new();
    let mut text = finding.text.lines();
    let repaired = match (finding.repaired, &finding.now) {
        (true, None) => " (repaired)",
        (true, Some(_)) => " (repaired; reverted at the end, without --keep)",
        (false, _) => "",
    };
    lines.push(format!(
        " {number}  {}{repaired}   {}",
        finding.rule,
        text.next().unwrap_or_default()
    ));
    lines.extend(text.map(|line| format!("    {line}")));
    for (word, advice) in [("now", &finding.now), ("next", &finding.next_start)] {
        for (index, line) in advice.iter().flat_map(|advice| advice.lines()).enumerate() {
            lines.push(format!("    {:<6} {line}", if index == 0 { word } else { "" }));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::screen::tests::snapshot;
    use super::*;

    #[test]
    fn that_nothing_is_to_be_won_is_said_only_when_no_rule_is_about_to_find_something() {
        let mut snapshot = snapshot(2);
        let rule = |standing, state: &str| RuleView {
            name: "blas-threads".into(),
            mode: "advising",
            state: state.into(),
            standing,
            ..RuleView::default()
        };
        let quiet = rule(Standing::Quiet, "condition false");
        snapshot.rules = vec![rule(Standing::Counting, "2 of 3 windows"), quiet.clone()];
        let said = lines(&snapshot, true);
        assert!(
            said[0].starts_with(" no findings yet: the conditions of blas-threads hold"),
            "{said:?}"
        );
        snapshot.rules = vec![quiet];
        assert!(lines(&snapshot, true)[0].starts_with(" no findings: "));
    }

    #[test]
    fn a_rule_with_several_tunes_has_one_state_that_of_the_tune_that_got_farthest() {
        let mut snapshot = snapshot(2);
        let rule = |standing, state: &str| RuleView {
            name: "openmp-team-size".into(),
            mode: "advising",
            state: state.into(),
            standing,
            ..RuleView::default()
        };
        snapshot.rules = vec![
            rule(Standing::Quiet, "condition false: pace > 5/s (3/s)"),
            rule(Standing::Advising, "advising: its condition holds"),
            rule(Standing::NoValue, "no value: pace has no value"),
        ];
        snapshot.findings.push(FindingView {
            rule: "openmp-team-size".into(),
            text: "the threads want 2 CPUs:\nthey wait".into(),
            ..FindingView::default()
        });
        insta::assert_snapshot!(lines(&snapshot, false).join("\n"), @"
        1 finding
        1  openmp-team-size   the threads want 2 CPUs:
           they wait
           state  advising: its condition holds
        ");
        assert!(brief(&snapshot)[1].ends_with("want 2 CPUs (after 0 ns)"));

        // What was reverted at the end is not applied.
        snapshot.rules = vec![rule(Standing::Applied, "applied")];
        assert!(lines(&snapshot, false).concat().contains("state  applied"));
        snapshot.changes.push(profile::snapshot::ChangeView {
            rule: "openmp-team-size".into(),
            outcome: REVERTED.into(),
            ..Default::default()
        });
        assert!(!lines(&snapshot, false).concat().contains("state  applied"));
    }

    #[test]
    fn that_all_ranks_have_left_is_not_said_rule_by_rule_and_what_never_had_a_value_is() {
        let mut snapshot = snapshot(2);
        let rule = |name: &str, had_value| {
            RuleView {
            name: name.into(),
            mode: "advising",
            state:
                "no value: wanted has no value because no process of its roles was there from its beginning to its end; rank 0 left within the window"
                    .into(),
            standing: Standing::NoValue,
            saw_no_process: true,
            had_processes: had_value,
            had_value,
            ..RuleView::default()
        }
        };
        let of_iterations = RuleView {
            state: "condition false".into(),
            standing: Standing::Quiet,
            saw_no_process: false,
            ..rule("mine", true)
        };
        let never_closed = RuleView {
            state: "the first window has not closed".into(),
            standing: Standing::Waiting,
            ..rule("batches", false)
        };
        snapshot.rules = vec![
            rule("shared-core", true),
            rule("blas-threads", false),
            of_iterations,
            never_closed,
        ];
        let all = lines(&snapshot, true);
        assert_eq!(
            all.iter().filter(|line| line.contains("no value: ")).count(),
            2,
            "they run"
        );
        snapshot.processes.iter_mut().for_each(|process| {
            process.ended = true;
            process.rates = None;
        });
        insta::assert_snapshot!(lines(&snapshot, true).join("\n"), @"
        no findings: 2 rules fit this program
           matched no process: blas-threads
           no value while it ran: batches
           mine                   condition false
        ");
        snapshot.rules.truncate(2);
        snapshot.rules[0].had_value = false;
        insta::assert_snapshot!(lines(&snapshot, true).join("\n"), @" no findings: none of 2 rules had a value while the program ran");
        // Nor beside what was found before.
        snapshot.findings.push(FindingView {
            rule: "shared-core".into(),
            text: "32 threads want 2 CPUs".into(),
            ..FindingView::default()
        });
        insta::assert_snapshot!(lines(&snapshot, true).join("\n"), @"
        1 finding
        1  shared-core   32 threads want 2 CPUs
        ");
    }

    #[test]
    fn what_the_windows_of_a_rule_leave_out_is_shown_with_the_reason_for_most() {
        let mut snapshot = snapshot(2);
        snapshot.rules = vec![RuleView {
            name: "mine".into(),
            state: "condition false: n > 5 (3 > 5)".into(),
            had_processes: true,
            standing: Standing::Quiet,
            windows: 12,
            dropped: rules::Dropped {
                late: 3,
                outside: 40,
                partial: 2,
                skipped: 1,
                ..rules::Dropped::default()
            },
            ..RuleView::default()
        }];
        insta::assert_snapshot!(lines(&snapshot, false).join("\n"), @"
        no findings: 1 rule fits this program
           but it waits for a CPU 67 % of the time that it wants one; other programs use its CPUs (tuneagent ps names them): wait for them, or use other CPUs
           mine                   condition false: n > 5 (3 > 5)
                                  12 windows evaluated; 3 left out (2 not complete); 43 hits in no window (40 outside of all windows)
        ");
        snapshot.rules[0].dropped = rules::Dropped::default();
        assert!(!lines(&snapshot, false).join("\n").contains("left out"));
    }

    #[test]
    fn rules_that_give_way_to_another_say_to_which() {
        let mut snapshot = snapshot(2);
        let rule = |name: &str, standing, state: &str| RuleView {
            name: name.into(),
            mode: "applying",
            state: state.into(),
            standing,
            ..RuleView::default()
        };
        let trial = "another change is on trial, of workers";
        snapshot.rules = vec![
            rule("workers", Standing::OnTrial, "on trial: 2 of 5 windows"),
            rule("chunks", Standing::GivesWay, trial),
            rule("nodes", Standing::GivesWay, trial),
            rule(
                "frugal",
                Standing::GivesWay,
                "the variable nw is claimed by workers, whose priority is 2",
            ),
            rule("shared-core", Standing::Quiet, "condition false"),
        ];
        let finding = |name: &str, text: &str| FindingView {
            rule: name.into(),
            text: text.into(),
            ..FindingView::default()
        };
        snapshot.findings = vec![
            finding("workers", "4 workers take 18.5 ms, 1 takes 43.5 ms"),
            finding("nodes", "a node is idle"),
        ];
        insta::assert_snapshot!(lines(&snapshot, true).join("\n"), @r"
         2 findings
         1  workers   4 workers take 18.5 ms, 1 takes 43.5 ms
            state  on trial: 2 of 5 windows
         2  nodes   a node is idle
            state  another change is on trial, of workers
            chunks                 another change is on trial, of workers
            frugal                 the variable nw is claimed by workers, whose priority is 2
        ");
    }

    #[test]
    fn five_findings_are_reported_and_how_many_more_there_are() {
        let mut snapshot = snapshot(2);
        let finding = |number: usize| FindingView {
            rule: format!("rule-{number}"),
            text: format!("number {number}"),
            ..FindingView::default()
        };
        snapshot.rules.push(RuleView::default());
        for (number, rest) in [
            (5, None),
            (6, Some(" and 1 more finding; the report has all")),
            (7, Some(" and 2 more findings; the report has all")),
        ] {
            snapshot.findings = (0..number).map(finding).collect();
            let lines = lines(&snapshot, true);
            assert_eq!(lines[0], format!(" {number} findings"));
            let reported = lines.iter().filter(|line| line.contains("   number ")).count();
            assert_eq!(reported, FINDINGS_SHOWN, "{lines:?}");
            assert!(
                lines.iter().any(|line| line.contains("rule-4"))
                    && !lines.iter().any(|line| line.contains("rule-5"))
            );
            let more = lines.iter().find(|line| line.starts_with(" and "));
            assert_eq!(more.map(String::as_str), rest);
        }
    }

    #[test]
    fn a_program_that_others_keep_from_running_is_reported() {
        let mut snapshot = snapshot(2);
        assert!(waits_for_others(&snapshot).is_some_and(|line| line.contains("67 %")));
        for rates in snapshot
            .processes
            .iter_mut()
            .filter_map(|process| process.rates.as_mut())
        {
            (rates.cpu, rates.runqueue) = (0.95, 0.05);
        }
        assert_eq!(waits_for_others(&snapshot), None);
        snapshot.processes.clear();
        assert_eq!(waits_for_others(&snapshot), None, "nothing was measured");
    }
}
