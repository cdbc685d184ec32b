//! Draws the picture: a sentence about the effect of the changes, then a panel for each metric, all over one
//! axis of time, with numbered marks, and the texts of the marks below. Colours come from a style sheet for
//! light and dark.

use std::fmt::Write;

use profile::format::plural;
use rules::{
    Dimension, MetricReading,
    quantity::{metric, quantity},
};

use super::{
    Plot, PlotMark, PlotMarkKind, Point, Series,
    choice::{Choice, Group},
    scale::Scale,
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 936.0;
/// Height in pixels of a metric's panel, of the title above it, and of a line of text.
const PANEL: f64 = 72.0;
const TITLE: f64 = 28.0;
const LINE: f64 = 18.0;
/// Numbers nearer than this are put into different rows.
const BADGE: f64 = 17.0;
const BADGE_ROWS: usize = 3;
/// Characters per line in large and in small letters, and maximum lines of a text.
const LARGE_LINE: usize = 104;
const SMALL_LINE: usize = 136;
const LINES_MAX: usize = 2;
/// With more points than this, only the line is drawn.
const DOTS_MAX: usize = 80;

const STYLE: &str = "
text { font: 12px system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }
.rule { font-size: 15px; font-weight: 600 } .metric { font-weight: 600 } .dim { fill: #59636e }
.halo { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
.end { text-anchor: end } .mid { text-anchor: middle } .badge { fill: #ffffff; font-size: 10px; font-weight: 600 }
.paper { fill: #ffffff } .grid { stroke: #d8dee4 } .frame { stroke: #afb8c1; fill: none }
.line { stroke: #0b62b8; stroke-width: 1.6; fill: none; stroke-linejoin: round } .dot { fill: #0b62b8 }
.band { fill: #0b62b8; fill-opacity: 0.18 } .cut { stroke-dasharray: 4 3 }
.finding { fill: #8a5a00; stroke: #8a5a00 } .gone { fill: #6e7781; stroke: #6e7781 }
.decision { fill: #7b3fb5; stroke: #7b3fb5 } .kept { fill: #1a7f37; stroke: #1a7f37 } .reverted { fill: #c62828; stroke: #c62828 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #9198a1 } .badge { fill: #0d1117 } .paper { fill: #0d1117 } .halo { stroke: #0d1117 }
.grid { stroke: #262c36 } .frame { stroke: #444c56 } .line { stroke: #58a6ff } .dot, .band { fill: #58a6ff }
.finding { fill: #e3b341; stroke: #e3b341 } .gone { fill: #9198a1; stroke: #9198a1 }
.decision { fill: #c297ff; stroke: #c297ff } .kept { fill: #56d364; stroke: #56d364 } .reverted { fill: #ff7b72; stroke: #ff7b72 }
}
";

/// The document so far, and the current vertical position.
struct Drawing {
    out: String,
    y: f64,
}

pub(super) fn draw(plot: &Plot) -> String {
    let time = Scale::time(plot.end_s, (LEFT, RIGHT));
    let mut drawing = Drawing {
        out: String::new(),
        y: 24.0,
    };
    let choice = Choice::of(plot);
    if let Some(mark) = choice.headline {
        drawing.sentence(&rendered(mark));
    }
    if choice.groups.is_empty() {
        drawing.text(LEFT, "dim", "no window closed: there is nothing to draw");
    }
    for group in &choice.groups {
        drawing.rule(group, &time);
    }
    drawing.list(&choice);
    let height = drawing.y + 8.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\">\n<title>What rules saw and decided</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
        drawing.out
    )
}

impl Drawing {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = self.out.write_fmt(element);
        self.out.push('\n');
    }

    fn text_at(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"
        ));
    }

    /// Adds a line of text.
    fn text(&mut self, x: f64, class: &str, text: &str) {
        self.text_at((x, self.y), class, text);
        self.y += LINE;
    }

    fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), class: &str) {
        self.add(format_args!(
            "<path class=\"{class}\" d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>"
        ));
    }

    /// Adds a sentence in large letters, wrapped if it is long.
    fn sentence(&mut self, text: &str) {
        for line in lines(text, LARGE_LINE) {
            self.text(16.0, "rule", &line);
        }
        self.y += 10.0;
    }

    fn rule(&mut self, group: &Group<'_>, time: &Scale) {
        self.text_at((16.0, self.y), "rule", group.rule);
        let marks = &group.marks;
        let rows = rows(marks, time);
        let lanes = rows.iter().max().map_or(0, |last| last + 1);
        let top = self.y + 10.0;
        self.y = top + lanes as f64 * BADGE;
        let from = self.out.len();
        for series in &group.series {
            self.panel(series, time);
        }
        let mut lines = Drawing {
            out: String::new(),
            y: 0.0,
        };
        for ((mark, _), row) in marks.iter().zip(&rows) {
            let (x, y) = (time.place(mark.time_s), top + (*row as f64 + 0.5) * BADGE);
            lines.line((x, y), (x, self.y), &format!("cut {}", mark.kind.name()));
        }
        // Insert the lines before the curves, so that they are drawn below them.
        self.out.insert_str(from, &lines.out);
        for ((mark, number), row) in marks.iter().zip(&rows) {
            let (x, y) = (time.place(mark.time_s), top + (*row as f64 + 0.5) * BADGE);
            let (kind, text) = (mark.kind.name(), escaped(&rendered(mark)));
            self.add(format_args!(
                "<g><title>{text}</title><circle class=\"{kind}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7.5\"/>\
                 <text class=\"badge mid\" x=\"{x:.1}\" y=\"{:.1}\">{number}</text></g>",
                y + 3.5
            ));
        }
        for tick in time.ticks() {
            let text = quantity(tick, Dimension::TIME);
            self.text_at((time.place(tick), self.y + 15.0), "dim mid", &text);
        }
        self.y += 44.0;
    }

    fn panel(&mut self, series: &Series, time: &Scale) {
        let mut readings = series.points.iter().filter_map(|point| point.reading);
        let mut ends = readings.clone().map(|(_, reading)| (reading.low, reading.high));
        let (title, top) = (self.y + TITLE - 8.0, self.y + TITLE);
        self.text_at((LEFT, title), "metric halo", &series.metric);
        let Some(first) = ends.next() else { return };
        let range = ends.fold(first, |(low, high), next| (low.min(next.0), high.max(next.1)));
        let bottom = top + PANEL;
        let of = readings.next_back().map(|(_, reading)| reading);
        let dimension = of.and_then(|of| of.dimension);
        let is_share = of.is_some_and(|of| of.is_share);
        let value = match dimension {
            Some(dimension) => Scale::new(range, (bottom, top), 3.0, dimension),
            None => Scale::new((0.0, 1.0), (bottom, top), 1.0, Dimension::NONE),
        };
        self.text_at((RIGHT, title), "dim end halo", &remark(series, of));
        for tick in value.ticks() {
            let y = value.place(tick);
            self.line((LEFT, y), (RIGHT, y), "grid");
            let label = match dimension {
                Some(dimension) => metric(tick, dimension, is_share),
                None => (tick > 0.5).to_string(),
            };
            self.text_at((LEFT - 8.0, y + 4.0), "dim end", &label);
        }
        for tick in time.ticks() {
            let x = time.place(tick);
            self.line((x, top), (x, bottom), "grid");
        }
        self.add(format_args!(
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{}\" height=\"{PANEL}\"/>",
            RIGHT - LEFT
        ));
        self.curve(series, time, &value);
        self.y = bottom;
    }

    /// The means as a line that is broken where there is no value, and a band from least to greatest.
    fn curve(&mut self, series: &Series, time: &Scale, value: &Scale) {
        for part in series.points.split(|point| point.reading.is_none()) {
            let at = |point: &Point, of: fn(&MetricReading) -> f64| {
                let y = point
                    .reading
                    .map_or(0.0, |(_, reading)| value.place(of(&reading)));
                format!("{:.1} {y:.1}", time.place(point.time_s))
            };
            let path = |points: &mut dyn Iterator<Item = String>| points.collect::<Vec<_>>().join("L");
            let means = path(&mut part.iter().map(|point| at(point, |of| of.mean)));
            if means.is_empty() {
                continue;
            }
            if part
                .iter()
                .any(|point| point.reading.is_some_and(|(_, of)| of.low < of.high))
            {
                let high = part.iter().map(|point| at(point, |of| of.high));
                let low = part.iter().rev().map(|point| at(point, |of| of.low));
                let edge = path(&mut high.chain(low));
                self.add(format_args!("<path class=\"band\" d=\"M{edge}Z\"/>"));
            }
            self.add(format_args!("<path class=\"line\" d=\"M{means}\"/>"));
        }
        let alone = series.points.len() <= DOTS_MAX;
        for point in series.points.iter().filter(|_| alone) {
            let Some((_, reading)) = point.reading else {
                continue;
            };
            let (x, y) = (time.place(point.time_s), value.place(reading.mean));
            let said = escaped(&format!(
                "{}: {}",
                quantity(point.time_s, Dimension::TIME),
                shown(&reading)
            ));
            self.add(format_args!(
                "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"><title>{said}</title></circle>"
            ));
        }
    }

    /// The texts of the marks, and what was left out.
    fn list(&mut self, choice: &Choice<'_>) {
        let marks = &choice.marks;
        let kinds = PlotMarkKind::ALL
            .iter()
            .filter(|kind| marks.iter().any(|mark| mark.kind == **kind));
        let mut x = 16.0;
        for kind in kinds {
            let (name, y) = (kind.name(), self.y - 4.0);
            self.add(format_args!(
                "<circle class=\"{name}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
                x + 5.0
            ));
            self.text_at((x + 15.0, self.y), "dim", name);
            x += 84.0;
        }
        if !marks.is_empty() {
            self.y += LINE + 4.0;
        }
        for (mark, number) in marks.iter().zip(1..) {
            self.text_at((34.0, self.y), "dim end", &number.to_string());
            let time = quantity(mark.time_s, Dimension::TIME);
            self.text_at((LEFT, self.y), "dim end", &time);
            for line in lines(&rendered(mark), SMALL_LINE) {
                self.text(LEFT + 10.0, "", &line);
            }
        }
        if choice.more_marks > 0 {
            let more = format!("and {} more, which are not drawn", choice.more_marks);
            self.text(LEFT + 10.0, "dim", &more);
        }
        let (others, never) = choice.left_out;
        let texts = [
            (others, "not drawn (--csv has all of them)"),
            (never, "without a value in any window"),
        ];
        let said = texts.iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = said
            .map(|(count, text)| format!("{} {text}", plural(*count, "metric")))
            .collect();
        if !said.is_empty() {
            self.text(16.0, "dim", &said.join("; "));
        }
    }
}

/// Splits a text into at most two lines of `length` characters; the rest is cut.
fn lines(text: &str, length: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > length {
            if lines.len() == LINES_MAX {
                lines.last_mut().into_iter().for_each(|line| line.push('…'));
                return lines;
            }
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            let blank = if line.is_empty() { "" } else { " " };
            line.push_str(blank);
            line.extend(word.chars().take(length));
        }
    }
    lines
}

/// The row for the number of each mark, such that neighbours do not overlap.
fn rows(marks: &[(&PlotMark, usize)], time: &Scale) -> Vec<usize> {
    let mut ends = [f64::MIN; BADGE_ROWS];
    let mut rows = Vec::with_capacity(marks.len());
    for (mark, _) in marks {
        let x = time.place(mark.time_s);
        let free = ends.iter().position(|end| x - end >= BADGE);
        let row = free.unwrap_or(BADGE_ROWS - 1);
        ends[row] = x;
        rows.push(row);
    }
    rows
}

fn rendered(mark: &PlotMark) -> String {
    let (kind, rule) = (mark.kind.name(), &mark.rule);
    match mark.text.as_str() {
        "" => format!("{kind} {rule}"),
        text => format!("{kind} {rule}: {text}"),
    }
}

/// The last value, and the meaning of points and gaps.
fn remark(series: &Series, last: Option<MetricReading>) -> String {
    let mut parts = Vec::new();
    parts.extend(last.map(|last| format!("last {}", shown(&last))));
    if series.windows_per_point > 1 {
        let per = series.windows_per_point;
        parts.push(format!("a point is {per} windows of {}", series.window));
    }
    if series.none > 0 {
        parts.push(format!("none in {} of {} windows", series.none, series.windows));
    }
    parts.join("; ")
}

fn shown(reading: &MetricReading) -> String {
    let Some(dimension) = reading.dimension else {
        return match (reading.low > 0.5, reading.high > 0.5) {
            (false, true) => "false to true".into(),
            (_, truth) => truth.to_string(),
        };
    };
    let text = |value| metric(value, dimension, reading.is_share);
    let (low, high) = (text(reading.low), text(reading.high));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

/// Escaped for XML; characters that XML cannot represent become blanks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
