//! A picture of a replay: the changes of a session and their effects, over the metrics of the rules that made
//! them. One screen tall.
//!
//! This module collects the data, `choice` selects, `svg` draws. We draw ourselves, because plotting
//! libraries write fixed colours. A file that is readable in light and dark takes its colours from a style
//! sheet, and shows exact values in tooltips.

mod choice;
mod scale;
mod svg;

use rules::{Dimension, MetricReading};

/// Maximum number of points of a series; when there are more, adjacent points are merged.
const POINTS_MAX: usize = 2000;
/// Maximum number of metrics that are kept; the others are counted.
const SERIES_MAX: usize = 256;
/// Maximum number of marks that are kept; the others are counted.
const MARKS_MAX: usize = 4096;

plan::words! {
    /// The kind of a mark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PlotMarkKind {
        Finding = "finding",
        /// The finding no longer holds.
        Gone = "gone",
        Decision = "decision",
        Kept = "kept",
        Reverted = "reverted",
    }
}

impl PlotMarkKind {
    fn is_of_change(self) -> bool {
        matches!(
            self,
            PlotMarkKind::Decision | PlotMarkKind::Kept | PlotMarkKind::Reverted
        )
    }
}

/// From a mark of a recording.
impl From<plan::MarkKind> for PlotMarkKind {
    fn from(kind: plan::MarkKind) -> PlotMarkKind {
        match kind {
            plan::MarkKind::Finding => PlotMarkKind::Finding,
            plan::MarkKind::Kept => PlotMarkKind::Kept,
            plan::MarkKind::Reverted => PlotMarkKind::Reverted,
            plan::MarkKind::Change | plan::MarkKind::Verdict => PlotMarkKind::Decision,
        }
    }
}

/// A report of a rule at a moment.
#[derive(Clone, Debug)]
struct PlotMark {
    time_s: f64,
    rule: String,
    kind: PlotMarkKind,
    text: String,
}

impl PlotMark {
    fn new(time_s: f64, rule: &str, kind: PlotMarkKind, text: &str) -> PlotMark {
        PlotMark {
            time_s,
            rule: rule.to_owned(),
            kind,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Keeps a mark if there is room; returns the number of dropped marks.
fn keep(marks: &mut Vec<PlotMark>, mark: PlotMark) -> usize {
    let has_room = marks.len() < MARKS_MAX;
    marks.extend(has_room.then_some(mark));
    usize::from(!has_room)
}

/// A duration as a reading.
fn seconds(value: f64) -> MetricReading {
    MetricReading {
        low: value,
        mean: value,
        high: value,
        dimension: Some(Dimension::TIME),
        is_share: false,
    }
}

/// The values of one metric, from window to window.
#[derive(Debug)]
struct Series {
    rule: String,
    window: String,
    metric: String,
    points: Vec<Point>,
    /// Number of windows that are merged into one point.
    windows_per_point: usize,
    /// Windows in the last point.
    in_last: usize,
    windows: usize,
    /// Windows without a value.
    none: usize,
}

/// One window, or several adjacent ones.
#[derive(Clone, Copy, Debug)]
struct Point {
    time_s: f64,
    /// Number of windows with a value, and the value; `None` is a gap.
    reading: Option<(f64, MetricReading)>,
}

impl Point {
    fn and(self, next: Point) -> Point {
        let reading = match (self.reading, next.reading) {
            (Some((n, a)), Some((m, b))) => Some((
                n + m,
                MetricReading {
                    low: a.low.min(b.low),
                    mean: a.mean * (n / (n + m)) + b.mean * (m / (n + m)),
                    high: a.high.max(b.high),
                    ..a
                },
            )),
            (one, other) => one.or(other),
        };
        Point {
            time_s: next.time_s,
            reading,
        }
    }
}

impl Series {
    fn has_value(&self) -> bool {
        self.none < self.windows
    }

    fn push(&mut self, point: Point) {
        self.windows += 1;
        self.none += usize::from(point.reading.is_none());
        if self.in_last < self.windows_per_point
            && let Some(last) = self.points.last_mut()
        {
            *last = last.and(point);
            self.in_last += 1;
            return;
        }
        if self.points.len() == POINTS_MAX {
            let pairs = self.points.chunks(2);
            let merged = pairs.filter_map(|pair| pair.iter().copied().reduce(Point::and));
            self.points = merged.collect();
            self.windows_per_point *= 2;
        }
        self.points.push(point);
        self.in_last = 1;
    }
}

#[derive(Debug, Default)]
pub struct Plot {
    /// The objectives of rules: the rule, and the objective as written in it.
    objectives: Vec<(String, String)>,
    series: Vec<Series>,
    marks: Vec<PlotMark>,
    /// What the session itself reported during the recording.
    recorded: Vec<PlotMark>,
    end_s: f64,
    more_metrics: std::collections::BTreeSet<(String, String)>,
    more_marks: usize,
}

impl Plot {
    /// An empty plot for rules with these objectives.
    pub fn new(objectives: Vec<(String, String)>) -> Plot {
        Plot {
            objectives,
            ..Plot::default()
        }
    }

    /// A window of a rule closed, `since_ns` after the begin; `duration` is in seconds.
    pub fn window<'a>(
        &mut self,
        since_ns: u64,
        rule: &str,
        window: &str,
        duration: Option<f64>,
        readings: impl Iterator<Item = (&'a str, Option<MetricReading>)>,
    ) {
        let time_s = self.at(since_ns);
        // The duration of a window is no metric, but users are interested in it if it is part of the
        // objective.
        let lasted = format!("{window}.duration");
        let mut objectives = self.objectives.iter();
        if objectives.any(|(of, text)| of == rule && text.contains(&lasted)) {
            self.value(rule, window, &lasted, time_s, duration.map(seconds));
        }
        for (metric, reading) in readings {
            self.value(rule, window, metric, time_s, reading);
        }
    }

    fn value(&mut self, rule: &str, window: &str, metric: &str, time_s: f64, reading: Option<MetricReading>) {
        let is_it = |series: &Series| series.rule == rule && series.metric == metric;
        let index = self.series.iter().position(is_it).unwrap_or(self.series.len());
        if index == self.series.len() {
            if index == SERIES_MAX {
                self.more_metrics.insert((rule.to_owned(), metric.to_owned()));
                return;
            }
            self.series.push(Series {
                rule: rule.to_owned(),
                window: window.to_owned(),
                metric: metric.to_owned(),
                points: Vec::new(),
                windows_per_point: 1,
                in_last: 1,
                windows: 0,
                none: 0,
            });
        }
        let reading = reading.map(|reading| (1.0, reading));
        self.series[index].push(Point { time_s, reading });
    }

    /// A rule found, decided or judged something in the replay, `since_ns` after the begin.
    pub fn mark(&mut self, since_ns: u64, rule: &str, kind: PlotMarkKind, text: &str) {
        let mark = PlotMark::new(self.at(since_ns), rule, kind, text);
        self.more_marks += keep(&mut self.marks, mark);
    }

    /// The recorded session printed this text of a rule.
    pub fn recorded(&mut self, since_ns: u64, rule: &str, kind: PlotMarkKind, text: &str) {
        let mark = PlotMark::new(self.at(since_ns), rule, kind, text);
        self.more_marks += keep(&mut self.recorded, mark);
    }

    fn at(&mut self, since_ns: u64) -> f64 {
        let time_s = since_ns as f64 / 1e9;
        self.end_s = self.end_s.max(time_s);
        time_s
    }

    /// The picture as a self-contained SVG document.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }
}

#[cfg(test)]
mod tests;
