//! SVG charts of measurements: panels side by side, each with lines of medians with their spread, and levels.
//! Colours come from a style sheet, as in the agent's charts of a replay, so that a file is readable in light
//! and dark mode.

use std::fmt::Write;

use super::stats::{Spread, figure};

const PANEL: (f64, f64) = (470.0, 300.0);
const LEFT: f64 = 64.0;
const TOP: f64 = 64.0;
const GAP: f64 = 34.0;
const LINE: f64 = 18.0;

const STYLE: &str = "
text { font: 12px system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .dim { fill: #59636e } .end { text-anchor: end } .mid { text-anchor: middle }
.paper { fill: #ffffff } .grid { stroke: #d8dee4 } .frame { stroke: #afb8c1; fill: none }
.line { stroke-width: 1.8; fill: none; stroke-linejoin: round } .bar { stroke-width: 1.2 } .level { stroke-dasharray: 6 4; stroke-width: 1.5; fill: none }
.s0 { stroke: #0b62b8 } .s1 { stroke: #b35900 } .s2 { stroke: #1a7f37 } .s3 { stroke: #7b3fb5 } .s4 { stroke: #c62828 } .s5 { stroke: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #9198a1 } .paper { fill: #0d1117 } .grid { stroke: #262c36 } .frame { stroke: #444c56 }
.s0 { stroke: #58a6ff } .s1 { stroke: #f0883e } .s2 { stroke: #56d364 } .s3 { stroke: #c297ff } .s4 { stroke: #ff7b72 } .s5 { stroke: #9198a1 }
}
";

/// An image of several panels.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
}

/// Values over a varied quantity. Both axes begin at zero.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) across: String,
    pub(crate) up: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) levels: Vec<(String, f64)>,
}

/// Points with their spread, connected from left to right.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, Spread)>,
}

impl Panel {
    /// The heads are the title, the varied quantity and the unit of the values.
    pub(crate) fn new(
        (title, across, up): (&str, &str, &str),
        lines: impl IntoIterator<Item = Line>,
    ) -> Panel {
        Panel {
            title: title.to_owned(),
            across: across.to_owned(),
            up: up.to_owned(),
            lines: lines.into_iter().collect(),
            levels: Vec::new(),
        }
    }

    pub(crate) fn with_levels<'a>(mut self, levels: impl IntoIterator<Item = (&'a str, f64)>) -> Panel {
        let levels = levels.into_iter();
        self.levels = levels.map(|(name, level)| (name.to_owned(), level)).collect();
        self
    }
}

impl Line {
    /// Values that have no spread.
    pub(crate) fn exactly(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let points = points.into_iter();
        Line {
            name: name.to_owned(),
            points: points.map(|(x, y)| (x, Spread::exactly(y))).collect(),
        }
    }

    /// One value per iteration.
    pub(crate) fn each(name: &str, values: Vec<f64>) -> Line {
        Line::exactly(name, (0..values.len()).map(|place| place as f64).zip(values))
    }
}

/// Maps a value to a position on an axis that begins at zero.
#[derive(Clone, Copy)]
struct Axis {
    most: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(most: f64, from: f64, to: f64) -> Axis {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let power = 10_f64.powf((most / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|of| of * power);
        let step = steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(most);
        Axis {
            most: (most / step - 1e-9).ceil() * step,
            step,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value / self.most).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=(self.most / self.step).round() as usize).map(|tick| tick as f64 * self.step)
    }
}

impl Picture {
    pub(crate) fn new(title: &str, panels: impl Into<Vec<Panel>>) -> Picture {
        Picture {
            title: title.to_owned(),
            panels: panels.into(),
        }
    }

    /// The complete SVG document.
    pub(crate) fn svg(&self) -> String {
        let mut out = String::new();
        text(&mut out, (16.0, 26.0), "title", &self.title);
        let mut bottom = TOP;
        for (place, panel) in self.panels.iter().enumerate() {
            let left = place as f64 * (LEFT + PANEL.0 + GAP) + LEFT;
            bottom = bottom.max(panel.draw(&mut out, left));
        }
        let width = self.panels.len().max(1) as f64 * (LEFT + PANEL.0 + GAP) + 8.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {bottom:.0}\" width=\"{width:.0}\" \
             height=\"{bottom:.0}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{out}</svg>\n",
            escaped(&self.title)
        )
    }
}

impl Panel {
    /// Draws the panel and returns its lower edge.
    fn draw(&self, out: &mut String, left: f64) -> f64 {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let right = greatest(&mut points().map(|(x, _)| *x));
        let top = greatest(
            &mut points()
                .map(|(_, y)| y.greatest)
                .chain(self.levels.iter().map(|(_, y)| *y)),
        );
        let floor = TOP + PANEL.1;
        let x = Axis::new(right, left, left + PANEL.0);
        let y = Axis::new(top, floor, TOP);
        text(out, (left, TOP - 12.0), "", &self.title);
        for tick in y.ticks() {
            path(
                out,
                "grid",
                &[(left, y.place(tick)), (left + PANEL.0, y.place(tick))],
            );
            text(out, (left - 6.0, y.place(tick) + 4.0), "dim end", &figure(tick));
        }
        for tick in x.ticks() {
            text(out, (x.place(tick), floor + 16.0), "dim mid", &figure(tick));
        }
        text(out, (left + PANEL.0, floor + 34.0), "dim end", &self.across);
        text(out, (left + PANEL.0, TOP - 12.0), "dim end", &self.up);
        path(
            out,
            "frame",
            &[(left, TOP), (left, floor), (left + PANEL.0, floor)],
        );
        let mut below = floor + 34.0;
        for (class, line) in self.lines.iter().enumerate() {
            line.draw(out, class % 6, &x, &y);
            legend(
                out,
                (left, &mut below),
                &format!("line s{}", class % 6),
                &line.name,
            );
        }
        for (class, (name, level)) in (self.lines.len()..).zip(&self.levels) {
            let class = format!("level s{}", class % 6);
            path(
                out,
                &class,
                &[(left, y.place(*level)), (left + PANEL.0, y.place(*level))],
            );
            legend(
                out,
                (left, &mut below),
                &class,
                &format!("{name}: {}", figure(*level)),
            );
        }
        below + LINE
    }
}

impl Line {
    fn draw(&self, out: &mut String, class: usize, x: &Axis, y: &Axis) {
        let at = |(of, spread): &(f64, Spread)| (x.place(*of), y.place(spread.median));
        let medians: Vec<(f64, f64)> = self.points.iter().map(at).collect();
        path(out, &format!("line s{class}"), &medians);
        for (of, spread) in self.points.iter().filter(|(_, spread)| spread.count > 1) {
            let ends = [
                (x.place(*of), y.place(spread.least)),
                (x.place(*of), y.place(spread.greatest)),
            ];
            path(out, &format!("bar s{class}"), &ends);
        }
    }
}

fn legend(out: &mut String, (left, below): (f64, &mut f64), class: &str, name: &str) {
    path(out, class, &[(left, *below - 4.0), (left + 26.0, *below - 4.0)]);
    text(out, (left + 34.0, *below), "", name);
    *below += LINE;
}

fn path(out: &mut String, class: &str, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    if !points.is_empty() {
        // Writing into a String does not fail.
        let _ = writeln!(out, "<path class=\"{class}\" d=\"M{}\"/>", points.join("L"));
    }
}

fn text(out: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_lie_within_the_picture_and_are_named() {
        let line = Line {
            name: "fixed < tuned".to_owned(),
            points: vec![
                (1.0, Spread::of(&[40.0, 42.0]).unwrap()),
                (25.0, Spread::exactly(15.0)),
            ],
        };
        let panel = Panel::new(("here", "", ""), [line]).with_levels([("oracle", 6.5)]);
        let picture = Picture::new("workers", [panel.clone(), panel]);
        let svg = picture.svg();
        for part in [
            "fixed &lt; tuned",
            "oracle: 6.50",
            ">40.0</text>",
            "bar s0",
            "level s1",
            "</svg>",
        ] {
            assert!(svg.contains(part), "{part} is not in\n{svg}");
        }
    }

    #[test]
    fn axes_begin_at_zero_have_round_ticks_and_hold_every_value() {
        for most in [0.0, 1e-6, 0.7, 1.0, 41.9, 288.0, 1e9] {
            let axis = Axis::new(most, 0.0, 100.0);
            assert!(
                axis.most >= most && (3..=8).contains(&axis.ticks().count()),
                "{most}"
            );
            assert!((0.0..=100.0).contains(&axis.place(most)));
        }
    }
}
