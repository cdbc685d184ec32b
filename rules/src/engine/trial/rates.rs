//! How often the guard errs, on paces that were recorded of programs and by simulation: the tables of docs/guard.md are what
//! this prints. Seeded, so that it comes out the same everywhere.

use std::collections::BTreeMap;

use plan::Verdict;

use super::*;
use crate::rule::CheckedRule;
use crate::value::Time;

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mixed(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1: twelve uniform numbers, as near to normal as is needed here.
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
        rule: RuleId(0),
        rule_name: "r".into(),
        tune: 0,
        because: Vec::new(),
        changes: Vec::new(),
        expect: None,
        at: None,
        together: None,
        window: Some((Time(0), Time(1))),
    }
}

/// What the guard says of a change that makes a program whose pace is this, `before` windows of it before the change, so many times as
/// fast; none where the pace ends before.
fn tried(pace: &[f64], before: usize, guard: &Guard, number: u64, gain: f64) -> Option<Verdict> {
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

fn share(verdicts: &[Verdict], of: Verdict) -> f64 {
    verdicts.iter().filter(|verdict| **verdict == of).count() as f64 / verdicts.len() as f64
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        share if share < 1.0 => format!("{share:.1}"),
        share => format!("{share:.0}"),
    }
}

const GAINS: [f64; 4] = [1.0, 1.2, 2.0, 10.0];

/// So many windows a series: five before the change and the longest trial with `over: 5`.
const SERIES: usize = 60;

/// By program and what is counted.
fn recorded() -> BTreeMap<&'static str, Vec<Vec<f64>>> {
    let lines = include_str!("../../../tests/paces/unchanged.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, values) = line.split_once(": ").unwrap();
            let values: Vec<f64> = values.split(' ').map(|value| value.parse().unwrap()).collect();
            (name, values.chunks_exact(SERIES).map(<[f64]>::to_vec).collect())
        })
        .collect()
}

/// Of each series as many changes as decisions would be numbered differently: the lengths of the runs follow from that.
const NUMBERS: u64 = 5;

fn judged(series: &[Vec<f64>], gain: f64) -> Vec<Verdict> {
    let guard = guard(5);
    let one = |pace: &Vec<f64>| {
        (0..NUMBERS)
            .filter_map(|number| tried(pace, 5, &guard, number, gain))
            .collect::<Vec<_>>()
    };
    series.iter().flat_map(one).collect()
}

fn recorded_table() -> String {
    let mut lines = vec![
        "| program and objective | series | confirmed though nothing changed | 20 % faster | twice | 10 times |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    let all = recorded();
    let row = |name: &str, series: &[Vec<f64>]| {
        let confirmed = GAINS.map(|gain| percent(share(&judged(series, gain), Verdict::Confirmed)));
        format!("| {name} | {} | {} % |", series.len(), confirmed.join(" % | "))
    };
    lines.extend(all.iter().map(|(name, series)| row(name, series)));
    let every: Vec<Vec<f64>> = all.values().flatten().cloned().collect();
    lines.push(row("all", &every));
    lines.join("\n")
}

#[derive(Clone, Copy)]
enum Noise {
    /// Windows that know nothing of each other.
    Independent,
    /// Half of each window's deviation goes over into the next.
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

const TRIALS: u64 = 400;

/// What is said of a change that makes the program so many times as fast, with as many windows before as are needed or 60.
fn simulate(noise: Noise, deviation: f64, over: u32, gain: f64) -> Vec<Verdict> {
    let mut random = Random(20_070_501);
    let guard = guard(over);
    let trial = |number: u64| {
        let before = if number % 2 == 0 {
            over as usize
        } else {
            HISTORY_MAX
        };
        let pace = simulated(&mut random, noise, deviation, before + 12 * over as usize);
        tried(&pace, before, &guard, number, gain).unwrap()
    };
    (0..TRIALS).map(trial).collect()
}

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
        for deviation in [0.01, 0.05, 0.1, 0.2] {
            for over in [5, 10] {
                let at = |gain, verdict| percent(share(&simulate(noise, deviation, over, gain), verdict));
                let (confirmed, worse) = (Verdict::Confirmed, Verdict::Worse);
                lines.push(format!(
                    "| {name} | {:.0} % | {over} | {} % | {} % | {} % | {} % | {} % |",
                    deviation * 100.0,
                    at(1.0, confirmed),
                    at(1.2, confirmed),
                    at(2.0, confirmed),
                    at(1.0, worse),
                    at(0.8, worse),
                ));
            }
        }
    }
    lines.join("\n")
}

#[test]
fn the_rates_of_the_guards_errors_are_those_that_are_documented() {
    let page = include_str!("../../../../docs/guard.md");
    let tables = [recorded_table(), simulated_table()];
    let all = tables.join("\n\n");
    assert!(
        tables.iter().all(|table| page.contains(table)),
        "docs/guard.md should have:\n{all}"
    );
}

#[test]
fn hardly_any_change_that_does_nothing_to_a_recorded_program_is_confirmed() {
    let series: Vec<Vec<f64>> = recorded().into_values().flatten().collect();
    assert!(series.len() >= 200, "{}", series.len());
    let verdicts = judged(&series, 1.0);
    assert_eq!(verdicts.len() as u64, series.len() as u64 * NUMBERS);
    let confirmed = share(&verdicts, Verdict::Confirmed);
    assert!(confirmed <= 0.01, "{confirmed}");
}

/// Where a window deviates from the others by no more than a tenth.
#[test]
fn hardly_any_gain_of_a_fifth_is_missed_where_the_pace_is_steady() {
    for noise in [Noise::Independent, Noise::Spiky] {
        for (deviation, over) in [(0.01, 5), (0.05, 5), (0.05, 10), (0.1, 10)] {
            let missed = 1.0 - share(&simulate(noise, deviation, over, 1.2), Verdict::Confirmed);
            assert!(missed <= 0.05, "{deviation} {over}: {missed}");
        }
    }
}
