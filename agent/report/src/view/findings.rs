//! The findings of the rules, or the reasons why there are none, in lines.

use std::collections::BTreeSet;

use profile::format::{plural, time};
use profile::outcome::ChangeOutcome;
use profile::{FindingView, RISK, RuleView, Snapshot, Standing};

use super::none::{self, shown_rules};

/// Maximum number of findings shown: users do not read more.
pub(super) const FINDINGS_SHOWN: usize = 5;

/// The current findings, or that there are none.
pub(super) fn now(snapshot: &Snapshot) -> Vec<String> {
    let past = &[];
    of(snapshot, past, none::Shown::default())
}

/// That nothing was found in a session that is over.
pub fn without(snapshot: &Snapshot) -> Vec<String> {
    let is_over = none::Shown {
        is_over: true,
        ..none::Shown::default()
    };
    none::lines(snapshot, is_over)
}

/// The findings at the end, including those that no longer hold; if verbose, also the state of each rule.
pub(super) fn at_end(snapshot: &Snapshot, is_verbose: bool) -> Vec<String> {
    let shown = none::Shown {
        is_verbose,
        is_over: true,
    };
    of(snapshot, &snapshot.past_findings, shown)
}

fn of(snapshot: &Snapshot, past: &[FindingView], shown: none::Shown) -> Vec<String> {
    if snapshot.rules.is_empty() {
        return Vec::new();
    }
    let all = snapshot.findings.len() + past.len();
    if all == 0 {
        return none::lines(snapshot, shown);
    }
    let mut lines = vec![format!(" {}", plural(all, "finding"))];
    let in_order: Vec<_> = snapshot.findings.iter().chain(past).collect();
    for (index, finding) in snapshot.findings.iter().take(FINDINGS_SHOWN).enumerate() {
        let finding = &FindingView {
            now: snapshot.advice(finding).map(str::to_owned),
            ..finding.clone()
        };
        lines.extend(block(finding, &in_order[..index]));
        // The condition of a repaired finding fails now, which does not describe the rule's state.
        let is_in_force = |rule: &RuleView| matches!(rule.standing, Standing::Applied | Standing::OnTrial);
        // A finding is closed after several windows in which its condition fails; one of them is no news, and neither is
        // at the end that one holds again, or that a verdict was awaited: the change says that there is none.
        let is_past = |rule: &RuleView| {
            shown.is_over && matches!(rule.standing, Standing::Counting | Standing::OnTrial)
        };
        let is_news = |rule: &RuleView| rule.standing != Standing::Quiet && !is_past(rule);
        let tunes = shown_rules(snapshot).filter(|rule| rule.name == finding.rule && is_news(rule));
        let tunes = tunes.filter(|rule| !(is_in_force(rule) && was_reverted(snapshot, &rule.name)));
        let tunes = tunes.filter(|rule| !finding.repaired || finding.now.is_none() && is_in_force(rule));
        lines.extend(state(tunes).map(|state| format!("    state  {state}")));
        let left_out = shown_rules(snapshot).find(|rule| rule.name == finding.rule);
        let left_out = left_out.and_then(RuleView::left_out);
        lines.extend(left_out.map(|text| format!("    {text}")));
    }
    let room = FINDINGS_SHOWN.saturating_sub(snapshot.findings.len());
    for (finding, index) in past.iter().take(room).zip(snapshot.findings.len()..) {
        lines.extend(block(finding, &in_order[..index]));
    }
    let rest = all.saturating_sub(FINDINGS_SHOWN);
    if rest > 0 {
        lines.push(format!(
            " and {}; the report has all",
            plural(rest, "more finding")
        ));
    }
    match shown.is_verbose {
        true => lines.extend(none::silent(snapshot)),
        false => lines.extend(waiting_lines(snapshot)),
    }
    lines
}

/// Whether all changes of a rule were reverted at the end of the session, so that the states of its tunes are
/// out of date.
fn was_reverted(snapshot: &Snapshot, rule: &str) -> bool {
    let mut changes = snapshot
        .changes
        .iter()
        .filter(|change| change.rule == rule)
        .peekable();
    changes.peek().is_some() && changes.all(|change| change.outcome == ChangeOutcome::Reverted)
}

/// The state of a rule: that of its most advanced tune. The states of its other tunes would contradict it.
pub(super) fn state<'a>(tunes: impl Iterator<Item = &'a RuleView>) -> Option<&'a str> {
    let farthest = |one: &'a RuleView, other: &'a RuleView| match other.standing > one.standing {
        true => other,
        false => one,
    };
    tunes.reduce(farthest).map(|rule| rule.state.as_str())
}

/// For each current finding its first sentence and its command.
pub(super) fn brief(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![format!(
        " {} (details: tab Rules)",
        plural(snapshot.findings.len(), "finding")
    )];
    let in_order: Vec<_> = snapshot.findings.iter().collect();
    for (index, finding) in snapshot.findings.iter().take(FINDINGS_SHOWN).enumerate() {
        let first = block(finding, &in_order[..index]).swap_remove(0);
        lines.push(first.trim_end_matches(':').to_owned());
        let mut advice = snapshot.advice(finding).unwrap_or_default().lines();
        lines.extend(advice.next().map(|command| format!("    now    {command}")));
        lines.extend(
            advice
                .find(|line| line.starts_with(RISK))
                .map(|risk| format!("           {risk}")),
        );
    }
    lines
}

/// Rules without a finding that the user has chosen, or that give way to another rule now.
fn waiting_lines(snapshot: &Snapshot) -> Vec<String> {
    let has_found = |rule: &RuleView| snapshot.findings.iter().any(|finding| finding.rule == rule.name);
    let has_acted = |rule: &RuleView| snapshot.changes.iter().any(|change| change.rule == rule.name);
    let is_chosen = |rule: &RuleView| rule.is_named || !rules::is_built_in(&rule.name);
    let is_waiting =
        |rule: &RuleView| is_chosen(rule) && !has_acted(rule) || rule.standing == Standing::GivesWay;
    let mut reported = BTreeSet::new();
    let waiting = shown_rules(snapshot).filter(|rule| is_waiting(rule) && !has_found(rule));
    let waiting = waiting.filter(|rule| reported.insert((&rule.name, &rule.state)));
    waiting.map(state_line).collect()
}

/// The states of rules whose changes are on trial: it may take minutes.
pub(super) fn trials(snapshot: &Snapshot) -> Vec<String> {
    let mut reported = BTreeSet::new();
    let on_trial = snapshot
        .rules
        .iter()
        .filter(|rule| rule.standing == Standing::OnTrial);
    let new = on_trial.filter(|rule| reported.insert((&rule.name, &rule.state)));
    new.map(|rule| format!(" {}   {}", rule.name, rule.state))
        .collect()
}

pub(super) fn state_line(rule: &RuleView) -> String {
    // If no window was evaluated, the state has the reasons.
    let left_out = rule.left_out().filter(|_| rule.windows > 0);
    let left_out = left_out.map_or_else(String::new, |text| format!("\n    {:<24} {text}", ""));
    format!("    {:<24} {}{left_out}", rule.name, rule.state)
}

/// The lines of a finding. What the findings shown above it say, too, is not repeated, because
/// several rules may find one cause.
pub(super) fn block(finding: &FindingView, above: &[&FindingView]) -> Vec<String> {
    let mut lines = Vec::new();
    let number = above.len() + 1;
    let text = text(finding, above);
    let mut text = text.iter();
    let numbers = time(finding.numbers_at);
    let when = match (finding.repaired, &finding.now, finding.gone_at) {
        (true, None, _) => format!(" (repaired; numbers at {numbers})"),
        (true, Some(_), _) => {
            format!(" (repaired; reverted at the end, without --keep; numbers at {numbers})")
        }
        (false, _, Some(gone)) => format!(" (from {} to {})", time(finding.at), time(gone)),
        (false, _, None) => format!(" (since {}; numbers at {numbers})", time(finding.at)),
    };
    lines.push(format!(
        " {number}  {}{when}   {}",
        finding.rule,
        text.next().map_or("", String::as_str)
    ));
    lines.extend(text.map(|line| format!("    {line}")));
    for (word, advice) in [("now", &finding.now), ("next", &finding.next_start)] {
        for (index, line) in advice.iter().flat_map(|advice| advice.lines()).enumerate() {
            lines.push(format!("    {:<6} {line}", if index == 0 { word } else { "" }));
        }
    }
    lines
}

/// What a finding says in addition to those that are shown above it.
pub fn text(finding: &FindingView, above: &[&FindingView]) -> Vec<String> {
    let same = above.iter().find_map(|other| {
        let repeated = repeated(&finding.text, &other.text);
        (repeated > 0).then_some((other, repeated))
    });
    let lines = finding.text.lines().map(str::to_owned);
    match same {
        Some((other, repeated)) => {
            let reference = format!("The same as {}.", other.rule);
            std::iter::once(reference).chain(lines.skip(repeated)).collect()
        }
        None => lines.collect(),
    }
}

/// The leading lines of a text that say the same as those of another, up to the end of a sentence.
fn repeated(text: &str, other: &str) -> usize {
    let same = text.lines().zip(other.lines());
    let same = same.take_while(|(line, other)| says_the_same(line, other));
    let ends = |(number, (line, _)): (usize, (&str, &str))| line.ends_with('.').then_some(number);
    (1..).zip(same).filter_map(ends).last().unwrap_or(0)
}

/// Whether two lines differ in nothing but numbers, and these by a fifth at most: rules measure in windows of their own.
fn says_the_same(line: &str, other: &str) -> bool {
    let number = |word: &str| {
        word.trim_matches(|c: char| !c.is_ascii_digit())
            .parse::<f64>()
            .ok()
    };
    let words_agree = |(word, other): (&str, &str)| {
        let numbers = number(word).zip(number(other));
        word == other || numbers.is_some_and(|(one, two)| (one - two).abs() <= 0.2 * one.max(two))
    };
    let (words, others) = (line.split_whitespace(), other.split_whitespace());
    words.clone().count() == others.clone().count() && words.zip(others).all(words_agree)
}

#[cfg(test)]
mod tests {
    use super::super::screen::tests::snapshot;
    use super::*;
    use crate::example::{finding, rule};

    #[test]
    fn what_could_be_done_in_a_program_that_has_ended_is_not_shown() {
        let mut snapshot = snapshot(1);
        snapshot.rules = vec![rule("busy", Standing::Quiet, "advising")];
        snapshot.findings.push(FindingView {
            now: Some("tuneagent attach 8120 --apply".into()),
            next_start: Some("OMP_NUM_THREADS=1".into()),
            ..finding("busy", "2 threads share a CPU")
        });
        let has = |snapshot: &Snapshot, text: &str| at_end(snapshot, false).join("\n").contains(text);
        assert!(has(&snapshot, "attach 8120 --apply") && has(&snapshot, "OMP_NUM_THREADS=1"));
        snapshot.findings[0].now =
            Some("tuneagent attach 8120 --apply=busy\nsets 2\nrisk: it may crash".into());
        assert_eq!(
            &brief(&snapshot)[2..],
            [
                "    now    tuneagent attach 8120 --apply=busy",
                "           risk: it may crash"
            ]
        );
        snapshot.processes[0].ended = true;
        assert!(!has(&snapshot, "attach 8120") && has(&snapshot, "OMP_NUM_THREADS=1"));
    }

    #[test]
    fn what_an_earlier_finding_says_of_the_same_cause_is_not_repeated() {
        let text = |wanted: f64, waiting: u32, processes: u32| {
            format!(
                "The threads want {wanted} CPUs, but other programs leave only 2 (processes: {processes}):\n\
                 they wait for a CPU {waiting} % of the time that they want to run."
            )
        };
        let stated = format!("{}\nThe program states the size of its teams.", text(3.8, 45, 1));
        let mut snapshot = snapshot(1);
        snapshot.rules = vec![rule("openmp-team-size", Standing::Quiet, "advising")];
        snapshot.findings = vec![
            finding("openmp-team-size", &text(3.9, 47, 1)),
            finding("blas-threads", &text(4.0, 49, 1)),
            finding("openmp-stated-team-size", &stated),
            // Other processes are another cause.
            finding("mkl-threads", &text(3.9, 47, 2)),
        ];
        insta::assert_snapshot!(now(&snapshot).join("\n"), @"
        4 findings
        1  openmp-team-size (since 0 s; numbers at 0 s)   The threads want 3.9 CPUs, but other programs leave only 2 (processes: 1):
           they wait for a CPU 47 % of the time that they want to run.
        2  blas-threads (since 0 s; numbers at 0 s)   The same as openmp-team-size.
        3  openmp-stated-team-size (since 0 s; numbers at 0 s)   The same as openmp-team-size.
           The program states the size of its teams.
        4  mkl-threads (since 0 s; numbers at 0 s)   The threads want 3.9 CPUs, but other programs leave only 2 (processes: 2):
           they wait for a CPU 47 % of the time that they want to run.
        ");
        snapshot.past_findings = snapshot.findings.split_off(1);
        assert_eq!(
            at_end(&snapshot, false)
                .concat()
                .matches("The same as openmp-team-size.")
                .count(),
            2
        );
    }

    #[test]
    fn what_held_for_a_while_is_listed_at_the_end_and_verbosely_what_the_others_saw() {
        let mut snapshot = snapshot(2);
        let rule = |name: &str, state: &str| RuleView {
            had_processes: true,
            ..rule(name, Standing::Quiet, state)
        };
        snapshot.rules = vec![
            rule("load-imbalance", "condition false: a"),
            rule("shared-core", "condition false: b"),
            RuleView {
                standing: Standing::Advising,
                ..rule("openmpi-busy-wait", "advising")
            },
        ];
        snapshot.past_findings = vec![FindingView {
            at: std::time::Duration::from_millis(6110),
            gone_at: Some(std::time::Duration::from_millis(10_200)),
            ..finding("load-imbalance", "rank 4 spends 1.9 times as long outside MPI")
        }];
        let past = "load-imbalance (from 6.11 s to 10.2 s)   rank 4 spends 1.9 times as long outside MPI";
        assert_eq!(
            at_end(&snapshot, false),
            [" 1 finding".to_owned(), format!(" 1  {past}")]
        );
        // While the session goes on, only findings that hold are shown.
        assert_eq!(now(&snapshot)[0], " no findings from 3 rules");
        snapshot.findings.push(finding("openmpi-busy-wait", "ranks spin"));
        let lines = at_end(&snapshot, true);
        assert_eq!(
            lines,
            [
                " 2 findings".to_owned(),
                " 1  openmpi-busy-wait (since 0 s; numbers at 0 s)   ranks spin".to_owned(),
                "    state  advising".to_owned(),
                format!(" 2  {past}"),
                "    load-imbalance           condition false: a".to_owned(),
                "    shared-core              condition false: b".to_owned(),
            ]
        );
    }

    #[test]
    fn a_rule_with_several_tunes_has_one_state_that_of_the_tune_that_got_farthest() {
        let mut snapshot = snapshot(2);
        let rule = |standing, state: &str| rule("openmp-team-size", standing, state);
        snapshot.rules = vec![
            rule(Standing::Quiet, "condition false: pace > 5/s (3/s)"),
            rule(Standing::Advising, "advising: its condition holds"),
            rule(Standing::NoValue, "no value: pace has no value"),
        ];
        let found = finding("openmp-team-size", "the threads want 2 CPUs:\nthey wait");
        snapshot.findings.push(found);
        insta::assert_snapshot!(at_end(&snapshot, false).join("\n"), @"
        1 finding
        1  openmp-team-size (since 0 s; numbers at 0 s)   the threads want 2 CPUs:
           they wait
           state  advising: its condition holds
        ");
        assert!(brief(&snapshot)[1].ends_with("(since 0 s; numbers at 0 s)   the threads want 2 CPUs"));

        // Changes that were reverted at the end are not shown as applied.
        snapshot.rules = vec![rule(Standing::Applied, "applied")];
        assert!(at_end(&snapshot, false).concat().contains("state  applied"));
        snapshot.changes.push(profile::ChangeView {
            rule: "openmp-team-size".into(),
            outcome: ChangeOutcome::Reverted,
            ..Default::default()
        });
        assert!(!at_end(&snapshot, false).concat().contains("state  applied"));
    }

    #[test]
    fn that_all_ranks_have_left_is_not_said_rule_by_rule_and_what_never_had_a_value_is() {
        let mut snapshot = snapshot(2);
        let none = "no value: wanted has no value because no process of its roles was there from its beginning to its end; rank 0 left within the window";
        let rule = |name: &str, had_value| RuleView {
            saw_no_process: true,
            had_processes: had_value,
            had_value,
            ..rule(name, Standing::NoValue, none)
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
        let all = at_end(&snapshot, true);
        assert_eq!(
            all.iter().filter(|line| line.contains("no value: ")).count(),
            2,
            "they run"
        );
        snapshot.processes.iter_mut().for_each(|process| {
            process.ended = true;
            process.rates = None;
        });
        insta::assert_snapshot!(at_end(&snapshot, true).join("\n"), @"
        no findings from the 2 rules that fit this program
           matched no process: blas-threads
           no value while it ran: batches
           mine                     condition false
        ");
        snapshot.rules.truncate(2);
        snapshot.rules[0].had_value = false;
        insta::assert_snapshot!(at_end(&snapshot, true).join("\n"), @" no findings: none of 2 rules had a value while the program ran");
        // Nor next to earlier findings.
        let found = finding("shared-core", "32 threads want 2 CPUs");
        snapshot.findings.push(found);
        insta::assert_snapshot!(at_end(&snapshot, true).join("\n"), @"
        1 finding
        1  shared-core (since 0 s; numbers at 0 s)   32 threads want 2 CPUs
           matched no process: blas-threads
        ");
    }

    #[test]
    fn rules_that_give_way_to_another_say_to_which() {
        let mut snapshot = snapshot(2);
        let rule = |name: &str, standing, state: &str| RuleView {
            mode: plan::Mode::Applying,
            ..rule(name, standing, state)
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
        snapshot.findings = vec![
            finding("workers", "4 workers take 18.5 ms, 1 takes 43.5 ms"),
            finding("nodes", "a node is idle"),
        ];
        insta::assert_snapshot!(at_end(&snapshot, false).join("\n"), @r"
         2 findings
         1  workers (since 0 s; numbers at 0 s)   4 workers take 18.5 ms, 1 takes 43.5 ms
         2  nodes (since 0 s; numbers at 0 s)   a node is idle
            state  another change is on trial, of workers
            chunks                   another change is on trial, of workers
            frugal                   the variable nw is claimed by workers, whose priority is 2
        ");
    }

    #[test]
    fn a_rule_that_the_user_named_says_why_it_did_not_act() {
        let mut snapshot = snapshot(1);
        let named = RuleView {
            is_named: true,
            ..rule(
                "blas-threads",
                Standing::NoValue,
                "no value: all 308 windows were left out",
            )
        };
        snapshot.rules = vec![named, rule("shared-core", Standing::Quiet, "condition false")];
        let has_reason = |snapshot: &Snapshot| {
            let text = at_end(snapshot, false).join("\n");
            text.contains("blas-threads             no value: all 308 windows were left out")
        };
        assert!(has_reason(&snapshot), "without a finding");
        snapshot.findings = vec![finding("openmp-team-size", "the threads want 3.5 CPUs")];
        assert!(has_reason(&snapshot), "beside the finding of another rule");
        snapshot.rules[0].is_named = false;
        assert!(!has_reason(&snapshot), "a built-in rule that was not named");
        snapshot.rules[0].name = "threads".into();
        let lines = at_end(&snapshot, false).join("\n");
        assert!(
            lines.contains("threads                  no value"),
            "a rule that was loaded by name: {lines}"
        );
    }

    #[test]
    fn five_findings_are_reported_and_how_many_more_there_are() {
        let mut snapshot = snapshot(2);
        let finding = |number| finding(&format!("rule-{number}"), &format!("number {number}"));
        snapshot.rules.push(RuleView::default());
        for (number, rest) in [
            (5, None),
            (6, Some(" and 1 more finding; the report has all")),
            (7, Some(" and 2 more findings; the report has all")),
        ] {
            snapshot.findings = (0..number).map(finding).collect();
            let lines = at_end(&snapshot, true);
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
    fn a_rule_whose_change_is_on_trial_has_a_line_with_its_state() {
        let state = "on trial, reverted to compare: 0 of 2 windows";
        let snapshot = Snapshot {
            rules: vec![
                rule("small-messages", Standing::Quiet, "condition false"),
                rule("openmpi-busy-wait", Standing::OnTrial, state),
            ],
            ..Snapshot::default()
        };
        assert_eq!(trials(&snapshot), [format!(" openmpi-busy-wait   {state}")]);
    }
}
