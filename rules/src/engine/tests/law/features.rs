//! The language features of generated rules, with counts of their effects.

use std::collections::BTreeMap;

use super::job::Delivered;
use super::*;
use crate::rule::Trigger;
use crate::window::{Begin, Straddle};

/// The number of rules that have a feature, and the number of rules in which it had a value, closed a window,
/// or decided.
pub(super) type Counts = BTreeMap<String, (usize, usize)>;

fn count(counts: &mut Counts, feature: &str, came: bool) {
    let known = counts.entry(feature.to_string()).or_default();
    known.0 += 1;
    known.1 += usize::from(came);
}

/// Counts each feature of a rule once.
pub(super) fn count_all(counts: &mut Counts, text: &str, rule: &CheckedRule, delivered: &Delivered) {
    let mut features: BTreeMap<String, bool> = BTreeMap::new();
    let mut note = |feature: &str, came: bool| *features.entry(feature.to_string()).or_default() |= came;
    let closed = |name: &str| {
        let is_it = |window: &&ClosedWindow| window.window == name;
        let has_value =
            |window: &ClosedWindow| window.metrics.iter().any(|(_, value)| !value.starts_with("none"));
        delivered.windows.iter().filter(is_it).any(has_value)
    };
    for window in &rule.windows {
        let came = closed(&window.name);
        let Some(boundaries) = window.boundaries() else {
            note("window every", came);
            continue;
        };
        note("window", came);
        let from = |begin: Begin| boundaries.from.contains(&begin);
        let place = rule.windows.iter().position(|other| other.name == window.name);
        let of_each = boundaries
            .begins_at()
            .is_some_and(|probe| rule.probes[probe].name == "enter");
        for (feature, has) in [
            ("window within", boundaries.within.is_some()),
            ("window deep", window.name == "deep"),
            ("window until", boundaries.until.is_some()),
            ("window chained", from(Begin::Itself)),
            ("window of each process", of_each),
            (
                "window keyed by pairs",
                boundaries
                    .keys
                    .iter()
                    .skip(rule.probes.len())
                    .any(Option::is_some),
            ),
            ("window straddle begin", boundaries.straddle == Straddle::Begin),
            ("window straddle split", boundaries.straddle == Straddle::Split),
            ("window straddle drop", boundaries.straddle == Straddle::Drop),
            ("window skip", boundaries.skip > 0),
            ("window complete", !boundaries.complete.is_empty()),
            (
                "window complete by metric",
                text.contains("complete: {worker: n_") && place == Some(0),
            ),
        ] {
            if has {
                note(feature, came);
            }
        }
        if boundaries.discard.is_some() {
            note("window discard", delivered.dropped.discarded > 0);
            let by_metric = text.contains("discard: n_") || text.contains("discard: sum(busy_");
            if by_metric {
                note("window discard by metric", delivered.dropped.discarded > 0);
            }
        }
    }
    for metric in &rule.metrics {
        let word = metric.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let shown = delivered.windows.iter().flat_map(|window| &window.metrics);
        let mut shown = shown.filter(|(name, _)| *name == metric.name);
        let timed = rule.windows[metric.window].boundaries().is_none();
        let word = if timed {
            format!("timed {word}")
        } else {
            word.to_string()
        };
        if !rule
            .windows
            .iter()
            .any(|window| metric.name.ends_with(&format!("_{}", window.name)))
        {
            note(
                &format!("metric {word}"),
                shown.any(|(_, value)| !value.starts_with("none")),
            );
        }
    }
    for (place, tune) in rule.tunes.iter().enumerate() {
        let said = delivered.said.iter().any(|said| match said {
            Output::Decision(decision) => {
                decision.tune == place && !decision.because.iter().any(|(why, _)| why == "initial")
            }
            Output::FindingOpened(finding) => finding.tune == place && tune.action.is_none(),
            _ => false,
        });
        let target = tune
            .action
            .as_ref()
            .map_or("advice".to_string(), |change| change.action.target());
        let word = target.trim_end_matches(|c: char| c.is_ascii_digit());
        let kind = match tune.trigger {
            Trigger::Window(window) if rule.windows[window].boundaries().is_none() => "at a tick",
            Trigger::Window(window)
                if rule.windows[window]
                    .boundaries()
                    .is_some_and(|of| of.within.is_some()) =>
            {
                "inside"
            }
            _ => "",
        };
        note(&format!("tune {word}"), said);
        if !kind.is_empty() {
            note(&format!("tune {word} {kind}"), said);
        }
    }
    let by_key = crate::engine::keyed_intake::ByKey::of(rule);
    if (0..rule.probes.len()).any(|probe| by_key.has(probe)) {
        note("folded by nodes", closed("one"));
    }
    features
        .iter()
        .for_each(|(feature, came)| count(counts, feature, *came));
}
