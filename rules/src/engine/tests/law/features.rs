//! The language features of generated rules, with counts of their effects.

use std::collections::BTreeMap;

use super::job::Delivered;
use super::*;
use crate::rule::Trigger;
use crate::window::{Begin, Straddle};

/// The number of rules that have a feature, and the number of rules in which it had a value, closed a window,
/// or decided.
pub(super) type Counts = BTreeMap<String, (usize, usize)>;

/// The features of a rule, and whether they came to an effect.
#[derive(Default)]
struct Features(BTreeMap<String, bool>);

impl Features {
    fn note(&mut self, feature: &str, came: bool) {
        *self.0.entry(feature.to_string()).or_default() |= came;
    }
}

/// Counts each feature of a rule once.
pub(super) fn count_all(counts: &mut Counts, text: &str, rule: &CheckedRule, delivered: &Delivered) {
    let mut features = Features::default();
    note_windows(&mut features, text, rule, delivered);
    note_metrics(&mut features, rule, delivered);
    note_tunes(&mut features, rule, delivered);
    let by_key = crate::engine::keyed_intake::ByKey::of(rule);
    if (0..rule.probes.len()).any(|probe| by_key.has(probe)) {
        features.note("folded by nodes", closed(delivered, "one"));
    }
    for (feature, came) in features.0 {
        let known = counts.entry(feature).or_default();
        known.0 += 1;
        known.1 += usize::from(came);
    }
}

/// Whether a window of this name closed with a value.
fn closed(delivered: &Delivered, name: &str) -> bool {
    let is_it = |window: &&ClosedWindow| window.window == name;
    let has_value =
        |window: &ClosedWindow| window.metrics.iter().any(|(_, value)| !value.starts_with("none"));
    delivered.windows.iter().filter(is_it).any(has_value)
}

fn note_windows(features: &mut Features, text: &str, rule: &CheckedRule, delivered: &Delivered) {
    for (index, window) in rule.windows.iter().enumerate() {
        let came = closed(delivered, &window.name);
        let Some(boundaries) = window.boundaries() else {
            features.note("window every", came);
            continue;
        };
        features.note("window", came);
        let from = |begin: Begin| boundaries.from.contains(&begin);
        let enters = |probe: usize| rule.probes[probe].name == "enter";
        let of_each = boundaries.begins_at().is_some_and(enters);
        let mut keys_of_pairs = boundaries.keys.iter().skip(rule.probes.len());
        let complete_by_metric = text.contains("complete: {worker: n_") && index == 0;
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
                features.note(feature, came);
            }
        }
        if boundaries.discard.is_some() {
            features.note("window discard", delivered.dropped.discarded > 0);
            if text.contains("discard: n_") || text.contains("discard: sum(busy_") {
                features.note("window discard by metric", delivered.dropped.discarded > 0);
            }
        }
    }
}

fn note_metrics(features: &mut Features, rule: &CheckedRule, delivered: &Delivered) {
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
            features.note(&format!("metric {timed}{word}"), has_value);
        }
    }
}

fn note_tunes(features: &mut Features, rule: &CheckedRule, delivered: &Delivered) {
    for (index, tune) in rule.tunes.iter().enumerate() {
        let said = delivered.said.iter().any(|said| match said {
            Output::Decision(decision) => {
                decision.tune == index && !decision.because.iter().any(|(why, _)| why == "initial")
            }
            Output::FindingOpened(finding) => finding.tune == index && tune.action.is_none(),
            _ => false,
        });
        let action = tune.action.as_ref();
        let target = action.map_or("advice".to_string(), |change| change.action.target());
        let word = target.trim_end_matches(|c: char| c.is_ascii_digit());
        features.note(&format!("tune {word}"), said);
        let Trigger::Window(window) = tune.trigger else {
            continue;
        };
        match rule.windows[window].boundaries() {
            None => features.note(&format!("tune {word} at a tick"), said),
            Some(boundaries) if boundaries.within.is_some() => {
                features.note(&format!("tune {word} inside"), said)
            }
            Some(_) => {}
        }
    }
}
