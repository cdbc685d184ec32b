//! Chooses the parts of a replay to draw: the picture is one screen tall, and changes and their effects have
//! priority.

use std::cmp::Reverse;

use super::{Plot, PlotMark, PlotMarkKind, Series};

pub(super) const PANELS_MAX: usize = 5;
pub(super) const DRAWN_MAX: usize = 12;

/// A rule with its panels and its marks, each mark with its number in the list.
pub(super) struct Group<'a> {
    pub(super) rule: &'a str,
    pub(super) series: Vec<&'a Series>,
    pub(super) marks: Vec<(&'a PlotMark, usize)>,
}

/// What is drawn, and how much is left out.
pub(super) struct Choice<'a> {
    /// The result of the changes in one sentence: the last verdict, else the last change, else the last
    /// finding.
    pub(super) headline: Option<&'a PlotMark>,
    pub(super) groups: Vec<Group<'a>>,
    /// In the order of time.
    pub(super) marks: Vec<&'a PlotMark>,
    /// Number of metrics with values that have no panel, and of metrics that never had a value.
    pub(super) left_out: (usize, usize),
    pub(super) more_marks: usize,
}

impl<'a> Choice<'a> {
    pub(super) fn of(plot: &'a Plot) -> Choice<'a> {
        let all = marks(plot);
        let count = all.len();
        let headline = all.iter().copied().max_by_key(|mark| rank(mark.kind));
        let marks = most_important(all);
        let mut series: Vec<&Series> = plot.series.iter().filter(|series| series.has_value()).collect();
        let never = plot.series.len() - series.len();
        // The sort is stable: metrics keep the order of their rule.
        series.sort_by_key(|series| {
            let own = marks.iter().filter(|mark| mark.rule == series.rule);
            let changed = own.clone().any(|mark| mark.kind.is_of_change());
            Reverse((changed, own.count() > 0, is_objective(plot, series)))
        });
        let with_value = series.len() + plot.more_metrics.len();
        series.truncate(PANELS_MAX);
        let left_out = (with_value - series.len(), never);
        Choice {
            headline,
            groups: groups(&series, &marks),
            more_marks: plot.more_marks + count - marks.len(),
            marks,
            left_out,
        }
    }
}

/// The marks that the session reported during the recording, and for other rules those of the replay. If the
/// replay changes something, only its own marks apply.
fn marks(plot: &Plot) -> Vec<&PlotMark> {
    let is_applied = plot.marks.iter().any(|mark| mark.kind.is_of_change());
    let recorded: &[PlotMark] = if is_applied { &[] } else { &plot.recorded };
    let anew = plot
        .marks
        .iter()
        .filter(|mark| recorded.iter().all(|known| known.rule != mark.rule));
    let mut all: Vec<&PlotMark> = recorded.iter().chain(anew).collect();
    all.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
    all
}

fn rank(kind: PlotMarkKind) -> u8 {
    match kind {
        PlotMarkKind::Kept | PlotMarkKind::Reverted => 3,
        PlotMarkKind::Decision => 2,
        PlotMarkKind::Finding => 1,
        PlotMarkKind::Gone => 0,
    }
}

fn most_important(mut marks: Vec<&PlotMark>) -> Vec<&PlotMark> {
    marks.sort_by_key(|mark| Reverse(rank(mark.kind)));
    marks.truncate(DRAWN_MAX);
    marks.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
    marks
}

/// Whether the metric is part of the rule's objective: its name occurs there as a separate word.
fn is_objective(plot: &Plot, series: &Series) -> bool {
    let is_word = |text: &str| {
        let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
        words.any(|word| word == series.metric)
    };
    let mut objectives = plot.objectives.iter();
    objectives.any(|(rule, text)| *rule == series.rule && is_word(text))
}

fn groups<'a>(series: &[&'a Series], marks: &[&'a PlotMark]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let names = series.iter().map(|series| series.rule.as_str());
    for rule in names.chain(marks.iter().map(|mark| mark.rule.as_str())) {
        if groups.iter().all(|group| group.rule != rule) {
            groups.push(Group {
                rule,
                series: series.iter().copied().filter(|of| of.rule == rule).collect(),
                marks: marks
                    .iter()
                    .copied()
                    .zip(1..)
                    .filter(|(of, _)| of.rule == rule)
                    .collect(),
            });
        }
    }
    groups
}
