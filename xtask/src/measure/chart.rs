//! Charts of measurements as gnuplot scripts: panels side by side, each with lines of medians with their
//! spread, and levels. A script has its data; `gnuplot NAME.gnuplot` draws `NAME.svg`.

use std::fmt::Write;

use super::stats::{Spread, figure};

/// Width and height of a panel in pixels.
const PANEL: (usize, usize) = (540, 420);

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

impl Picture {
    pub(crate) fn new(title: &str, panels: impl Into<Vec<Panel>>) -> Picture {
        Picture {
            title: title.to_owned(),
            panels: panels.into(),
        }
    }

    /// The complete script, which draws into this file.
    pub(crate) fn gnuplot(&self, file: &str) -> String {
        let panels = self.panels.len().max(1);
        let mut script = format!(
            "set terminal svg noenhanced size {},{} background 'white'\nset output {}\nset multiplot layout 1,{panels} title {}\n\
             set key below left Left reverse maxcols 1\nset grid ytics\nset xrange [0:*]\nset yrange [0:*]\n",
            panels * PANEL.0,
            PANEL.1,
            quoted(file),
            quoted(&self.title),
        );
        for (number, panel) in self.panels.iter().enumerate() {
            panel.plot(number, &mut script);
        }
        script += "unset multiplot\n";
        script
    }
}

impl Panel {
    fn plot(&self, number: usize, script: &mut String) {
        let mut plots = Vec::new();
        for (place, line) in self
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.points.is_empty())
        {
            let data = format!("$data_{number}_{place}");
            // Writing into a String does not fail.
            let _ = writeln!(script, "{data} << end");
            for (x, y) in &line.points {
                let _ = writeln!(script, "{x} {} {} {}", y.median, y.least, y.greatest);
            }
            let _ = writeln!(script, "end");
            plots.push(format!(
                "{data} with yerrorlines pointtype 7 pointsize 0.3 title {}",
                quoted(&line.name)
            ));
        }
        for (name, level) in &self.levels {
            let title = quoted(&format!("{name}: {}", figure(*level)));
            plots.push(format!("{level} with lines dashtype 2 title {title}"));
        }
        let [title, across, up] = [&self.title, &self.across, &self.up].map(|text| quoted(text));
        let plot = if plots.is_empty() {
            "set multiplot next".to_owned()
        } else {
            format!("plot {}", plots.join(", "))
        };
        let _ = writeln!(
            script,
            "set title {title}\nset xlabel {across}\nset ylabel {up}\n{plot}"
        );
    }
}

/// A string of gnuplot. The terminal is `noenhanced`, so that `_` in a name does not lower the next letter.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_every_point_with_its_spread_and_names_lines_and_levels() {
        let points = vec![
            (1.0, Spread::of(&[40.0, 42.0]).unwrap()),
            (25.0, Spread::exactly(15.0)),
        ];
        let (name, none) = ("worker's".to_owned(), "none".to_owned());
        let lines = [
            Line { name, points },
            Line {
                name: none,
                points: Vec::new(),
            },
        ];
        let panel = Panel::new(("here", "workers", "s"), lines).with_levels([("oracle", 6.5)]);
        let script = Picture::new("fixed against tuned", [panel.clone(), panel]).gnuplot("workers.svg");
        for part in [
            "set output 'workers.svg'",
            "layout 1,2",
            "$data_1_0 << end\n1 41 40 42\n25 15 15 15\nend\n",
            "title 'worker''s', 6.5 with lines",
            "title 'oracle: 6.50'",
            "set xlabel 'workers'",
        ] {
            assert!(script.contains(part), "{part} is not in\n{script}");
        }
        assert!(
            !script.contains("none"),
            "gnuplot refuses a line without points\n{script}"
        );
    }
}
