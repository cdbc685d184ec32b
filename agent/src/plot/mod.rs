//! A picture of a replay: the metrics of every rule over time, with what it found, decided and judged as marks.
//!
//! Collecting is here, drawing in `svg`. We draw ourselves: a file that is readable in light and dark takes its colours from
//! a style sheet, and shows the exact values where the pointer rests; plotting libraries write fixed colours.

mod scale;
mod svg;

use rules::Reading;

/// A series keeps at most this many points; beyond, neighbours become one.
const MOST_POINTS: usize = 2000;
/// At most this many metrics are drawn; the others are counted.
const MOST_PANELS: usize = 32;
/// At most this many marks are drawn; the others are counted.
const MOST_MARKS: usize = 60;

/// What a mark tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// A condition holds.
    Finding,
    /// It holds no longer.
    Gone,
    /// Something is to be changed.
    Decision,
    /// A change was kept.
    Kept,
    /// A change was undone.
    Undone,
}

/// Something that a rule said.
#[derive(Clone, Debug)]
struct Mark {
    time_s: f64,
    rule: String,
    kind: MarkKind,
    text: String,
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
    reading: Option<(f64, Reading)>,
}

impl Point {
    fn and(self, next: Point) -> Point {
        let reading = match (self.reading, next.reading) {
            (Some((n, a)), Some((m, b))) => Some((
                n + m,
                Reading {
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
        if self.points.len() == MOST_POINTS {
            let pairs = self.points.chunks(2);
            let merged = pairs.filter_map(|pair| pair.iter().copied().reduce(Point::and));
            self.points = merged.collect();
            self.windows_per_point *= 2;
        }
        self.points.push(point);
        self.in_last = 1;
    }
}

/// What is drawn.
#[derive(Debug, Default)]
pub struct Plot {
    series: Vec<Series>,
    marks: Vec<Mark>,
    end_s: f64,
    more_metrics: std::collections::BTreeSet<(String, String)>,
    more_marks: usize,
}

impl Plot {
    /// A window of a rule closed, so long after the begin.
    pub fn window<'a>(
        &mut self,
        since_ns: u64,
        rule: &str,
        window: &str,
        readings: impl Iterator<Item = (&'a str, Option<Reading>)>,
    ) {
        let time_s = self.at(since_ns);
        for (metric, reading) in readings {
            let is_it = |series: &Series| series.rule == rule && series.metric == metric;
            let place = self.series.iter().position(is_it).unwrap_or(self.series.len());
            if place == self.series.len() {
                if place == MOST_PANELS {
                    self.more_metrics.insert((rule.to_owned(), metric.to_owned()));
                    continue;
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
    }

    /// A rule said something, so long after the begin.
    pub fn mark(&mut self, since_ns: u64, rule: &str, kind: MarkKind, text: &str) {
        let time_s = self.at(since_ns);
        if self.marks.len() == MOST_MARKS {
            self.more_marks += 1;
            return;
        }
        self.marks.push(Mark {
            time_s,
            rule: rule.to_owned(),
            kind,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        });
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
