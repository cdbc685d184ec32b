//! Formats numbers for people: three significant digits, a unit, thousands apart.

pub fn percent(share: f64) -> String {
    // The sum of an empty iterator is -0.
    let value = share * 100.0 + 0.0;
    if (99.5..99.95).contains(&value) {
        // Beside what is left to 100.
        format!("{value:.1} %")
    } else if value == 0.0 || value >= 9.95 {
        format!("{value:.0} %")
    } else {
        format!("{} %", significant(value, 2))
    }
}

pub fn duration(ns: f64) -> String {
    const MINUTES: f64 = 60e9;
    match ns.abs() {
        x if x < 999.5 => format!("{ns:.0} ns"),
        x if x < 999.5e3 => format!("{} us", significant(ns / 1e3, 3)),
        x if x < 999.5e6 => format!("{} ms", significant(ns / 1e6, 3)),
        x if x < 10.0 * MINUTES => format!("{} s", significant(ns / 1e9, 3)),
        _ => format!("{:.0} min", ns / MINUTES),
    }
}

pub fn bytes(amount: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = amount;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value:.0} B")
    } else {
        format!("{} {}", significant(value, 3), UNITS[unit])
    }
}

/// A count or a rate, with a blank between thousands.
pub fn count(value: f64) -> String {
    if value < 9.95 && value.fract() != 0.0 {
        return significant(value, 2);
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// An improvement factor: `1.05`, `6.3`, `110`.
pub fn times(ratio: f64) -> String {
    if ratio >= 99.5 {
        count(ratio)
    } else {
        significant(ratio, if ratio < 1.995 { 3 } else { 2 })
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

/// Greatest edit distance between a misspelling and the intended name.
const NEAR: usize = 3;

/// The existing name nearest to a mistyped one.
pub fn nearest(names: impl IntoIterator<Item = String>, typed: &str) -> Option<String> {
    let near = |name: &String| {
        let difference = name.len().abs_diff(typed.len());
        (difference <= NEAR).then(|| strsim::damerau_levenshtein(name, typed))
    };
    // Every name of one letter is near to every other.
    let names = names.into_iter().filter(|name| name.len().min(typed.len()) > 1);
    let rated = names.filter_map(|name| Some((near(&name)?, name)));
    let (distance, nearest) = rated.min()?;
    (distance <= NEAR.min(typed.len() / 3).max(1)).then_some(nearest)
}

/// Suffix for a message about an unknown name: `: did you mean NAME?`, or empty if no name is near.
pub fn did_you_mean(names: impl IntoIterator<Item = String>, typed: &str) -> String {
    nearest(names, typed).map_or_else(String::new, |near| format!(": did you mean {near}?"))
}

/// A CSV field, quoted as RFC 4180 requires.
pub fn csv_field(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A number with this many significant digits.
pub fn significant(value: f64, digits: usize) -> String {
    let magnitude = if value == 0.0 {
        0
    } else {
        value.abs().log10().floor() as i32
    };
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 6) as usize;
    format!("{value:.decimals$}")
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
    fn numbers_read_well() {
        assert_eq!(percent(std::iter::empty::<f64>().sum()), "0 %");
        let cases = [
            (percent(0.0), "0 %"),
            (percent(0.0034), "0.34 %"),
            (percent(0.0312), "3.1 %"),
            (percent(0.8), "80 %"),
            (percent(0.9973), "99.7 %"),
            (percent(0.9998), "100 %"),
            (duration(750.0), "750 ns"),
            (duration(1310.0), "1.31 us"),
            (duration(91.4e6), "91.4 ms"),
            (duration(2.0e9), "2.00 s"),
            (duration(3.6e12), "60 min"),
            (bytes(512.0), "512 B"),
            (bytes(65536.0), "64.0 KiB"),
            (bytes(3.5 * 1024.0 * 1024.0), "3.50 MiB"),
            (count(2100.0), "2 100"),
            (count(1234567.0), "1 234 567"),
            (count(0.5), "0.50"),
            (count(7.0), "7"),
            (times(1.31), "1.31"),
            (times(70.4), "70"),
            (times(110.2), "110"),
            (plural(1, "rank"), "1 rank"),
            (plural(16, "rank"), "16 ranks"),
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
