//! How programs scale with their threads, as text.

use profile::format::{count, duration, percent, significant};
use profile::{
    Inflation, Losses, PredictedSize, ScalingPrediction, ScalingView, SizeView, Snapshot, SpeedupHint,
    UnusedIteration,
};

/// A cause is shown from this share of the threads on.
const CAUSE_SHOWN: f64 = 0.01;

/// A predicted time is shown if half of its interval is less than this share of it.
const UNCERTAIN: f64 = 0.5;

/// The lost threads of the process with the least efficiency, and the team sizes that were measured.
pub(super) fn lines(snapshot: &Snapshot) -> Vec<String> {
    let all: Vec<(i32, &ScalingView)> = snapshot
        .processes
        .iter()
        .filter_map(|process| Some((process.pid, process.regions.as_ref()?.scaling.as_ref()?)))
        .collect();
    let measured = all
        .iter()
        .filter_map(|(pid, view)| Some((pid, *view, view.now()?)));
    let efficiency = |size: &SizeView| size.losses.efficiency();
    let worst = measured.min_by(|one, other| efficiency(one.2).total_cmp(&efficiency(other.2)));
    match (worst, &all[..]) {
        (Some((pid, view, now)), _) => {
            let whose = match all.len() {
                1 => String::new(),
                others => format!("process {pid}, the least efficient of {others}: "),
            };
            let mut lines = vec![format!(" {whose}{}", sentence(&now.losses))];
            let nodes = snapshot.cpus.and_then(|cpus| cpus.memory_nodes);
            lines.extend((view.sizes.len() > 1).then(|| sizes(view, nodes)));
            lines.extend(view.prediction.as_ref().and_then(predicted));
            lines.extend(hinted(&snapshot.speedup_hints, view));
            lines
        }
        (None, [(_, view), ..]) => without(view).into_iter().collect(),
        (None, []) => Vec::new(),
    }
}

/// "16 threads do the work of 7.2; lost: 3.9 to work inflation, ...".
fn sentence(losses: &Losses) -> String {
    let threads = match losses.threads {
        1 => "1 thread does".to_owned(),
        threads => format!("{threads} threads do"),
    };
    let least = f64::from(losses.threads) * CAUSE_SHOWN;
    let causes = losses.causes().into_iter();
    let lost: Vec<String> = causes
        .filter(|(_, threads)| *threads >= least)
        .map(|(cause, threads)| format!("{} to {cause}", significant(threads, 2)))
        .collect();
    let lost = match lost.is_empty() {
        true => "nothing is lost".to_owned(),
        false => format!("lost: {}", lost.join(", ")),
    };
    let (at_most, note) = match losses.inflation {
        Inflation::Measured(threads) if threads <= -least => (
            "",
            format!(
                "; {} gained, since more threads work less",
                significant(-threads, 2)
            ),
        ),
        Inflation::Measured(_) => ("", String::new()),
        Inflation::Extrapolated(_) => ("~", "; the work of one thread is extrapolated".to_owned()),
        Inflation::Unknown if losses.threads == 1 => ("", String::new()),
        Inflation::Unknown => ("at most ", "; work inflation unknown: one team size".to_owned()),
    };
    format!(
        "{threads} the work of {at_most}{}   ({lost}{note})",
        significant(losses.speedup, 2)
    )
}

/// The time of an iteration with each team size, beside the reference. `nodes`: memory nodes of the machine.
fn sizes(view: &ScalingView, nodes: Option<usize>) -> String {
    let one = |size: &SizeView| {
        let time = format!("{} with {}", duration(size.time_ns), size.threads);
        match size.ratio.filter(|ratio| ratio.baseline != size.threads) {
            Some(ratio) if ratio.is_superlinear => {
                let (times, speedup) = (significant(ratio.relative, 2), significant(ratio.speedup, 2));
                let baseline = ratio.baseline;
                format!(
                    "{time} ({times} times as fast as with {baseline}: superlinear, so its speedup, {speedup}, is not reliable)"
                )
            }
            Some(ratio) => format!("{time} (speedup {})", significant(ratio.speedup, 2)),
            None => time,
        }
    };
    let sizes: Vec<String> = view.sizes.iter().map(one).collect();
    let late = view.reference_after.zip(nodes.filter(|nodes| *nodes > 1));
    let late = late.map_or(String::new(), |(threads, nodes)| {
        format!("; measured after {threads} threads had spread data over {nodes} memory nodes: speedups may be too high")
    });
    format!(" a step by threads: {}{late}", sizes.join(", "))
}

/// The times of an iteration with sizes that were not measured; `None` if all of them are too uncertain.
fn predicted(prediction: &ScalingPrediction) -> Option<String> {
    let certain = |size: &&PredictedSize| size.within_ns < UNCERTAIN * size.time_ns;
    let one = |size: &PredictedSize| {
        let (least, most) = size.interval_ns();
        format!(
            "~{} with {} ({} to {})",
            duration(size.time_ns),
            size.threads,
            duration(least),
            duration(most)
        )
    };
    let sizes: Vec<String> = prediction.sizes.iter().filter(certain).map(one).collect();
    let fastest = prediction
        .fastest
        .map_or(String::new(), |threads| format!("; fastest with {threads}"));
    let law = prediction.law.name();
    (!sizes.is_empty()).then(|| {
        format!(
            " predicted, with enough CPUs: {}   ({law}{fastest})",
            sizes.join(", ")
        )
    })
}

/// The stated speedups, beside the measured ones.
fn hinted(hints: &[SpeedupHint], view: &ScalingView) -> Option<String> {
    let one = |hint: &SpeedupHint| {
        let stated = format!("{} with {}", significant(hint.speedup, 2), hint.threads);
        let size = view.sizes.iter().find(|size| size.threads == hint.threads);
        let Some(losses) = size.map(|size| size.losses) else {
            return stated;
        };
        // A stated speedup below an upper bound may be right.
        let is_bound = losses.inflation == Inflation::Unknown && losses.threads > 1;
        let may_be = is_bound && hint.speedup < losses.speedup;
        let contradicts = match hint.is_contradicted_by(losses.speedup) && !may_be {
            true => ", which contradicts it",
            false => "",
        };
        let at_most = if is_bound { "at most " } else { "" };
        let measured = significant(losses.speedup, 2);
        format!("{stated} (measured: {at_most}{measured}{contradicts})")
    };
    let hints: Vec<String> = hints.iter().map(one).collect();
    (!hints.is_empty()).then(|| format!(" speedup by --hint, not measured: {}", hints.join(", ")))
}

/// Why no size was measured, if iterations were left out.
fn without(view: &ScalingView) -> Option<String> {
    let all: u64 = view.left_out.iter().map(|(_, count)| count).sum();
    let (reason, most) = view.left_out.iter().max_by_key(|(_, count)| *count)?;
    let share = percent(*most as f64 / all.max(1) as f64);
    let is_parallel = *reason != UnusedIteration::NotParallel;
    is_parallel.then(|| {
        format!(
            " speedup not measured: none of {} steps could be used ({share}: {})",
            count(all as f64),
            reason.reason()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use profile::{ProcessView, Ratio, RegionsView, ScalingLaw};

    use super::*;

    fn losses(threads: u32, inflation: Inflation) -> Losses {
        Losses {
            threads,
            speedup: 7.2,
            sequential: 2.6,
            imbalance: 2.3,
            starting_and_ending: 0.05,
            small_teams: 0.0,
            inflation,
        }
    }

    fn size(threads: u32, time_ns: f64, inflation: Inflation) -> SizeView {
        let ratio = Ratio {
            baseline: 4,
            sequential: 0.1,
            sequential_of_source: 0.1,
            amdahl: 3.08,
            speedup: 3.08 * 2e6 / time_ns,
            relative: 2e6 / time_ns,
            is_superlinear: false,
        };
        SizeView {
            threads,
            iterations: 100,
            age: Duration::ZERO,
            time_ns,
            within_ns: Some(1e4),
            losses: losses(threads, inflation),
            ratio: Some(ratio),
        }
    }

    fn shown(views: Vec<ScalingView>) -> String {
        lines(&snapshot_of(views)).join("\n")
    }

    fn snapshot_of(views: Vec<ScalingView>) -> Snapshot {
        let process = |scaling| ProcessView {
            regions: Some(RegionsView {
                scaling: Some(scaling),
                ..RegionsView::default()
            }),
            ..ProcessView::default()
        };
        Snapshot {
            processes: views.into_iter().map(process).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn one_size_bounds_the_speedup_and_several_give_it() {
        let one = ScalingView {
            sizes: vec![size(16, 1e6, Inflation::Unknown)],
            threads: 16,
            ..ScalingView::default()
        };
        let several = ScalingView {
            sizes: vec![
                size(4, 2e6, Inflation::Extrapolated(0.4)),
                size(16, 1e6, Inflation::Extrapolated(3.9)),
            ],
            ..one.clone()
        };
        let both = vec![one.clone(), several.clone()];
        insta::assert_snapshot!([shown(vec![one]), shown(vec![several]), shown(both)].join("\n"), @"
         16 threads do the work of at most 7.2   (lost: 2.6 to code outside parallel regions, 2.3 to imbalance; work inflation unknown: one team size)
         16 threads do the work of ~7.2   (lost: 3.9 to work inflation, 2.6 to code outside parallel regions, 2.3 to imbalance; the work of one thread is extrapolated)
         a step by threads: 2 ms with 4, 1 ms with 16 (speedup 6.2)
         process 0, the least efficient of 2: 16 threads do the work of at most 7.2   (lost: 2.6 to code outside parallel regions, 2.3 to imbalance; work inflation unknown: one team size)
        ");
    }

    #[test]
    fn superlinear_sizes_have_their_shape_and_late_references_a_warning() {
        let mut superlinear = size(16, 4e5, Inflation::Measured(-2.0));
        superlinear.ratio.as_mut().unwrap().is_superlinear = true;
        let view = ScalingView {
            sizes: vec![size(4, 2e6, Inflation::Measured(0.0)), superlinear],
            threads: 16,
            reference_after: Some(16),
            ..ScalingView::default()
        };
        let of = |nodes| sizes(&view, Some(nodes));
        insta::assert_snapshot!([of(1), of(2)].join("\n"), @"
         a step by threads: 2 ms with 4, 400 us with 16 (5 times as fast as with 4: superlinear, so its speedup, 15, is not reliable)
         a step by threads: 2 ms with 4, 400 us with 16 (5 times as fast as with 4: superlinear, so its speedup, 15, is not reliable); measured after 16 threads had spread data over 2 memory nodes: speedups may be too high
        ");
    }

    #[test]
    fn predictions_are_shown_with_their_interval_unless_they_are_too_uncertain() {
        let of = |threads: u32, time_ns: f64, within_ns: f64| PredictedSize {
            threads,
            time_ns,
            within_ns,
            speedup: 2.0,
        };
        let view = |sizes, fastest| ScalingView {
            sizes: vec![size(16, 1e6, Inflation::Unknown)],
            threads: 16,
            prediction: Some(ScalingPrediction {
                law: ScalingLaw::UniversalScalability,
                sizes,
                fastest,
            }),
            ..ScalingView::default()
        };
        let certain = view(vec![of(32, 2e6, 2e5), of(64, 3e6, 2e6)], Some(12));
        let uncertain = view(vec![of(64, 3e6, 2e6)], None);
        let line = |view| shown(vec![view]).lines().nth(1).map(str::to_owned);
        insta::assert_snapshot!(line(certain).unwrap(), @" predicted, with enough CPUs: ~2 ms with 32 (1.8 ms to 2.2 ms)   (universal scalability law; fastest with 12)");
        assert_eq!(line(uncertain), None);
    }

    #[test]
    fn stated_speedups_stand_beside_the_measured_ones_and_change_none_of_them() {
        let view = ScalingView {
            sizes: vec![size(16, 1e6, Inflation::Measured(0.0))],
            threads: 16,
            ..ScalingView::default()
        };
        let plain = shown(vec![view.clone()]);
        let hints = [(8, 6.4), (16, 7.0)].map(|(threads, speedup)| SpeedupHint { threads, speedup });
        let line = hinted(&hints, &view).unwrap();
        insta::assert_snapshot!(line, @" speedup by --hint, not measured: 6.4 with 8, 7 with 16 (measured: 7.2)");
        let line = hinted(
            &[SpeedupHint {
                threads: 16,
                speedup: 12.0,
            }],
            &view,
        )
        .unwrap();
        insta::assert_snapshot!(line, @" speedup by --hint, not measured: 12 with 16 (measured: 7.2, which contradicts it)");
        let bound = ScalingView {
            sizes: vec![size(16, 1e6, Inflation::Unknown)],
            ..view.clone()
        };
        let line = |speedup| hinted(&[SpeedupHint { threads: 16, speedup }], &bound).unwrap();
        assert!(line(5.0).ends_with("5 with 16 (measured: at most 7.2)"));
        assert!(line(12.0).ends_with("12 with 16 (measured: at most 7.2, which contradicts it)"));
        let mut snapshot = snapshot_of(vec![view]);
        snapshot.speedup_hints = hints.to_vec();
        let lines = lines(&snapshot).join("\n");
        assert!(
            lines.starts_with(&plain) && lines.contains("speedup by --hint"),
            "{lines}"
        );
    }

    #[test]
    fn steps_that_cannot_be_used_are_said() {
        let view = ScalingView {
            left_out: vec![
                (UnusedIteration::TeamChanged, 1),
                (UnusedIteration::Preempted, 99),
            ],
            ..ScalingView::default()
        };
        insta::assert_snapshot!(shown(vec![view]), @" speedup not measured: none of 100 steps could be used (99 %: its threads waited for a CPU, or were stopped)");
        let serial = ScalingView {
            left_out: vec![(UnusedIteration::NotParallel, 99)],
            ..ScalingView::default()
        };
        assert_eq!(shown(vec![serial]), "");
    }
}
