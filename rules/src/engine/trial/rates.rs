//! Error rates of the guard, on recorded and simulated paces of programs; prints the tables of docs/guard.md.
//! Seeded, therefore reproducible.

use std::collections::BTreeMap;

use plan::GuardEffect;

use super::alternation::PAIRS_MAX;
use super::*;
use crate::pseudo_random::mixed;
use crate::rule::CheckedRule;
use crate::value::Time;

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mixed(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1: the sum of twelve uniform numbers, sufficiently close to normal.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

fn guard(over: u32) -> Guard {
    let source = format!(
        "rule: r\nabout: x.\nwindows:\n  w: {{every: 1s}}\ntune:\n  - set: x\n    role: process\n    value: 1\n    when: true\n    guard: {{maximize: sum(cpu.time), over: {over}, undo_if_worse_by: 5%}}\n"
    );
    let rule = CheckedRule::from_source(&source).unwrap();
    rule.tunes[0].guard().unwrap().clone()
}

fn decision(number: u64) -> Decision {
    Decision {
        id: DecisionId(number),
        rule: RuleId(number as usize),
        rule_name: "r".into(),
        tune: 0,
        because: Vec::new(),
        changes: Vec::new(),
        expect: None,
        at: None,
        together: None,
        again: false,
        window: Some((Time(0), Time(1))),
    }
}

/// The guard's verdict on a change that multiplies the pace of a program by `gain`, after `before` windows of
/// this pace; `None` if the pace ends first.
fn tried(pace: &[f64], before: usize, guard: &Guard, number: u64, gain: f64) -> Option<GuardEffect> {
    let (history, rest) = pace.split_at_checked(before)?;
    let mut trial = Trial::new(history.to_vec(), None, Some(guard), &decision(number));
    trial.add(DecisionId(number), BTreeSet::new());
    for value in rest {
        let factor = if trial.is_reverted { 1.0 } else { gain };
        match trial.window(&Ok(Scalar::Number(value * factor)), guard, (RuleId(0), 0)) {
            Step::Wait | Step::Revert(_) => {}
            Step::Again(_) => trial.add(DecisionId(number), BTreeSet::new()),
            Step::Over(verdicts) => return verdicts[0].verdict,
        }
    }
    None
}

fn share(verdicts: &[GuardEffect], of: GuardEffect) -> f64 {
    verdicts.iter().filter(|verdict| **verdict == of).count() as f64 / verdicts.len() as f64
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        share if share < 1.0 => format!("{share:.1}"),
        share => format!("{share:.0}"),
    }
}

const GAINS: [f64; 4] = [1.0, 1.2, 1.5, 2.0];
const OVER: u32 = 5;

/// Windows before the change, of the first comparison, and of the longest alternation, including those that
/// are left out.
const SERIES: usize = 5 + 6 + PAIRS_MAX * 2 * 2 + 1;
/// Distance of the begins of two consecutive series, in windows.
const APART: usize = 30;

/// By program and counted quantity. A series that exceeds its recording wraps around.
fn recorded(lines: &'static str) -> BTreeMap<&'static str, Vec<Vec<f64>>> {
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, values) = line.split_once(": ").unwrap();
            let values: Vec<f64> = values.split(' ').map(|value| value.parse().unwrap()).collect();
            let from = |begin| values.iter().cycle().skip(begin).take(SERIES).copied().collect();
            (name, (0..values.len()).step_by(APART).map(from).collect())
        })
        .collect()
}

/// Recorded while other programs used the CPUs, and with a higher priority than all others.
const OVERSUBSCRIBED: Recordings = (include_str!("../../../tests/paces/oversubscribed.txt"), 2);
const PREFERRED: Recordings = (include_str!("../../../tests/paces/preferred.txt"), 4);

/// A recording, with the number of changes that are tried on each series. Decisions have different numbers,
/// which determine the order of the runs.
type Recordings = (&'static str, u64);

fn judged(series: &[Vec<f64>], lots: u64, gain: f64) -> Vec<GuardEffect> {
    let guard = guard(OVER);
    let one = |pace: &Vec<f64>| {
        (0..lots)
            .map(|number| tried(pace, OVER as usize, &guard, number, gain).unwrap())
            .collect::<Vec<_>>()
    };
    series.iter().flat_map(one).collect()
}

fn recorded_table((lines, lots): Recordings) -> String {
    let mut table = vec![
        "| program and objective | series | confirmed though nothing changed | 20 % faster | 50 % faster | twice |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    let all = recorded(lines);
    let row = |name: &str, series: &[Vec<f64>]| {
        let confirmed = GAINS.map(|gain| percent(share(&judged(series, lots, gain), GuardEffect::Confirmed)));
        format!("| {name} | {} | {} % |", series.len(), confirmed.join(" % | "))
    };
    table.extend(all.iter().map(|(name, series)| row(name, series)));
    let every: Vec<Vec<f64>> = all.values().flatten().cloned().collect();
    table.push(row("all", &every));
    table.join("\n")
}

#[derive(Clone, Copy)]
enum Noise {
    /// Noise of one window says nothing about the next.
    Independent,
    /// Half of each window's deviation carries over to the next.
    Drifting,
    /// One window in twenty has half the pace.
    Spiky,
    /// The pace changes to 1.5 times or two thirds of it every 20 to 60 windows.
    Phases,
}

fn simulated(random: &mut Random, noise: Noise, deviation: f64, count: usize) -> Vec<f64> {
    let mut last = random.normal();
    let (mut level, mut left) = (1.0, (random.uniform() * 60.0) as u32);
    let window = |_| {
        let fresh = random.normal();
        last = match noise {
            Noise::Drifting => 0.5 * last + 0.75f64.sqrt() * fresh,
            _ => fresh,
        };
        let mut factor = 1.0;
        if matches!(noise, Noise::Spiky) && random.uniform() < 0.05 {
            factor = 0.5;
        }
        if matches!(noise, Noise::Phases) {
            if left == 0 {
                level = if level == 1.0 { 1.5 } else { 1.0 };
                left = 20 + (random.uniform() * 41.0) as u32;
            }
            left -= 1;
            factor = level;
        }
        (factor * (1.0 + deviation * last)).max(0.01)
    };
    (0..count).map(window).collect()
}

const TRIALS: u64 = 300;
/// The number of these that are tried with a gain or a loss.
const CHANGED: usize = 100;

/// Programs with this noise, and the number of windows known before the change: the minimum, or 60.
fn programs(noise: Noise, deviation: f64, over: u32) -> Vec<(usize, Vec<f64>)> {
    let mut random = Random(20_070_501);
    let over = over as usize;
    let longest = over + 2 + 2 * PAIRS_MAX * (over / 4 + 1);
    let program = |number: u64| {
        let before = if number.is_multiple_of(2) {
            over
        } else {
            HISTORY_MAX
        };
        (before, simulated(&mut random, noise, deviation, before + longest))
    };
    (0..TRIALS).map(program).collect()
}

fn judge_all(programs: &[(usize, Vec<f64>)], over: u32, gain: f64) -> Vec<GuardEffect> {
    let guard = guard(over);
    let verdicts = programs.iter().zip(0..);
    verdicts
        .map(|((before, pace), number)| tried(pace, *before, &guard, number, gain).unwrap())
        .collect()
}

const SIMULATED: [(f64, u32); 4] = [(0.05, 5), (0.1, 5), (0.2, 5), (0.2, 20)];

fn simulated_table() -> String {
    let mut lines = vec![
        "| noise | deviation of a window | windows | confirmed though nothing changed | 20 % faster | twice as fast | worse though nothing changed | 20 % slower |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let kinds = [
        ("independent", Noise::Independent),
        ("drifting", Noise::Drifting),
        ("spiky", Noise::Spiky),
        ("phases", Noise::Phases),
    ];
    for (name, noise) in kinds {
        for (deviation, over) in SIMULATED {
            let programs = programs(noise, deviation, over);
            let unchanged = judge_all(&programs, over, 1.0);
            let at = |gain, verdict| percent(share(&judge_all(&programs[..CHANGED], over, gain), verdict));
            lines.push(format!(
                "| {name} | {:.0} % | {over} | {} % | {} % | {} % | {} % | {} % |",
                deviation * 100.0,
                percent(share(&unchanged, GuardEffect::Confirmed)),
                at(1.2, GuardEffect::Confirmed),
                at(2.0, GuardEffect::Confirmed),
                percent(share(&unchanged, GuardEffect::Worse)),
                at(0.8, GuardEffect::Worse),
            ));
        }
    }
    lines.join("\n")
}

#[test]
fn the_rates_of_the_guards_errors_are_those_that_are_documented() {
    let page = include_str!("../../../../docs/guard.md");
    let tables = [
        recorded_table(PREFERRED),
        recorded_table(OVERSUBSCRIBED),
        simulated_table(),
    ];
    let all = tables.join("\n\n");
    assert!(
        tables.iter().all(|table| page.contains(table)),
        "docs/guard.md should have:\n{all}"
    );
}

fn judged_all((lines, lots): Recordings, gain: f64) -> Vec<GuardEffect> {
    let series: Vec<Vec<f64>> = recorded(lines).into_values().flatten().collect();
    judged(&series, lots, gain)
}

#[test]
fn hardly_any_change_that_does_nothing_to_a_recorded_program_is_confirmed() {
    for (recordings, series) in [(OVERSUBSCRIBED, 200), (PREFERRED, 15)] {
        let verdicts = judged_all(recordings, 1.0);
        assert!(
            verdicts.len() as u64 >= series * recordings.1,
            "{}",
            verdicts.len()
        );
        let confirmed = share(&verdicts, GuardEffect::Confirmed);
        assert!(confirmed <= 0.01, "{confirmed}");
    }
}

#[test]
fn hardly_any_gain_of_a_fifth_is_missed_in_a_recorded_program_that_has_its_cpus() {
    for gain in [1.2, 1.5, 2.0] {
        let missed = 1.0 - share(&judged_all(PREFERRED, gain), GuardEffect::Confirmed);
        assert!(missed <= 0.05, "{gain}: {missed}");
    }
}

/// An unknown effect is not reported as no effect.
#[test]
fn no_gain_of_a_fifth_is_said_to_have_no_effect() {
    for recordings in [OVERSUBSCRIBED, PREFERRED] {
        let denied = share(&judged_all(recordings, 1.2), GuardEffect::NoEffect);
        assert!(denied <= 0.001, "{denied}");
    }
}

/// If a window deviates from the others by at most a tenth.
#[test]
fn hardly_any_gain_of_a_fifth_is_missed_where_the_pace_is_steady() {
    for noise in [Noise::Independent, Noise::Drifting, Noise::Spiky, Noise::Phases] {
        for (deviation, over) in SIMULATED.into_iter().filter(|(deviation, _)| *deviation <= 0.1) {
            let verdicts = judge_all(&programs(noise, deviation, over)[..CHANGED], over, 1.2);
            let missed = 1.0 - share(&verdicts, GuardEffect::Confirmed);
            assert!(missed <= 0.05, "{deviation} {over}: {missed}");
        }
    }
}
