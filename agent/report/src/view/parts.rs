//! The part of the time that numbers cover: all of it, sampling windows, or the time until a moment.

use std::time::Duration;

use profile::{
    FunctionTotals, RegionsView, Snapshot, Steps, cost::Estimate, format::bytes, format::count,
    format::duration, format::plural, mpi, probe::starts_team,
};

/// If something was probed for more than this share of the time, the rest is neglected.
pub(super) const WATCHED_FULLY: f64 = 0.95;

/// Digits of an estimate at least.
const DIGITS_MIN: i32 = 2;

/// The combined estimate of the functions that were sampled in windows; `None` if all were watched all the
/// time. Every line that shows the part of the time uses this value.
pub(super) fn sampled<'a>(functions: impl IntoIterator<Item = &'a FunctionTotals>) -> Option<Estimate> {
    let estimates = functions.into_iter().filter_map(|function| function.estimate);
    estimates.reduce(Estimate::and)
}

/// As [`sampled`], of the functions of MPI alone: those of the program may be sampled while MPI is not.
pub(super) fn sampled_mpi(functions: &[FunctionTotals]) -> Option<Estimate> {
    sampled(functions.iter().filter(|function| function.is_of_mpi()))
}

/// The calls of the functions of which [`sampled_mpi`] is the estimate.
pub(super) fn mpi_calls(functions: &[FunctionTotals]) -> u64 {
    let sampled = |function: &&FunctionTotals| function.is_of_mpi() && function.estimate.is_some();
    functions
        .iter()
        .filter(sampled)
        .map(|function| function.calls)
        .sum()
}

/// The mark before shares of the time inside MPI: `~` if its functions are sampled.
pub fn mpi_mark(snapshot: &Snapshot) -> &'static str {
    sampled_mpi(&snapshot.functions()).map_or("", |_| "~")
}

/// What stands before a share of the time that probes take. Where they slow the sampled time too much to know the
/// pace without them, processes also wait for the probes of others, which this share leaves out.
pub(super) fn cost_mark(snapshot: &Snapshot) -> &'static str {
    match sampled(&snapshot.functions()) {
        Some(Estimate { to: None, .. }) => "at least ",
        _ => "~",
    }
}

/// How exact a number of calls is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Accuracy {
    #[default]
    Exact,
    /// An estimate that supports this many digits.
    About(i32),
    /// An estimate with too wide a range for digits to tell: its bounds, as parts of the estimate.
    Between(f64, f64),
    /// Probes slow down the sampled time so much that the true number may be several times higher: shown as a lower bound,
    /// which is this part of the estimate.
    Unbounded(f64),
}

impl Accuracy {
    /// How exact a number of `calls` is, of which `estimate` has the range.
    pub fn of(estimate: Option<Estimate>, calls: u64) -> Accuracy {
        match estimate {
            None => Accuracy::Exact,
            Some(Estimate { to: None, from, .. }) => {
                Accuracy::Unbounded((from as f64 / calls.max(1) as f64).min(1.0))
            }
            Some(Estimate {
                from, to: Some(to), ..
            }) => {
                let width = to.saturating_sub(from) as f64;
                let digits = (1.0 - (width / to.max(1) as f64).max(1e-9).log10()).floor() as i32;
                match digits < DIGITS_MIN {
                    true => {
                        let part = |bound: u64| bound as f64 / calls.max(1) as f64;
                        Accuracy::Between(part(from), part(to))
                    }
                    false => Accuracy::About(digits),
                }
            }
        }
    }

    /// A number of calls for a table.
    pub fn cell(self, value: f64) -> String {
        let rounded = |part: f64| count(to_digits(value * part, DIGITS_MIN));
        match self {
            Accuracy::Between(from, to) => format!("~{}-{}", rounded(from), rounded(to)),
            _ => self.narrow_cell(value),
        }
    }

    /// As [`Accuracy::cell`], for a column without room for how far it may be off.
    pub(super) fn narrow_cell(self, value: f64) -> String {
        match self {
            Accuracy::Exact => count(value.round()),
            Accuracy::About(digits) => format!("~{}", count(to_digits(value, digits))),
            Accuracy::Between(..) => Accuracy::About(DIGITS_MIN).narrow_cell(value),
            Accuracy::Unbounded(part) => format!("≥{}", count(floor(value * part))),
        }
    }

    /// A number of calls with its noun, for a sentence.
    pub(super) fn calls(self, calls: u64) -> String {
        match self {
            Accuracy::Exact => plural(usize::try_from(calls).unwrap_or(usize::MAX), "call"),
            _ => format!("{} calls", self.cell(calls as f64)),
        }
    }

    /// Calls per second, for a sentence.
    pub(super) fn rate(self, value: f64) -> String {
        match self {
            Accuracy::Exact => count(value),
            _ => self.cell(value),
        }
    }

    /// A mark before another number that is derived from the calls.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Accuracy::Exact => "",
            _ => "~",
        }
    }

    /// Bytes, which are in proportion to the calls, with their mark.
    pub fn bytes(self, value: f64) -> String {
        match self {
            Accuracy::Unbounded(part) => format!("≥{}", bytes(floor(value * part))),
            _ => format!("{}{}", self.mark(), bytes(value)),
        }
    }
}

/// No more than the value, with as few digits as a lower bound has.
fn floor(value: f64) -> f64 {
    let unit = unit_of_digits(value, DIGITS_MIN);
    (value / unit).floor() * unit
}

/// The value with this many significant digits; smaller numbers keep their units.
pub(super) fn to_digits(value: f64, digits: i32) -> f64 {
    let unit = unit_of_digits(value, digits);
    (value / unit).round() * unit
}

/// The unit of the last of this many significant digits.
fn unit_of_digits(value: f64, digits: i32) -> f64 {
    let magnitude = value.max(1.0).log10().floor() as i32;
    10_f64.powi((magnitude + 1 - digits).max(0))
}

/// From this part of a function's time on, calls that have not returned are shown.
const UNDER_WAY_SHOWN: f64 = 0.05;

/// The calls of a function that have not returned, if enough of its time is theirs that a reader would miss it in the
/// mean and at the call sites.
pub(super) fn under_way(function: &FunctionTotals) -> u64 {
    let is_much = |all_ns: &u64| function.under_way_ns as f64 >= *all_ns as f64 * UNDER_WAY_SHOWN;
    function.time_ns.filter(is_much).map_or(0, |_| function.under_way)
}

/// The part of the time in which calls of this function were assigned to call sites.
pub(super) fn of_site(snapshot: &Snapshot, functions: &[FunctionTotals], name: &str) -> f64 {
    match snapshot.sequence.steps {
        Steps::MpiCalls => {
            let function = functions.iter().find(|function| function.name == name);
            let estimate = function.and_then(|function| function.estimate);
            estimate.map_or(1.0, |estimate| estimate.watched)
        }
        Steps::Regions => snapshot
            .regions()
            .map_or(1.0, |regions| probed(snapshot, &regions)),
    }
}

/// The share of the time in which parallel regions were probed.
pub(super) fn probed(snapshot: &Snapshot, regions: &RegionsView) -> f64 {
    let processes = snapshot.processes.iter();
    let processes = processes.filter(|process| process.regions.is_some()).count();
    let watched = regions.watched_ns as f64 / processes.max(1) as f64;
    watched / snapshot.elapsed.as_nanos().max(1) as f64
}

/// If regions were counted for a smaller part of the time, the pace of the rest may differ.
const COUNTED_MIN: f64 = 0.9;

/// Parallel regions a second over the session, if nearly all of them were counted.
pub(super) fn counted_regions_per_s(snapshot: &Snapshot) -> Option<f64> {
    regions_counted_in(snapshot, COUNTED_MIN)
}

/// Parallel regions a second over the session, if they were counted for at least this part of the time.
pub(super) fn regions_counted_in(snapshot: &Snapshot, part: f64) -> Option<f64> {
    let mut regions = snapshot.functions();
    regions.retain(|function| starts_team(&function.name));
    let counted = |function: &FunctionTotals| function.counted.unwrap_or(1.0);
    let are_counted = regions
        .iter()
        .all(|function| counted(function) >= part && function.estimate.is_none());
    let of = |function: &FunctionTotals| function.calls as f64 / counted(function);
    let all: f64 = regions.iter().map(of).sum();
    let elapsed_s = snapshot.elapsed.as_secs_f64();
    (are_counted && all > 0.0 && elapsed_s > 0.0).then(|| all / elapsed_s)
}

/// Whether only a part of the calls that form the loop was observed.
pub(super) fn is_loop_sampled(snapshot: &Snapshot, functions: &[FunctionTotals]) -> bool {
    match snapshot.sequence.steps {
        Steps::MpiCalls => {
            let mut of_loop = functions.iter().filter(|function| !is_polling(&function.name));
            of_loop.any(|function| function.estimate.is_some())
        }
        Steps::Regions => of_site(snapshot, functions, "") < WATCHED_FULLY,
    }
}

/// Whether the function polls, and so is in no sequence of calls.
pub(super) fn is_polling(function: &str) -> bool {
    mpi::find(function).is_some_and(|called| called.function.is_polling())
}

/// A note that the numbers mix the times before and after the changes, with exceptions.
pub(super) fn around_changes(snapshot: &Snapshot) -> Option<String> {
    let is_changed = snapshot.changes.iter().any(|change| change.number != 0);
    let except = except(snapshot);
    is_changed.then(|| format!(" the figures below cover the time before and after the changes{except}"))
}

fn except(snapshot: &Snapshot) -> &'static str {
    let until_ns = snapshot.regions().and_then(|regions| regions.until_ns);
    match until_ns.is_some_and(|until_ns| is_before_changes(snapshot, until_ns)) {
        true => ", except the times of steps and regions",
        false if snapshot.iteration_around_change().is_some() => ", except the time of a step",
        false => "",
    }
}

/// Whether this moment was before the first change.
fn is_before_changes(snapshot: &Snapshot, at_ns: u64) -> bool {
    let made = snapshot.changes.iter().filter(|change| change.number != 0);
    let first = made.map(|change| change.first_at.unwrap_or(change.at)).min();
    first.is_some_and(|first| Duration::from_nanos(at_ns) <= first)
}

/// A mean over such a span says nothing about the program with the changes or without them.
pub(super) const STRADDLES: &str = " before and after the changes";

/// Where a span of time lies relative to the changes, as a suffix; empty without changes, and after all of them.
pub(super) fn beside_changes(snapshot: &Snapshot, (from, until): (Duration, Duration)) -> &'static str {
    let made = snapshot.changes.iter().filter(|change| change.number != 0);
    // Between its first and its last time a change was reverted to be compared.
    let mut times = made.map(|change| (change.first_at.unwrap_or(change.at), change.at));
    let is_before = |first: Duration| until <= first;
    match times
        .clone()
        .any(|(first, last)| from < last && !is_before(first))
    {
        true => STRADDLES,
        false if times.any(|(first, _)| is_before(first)) => " before the changes",
        false => "",
    }
}

/// End of the last sampling window in which parallel regions were probed, whether that was before the changes,
/// and what is known since.
pub(super) fn until(snapshot: &Snapshot, until_ns: u64) -> String {
    let before = match is_before_changes(snapshot, until_ns) {
        true => ", before the changes",
        false => "",
    };
    let since = match counted_regions_per_s(snapshot) {
        Some(_) => "; since then regions are counted, not timed",
        None => "",
    };
    format!(", the last at {}{before}{since}", duration(until_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{closing, pace, screen};
    use profile::{
        CallSiteView, ChangeView, IterationView, JobView, MatrixView, Messages, ProcessView, Rates,
        SequenceView, TeamsView,
    };

    fn sampled_function(name: &str, part: f64) -> FunctionTotals {
        FunctionTotals {
            name: name.into(),
            calls: 1_000,
            time_ns: Some(4_700_000_000),
            returned: 1_000,
            returned_ns: 4_700_000_000,
            bytes: Some(100_000_000),
            bytes_kind: Some("sent"),
            sizes: vec![0, 0, 0, 380],
            estimate: Some(Estimate {
                counted: 380,
                from: 1_000,
                to: Some(1_100),
                watched: part,
                ..Estimate::default()
            }),
            ..FunctionTotals::default()
        }
    }

    #[test]
    fn an_estimate_has_the_digits_that_its_interval_supports() {
        let estimate = |from, to| {
            let range = Estimate {
                from,
                to,
                ..Estimate::default()
            };
            Accuracy::of(Some(range), 606_440)
        };
        for (accuracy, cell, rate) in [
            (Accuracy::of(None, 606_440), "606 440", "606 440"),
            (estimate(600_000, Some(660_000)), "~610 000", "~610 000"),
            (estimate(603_000, Some(609_000)), "~606 000", "~606 000"),
            (
                estimate(500_000, Some(700_000)),
                "~500 000-700 000",
                "~500 000-700 000",
            ),
            (estimate(606_440, Some(606_440)), "~606 440", "~606 440"),
            (estimate(606_440, None), "≥600 000", "≥600 000"),
            (estimate(303_220, None), "≥300 000", "≥300 000"),
        ] {
            assert_eq!(
                (
                    accuracy.cell(606_440.4).as_str(),
                    accuracy.rate(606_440.0).as_str()
                ),
                (cell, rate)
            );
        }
    }

    fn counted_function(name: &str) -> FunctionTotals {
        FunctionTotals {
            estimate: None,
            ..sampled_function(name, 1.0)
        }
    }

    fn snapshot(steps: Steps, functions: Vec<FunctionTotals>, site_ns: u64) -> Snapshot {
        let site = CallSiteView {
            function: functions[0].name.clone(),
            time_ns: site_ns,
            calls: 380,
            ..CallSiteView::default()
        };
        Snapshot {
            job: JobView {
                mpi: (steps == Steps::MpiCalls).then(|| ("Open MPI".into(), None)),
                ..JobView::default()
            },
            elapsed: Duration::from_secs(10),
            processes: vec![ProcessView {
                functions,
                overall: Some(Rates {
                    mpi: (steps == Steps::MpiCalls).then_some(0.5),
                    ..Rates::default()
                }),
                ..ProcessView::default()
            }],
            matrix: Some(MatrixView {
                all_sent: Messages {
                    count: 380,
                    bytes: 38_000_000,
                },
                ..MatrixView::default()
            }),
            sequence: SequenceView {
                steps,
                call_sites: vec![site],
                iteration: Some(IterationView {
                    calls: 3.0,
                    count: 27,
                    mean_ns: 110e6,
                    ..IterationView::default()
                }),
                ..SequenceView::default()
            },
            ..Snapshot::default()
        }
    }

    /// Regions that were probed for the first second of ten, and take 90 % of it.
    fn of_regions(changed_at: Option<u64>) -> Snapshot {
        let functions = vec![FunctionTotals {
            name: "GOMP_parallel".into(),
            calls: 606,
            counted: Some(0.1),
            is_resting: true,
            ..FunctionTotals::default()
        }];
        let mut snapshot = snapshot(Steps::Regions, functions, 690_000_000);
        snapshot.processes[0].regions = Some(RegionsView {
            regions: 606,
            inside_ns: Some(900_000_000),
            watched_ns: 1_000_000_000,
            until_ns: Some(1_010_000_000),
            teams: Some(TeamsView::default()),
            ..RegionsView::default()
        });
        snapshot.changes.extend(changed_at.map(|at| ChangeView {
            number: 1,
            at: Duration::from_secs(at),
            ..ChangeView::default()
        }));
        snapshot
    }

    /// A snapshot, and the texts that the last screen must contain and must not contain.
    type PartRow<'a> = (Snapshot, &'a [&'a str], &'a [&'a str]);

    fn assert_rows<const N: usize>(rows: [PartRow<'_>; N]) {
        for (snapshot, there, absent) in rows {
            let text = closing(&snapshot, false).join("\n");
            for part in there {
                assert!(text.contains(part), "{part:?} is missing:\n{text}");
            }
            for part in absent {
                assert!(!text.contains(part), "{part:?} is there:\n{text}");
            }
        }
    }

    #[test]
    fn numbers_of_a_part_of_the_time_say_of_which_and_agree_with_each_other() {
        let mpi = || {
            snapshot(
                Steps::MpiCalls,
                vec![sampled_function("MPI_Send", 0.38)],
                1_786_000_000,
            )
        };
        let polling = || {
            let functions = vec![counted_function("MPI_Send"), sampled_function("MPI_Iprobe", 0.61)];
            snapshot(Steps::MpiCalls, functions, 4_700_000_000)
        };
        assert_rows([
            // A function of the program that is sampled makes nothing of MPI an estimate.
            (
                snapshot(
                    Steps::MpiCalls,
                    vec![counted_function("MPI_Send"), sampled_function("residual", 0.51)],
                    4_700_000_000,
                ),
                &[" MPI calls/s, ", "~1 000   ~4.7 ms    ~47 %"],
                &["sampled 51 % of the time)", "~0 MPI calls/s"],
            ),
            (
                mpi(),
                &[
                    "(sampled 38 % of the time)",
                    "~1 000   ~4.7 ms    ~47 %",
                    "calls   share of the time   (sampled calls only: of the 38 % of the time that was watched)",
                    "MPI_Send                   380     47 %  in ?",
                    "(point to point, sampled 38 % of the time: 36.2 MiB in all,",
                    "sizes of 380 of ~1 000 messages sent",
                    "on average   (27 steps in sampling windows, 3 MPI calls each)",
                ],
                &[],
            ),
            // Polling functions are in no call site, and do not affect the others.
            (
                polling(),
                &[
                    "calls   share of the time   (without MPI_Iprobe, which polls)",
                    "MPI_Send                   380     47 %  in ?",
                    "(27 steps, 3 MPI calls each besides polls)",
                ],
                &["sampled calls only", "~380"],
            ),
        ]);
    }

    #[test]
    fn figures_of_regions_say_when_they_were_measured_and_what_changed_since() {
        assert_rows([
            (
                of_regions(None),
                &[
                    " one step of the detected loop took ~110 ms on average   (27 steps in sampling windows, the last at 1.01 s, ",
                    " ~606 parallel regions/s   inside them 90 % of the time, outside 10 %   (measured in 10 % of the time, the last at 1.01 s)",
                    "GOMP_parallel              380     69 %  in ?",
                    "GOMP_parallel              606         -        -    counted 10 % of the time",
                ],
                &["~606 parallel regions/s   inside them 9 %", "before"],
            ),
            (
                of_regions(Some(4)),
                &[
                    " ~110 ms on average   (27 steps in sampling windows, the last at 1.01 s, before the changes, ",
                    "(measured in 10 % of the time, the last at 1.01 s, before the changes)",
                    " the figures below cover the time before and after the changes, except the times of steps and regions",
                ],
                &[],
            ),
        ]);
        // Also while the session goes on.
        assert!(
            pace::regions(&of_regions(Some(4)))[0].ends_with(", the last at 1.01 s, before the changes)")
        );
        let live = screen::screen(&of_regions(Some(4))).concat().join("\n");
        assert!(
            live.contains("steps in sampling windows, the last at 1.01 s, before the changes, "),
            "{live}"
        );
    }
}
