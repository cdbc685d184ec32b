//! The message that there are no findings, and the reasons, in lines.

use std::{collections::BTreeSet, time::Duration};

use profile::{
    ProcessView, RuleView, Snapshot, Standing,
    format::{percent, plural, time},
};

use super::cpus;
use super::findings::{FINDINGS_SHOWN, state_line};

/// In a shorter time few windows of rules close.
const SHORT: Duration = Duration::from_millis(500);
/// A program that needs fewer CPUs than this loses nothing by waiting for them.
const WANTED_MIN: f64 = 0.5;
/// Minimum share of time waiting that is mentioned.
const WAITING_SHOWN: f64 = 0.2;
/// If a program needs this many times the CPUs that it may use, its own threads compete. If it needs about as
/// many as it may use but waits, others use the CPUs.
const OVERSUBSCRIBED: f64 = 1.1;
/// A program whose threads wait and get less than this part of the CPUs that they may use shares them with others.
const GOT_BY_ITSELF: f64 = 0.75;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// Show the state of each rule, too.
    pub(super) is_verbose: bool,
    /// The session is over: no rule is evaluated any more.
    pub(super) is_over: bool,
}

/// The message that there are no findings. The reason is shown for rules that the user named, or, if verbose,
/// for all rules.
pub(super) fn lines(snapshot: &Snapshot, shown: Shown) -> Vec<String> {
    let all = names(&snapshot.rules).len();
    let fitting = names(snapshot.rules.iter().filter(|rule| rule.was_evaluated())).len();
    let is_missing = |rule: &&RuleView| rule.had_processes && !rule.was_evaluated();
    let missing = names(snapshot.rules.iter().filter(is_missing)).len();
    let counting = names(shown_rules(snapshot).filter(|rule| rule.standing == Standing::Counting));
    let had_value = snapshot.rules.iter().any(|rule| rule.had_value);
    // The rules of a program that has ended are not evaluated any more.
    let is_over = shown.is_over || snapshot.has_ended();
    let have_begun = snapshot
        .rules
        .iter()
        .any(|rule| rule.standing != Standing::Waiting);
    let mut lines = Vec::new();
    if !counting.is_empty() {
        let counting: Vec<&str> = counting.into_iter().collect();
        let (conditions, hold) = match counting.len() {
            1 => ("the condition", "holds, and is"),
            _ => ("the conditions", "hold, and are"),
        };
        let counting = counting.join(", ");
        lines.push(match is_over {
            true => format!(
                " no findings: {conditions} of {counting} held, but for fewer windows in a row than a finding needs"
            ),
            false => format!(" no findings yet: {conditions} of {counting} {hold} checked for some more windows"),
        });
    } else if !is_over && !have_begun {
        lines.push(" no findings yet: no window of a rule has closed".to_owned());
    } else if !have_begun && !snapshot.has_ended() {
        let elapsed = time(snapshot.elapsed);
        lines.push(format!(" no findings: no window of a rule closed in {elapsed}"));
    } else if snapshot.elapsed < SHORT && snapshot.has_ended() {
        lines.push(" no findings: this was too short".to_owned());
    } else if snapshot.has_ended() && !had_value {
        lines.push(format!(
            " no findings: none of {} had a value while the program ran",
            plural(all, "rule")
        ));
    } else {
        lines.push(match (fitting, missing) {
            (0, 0) => " no findings: no rule fits this program".to_owned(),
            (0, 1) => " no findings: 1 rule was not evaluated".to_owned(),
            (0, more) => format!(" no findings: {more} rules were not evaluated"),
            (1, _) if all > 1 + missing => " no findings from the 1 rule that fits this program".to_owned(),
            (fitting, _) if all > fitting + missing => {
                format!(" no findings from the {fitting} rules that fit this program")
            }
            (fitting, _) => format!(" no findings from {}", plural(fitting, "rule")),
        });
        lines.extend(waits_for_others(snapshot, shown.is_over));
        if shown.is_verbose {
            lines.extend(silent_lines(snapshot, |_| true));
        }
    }
    // Without any evaluated rule the reasons are the result.
    let explains = |rule: &&RuleView| fitting == 0 && !snapshot.has_ended() && is_missing(rule);
    lines.extend(states(snapshot, |rule| {
        shown.is_verbose || is_of_interest(snapshot, rule) || explains(&rule)
    }));
    lines
}

/// The reasons why the other rules have no findings.
pub(super) fn silent(snapshot: &Snapshot) -> Vec<String> {
    let has_found = |rule: &RuleView| snapshot.findings.iter().any(|finding| finding.rule == rule.name);
    let others = states(snapshot, |rule| !has_found(rule));
    [silent_lines(snapshot, |rule| !has_found(rule)), others].concat()
}

/// The states of the selected rules.
fn states(snapshot: &Snapshot, is_one: impl Fn(&RuleView) -> bool) -> Vec<String> {
    // Each tune of a rule has its own line, unless the texts are equal.
    let mut reported = BTreeSet::new();
    let states = shown_rules(snapshot);
    let states = states.filter(|rule| is_one(rule) && reported.insert((&rule.name, &rule.state)));
    states.map(state_line).collect()
}

/// Whether the user named or wrote the rule. If few rules are loaded, the user has chosen them.
fn is_of_interest(snapshot: &Snapshot, rule: &RuleView) -> bool {
    let are_chosen = names(&snapshot.rules).len() <= FINDINGS_SHOWN;
    are_chosen || rule.is_named || !rules::is_built_in(&rule.name)
}

/// The rules with a state to show. When a program ends, no process runs until the end of the last window, so
/// that the window has no value. That says nothing about the program, and would apply to every rule, so it is
/// left to the report.
pub(super) fn shown_rules(snapshot: &Snapshot) -> impl Iterator<Item = &RuleView> {
    let has_ended = snapshot.has_ended();
    let rules = snapshot.rules.iter();
    rules.filter(move |rule| !(has_ended && rule.saw_no_process))
}

/// Once the program has ended: of the other rules those that never had a value. Either there was no process
/// for them, or the report has the reason.
fn silent_lines(snapshot: &Snapshot, is_one: impl Fn(&RuleView) -> bool) -> Vec<String> {
    if !snapshot.has_ended() {
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
        let silent = snapshot.rules.iter().filter(|rule| is_one(rule));
        let mut silent = names(silent.filter(|rule| is_other(rule) == others));
        silent.retain(|name| !spoke.contains(name));
        (!silent.is_empty()).then(|| format!("    {what}: {}", Vec::from_iter(silent).join(", ")))
    };
    let lines = [
        line("matched no process", true),
        line("no value while it ran", false),
    ];
    lines.into_iter().flatten().collect()
}

/// The set of names of the rules.
fn names<'a>(rules: impl IntoIterator<Item = &'a RuleView>) -> BTreeSet<&'a str> {
    rules.into_iter().map(|rule| rule.name.as_str()).collect()
}

/// That other programs use the CPUs, which no rule for this program can change. At the end the values cover
/// the complete time, like the shares above it.
fn waits_for_others(snapshot: &Snapshot, is_over: bool) -> Option<String> {
    // The kernel reports a wait when it ends: in a short time a single one may be most of what is reported.
    if snapshot.elapsed < SHORT {
        return None;
    }
    let now = |process: &ProcessView| process.rates.or(process.overall);
    let rates: Vec<_> = snapshot.running().filter_map(now).collect();
    let (cpu, waiting) = cpus::mean(snapshot, &rates, is_over);
    let wanted = cpu + waiting;
    let share = waiting / wanted;
    let oversubscribed = snapshot.cpus.as_ref();
    let oversubscribed = oversubscribed
        .filter(|cpus| wanted > cpus.allowed * OVERSUBSCRIBED && (cpus.is_quota || !is_single(snapshot)));
    let advice = match oversubscribed {
        Some(cpus) => {
            let repair = match (cpus.is_quota, is_single(snapshot)) {
                (true, true) => "raise the CPU quota of its control group".to_owned(),
                (true, false) => format!("raise the CPU quota of its control group, or {}", fewer(snapshot)),
                (false, _) => fewer(snapshot).to_owned(),
            };
            let allowed = cpus.allowed;
            match !cpus.is_quota && cpu < GOT_BY_ITSELF * allowed {
                true => format!(
                    "it wants {wanted:.1} CPUs, may use {allowed:.1} and got {cpu:.1}: other programs use the rest (tuneagent ps names them)"
                ),
                false => format!("it wants {wanted:.1} CPUs and may use {allowed:.1}: {repair}"),
            }
        }
        None => "other programs use its CPUs (tuneagent ps names them): wait for them, or use other CPUs"
            .to_owned(),
    };
    let waits = wanted > WANTED_MIN && share > WAITING_SHOWN;
    waits.then(|| {
        format!(
            "    but it waits for a CPU {} of the time that it wants one; {advice}",
            percent(share)
        )
    })
}

/// Ranks and OpenMP's threads wait for each other; threads with work of their own lose little by taking turns.
fn fewer(snapshot: &Snapshot) -> &'static str {
    match snapshot.job.mpi.is_some() || snapshot.regions().is_some() {
        true => "start fewer ranks or threads",
        false => "start fewer processes or threads if they wait for each other",
    }
}

/// Whether it is one process of one thread, of which nothing can be left out.
fn is_single(snapshot: &Snapshot) -> bool {
    let [process] = &snapshot.processes[..] else {
        return false;
    };
    process.counters.is_some_and(|counters| counters.threads == 1)
}

#[cfg(test)]
mod tests {
    use super::super::screen::tests::snapshot;
    use super::*;
    use crate::example::rule;
    use profile::{Counters, CpusView, Rates};

    const GOES_ON: Shown = Shown {
        is_verbose: true,
        is_over: false,
    };
    const IS_OVER: Shown = Shown {
        is_verbose: false,
        is_over: true,
    };

    #[test]
    fn that_there_is_none_says_why_for_as_long_as_it_is_so() {
        let waiting = (Standing::Waiting, false);
        let counting = (Standing::Counting, true);
        // The standings of rules, the display options, and the begin of the first line.
        for (rules, shown, text) in [
            (
                &[waiting][..],
                GOES_ON,
                " no findings yet: no window of a rule has closed",
            ),
            (
                &[waiting],
                IS_OVER,
                " no findings: no window of a rule closed in ",
            ),
            (
                &[waiting, (Standing::NoValue, false)],
                GOES_ON,
                " no findings: no rule fits this program",
            ),
            // Its processes are there, and a function that it needs is not.
            (
                &[(Standing::NoValue, true)],
                IS_OVER,
                " no findings: 1 rule was not evaluated",
            ),
            (
                &[(Standing::NoValue, true), (Standing::Quiet, true)],
                IS_OVER,
                " no findings from 1 rule",
            ),
            (
                &[counting],
                GOES_ON,
                " no findings yet: the condition of rule-0 holds, and is checked for some more windows",
            ),
            (
                &[counting, counting],
                IS_OVER,
                " no findings: the conditions of rule-0, rule-1 held, but for fewer windows in a row than a finding needs",
            ),
        ] {
            let mut snapshot = snapshot(2);
            let rule = |(number, &(standing, had_processes)): (usize, &(Standing, bool))| RuleView {
                had_processes,
                ..rule(&format!("rule-{number}"), standing, "")
            };
            snapshot.rules = rules.iter().enumerate().map(rule).collect();
            let line = lines(&snapshot, shown).swap_remove(0);
            assert!(line.starts_with(text), "{line}");
        }
    }

    #[test]
    fn a_program_waits_for_its_own_ranks_or_for_others_and_at_the_end_that_is_of_all_the_time() {
        let of = |cpu, runqueue| {
            Some(Rates {
                cpu,
                runqueue,
                ..Rates::default()
            })
        };
        // For each of two ranks: recent and overall rates, CPUs, display options, and the expected text.
        for (recent, overall, allowed, shown, text) in [
            (
                of(0.41, 0.59),
                of(0.45, 0.55),
                1.0,
                IS_OVER,
                "55 % of the time that it wants one; it wants 2.0 CPUs and may use 1.0: start fewer ranks or threads",
            ),
            (
                of(0.41, 0.59),
                of(0.45, 0.55),
                1.0,
                GOES_ON,
                "59 % of the time that it wants one; it wants 2.0 CPUs and may use 1.0: start fewer ranks or threads",
            ),
            (
                of(0.2, 1.0),
                of(0.2, 1.0),
                2.0,
                IS_OVER,
                "it wants 2.4 CPUs, may use 2.0 and got 0.4: other programs use the rest",
            ),
            (
                of(0.4, 0.61),
                of(0.4, 0.61),
                2.0,
                IS_OVER,
                "60 % of the time that it wants one; other programs use its CPUs",
            ),
        ] {
            let mut snapshot = snapshot(2);
            for process in &mut snapshot.processes {
                (process.rates, process.overall) = (recent, overall);
            }
            snapshot.cpus = Some(CpusView {
                allowed,
                ..CpusView::default()
            });
            let line = waits_for_others(&snapshot, shown.is_over).unwrap_or_default();
            assert!(line.contains(text), "{line}");
        }
    }

    #[test]
    fn where_no_rule_was_evaluated_the_reasons_are_said() {
        let mut snapshot = snapshot(2);
        let names = rules::shipped().map(|(name, _)| name);
        let names: Vec<&str> = names.take(FINDINGS_SHOWN + 1).collect();
        let of = |name: &&str| RuleView {
            had_processes: true,
            ..rule(name, Standing::NoValue, "no value: cores has no value")
        };
        snapshot.rules = names.iter().map(of).collect();
        for is_over in [false, true] {
            let shown = Shown {
                is_verbose: false,
                is_over,
            };
            let said = lines(&snapshot, shown);
            let reasons = said.iter();
            let reasons = reasons.filter(|line| line.ends_with("no value: cores has no value"));
            assert_eq!(reasons.count(), names.len(), "{said:?}");
        }
    }

    #[test]
    fn under_a_quota_the_advice_is_to_raise_it_and_one_thread_is_not_made_fewer() {
        const QUOTA: &str = "may use 0.3: raise the CPU quota of its control group";
        for (processes, threads, is_quota, end) in [
            (1, 1, true, QUOTA),
            (
                1,
                2,
                true,
                "may use 0.3: raise the CPU quota of its control group, or start fewer ranks or threads",
            ),
            (
                2,
                1,
                true,
                "may use 0.3: raise the CPU quota of its control group, or start fewer ranks or threads",
            ),
            (1, 2, false, "may use 0.3: start fewer ranks or threads"),
            (1, 1, false, "wait for them, or use other CPUs"),
        ] {
            let mut snapshot = snapshot(processes);
            for process in &mut snapshot.processes {
                process.rates = Some(Rates {
                    cpu: 0.35,
                    runqueue: 0.65,
                    ..Rates::default()
                });
                process.counters = Some(Counters {
                    threads,
                    ..Counters::default()
                });
            }
            snapshot.cpus = Some(CpusView {
                allowed: 0.3,
                is_quota,
                ..CpusView::default()
            });
            let line = waits_for_others(&snapshot, false).unwrap_or_default();
            assert!(line.ends_with(end), "{line}");
            // Without MPI and OpenMP, threads may have work of their own.
            snapshot.job.mpi = None;
            let line = waits_for_others(&snapshot, false).unwrap_or_default();
            let end = end.replace(
                "ranks or threads",
                "processes or threads if they wait for each other",
            );
            assert!(line.ends_with(&end), "{line}");
        }
    }

    #[test]
    fn that_nothing_is_to_be_won_is_said_only_when_no_rule_is_about_to_find_something() {
        let mut snapshot = snapshot(2);
        let counting = rule("blas-threads", Standing::Counting, "2 of 3 windows");
        let quiet = rule("blas-threads", Standing::Quiet, "condition false");
        snapshot.rules = vec![counting, quiet.clone()];
        let said = lines(&snapshot, GOES_ON);
        assert!(
            said[0].starts_with(" no findings yet: the condition of blas-threads holds, and is checked"),
            "{said:?}"
        );
        snapshot.rules = vec![quiet];
        assert!(lines(&snapshot, GOES_ON)[0].starts_with(" no findings: "));
    }

    #[test]
    fn what_the_windows_of_a_rule_leave_out_is_shown_with_the_reason_for_most() {
        let mut snapshot = snapshot(2);
        snapshot.rules = vec![RuleView {
            had_processes: true,
            windows: 12,
            dropped: rules::Dropped {
                late: 3,
                outside: 40,
                partial: 2,
                skipped: 1,
                ..rules::Dropped::default()
            },
            ..rule("mine", Standing::Quiet, "condition false: n > 5 (3 > 5)")
        }];
        insta::assert_snapshot!(lines(&snapshot, GOES_ON).join("\n"), @"
        no findings from 1 rule
           but it waits for a CPU 67 % of the time that it wants one; other programs use its CPUs (tuneagent ps names them): wait for them, or use other CPUs
           mine                     condition false: n > 5 (3 > 5)
                                    12 windows evaluated; 3 left out (2 not complete); 43 hits in no window (40 before, between or after windows)
        ");
        snapshot.rules[0].dropped = rules::Dropped::default();
        assert!(!lines(&snapshot, GOES_ON).join("\n").contains("left out"));
    }

    #[test]
    fn a_program_that_others_keep_from_running_is_reported() {
        let mut snapshot = snapshot(2);
        assert!(waits_for_others(&snapshot, false).is_some_and(|line| line.contains("67 %")));
        for rates in snapshot
            .processes
            .iter_mut()
            .filter_map(|process| process.rates.as_mut())
        {
            (rates.cpu, rates.runqueue) = (0.95, 0.05);
        }
        assert_eq!(waits_for_others(&snapshot, false), None);
        snapshot.processes.clear();
        assert_eq!(waits_for_others(&snapshot, false), None, "nothing was measured");
    }
}
