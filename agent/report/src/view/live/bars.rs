//! Bars and curves of characters: block characters if the terminal's locale supports them, ASCII otherwise.

use std::sync::OnceLock;

/// From empty to full.
const BLOCKS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Horizontal: parts of a cell from the left.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// From light to dark.
const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];
const PLAIN_SHADES: [&str; 5] = [" ", ".", ":", "+", "#"];
const PLAIN: [&str; 9] = [" ", ".", ".", ":", "-", "=", "+", "*", "#"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glyphs {
    Blocks,
    Plain,
}

impl Glyphs {
    /// Determined from the locale, as programs that print text do.
    pub(super) fn of_locale() -> Glyphs {
        static GLYPHS: OnceLock<Glyphs> = OnceLock::new();
        *GLYPHS.get_or_init(|| {
            let mut variables = ["LC_ALL", "LC_CTYPE", "LANG"].iter();
            let set = variables.find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
            let name = set.unwrap_or_default().to_ascii_lowercase().replace('-', "");
            if name.contains("utf8") {
                Glyphs::Blocks
            } else {
                Glyphs::Plain
            }
        })
    }

    /// The upper bounds of the shades: zero, then each four times the previous one.
    pub(super) const SHADES: [f64; 5] = [0.0, 1.0 / 64.0, 1.0 / 16.0, 1.0 / 4.0, 1.0];

    /// A cell that is darker the greater its share of the maximum is.
    pub(super) fn shade(self, share: f64) -> &'static str {
        let level = Glyphs::SHADES.iter().position(|up_to| share <= *up_to);
        let shades = match self {
            Glyphs::Blocks => SHADES,
            Glyphs::Plain => PLAIN_SHADES,
        };
        shades[level.unwrap_or(0)]
    }

    /// A horizontal bar of this many columns.
    pub(super) fn bar(self, share: f64, columns: usize) -> String {
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let eighths = (share * columns as f64 * 8.0).round() as usize;
        let text = match self {
            Glyphs::Blocks => "█".repeat(eighths / 8) + EIGHTHS[eighths % 8],
            Glyphs::Plain => "#".repeat((eighths + 4) / 8),
        };
        format!("{text:<columns$}")
    }

    /// The newest values as a curve of at most this many columns, from 0 to 1.
    pub(super) fn curve(self, values: &[f64], columns: usize) -> String {
        let height = |value: f64| {
            let eighths = (value.clamp(0.0, 1.0) * 8.0).round() as usize;
            let steps = match self {
                Glyphs::Blocks => BLOCKS,
                Glyphs::Plain => PLAIN,
            };
            // Small positive values must differ from zero.
            steps[eighths.max(usize::from(value > 0.0)).min(8)]
        };
        let older = values.len().saturating_sub(columns);
        values.iter().skip(older).copied().map(height).collect()
    }
}
