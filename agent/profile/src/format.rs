//! Texts for people: numbers, names, and lines of a width.

pub use rules::nearest;
pub use rules::quantity::{bytes, count, duration, percent, significant};

/// A time as [`duration`] shows it.
pub fn time(time: std::time::Duration) -> String {
    duration(time.as_nanos() as f64)
}

/// An improvement factor: `1.05`, `6.3`, `110`.
pub fn times(ratio: f64) -> String {
    if ratio >= 99.5 {
        count(ratio)
    } else {
        significant(ratio, if ratio < 1.995 { 3 } else { 2 })
    }
}

/// Characters of the name of a function in a sentence. Names of templates have hundreds.
const NAME_CHARS_MAX: usize = 48;

/// The name of a function in a sentence: of a longer one its begin.
pub fn in_sentence(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// `"1 rank"`, `"6 ranks"`, `"2 processes"`.
pub fn plural(number: usize, noun: &str) -> String {
    let ending = match (number, noun.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{ending}", count(number as f64))
}

/// Suffix for a message about an unknown name: `: did you mean ...?`, or empty if no name is near.
pub fn suggestion(names: impl IntoIterator<Item = String>, typed: &str) -> String {
    rules::did_you_mean(typed, names).map_or_else(String::new, |near| format!(": {near}"))
}

/// A CSV field, quoted as RFC 4180 requires.
pub fn csv_field(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Greatest column to which the continuation lines of a text are indented.
const HANG_MAX: usize = 32;

/// Indentation of continuation lines if the text has no label.
const HANG: usize = 4;

/// Splits a text into lines. All but the first are indented to the column at which the text of the first line
/// begins, after its number and label. A command to be typed stays on one line: the terminal wraps it, and
/// copies all of it.
pub fn hanging(text: &str, columns: usize) -> Vec<String> {
    let first = text.lines().next().unwrap_or_default();
    let column = hang(first, columns);
    let indent = " ".repeat(column);
    let text = text.replace('\n', &format!("\n{indent}"));
    let lines = text.split('\n').flat_map(|line| {
        let said = line
            .char_indices()
            .nth(column)
            .map_or(line, |(at, _)| &line[at..]);
        match is_typed(said) {
            true => vec![line.to_owned()],
            false => wrapped(&indent, line, columns),
        }
    });
    lines.collect()
}

/// Whether it is a command of ours, with or without sudo.
fn is_typed(said: &str) -> bool {
    let command = said.strip_prefix("sudo ").unwrap_or(said);
    let program = command.split(' ').next().unwrap_or_default();
    program.rsplit('/').next() == Some("tuneagent")
}

/// The column after a gap of at least two blanks: the last such column among the first ones.
fn hang(line: &str, columns: usize) -> usize {
    let begin = line.chars().take_while(|c| *c == ' ').count();
    let (mut found, mut blanks) = (None, 0);
    for (column, c) in line.chars().enumerate().take(HANG_MAX.min(columns / 2) + 1) {
        if c != ' ' && blanks > 1 && column > begin {
            found = Some(column);
        }
        blanks = if c == ' ' { blanks + 1 } else { 0 };
    }
    found.unwrap_or(begin + HANG)
}

/// Splits a text into lines; all but the first begin with `indent`. Keeps blanks that align columns.
pub fn wrapped(indent: &str, text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(indent.len() + 10);
    let mut lines = Vec::new();
    let mut rest = text.to_owned();
    while let Some((end, _)) = rest.char_indices().nth(columns) {
        let is_word = |cut: &usize| *cut > indent.len() && !rest[..*cut].trim().is_empty();
        // Do not separate a number from its percent sign.
        let parts = |cut: &usize| rest[cut + 1..].starts_with('%');
        let mut blanks = rest[..end].rmatch_indices(' ').map(|(cut, _)| cut);
        let cut = blanks.find(|cut| is_word(cut) && !parts(cut)).unwrap_or(end);
        lines.push(rest[..cut].trim_end().to_owned());
        rest = format!("{indent}{}", rest[cut..].trim_start());
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_numbers_of_things_read_well() {
        let cases = [
            (times(1.31), "1.31"),
            (times(70.4), "70"),
            (times(110.2), "110"),
            (plural(1, "rank"), "1 rank"),
            (plural(16, "rank"), "16 ranks"),
            (in_sentence("MPI_Iprobe"), "MPI_Iprobe"),
            (
                in_sentence("void gemm<std::array<double, 4>, layout::row, layout::column>(long)"),
                "void gemm<std::array<double, 4>, layout::row, la…",
            ),
            (plural(2, "process"), "2 processes"),
            (csv_field("f(int)"), "f(int)"),
            (csv_field("f<A, B>(\"x\")"), "\"f<A, B>(\"\"x\"\")\""),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_long_line_goes_on_below_what_it_says_and_not_below_its_label() {
        let cases = [
            ("as it is", vec!["as it is"]),
            ("", vec![""]),
            (
                "finding  r   4 ranks share 2 CPUs and spin while they wait",
                vec![
                    "finding  r   4 ranks share 2 CPUs and",
                    "             spin while they wait",
                ],
            ),
            (
                "     guard     91.4 ms -> 1.31 ms a step; kept",
                vec!["     guard     91.4 ms -> 1.31 ms a", "               step; kept"],
            ),
            (
                "finding  r   4 ranks spin:\n99 % of their time",
                vec!["finding  r   4 ranks spin:", "             99 % of their time"],
            ),
            (
                "note: all functions are watched all the time again",
                vec!["note: all functions are watched all the", "    time again"],
            ),
            (
                "    that is much: docs/performance.md says what makes it less",
                vec![
                    "    that is much: docs/performance.md",
                    "        says what makes it less",
                ],
            ),
            (
                "    now    sudo tuneagent attach 8120 --apply --keep",
                vec!["    now    sudo tuneagent attach 8120 --apply --keep"],
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(hanging(line, 40), expected);
        }
        // A label that takes more than half of the line does not count.
        assert_eq!(hang("a label of more than twenty columns   text", 40), HANG);
    }
}
