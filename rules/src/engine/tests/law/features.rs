//! The language features of generated rules, with counts of their effects.

use std::collections::BTreeMap;

use super::job::Delivered;
use super::*;
use crate::rule::Trigger;
use crate::window::{Begin, Straddle};

/// The number of rules that have a feature, and the number of rules in which it had a value, closed a window,
/// or decided.
pub(super) type Counts = BTreeMap<String, (usize, usize)>;

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
    for (place, window) in rule.windows.iter().enumerate() {
        let came = closed(&window.name);
        let Some(boundaries) = window.boundaries() else {
            note("window every", came);
            continue;
        };
        note("window", came);
        let from = |begin: Begin| boundaries.from.contains(&begin);
        let enters = |probe: usize| rule.probes[probe].name == "enter";
        let of_each = boundaries.begins_at().is_some_and(enters);
        let mut keys_of_pairs = boundaries.keys.iter().skip(rule.probes.len());
        let complete_by_metric = text.contains("complete: {worker: n_") && place == 0;
        for (feature, has) in [
            ("window within", boundaries.within.is_some()),
            ("window deep", window.name == "deep"),
            ("window until", boundaries.until.is_some()),
            ("window chained", from(Begin::Itself)),
            ("window of each process", of_each),
            ("window keyed by pairs", keys_of_pairs.any(Option::is_some)),
            ("window straddle begin", boundaries.straddle == Straddle::Begin),
            ("window straddle split", boundaries.straddle == Straddle::Split),
            ("window straddle drop", boundaries.straddle == Straddle::Drop),
            ("window skip", boundaries.skip > 0),
            ("window complete", !boundaries.complete.is_empty()),
            ("window complete by metric", complete_by_metric),
        ] {
            if has {
                note(feature, came);
            }
        }
        if boundaries.discard.is_some() {
            note("window discard", delivered.dropped.discarded > 0);
            if text.contains("discard: n_") || text.contains("discard: sum(busy_") {
                note("window discard by metric", delivered.dropped.discarded > 0);
            }
        }
    }
    for metric in &rule.metrics {
        let word = metric.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let shown = delivered.windows.iter().flat_map(|window| &window.metrics);
        let mut shown = shown.filter(|(name, _)| *name == metric.name);
        let timed = match rule.windows[metric.window].boundaries() {
            Some(_) => "",
            None => "timed ",
        };
        let mut windows = rule.windows.iter();
        if !windows.any(|window| metric.name.ends_with(&format!("_{}", window.name))) {
            let has_value = shown.any(|(_, value)| !value.starts_with("none"));
            note(&format!("metric {timed}{word}"), has_value);
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
        let action = tune.action.as_ref();
        let target = action.map_or("advice".to_string(), |change| change.action.target());
        let word = target.trim_end_matches(|c: char| c.is_ascii_digit());
        note(&format!("tune {word}"), said);
        let Trigger::Window(window) = tune.trigger else {
            continue;
        };
        match rule.windows[window].boundaries() {
            None => note(&format!("tune {word} at a tick"), said),
            Some(boundaries) if boundaries.within.is_some() => note(&format!("tune {word} inside"), said),
            Some(_) => {}
        }
    }
    let by_key = crate::engine::keyed_intake::ByKey::of(rule);
    if (0..rule.probes.len()).any(|probe| by_key.has(probe)) {
        note("folded by nodes", closed("one"));
    }
    for (feature, came) in features {
        let known = counts.entry(feature).or_default();
        known.0 += 1;
        known.1 += usize::from(came);
    }
}
