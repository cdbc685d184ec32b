//! A picture of a replay: what a session changed and what came of it, over the metrics of the rules that did
//! so. One screen tall.
//!
//! Collecting is here, choosing in `choice`, drawing in `svg`. We draw ourselves: a file that is readable in
//! light and dark takes its colours from a style sheet, and shows the exact values where the pointer rests;
//! plotting libraries write fixed colours.

mod choice;
mod scale;
mod svg;

use rules::{Dimension, MetricReading};

/// A series keeps at most this many points; beyond, neighbours become one.
const POINTS_MAX: usize = 2000;
/// At most this many metrics are kept, of which some are drawn; the others are counted.
const SERIES_MAX: usize = 256;
/// At most this many marks are kept, of which some are drawn; the others are counted.
const MARKS_MAX: usize = 4096;

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotMarkKind {
    Finding,
    /// It holds no longer.
    Gone,
    Decision,
    Kept,
    Reverted,
}

impl PlotMarkKind {
    fn is_of_change(self) -> bool {
        matches!(
            self,
            PlotMarkKind::Decision | PlotMarkKind::Kept | PlotMarkKind::Reverted
        )
    }
}

/// The mark of a recording.
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

/// Something that a rule said.
#[derive(Clone, Debug)]
struct Mark {
    time_s: f64,
    rule: String,
    kind: PlotMarkKind,
    text: String,
}

impl Mark {
    fn new(time_s: f64, rule: &str, kind: PlotMarkKind, text: &str) -> Mark {
        Mark {
            time_s,
            rule: rule.to_owned(),
            kind,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Keeps a mark while there is room; how many were not kept.
fn keep(marks: &mut Vec<Mark>, mark: Mark) -> usize {
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
    /// How many windows become one point.
    windows_per_point: usize,
    /// Windows in the last point.
    in_last: usize,
    windows: usize,
    /// Windows without a value.
    none: usize,
}

/// One window, or several neighbours.
#[derive(Clone, Copy, Debug)]
struct Point {
    time_s: f64,
    /// Windows with a value, and their value; none is a gap.
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
    /// What rules make greatest or least: the rule, and the objective as it is written.
    objectives: Vec<(String, String)>,
    series: Vec<Series>,
    marks: Vec<Mark>,
    /// What the session itself reported while the recording was made.
    recorded: Vec<Mark>,
    end_s: f64,
    more_metrics: std::collections::BTreeSet<(String, String)>,
    more_marks: usize,
}

impl Plot {
    /// Nothing yet, of rules with these objectives.
    pub fn new(objectives: Vec<(String, String)>) -> Plot {
        Plot {
            objectives,
            ..Plot::default()
        }
    }

    /// A window of a rule closed, so long after the begin, and has lasted so many seconds.
    pub fn window<'a>(
        &mut self,
        since_ns: u64,
        (rule, window): (&str, &str),
        duration: Option<f64>,
        readings: impl Iterator<Item = (&'a str, Option<MetricReading>)>,
    ) {
        let time_s = self.at(since_ns);
        // No metric, and what the user waits for.
        let lasted = format!("{window}.duration");
        let mut objectives = self.objectives.iter();
        if objectives.any(|(of, text)| of == rule && text.contains(&lasted)) {
            self.value((rule, window), &lasted, time_s, duration.map(seconds));
        }
        for (metric, reading) in readings {
            self.value((rule, window), metric, time_s, reading);
        }
    }

    fn value(
        &mut self,
        (rule, window): (&str, &str),
        metric: &str,
        time_s: f64,
        reading: Option<MetricReading>,
    ) {
        let is_it = |series: &Series| series.rule == rule && series.metric == metric;
        let place = self.series.iter().position(is_it).unwrap_or(self.series.len());
        if place == self.series.len() {
            if place == SERIES_MAX {
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
        self.series[place].push(Point { time_s, reading });
    }

    /// A rule found, decided or judged something in the replay, so long after the begin.
    pub fn mark(&mut self, since_ns: u64, rule: &str, kind: PlotMarkKind, text: &str) {
        let mark = Mark::new(self.at(since_ns), rule, kind, text);
        self.more_marks += keep(&mut self.marks, mark);
    }

    /// The session that was recorded printed this of a rule.
    pub fn recorded(&mut self, since_ns: u64, rule: &str, kind: PlotMarkKind, text: &str) {
        let mark = Mark::new(self.at(since_ns), rule, kind, text);
        self.more_marks += keep(&mut self.recorded, mark);
    }

    fn at(&mut self, since_ns: u64) -> f64 {
        let time_s = since_ns as f64 / 1e9;
        self.end_s = self.end_s.max(time_s);
        time_s
    }

    /// The picture, complete in itself.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }
}

#[cfg(test)]
mod tests;
