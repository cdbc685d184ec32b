//! The pace of the program and its call sites, as text.

use profile::format::{count, percent, plural};
use profile::{
    CallSiteView, EfficienciesView, FunctionTotals, IterationView, Rates, SequenceView, Snapshot,
    SourcePlace, Steps, TeamsView,
};

use super::efficiency;
use super::parts::{self, WATCHED_FULLY, probed};
use super::step::{StepTime, left_loop, step_line};

/// Minimum share of a watched step that is mentioned as the cost of probes.
const PROBES_SHOWN: f64 = 0.05;
/// Least share of the time in which regions may have run whose begin was not seen, for it to be shown.
const UNSEEN_SHOWN: f64 = 0.02;
/// Number of call sites shown at the end; the report has more.
const SITES_SHOWN: usize = 8;

/// If regions were probed for a smaller part of the time, no rate is shown, because the pace of the rest may
/// differ.
const WATCHED_MIN: f64 = 0.1;
const UNKNOWN_RATE: &str = "parallel regions (probed too rarely to know their rate):";

/// Maximum length of a function's name; names of templates may take several lines.
const NAME_MAX: usize = 48;

/// Current pace and efficiencies.
pub(super) fn now(snapshot: &Snapshot) -> Vec<String> {
    let sequence = &snapshot.sequence;
    let rates: Vec<Rates> = snapshot.running().filter_map(|process| process.rates).collect();
    let rests = until(snapshot).is_some();
    lines(
        snapshot,
        sequence.recent_efficiencies.as_ref(),
        &rates,
        |iteration| {
            let recent = iteration.recent_ns.filter(|_| !rests);
            recent.map_or(StepTime::Mean(iteration.mean_ns), StepTime::Recent)
        },
    )
}

/// End of the measurement of parallel regions, in words; `None` if they are still measured.
fn until(snapshot: &Snapshot) -> Option<String> {
    let until_ns = snapshot.regions()?.until_ns?;
    let is_of_regions = snapshot.sequence.steps == Steps::Regions;
    is_of_regions.then(|| parts::until(snapshot, until_ns))
}

/// Pace and efficiencies over the entire session, and the parts that are not measured.
pub(super) fn over_all(snapshot: &Snapshot) -> Vec<String> {
    let sequence = &snapshot.sequence;
    let around = snapshot.iteration_around_change();
    let around = around.map(|(before_ns, after_ns)| StepTime::Around { before_ns, after_ns });
    let efficiencies = sequence.efficiencies.as_ref();
    let mut lines = lines(snapshot, efficiencies, &snapshot.overall(), |iteration| {
        around.unwrap_or(StepTime::Mean(iteration.mean_ns))
    });
    let without = sequence.without_split.as_ref();
    lines.extend(without.map(|why| format!(" serialisation and transfer not measured: {why}")));
    let without = sequence.without_scalability;
    lines.extend(without.map(|why| format!(" computation scalability not measured: {why}")));
    lines
}

fn lines(
    snapshot: &Snapshot,
    efficiencies: Option<&EfficienciesView>,
    rates: &[Rates],
    time: impl Fn(&IterationView) -> StepTime,
) -> Vec<String> {
    let (mut lines, sequence) = (Vec::new(), &snapshot.sequence);
    match (&sequence.iteration, &sequence.without) {
        (Some(iteration), _) => {
            let until = until(snapshot);
            let is_sampled = parts::is_loop_sampled(snapshot, &snapshot.functions());
            let time = time(iteration);
            let probes = probes_share(snapshot).map(|share| (share, parts::cost_mark(snapshot)));
            // A line about a sampling window says when that was.
            let is_dated = until.is_some();
            let beside = |span| match is_dated {
                true => "",
                false => parts::beside_changes(snapshot, span),
            };
            let line = step_line(iteration, time, snapshot, until, is_sampled, probes, &beside);
            lines.push(line);
            let begins_at = iteration.begins_at.as_ref();
            lines.extend(begins_at.map(|begin| {
                let rank = iteration
                    .rank
                    .map_or_else(String::new, |rank| format!(" of rank {rank}"));
                let place = place(&begin.place);
                format!(" each step{rank} begins with {} in {place}", begin.function)
            }));
            let before = iteration.before.as_ref();
            let before = before.map(|left| (left, beside((left.from, left.pace.until))));
            let before = before.filter(|(_, beside)| *beside != parts::STRADDLES);
            lines.extend(before.map(|(left, beside)| left_loop(left, snapshot, beside)));
        }
        (None, Some(why)) => lines.push(format!(" no loop detected: {why}")),
        (None, None) => {}
    }
    let of = |view| efficiency::lines(view, rates);
    lines.extend(efficiencies.map(of).unwrap_or_default());
    lines
}

/// The share of the watched time that probes take, if it is large enough to lengthen steps noticeably.
fn probes_share(snapshot: &Snapshot) -> Option<f64> {
    let probes = snapshot.cost.as_ref()?.slowdown.probes;
    let watched = match snapshot.sequence.steps {
        Steps::MpiCalls => parts::sampled_mpi(&snapshot.functions()).map_or(1.0, |of| of.watched),
        // Probes that count calls for a rule cost outside the sampling windows, too.
        Steps::Regions if parts::regions_counted_in(snapshot, 0.0).is_some() => return None,
        Steps::Regions => probed(snapshot, &snapshot.regions()?),
    };
    let share = probes / watched;
    (PROBES_SHOWN..1.0).contains(&share).then_some(share)
}

/// Parallel regions and their teams.
pub(super) fn regions(snapshot: &Snapshot) -> Vec<String> {
    let Some(regions) = snapshot.regions() else {
        return Vec::new();
    };
    let part = probed(snapshot, &regions);
    let watched = part * snapshot.elapsed.as_nanos().max(1) as f64;
    let rate = count((regions.regions as f64 * 1e9 / watched.max(1.0)).round());
    let counted = parts::counted_regions_per_s(snapshot);
    let rate = match (part, counted) {
        (WATCHED_FULLY.., _) => format!("{rate} parallel regions/s"),
        (_, Some(counted)) => format!("{} parallel regions/s", count(counted.round())),
        // What was counted of the time before and after a change is no rate of either.
        (..WATCHED_MIN, None) if !snapshot.changes.is_empty() => UNKNOWN_RATE.to_owned(),
        (..WATCHED_MIN, None) => match parts::regions_counted_in(snapshot, WATCHED_MIN) {
            Some(counted) => format!("~{} parallel regions/s", count(parts::to_digits(counted, 2))),
            None => UNKNOWN_RATE.to_owned(),
        },
        (_, None) => format!("~{rate} parallel regions/s"),
    };
    let to = regions.inside_to();
    let inside = match (regions.inside(), to) {
        (Some(inside), Some(to)) if to - inside >= UNSEEN_SHOWN => format!(
            "   inside them {} to {} of the time (some were under way when probing began)",
            percent(inside),
            percent(to),
        ),
        (Some(inside), _) => format!(
            "   inside them {} of the time, outside {}",
            percent(inside),
            percent((1.0 - inside).max(0.0)),
        ),
        (None, _) => "   too short to be timed".to_owned(),
    };
    // The rate of regions that are counted all the time is that of the entire session.
    let until = regions.until_ns.filter(|_| counted.is_none());
    let until = until.map(|until_ns| parts::until(snapshot, until_ns));
    let until = until.unwrap_or_default();
    let seen = match part < WATCHED_FULLY {
        true => format!("   (measured in {} of the time{until})", percent(part)),
        false => String::new(),
    };
    let mut lines = vec![format!(" {rate}{inside}{seen}")];
    let waiting = efficiency::waiting(&snapshot.overall());
    lines.extend(regions.teams.as_ref().map(|teams| team_line(teams, waiting)));
    lines
}

/// The share of the time that the threads wait for a CPU is `waiting`, if that is much.
fn team_line(teams: &TeamsView, waiting: Option<f64>) -> String {
    let threads = match (teams.of.threads_least, teams.of.threads_most) {
        (1, 1) => "1 thread".to_owned(),
        (least, most) if least == most => format!("{most} threads"),
        (least, most) => format!("{least} to {most} threads"),
    };
    // A thread that waits for a CPU may do so in each part.
    let balance = match (teams.load_balance, waiting) {
        (Some(_), Some(waiting)) => format!(
            "; each part includes waiting for a CPU ({} of the time that the threads want one), so no load balance is known",
            percent(waiting)
        ),
        (Some(balance), None) => format!("; load balance {balance:.2}"),
        (None, _) => String::new(),
    };
    let working = match waiting {
        Some(_) => "in their bodies",
        None => "working",
    };
    format!(
        " time of their teams ({threads})   {working} {}   waiting at the end {}   starting and ending {}{balance}",
        percent(teams.working),
        percent(teams.waiting),
        percent(teams.starting + teams.ending),
    )
}

/// The time in MPI by call site.
pub(super) fn call_sites(snapshot: &Snapshot) -> Vec<String> {
    let sequence = &snapshot.sequence;
    if sequence.call_sites.is_empty() {
        return Vec::new();
    }
    let watched = snapshot.watched_ns(sequence.steps == Steps::MpiCalls);
    let what = match sequence.steps {
        Steps::MpiCalls => "MPI by call site",
        Steps::Regions => "regions by call site",
    };
    let functions = snapshot.functions();
    let part = |site: &CallSiteView| parts::of_site(snapshot, &functions, &site.function);
    let mut lines = vec![
        String::new(),
        format!(
            " {what:<20} {:>9}   share of the time{}",
            "calls",
            of_part(snapshot, &functions)
        ),
    ];
    for site in sequence.call_sites.iter().take(SITES_SHOWN) {
        lines.push(format!(
            " {:<20} {:>9}   {:>6}  in {}",
            site.function,
            count(site.calls as f64),
            percent(site.time_ns as f64 / watched / part(site)),
            place(&site.place),
        ));
    }
    let rest = sequence.call_sites.len().saturating_sub(SITES_SHOWN);
    if rest > 0 {
        lines.push(format!(" and {}", plural(rest, "more call site")));
    }
    lines.extend(unseen(sequence));
    lines
}

/// The calls that call sites contain, if not all: only those of sampling windows, and no polling calls.
pub(super) fn of_part(snapshot: &Snapshot, functions: &[FunctionTotals]) -> String {
    let parts = snapshot.sequence.call_sites.iter();
    let parts = parts.map(|site| parts::of_site(snapshot, functions, &site.function));
    let least = parts.fold(1.0, f64::min);
    let polling = functions.iter().map(|function| function.name.as_str());
    let polling: Vec<&str> = polling.filter(|name| parts::is_polling(name)).collect();
    let mut notes = Vec::new();
    if least < WATCHED_FULLY {
        notes.push(format!(
            "sampled calls only: of the {} of the time that was watched",
            percent(least)
        ));
    }
    if functions
        .iter()
        .any(|function| function.is_of_mpi() && parts::under_way(function) > 0)
    {
        notes.push("without calls under way".to_owned());
    }
    if let [first, others @ ..] = polling.as_slice() {
        let others = match others {
            [] => ", which polls".to_owned(),
            [other] => format!(" and {other}, which poll"),
            more => format!(" and {} more that poll", more.len()),
        };
        notes.push(format!("without {first}{others}"));
    }
    match notes.is_empty() {
        true => String::new(),
        false => format!("   ({})", notes.join("; ")),
    }
}

/// A note that not all calls are in a call site.
pub(super) fn unseen(sequence: &SequenceView) -> Option<String> {
    // Of a parallel region each thread that enters its body counts, too.
    let (one, several) = match sequence.steps {
        Steps::MpiCalls => ("call", "calls"),
        Steps::Regions => ("begin of a region", "begins of regions and of threads in them"),
    };
    (sequence.unseen > 0).then(|| {
        let unseen = count(sequence.unseen as f64);
        let calls = if sequence.unseen == 1 { one } else { several };
        format!(" {unseen} {calls} came faster than they were read, and are in no call site")
    })
}

/// `function (file:line)`, as far as known. The report has the parameters of the function.
fn place(place: &SourcePlace) -> String {
    let function = place.function.as_deref().or(place.module.as_deref());
    let function = function.unwrap_or("?").split('(').next().unwrap_or_default();
    let function = match function.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}...", &function[..end]),
        None => function.to_owned(),
    };
    let line = place.line.map_or_else(String::new, |line| format!(":{line}"));
    match &place.file {
        Some(file) => format!("{function} ({file}{line})"),
        None => function,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::example::{call_site, efficiencies, split};
    use profile::{LeftLoop, PaceView, ProcessView, RegionsView, Scalability, TeamTotals};

    fn sequence() -> SequenceView {
        SequenceView {
            iteration: Some(IterationView {
                rank: Some(0),
                calls: 36.0,
                count: 22,
                mean_ns: 9.5e7,
                recent_ns: Some(9.14e7),
                change: Some(0.88),
                ..IterationView::default()
            }),
            recent_efficiencies: Some(EfficienciesView {
                split: Some(split(22)),
                useful_ns: Some(1.0),
                scalability: Scalability::of((90.0, 2), (100.0, 4)),
                ..efficiencies([0.6, 0.3, 0.3, 0.3])
            }),
            unseen: 3,
            call_sites: vec![call_site("MPI_Wait", 471, 800, 1, 4)],
            ..SequenceView::default()
        }
    }

    fn of(sequence: SequenceView) -> Snapshot {
        Snapshot {
            sequence,
            ..Snapshot::default()
        }
    }

    #[test]
    fn pace_efficiencies_and_call_sites_are_lines() {
        let snapshot = Snapshot {
            sequence: sequence(),
            elapsed: Duration::from_secs(2),
            ..Snapshot::default()
        };
        let text = [now(&snapshot), call_sites(&snapshot)].concat().join("\n");
        insta::assert_snapshot!(text, @"
        one step of the detected loop takes 91.4 ms   (22 steps seen, 36 MPI calls each; last quarter 12 % shorter than the first)
        parallel efficiency 0.38  =  load balance 0.62  x  communication 0.60   (over complete steps)
        serialisation 0.80  x  transfer 0.75   (between 22 collectives of all ranks: 30 % of the time waiting for the last, 25 % transfer)
        computation scalability 0.90 from 2 ranks to 4   (by useful time of a step; if the problem grew with the ranks 1.80)

        MPI by call site         calls   share of the time
        MPI_Wait                   800     50 %  in LAMMPS_NS::CommBrick::forward_comm (comm_brick.cpp:471)
        3 calls came faster than they were read, and are in no call site
        ");
    }

    #[test]
    fn a_pace_that_is_another_one_altogether_is_shown_as_a_factor() {
        let reported = |change| {
            let mut sequence = sequence();
            if let Some(iteration) = &mut sequence.iteration {
                iteration.change = Some(change);
            }
            now(&of(sequence)).swap_remove(0)
        };
        for (change, words) in [
            (1.2, "; last quarter 20 % longer than the first)"),
            (3.5, "; last quarter 3.5 times the first)"),
            (0.6, "; last quarter 40 % shorter than the first)"),
            (0.01, "; first quarter 100 times the last)"),
            (
                75_661.0,
                "so they are no steps of the program   (22 steps seen, 36 MPI calls each)",
            ),
            (
                1.0 / 101.0,
                "so they are no steps of the program   (22 steps seen, 36 MPI calls each)",
            ),
        ] {
            assert!(reported(change).ends_with(words), "{}", reported(change));
        }
    }

    #[test]
    fn parallel_regions_are_lines_with_what_their_teams_do() {
        let totals = TeamTotals {
            regions: 900,
            threads_least: 2,
            threads_most: 4,
            threads: 3_000,
            team_ns: 1_000,
            working_ns: 700,
            starting_ns: 40,
            waiting_ns: 250,
            ending_ns: 10,
            longest_ns: 950,
        };
        let process = ProcessView {
            regions: Some(RegionsView {
                regions: 1_000,
                inside_ns: Some(640_000_000),
                watched_ns: 1_000_000_000,
                teams: Some(TeamsView::from(totals)),
                ..RegionsView::default()
            }),
            ..ProcessView::default()
        };
        let mut snapshot = Snapshot {
            processes: vec![process],
            elapsed: Duration::from_secs(5),
            ..Snapshot::default()
        };
        insta::assert_snapshot!(regions(&snapshot).join("\n"), @"
        ~1 000 parallel regions/s   inside them 64 % of the time, outside 36 %   (measured in 20 % of the time)
        time of their teams (2 to 4 threads)   working 70 %   waiting at the end 25 %   starting and ending 5 %; load balance 0.74
        ");
        for (to_ns, wanted) in [
            (655_000_000, "inside them 64 % of the time, outside 36 %   ("),
            (
                900_000_000,
                "inside them 64 % to 90 % of the time (some were under way when probing began)   (",
            ),
        ] {
            if let Some(regions) = &mut snapshot.processes[0].regions {
                regions.inside_to_ns = Some(to_ns);
            }
            let line = regions(&snapshot).swap_remove(0);
            assert!(line.contains(wanted), "{line}");
        }
        snapshot.elapsed = Duration::from_secs(50);
        assert!(
            regions(&snapshot)[0]
                .starts_with(" parallel regions (probed too rarely to know their rate):   inside")
        );
        if let Some(regions) = &mut snapshot.processes[0].regions {
            regions.inside_ns = None;
        }
        let line = regions(&snapshot).swap_remove(0);
        assert!(
            line.starts_with(
                " parallel regions (probed too rarely to know their rate):   too short to be timed   (measured in "
            ),
            "{line}"
        );
    }

    #[test]
    fn the_mean_time_of_a_step_says_whether_it_covers_the_time_before_and_after_a_change() {
        let second = Duration::from_secs;
        let part = |until_s| PaceView {
            until: second(until_s),
            count: 10,
            mean_ns: 1e8,
            ..PaceView::default()
        };
        // Steps were seen from 2 s to 4 s. When the change was made first and last, its number, and the text.
        for (first_s, last_s, number, text) in [
            (
                3,
                3,
                1,
                " has no mean time, as tuneagent changed the program meanwhile   (",
            ),
            (
                1,
                3,
                1,
                " has no mean time, as tuneagent changed the program meanwhile   (",
            ),
            (4, 5, 1, " takes 95 ms on average before the changes   ("),
            (1, 1, 1, " takes 95 ms on average   ("),
            (3, 3, 0, " takes 95 ms on average   ("),
        ] {
            let mut snapshot = of(sequence());
            if let Some(iteration) = &mut snapshot.sequence.iteration {
                iteration.parts = vec![part(3), part(4)];
                iteration.before = Some(LeftLoop {
                    calls: 3.0,
                    from: second(2),
                    pace: part(4),
                });
            }
            snapshot.changes = vec![profile::ChangeView {
                number,
                at: second(last_s),
                first_at: (first_s != last_s).then(|| second(first_s)),
                ..profile::ChangeView::default()
            }];
            let lines = over_all(&snapshot);
            assert!(lines[0].contains(text), "{lines:?}");
            let left = lines.iter().find(|line| line.contains("another loop"));
            assert_eq!(left.is_none(), text.contains("no mean"), "{lines:?}");
            let of_left = text.trim_start_matches(" takes 95 ms");
            assert!(left.is_none_or(|line| line.contains(of_left)), "{lines:?}");
        }
    }

    #[test]
    fn a_loop_that_was_left_for_another_one_is_named_with_its_pace() {
        let mut sequence = sequence();
        if let Some(iteration) = &mut sequence.iteration {
            iteration.before = Some(LeftLoop {
                calls: 3.0,
                from: Duration::from_secs(12),
                pace: PaceView {
                    until: Duration::from_secs(20),
                    count: 50,
                    mean_ns: 1.43e8,
                    ..PaceView::default()
                },
            });
        }
        assert_eq!(
            now(&of(sequence))[1],
            " before it, from 12 s to 20 s, one step of another loop took 143 ms on average   (50 steps, 3 MPI calls each)"
        );
    }

    #[test]
    fn without_a_loop_the_reason_is_shown() {
        let none = SequenceView {
            without: Some("too few MPI calls were seen: 3".into()),
            ..SequenceView::default()
        };
        let expected = [" no loop detected: too few MPI calls were seen: 3"];
        assert_eq!(now(&of(none)), expected);
        assert!(now(&Snapshot::default()).is_empty());
    }
}
