//! Charts over the time of the session, as SVG. They have no colours of their own: each stands for a variable
//! of the style sheet, which knows light and dark.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::RGBColor;
use profile::format::{duration, percent};

use crate::model::{PacePart, Timeline, TimelineMark};

/// The style sheet names these colours.
const INK: RGBColor = RGBColor(0, 0, 1);
const GRID: RGBColor = RGBColor(0, 0, 2);
const PACE: RGBColor = RGBColor(0, 0, 3);
const CPU: RGBColor = RGBColor(0, 0, 4);
const WAITING: RGBColor = RGBColor(0, 0, 5);
const MARK: RGBColor = RGBColor(0, 0, 6);
const GAP: RGBColor = RGBColor(0, 0, 7);

const SIZE: (u32, u32) = (1000, 180);
/// Place of the axis' numbers at the left: the charts share their time axis, so it is the same for all.
pub(crate) const LEFT: u32 = 72;
pub(crate) const RIGHT: u32 = 12;
/// A pace that varies by more than this is drawn on a logarithmic axis.
const LOGARITHMIC: f64 = 20.0;

pub(crate) type ChartError = DrawingAreaErrorKind<std::io::Error>;

/// How long an iteration takes, over the time. The line is broken where none was measured.
pub(crate) fn pace(timeline: &Timeline) -> Result<Option<String>, ChartError> {
    let parts = &timeline.pace;
    let means = || parts.iter().map(|part| part.mean_s).filter(|mean| *mean > 0.0);
    let (Some(least), Some(most)) = (means().reduce(f64::min), means().reduce(f64::max)) else {
        return Ok(None);
    };
    let is_logarithmic = most > LOGARITHMIC * least;
    let scale = |seconds: f64| if is_logarithmic { seconds.log10() } else { seconds };
    let range = match is_logarithmic {
        true => (least / 1.5).log10()..(most * 1.5).log10(),
        false => 0.0..most * 1.1,
    };
    let label = |value: &f64| match is_logarithmic {
        true => time(10f64.powf(*value)),
        false => time(*value),
    };
    let runs = unbroken(parts);
    let svg = on_time(timeline, range.clone(), &label, |chart| {
        let mut gaps = Vec::new();
        let mut before_s = 0.0;
        for run in &runs {
            let (first, last) = (run[0], run[run.len() - 1]);
            gaps.push((before_s, first.from_s));
            before_s = last.until_s;
            let steps = run.iter().flat_map(|part| {
                let mean = scale(part.mean_s);
                [(part.from_s, mean), (part.until_s, mean)]
            });
            chart.draw_series(LineSeries::new(steps, PACE.stroke_width(2)))?;
        }
        gaps.push((before_s, timeline.end_s));
        let gaps = gaps.into_iter().filter(|(from, to)| to > from);
        chart.draw_series(
            gaps.map(|(from, to)| Rectangle::new([(from, range.start), (to, range.end)], GAP.filled())),
        )?;
        Ok(())
    })?;
    let log = if is_logarithmic { ", logarithmic axis" } else { "" };
    let text = format!(
        "Time of one iteration over the session{log}: least {}, most {}, last {}",
        time(least),
        time(most),
        time(parts.last().map_or(0.0, |part| part.mean_s))
    );
    Ok(Some(finished(svg, &text)))
}

/// Seconds as people read them.
pub(crate) fn time(seconds: f64) -> String {
    duration(seconds * 1e9)
}

/// The parts, in pieces that follow one another without a gap.
fn unbroken(parts: &[PacePart]) -> Vec<Vec<PacePart>> {
    let mut runs: Vec<Vec<PacePart>> = Vec::new();
    for part in parts.iter().filter(|part| part.mean_s > 0.0) {
        match runs.last_mut() {
            // An iteration that was under way at the boundary is in neither part.
            Some(run) if part.from_s <= run[run.len() - 1].until_s + 2.0 * part.mean_s => run.push(*part),
            _ => runs.push(vec![*part]),
        }
    }
    runs
}

/// What the processes did, in parts that add up: on a CPU, waiting for one, asleep.
pub(crate) fn shares(timeline: &Timeline) -> Result<Option<String>, ChartError> {
    let parts = &timeline.shares;
    let Some(last) = parts.last() else {
        return Ok(None);
    };
    let most = parts
        .iter()
        .map(|part| part.cpu + part.waiting)
        .fold(1.0, f64::max);
    let svg = on_time(timeline, 0.0..most, &|value: &f64| percent(*value), |chart| {
        let bar = |from, until, low, high, colour: RGBColor| {
            Rectangle::new([(from, low), (until, high)], colour.filled())
        };
        chart.draw_series(parts.iter().flat_map(|part| {
            let all = part.cpu + part.waiting;
            [
                bar(part.from_s, part.until_s, 0.0, part.cpu, CPU),
                bar(part.from_s, part.until_s, part.cpu, all, WAITING),
            ]
        }))?;
        Ok(())
    })?;
    let text = format!(
        "Time of the processes over the session: on a CPU, waiting for a CPU, the rest asleep; at the end {} and {}",
        percent(last.cpu),
        percent(last.waiting)
    );
    Ok(Some(finished(svg, &text)))
}

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A chart whose axis is the time of the session, with its marks.
fn on_time(
    timeline: &Timeline,
    range: std::ops::Range<f64>,
    label: &dyn Fn(&f64) -> String,
    draw: impl FnOnce(&mut Chart<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_top(18)
            .margin_right(RIGHT)
            .x_label_area_size(24)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0.0..timeline.end_s.max(1e-9), range.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_labels(5)
            .x_labels(9)
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", 12, &INK))
            .x_label_formatter(&|time_s| match *time_s > 0.0 {
                true => time(*time_s),
                false => "0 s".to_owned(),
            })
            .y_label_formatter(label)
            .draw()?;
        draw(&mut chart)?;
        for mark in &timeline.marks {
            draw_mark(&mut chart, mark, &range)?;
        }
        root.present()?;
    }
    Ok(text)
}

fn draw_mark(
    chart: &mut Chart<'_>,
    mark: &TimelineMark,
    range: &std::ops::Range<f64>,
) -> Result<(), ChartError> {
    let line = [(mark.at_s, range.start), (mark.at_s, range.end)];
    chart.draw_series(LineSeries::new(line, MARK))?;
    let style = ("sans-serif", 12, &MARK).into_text_style(chart.plotting_area());
    let number = Text::new(mark.number.to_string(), (-3, -13), style);
    chart.draw_series([EmptyElement::at((mark.at_s, range.end)) + number])?;
    Ok(())
}

/// With the text that stands for it, the pattern of what was not measured, and a size that follows the page.
fn finished(svg: String, text: &str) -> String {
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;");
    let (width, height) = SIZE;
    let head = format!("<svg width=\"{width}\" height=\"{height}\" ");
    let ours = format!("<svg class=\"chart\" role=\"img\" aria-label=\"{escaped}\" ");
    let hatch = "<defs><pattern id=\"gap\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"2\" height=\"6\" class=\"gap\"/></pattern></defs>";
    let svg = svg.replacen(&head, &ours, 1);
    match svg.find('>') {
        Some(end) => format!("{}{hatch}{}", &svg[..=end], &svg[end + 1..]),
        None => svg,
    }
}
