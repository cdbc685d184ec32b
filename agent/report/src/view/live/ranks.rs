//! The tab of the ranks: a row each, with a bar for each way of spending time.

use profile::format::{bytes, count, percent};
use profile::{ProcessView, Rates, Snapshot};
use ratatui::{
    style::Color,
    text::{Line, Span},
};

use super::super::parts::mpi_mark;
use super::{
    bars::Glyphs,
    page::{Content, plain, short_percent, title},
    state::{State, Tab},
};

/// From this width on there is room for all numbers.
const WIDE: usize = 110;
/// Columns of the narrowest bar.
const BAR_MIN: usize = 3;
/// Columns of a share in percent, including the blanks around it.
const PERCENT: usize = 9;

/// A share, shown as a bar and as a percentage: heading, colour, value.
type Share = (&'static str, Color, fn(&Rates) -> Option<f64>);

const IN_MPI: &str = "in MPI";

const SHARES: [Share; 3] = [
    (IN_MPI, Color::Blue, |rates| rates.mpi),
    ("on a CPU", Color::Green, |rates| Some(rates.cpu)),
    ("waits for a CPU", Color::Red, |rates| Some(rates.runqueue)),
];

/// A number to the right of the bars.
struct Number {
    title: &'static str,
    columns: usize,
    /// If false, it is left out on a narrow terminal that shows the numbers of MPI.
    is_of_mpi: bool,
    of: fn(&ProcessView, &Rates) -> Option<String>,
}

const fn number(
    title: &'static str,
    columns: usize,
    is_of_mpi: bool,
    of: fn(&ProcessView, &Rates) -> Option<String>,
) -> Number {
    Number {
        title,
        columns,
        is_of_mpi,
        of,
    }
}

const NUMBERS: [Number; 4] = [
    number("calls/s", 9, true, |_, rates| {
        Some(count(rates.calls_per_s.round()))
    }),
    number("sent/s", 11, true, |_, rates| Some(bytes(rates.sent_per_s))),
    number("memory", 12, false, |process, _| {
        Some(bytes(process.counters.as_ref()?.resident_bytes as f64))
    }),
    number("switched/s", 12, false, |_, rates| {
        Some(count(rates.switches_per_s.round()))
    }),
];

pub(super) fn content(snapshot: &Snapshot, state: &State, columns: usize, glyphs: Glyphs) -> Content {
    let mut processes = ordered(snapshot, state.order(Tab::Ranks));
    if state.is_reversed(Tab::Ranks) {
        processes.reverse();
    }
    let has_mpi = snapshot.job.mpi.is_some();
    let shares: Vec<&Share> = SHARES.iter().skip(usize::from(!has_mpi)).collect();
    let has_room = columns >= WIDE || !has_mpi;
    let is_shown = |number: &&Number| if number.is_of_mpi { has_mpi } else { has_room };
    let mut numbers: Vec<&Number> = NUMBERS.iter().filter(is_shown).collect();
    let names = processes.iter().map(|process| name(process).len());
    let first = names.max().unwrap_or_default().max(4);
    let fixed = |numbers: &[&Number]| first + 3 + numbers.iter().map(|number| number.columns).sum::<usize>();
    // A number is useless without its heading and unit, so it is removed entirely.
    while fixed(&numbers) + shares.len() * (BAR_MIN + PERCENT) > columns && numbers.pop().is_some() {}
    let fixed = fixed(&numbers);
    let bar = columns.saturating_sub(fixed) / shares.len().max(1);
    let bar = bar.saturating_sub(PERCENT).clamp(BAR_MIN, 24);

    let mut head = format!(" {:>first$}  ", if has_mpi { "rank" } else { "pid" });
    for (title, ..) in &shares {
        let w = bar + PERCENT;
        let title = match title.len() < w {
            true => title,
            false => title.split(' ').next().unwrap_or_default(),
        };
        head += &format!("{title:<w$}");
    }
    for number in &numbers {
        head += &format!("{:>w$}", number.title, w = number.columns);
    }
    let mark = mpi_mark(snapshot);
    let row = |process: &ProcessView| {
        let mut spans = vec![Span::raw(format!(" {:>first$}  ", name(process)))];
        match (&process.rates, process.ended) {
            (_, true) => spans.push(Span::raw("ended")),
            (None, _) => spans.push(Span::raw("not measured yet")),
            (Some(rates), _) => {
                for share in &shares {
                    let mark = if share.0 == IN_MPI { mark } else { "" };
                    spans.extend(share_spans(share, rates, bar, mark, glyphs));
                }
                for number in &numbers {
                    let mark = if number.is_of_mpi { mark } else { "" };
                    let text = (number.of)(process, rates);
                    let text = text.map_or_else(|| "-".to_owned(), |text| format!("{mark}{text}"));
                    spans.push(Span::raw(format!("{text:>w$}", w = number.columns)));
                }
            }
        }
        Line::from(spans)
    };
    let spread = has_mpi.then(|| spread(&processes, columns)).flatten();
    Content {
        head: spread.into_iter().map(plain).chain([title(head)]).collect(),
        rows: processes.iter().map(|process| row(process)).collect(),
        keys: processes.iter().map(|process| key(process)).collect(),
    }
}

fn share_spans(
    (_, colour, of): &Share,
    rates: &Rates,
    bar: usize,
    mark: &str,
    glyphs: Glyphs,
) -> [Span<'static>; 2] {
    let value = of(rates);
    let text = value.map_or_else(
        || "-".to_owned(),
        |share| format!("{mark}{}", short_percent(share)),
    );
    [
        Span::styled(glyphs.bar(value.unwrap_or_default(), bar), *colour),
        Span::raw(format!(" {text:>7} ")),
    ]
}

fn ordered(snapshot: &Snapshot, order: usize) -> Vec<&ProcessView> {
    let mut processes: Vec<&ProcessView> = snapshot.processes.iter().collect();
    let of: fn(&Rates) -> Option<f64> = match order {
        1 => |rates| rates.mpi,
        2 => |rates| Some(rates.runqueue),
        _ => return processes,
    };
    // Unknown values come last.
    let value = |process: &ProcessView| process.rates.as_ref().and_then(of).unwrap_or(-1.0);
    processes.sort_by(|a, b| value(b).total_cmp(&value(a)));
    processes
}

pub(super) fn name(process: &ProcessView) -> String {
    let rank = process.rank.map(|rank| rank.to_string());
    let of = rank.unwrap_or_else(|| process.pid.to_string());
    with_program(of, process)
}

/// The process id, with the program if the process had several: what a row stands for.
pub(super) fn key(process: &ProcessView) -> String {
    with_program(process.pid.to_string(), process)
}

fn with_program(of: String, process: &ProcessView) -> String {
    match &process.program {
        Some(program) => format!("{of} ({program})"),
        None => of,
    }
}

/// The rank with the least time in MPI is the one that the others wait for.
fn spread(processes: &[&ProcessView], columns: usize) -> Option<String> {
    let in_mpi = processes.iter().filter(|process| !process.ended);
    let mut in_mpi: Vec<(f64, String)> = in_mpi
        .filter_map(|process| Some((process.rates.as_ref()?.mpi?, name(process))))
        .collect();
    in_mpi.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, most) = (in_mpi.first()?, in_mpi.last()?);
    let mean = in_mpi.iter().map(|(share, _)| share).sum::<f64>() / in_mpi.len() as f64;
    let text = |mean: String| {
        format!(
            " in MPI: least {} (rank {}), {mean}most {} (rank {})",
            percent(least.0),
            least.1,
            percent(most.0),
            most.1
        )
    };
    let all = text(format!("mean {}, ", percent(mean)));
    Some(match all.chars().count() <= columns {
        true => all,
        false => text(String::new()),
    })
}
