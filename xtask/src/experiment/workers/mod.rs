//! The number of workers: MATE thesis (2007), section 5.1.6, Table 5.3, on `nbody`.
//!
//! Phases of iterations follow each other in which work and latency are longer in turns. Fixed numbers of workers run against one that
//! the rule `optimal-workers` tunes from 1. A load that varies computation alone by a factor r could gain at most
//! 1 - 2·√s / (s + 1), s = √r, which is 12 % for 8, for one fixed number lies between two optima; latency that varies too puts the
//! optima further apart.

mod load;
mod told;

use std::path::PathBuf;

use tuneagent_e2e::programs;

use self::load::{Kind, Load};
use super::chart::Picture;
use super::rounds::{self, Rounds};
use super::scenario::{self, Run, Scenario, With};
use super::{Outcome, Settings};
use crate::Result;

/// Workers, and minutes of Table 5.3, its min,sec read as such.
const THESIS: [(usize, f64); 6] = [
    (1, 817.0),
    (2, 462.0),
    (4, 246.0),
    (8, 138.0),
    (16, 178.0),
    (25, 214.0),
];
/// Its run that was tuned from 1.
const THESIS_TUNED: f64 = 102.0;

const MOST: usize = 25;

/// One program under one load, in all the ways in which it is run.
struct Bench<'a> {
    settings: &'a Settings,
    program: PathBuf,
    load: Load,
}

impl Bench<'_> {
    fn run(&self, more: &[String], with: With) -> Result<Run> {
        let scenario = Scenario {
            program: self.program.clone(),
            mpi: self.settings.mpi,
            ranks: MOST + 1,
            arguments: [self.load.arguments(), more.to_vec()].concat(),
            is_apart: false,
            with,
        };
        scenario.run()
    }

    fn fixed(&self, workers: usize) -> Result<Run> {
        self.run(&[format!("workers={workers}")], With::Nobody)
    }

    /// Fixed numbers, and around the best of them the numbers between, until its neighbours were tried: one run each.
    fn search(&self, begin: &[usize]) -> Result<Vec<(usize, Run)>> {
        let mut tried: Vec<(usize, Run)> = Vec::new();
        let mut next = begin.to_vec();
        while !next.is_empty() {
            for workers in std::mem::take(&mut next) {
                rounds::progress(&format!("{workers} workers, a first look"));
                tried.push((workers, self.fixed(workers)?));
            }
            tried.sort_by_key(|(workers, _)| *workers);
            let seconds = |(_, run): &&(usize, Run)| run.seconds();
            let best = tried.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
            let Some(best) = best.map(|(workers, _)| *workers) else {
                break;
            };
            next = beside(
                best,
                &tried.iter().map(|(workers, _)| *workers).collect::<Vec<_>>(),
            );
        }
        Ok(tried)
    }

    /// What a scenario of the rounds is, by its name.
    fn scenario(&self, name: &str, best: usize, oracle: &[String]) -> Result<Run> {
        // The names of the rule, as the library `mw` has them.
        let names = programs::source("mw.yaml");
        let names = names.to_string_lossy();
        let rule = |flags: &[&str]| With::rule("optimal-workers", &[], &[&[&*names][..], flags].concat());
        match name {
            TUNED => self.run(&["workers=1".to_owned()], rule(&["--apply"])),
            WATCHED => self.run(&[format!("workers={best}")], rule(&[])),
            ORACLE => self.run(oracle, With::Nobody),
            workers => self.fixed(workers.parse().map_err(|_| format!("no scenario {workers}"))?),
        }
    }
}

const TUNED: &str = "tuned from 1";
const WATCHED: &str = "watched";
const ORACLE: &str = "oracle";

/// The numbers to try next around the best one: half way to its neighbours that were tried.
fn beside(best: usize, tried: &[usize]) -> Vec<usize> {
    let below = tried.iter().filter(|of| **of < best).max();
    let above = tried.iter().filter(|of| **of > best).min();
    let between = |of: Option<&usize>| of.map(|of| (of + best) / 2);
    // Rounded down, half way from above may be the best itself.
    let half = [
        between(below).filter(|of| !tried.contains(of)),
        above
            .map(|of| (of + best).div_ceil(2))
            .filter(|of| !tried.contains(of)),
    ];
    half.into_iter().flatten().collect()
}

pub(super) fn run(settings: &Settings) -> Result<Outcome> {
    scenario::build_agent(&crate::root())?;
    let program = programs::master_worker("nbody", settings.mpi).map_err(|problem| problem.to_string())?;
    let fixed: Vec<usize> = if settings.quick {
        vec![1, 8, 25]
    } else {
        THESIS.map(|(workers, _)| workers).to_vec()
    };
    let of = |load, fixed: &[usize]| {
        let bench = Bench {
            settings,
            program: program.clone(),
            load,
        };
        bench.measure(fixed)
    };
    let varying = of(Load::varying(settings.quick, false), &fixed)?;
    let constant = of(
        Load::constant(settings.quick),
        if settings.quick { &[12] } else { &[8, 12, 16] },
    )?;
    let mut sections = vec![
        varying.section("Varying load", true),
        constant.section("Constant load", false),
    ];
    if !settings.quick {
        let with_plain = of(Load::varying(false, true), &[6, 8, 10])?;
        sections.insert(
            1,
            with_plain.section("Varying load with plain phases between", false),
        );
    }
    let mut claims = varying.varying_claims();
    claims.extend(constant.constant_claims());
    claims.extend([
        varying.logic("under varying load"),
        constant.logic("under constant load"),
    ]);
    Ok(Outcome {
        sections,
        picture: Picture {
            title: "Number of workers: fixed against tuned".to_owned(),
            panels: vec![
                varying.panel("varying load"),
                told::thesis(),
                varying.course("a tuned run under varying load"),
                constant.course("a tuned run under constant load"),
            ],
        },
        claims,
    })
}

/// What was measured under one load.
struct Measured {
    load: Load,
    /// With the seconds of the first look.
    fixed: Vec<(usize, f64)>,
    best: usize,
    rounds: Rounds<Run>,
}

impl Bench<'_> {
    fn measure(&self, fixed: &[usize]) -> Result<Measured> {
        let tried = if self.settings.quick {
            fixed
                .iter()
                .map(|workers| Ok((*workers, self.fixed(*workers)?)))
                .collect::<Result<Vec<_>>>()?
        } else {
            self.search(fixed)?
        };
        // What was near the best in one run may be the best in the median; what was not is not run again.
        let seconds = |run: &Run| run.seconds();
        let least = tried.iter().map(|(_, run)| seconds(run)).fold(f64::MAX, f64::min);
        let near = tried.iter().filter(|(_, run)| seconds(run) < 1.05 * least);
        let again: Vec<usize> = near.map(|(workers, _)| *workers).collect();
        let oracle = self.oracle(&tried);
        let best_first = tried
            .iter()
            .min_by(|a, b| a.1.seconds().total_cmp(&b.1.seconds()));
        let watched = best_first.map_or(1, |(workers, _)| *workers);
        let mut names: Vec<String> = again.iter().map(usize::to_string).collect();
        names.extend([TUNED, WATCHED, ORACLE].map(str::to_owned));
        let rounds = rounds::interleaved(&names, self.settings.repeats, |name| {
            self.scenario(name, watched, &oracle)
        })?;
        let median = |workers: &usize| rounds.spread(&workers.to_string(), Run::seconds);
        let medians: Vec<f64> = again
            .iter()
            .map(|of| Ok(median(of)?.median))
            .collect::<Result<_>>()?;
        let best = again.iter().zip(&medians).min_by(|a, b| a.1.total_cmp(b.1));
        let best = *best.ok_or("no fixed number of workers was tried")?.0;
        let runs = names.iter().flat_map(|name| rounds.of(name));
        let runs = runs.chain(tried.iter().map(|(_, run)| run));
        let sums: Vec<&str> = runs.map(|run| run.checksum.as_str()).collect();
        if sums.iter().any(|sum| *sum != sums[0]) {
            return Err(format!("the program computed different results: {sums:?}"));
        }
        Ok(Measured {
            load: self.load,
            fixed: tried
                .iter()
                .map(|(workers, run)| (*workers, run.seconds()))
                .collect(),
            best,
            rounds,
        })
    }

    /// Of each kind of phase the number of workers that was quickest in it, for the program to choose by itself.
    fn oracle(&self, tried: &[(usize, Run)]) -> Vec<String> {
        let best_in = |kind: Kind| {
            let seconds = |run: &Run| -> f64 {
                let each = run.each("seconds").into_iter().enumerate();
                each.filter(|(iteration, _)| self.load.kind(*iteration) == kind)
                    .map(|(_, seconds)| seconds)
                    .sum()
            };
            let best = tried
                .iter()
                .min_by(|a, b| seconds(&a.1).total_cmp(&seconds(&b.1)));
            best.map_or(1, |(workers, _)| *workers)
        };
        let plain = best_in(Kind::Plain);
        if self.load.phase == 0 {
            return vec![format!("workers={plain}")];
        }
        vec![
            format!("workers={plain}"),
            format!("workers_work={}", best_in(Kind::MoreWork)),
            format!("workers_latency={}", best_in(Kind::MoreLatency)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_when_both_neighbours_of_the_best_were_tried() {
        let time = |workers: usize| 5.5 * workers as f64 + 396.0 / workers as f64;
        let mut tried = vec![1, 2, 4, 8, 16, 25];
        let best = |tried: &[usize]| {
            *tried
                .iter()
                .min_by(|a, b| time(**a).total_cmp(&time(**b)))
                .unwrap()
        };
        loop {
            let next = beside(best(&tried), &tried);
            if next.is_empty() {
                break;
            }
            tried.extend(next);
            tried.sort_unstable();
        }
        assert!(
            best(&tried) == 8 && tried.contains(&7) && tried.contains(&9),
            "{tried:?}"
        );
    }
}
