//! The text of the screen, computed from a snapshot. Findings of rules are in [`super::findings`].

use std::{collections::BTreeSet, time::Duration};

use profile::format::{self, bytes, count, percent, plural};
use profile::{FunctionTotals, Rates, Snapshot, TraceView};

use super::parts::Accuracy;
use super::rows::{Row, rows};
use super::{
    contract, cost, cpus, durations, findings, history, inside_mpi, memory, pace, pairs, parts, progress,
    scaling,
};

/// One line that identifies the job.
pub fn header(snapshot: &Snapshot) -> String {
    header_within(snapshot, usize::MAX)
}

/// The header in this many columns: parts that do not fit are left out, the least important first.
pub(super) fn header_within(snapshot: &Snapshot, columns: usize) -> String {
    let job = &snapshot.job;
    if snapshot.processes.is_empty() {
        return "no process was watched".to_owned();
    }
    let (who, pids) = match snapshot.nodes.is_empty() {
        true => processes(snapshot),
        false => (processes_of_nodes(snapshot), String::new()),
    };
    let mpi = match &job.mpi {
        Some((name, Some(version))) => format!(", {name} {version}"),
        Some((name, None)) => format!(", {name}"),
        None => ", no MPI".to_owned(),
    };
    let user = (!job.user.is_empty()).then(|| format!(", user {}", job.user));
    let script = job.script.as_ref().map(|script| format!(" {script}"));
    let script = script.unwrap_or_default();
    // In order of display, each part with its importance.
    let parts = [
        (5, job.program.clone()),
        (2, script),
        (5, format!(": {who}")),
        (1, pids),
        (3, mpi),
        (0, user.unwrap_or_default()),
        (4, place(snapshot)),
    ];
    let without = |least: usize| -> String {
        let kept = parts.iter().filter(|(matters, _)| *matters >= least);
        kept.map(|(_, part)| part.as_str()).collect()
    };
    let mut texts = (0..5).map(without);
    let fits = texts.find(|text| text.chars().count() <= columns);
    fits.unwrap_or_else(|| without(5))
}

/// The number of local processes, and their ids.
fn processes(snapshot: &Snapshot) -> (String, String) {
    let job = &snapshot.job;
    // Processes of a recording have no process ids.
    let pids = snapshot.processes.iter().map(|process| process.pid);
    let pids: BTreeSet<i32> = pids.filter(|pid| *pid != 0).collect();
    let here = snapshot.process_count();
    let pids = match (pids.first(), pids.last()) {
        (Some(first), Some(last)) if first != last => {
            let is_gapless = last.abs_diff(*first) as usize + 1 == pids.len();
            let to = match (is_gapless, pids.len()) {
                (true, _) => "-",
                (false, 2) => " and ",
                (false, _) => " to ",
            };
            format!(" (pids {first}{to}{last})")
        }
        (Some(only), _) => format!(" (pid {only})"),
        _ => String::new(),
    };
    let who = match job.mpi.is_some() && job.size.is_none() {
        true => format!("{} here", plural(here, "rank")),
        false => ranks_or_processes(snapshot),
    };
    (who, pids)
}

fn ranks_or_processes(snapshot: &Snapshot) -> String {
    let (count, job) = (snapshot.process_count(), &snapshot.job);
    match (job.mpi.is_some(), job.size) {
        (true, Some(size)) if size != count => format!("{count} of {size} ranks"),
        (true, _) => plural(count, "rank"),
        (false, _) => plural(count, "process"),
    }
}

/// The number of processes on all nodes, and the nodes.
fn processes_of_nodes(snapshot: &Snapshot) -> String {
    let hosts = snapshot.nodes.iter().map(|node| node.host.as_str());
    let (who, nodes) = (ranks_or_processes(snapshot), plural(snapshot.nodes.len(), "node"));
    format!("{who} on {nodes} ({})", profile::node_list(hosts))
}

/// What a job on several nodes shows is in the number of its processes.
fn place(snapshot: &Snapshot) -> String {
    if !snapshot.nodes.is_empty() {
        return String::new();
    }
    let nodes = snapshot.processes.iter();
    let nodes: BTreeSet<&String> = nodes.filter_map(|process| process.host.as_ref()).collect();
    match nodes.len() {
        0 => ", this node only".to_owned(),
        1 => format!(", node {}", snapshot.job.host),
        nodes => format!(", {nodes} nodes"),
    }
}

/// The overview in blocks: how the time is spent, then the rest by importance: findings, functions, the
/// message that there are no findings. On a small terminal the last block may need scrolling.
pub(super) fn screen(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let found = [findings::now(snapshot), losses(snapshot)].concat();
    let time = [time(snapshot), cost::now(snapshot)].concat();
    let mut blocks = vec![time, going_on(snapshot), found];
    if !snapshot.findings.is_empty() {
        blocks.swap(1, 2);
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// The overview with short findings, for a terminal on which they would leave no room for functions. The cost
/// of watching follows them.
pub(super) fn brief(snapshot: &Snapshot) -> Vec<Vec<String>> {
    let found = [findings::brief(snapshot), losses(snapshot)].concat();
    let mut blocks = vec![time(snapshot), found, cost::now(snapshot), going_on(snapshot)];
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// How the time is spent now.
fn time(snapshot: &Snapshot) -> Vec<String> {
    let mut time = summary(snapshot);
    time.extend(pace::now(snapshot));
    time.extend(pace::regions(snapshot));
    time.extend(scaling::lines(snapshot));
    time.extend(progress::line(snapshot));
    time.extend(contract::lines(snapshot));
    time
}

/// The functions. Those that were only called at the start are left out; the tab of functions has all.
fn going_on(snapshot: &Snapshot) -> Vec<String> {
    let mut functions = snapshot.functions();
    let goes_on =
        |function: &FunctionTotals| function.calls_per_s > 0.0 || function.share > 0.0 || function.is_resting;
    if functions.iter().any(goes_on) {
        functions.retain(goes_on);
    }
    match functions.is_empty() {
        true => Vec::new(),
        false => function_lines(snapshot, &functions),
    }
}

/// The text that remains on the screen at the end, over the entire session.
pub fn closing(snapshot: &Snapshot, is_verbose: bool) -> Vec<String> {
    let mut lines = vec![String::new()];
    if snapshot.processes.is_empty() {
        let elapsed = format::time(snapshot.elapsed);
        lines.push(format!(
            " over {elapsed}   nothing measured: no process was there for long enough"
        ));
        return lines;
    }
    lines.extend(overview(snapshot));
    let watched = |function: &FunctionTotals| snapshot.watched_ns(function.is_of_mpi());
    let mut functions = snapshot.functions();
    functions.sort_by_key(|function| std::cmp::Reverse((function.time_ns, function.calls)));
    if !functions.is_empty() {
        lines.push(String::new());
        let row = |function: &FunctionTotals| Row {
            name: function.name.clone(),
            calls: Some(function.calls as f64),
            counted: function.counted,
            accuracy: Accuracy::of(function.estimate, function.calls),
            mean_ns: function.mean_of_returned_ns(),
            share: function.time_ns.map(|time| time as f64 / watched(function)),
            unreturned: function.unreturned,
            under_way: parts::under_way(function),
        };
        lines.extend(rows("calls", functions.iter().map(row)));
    }
    let never = snapshot.never_called.join(", ");
    lines.extend((!never.is_empty()).then(|| format!(" never called: {never}")));
    lines.extend(durations::lines(snapshot));
    lines.extend(pace::call_sites(snapshot));
    lines.extend(pairs::over_all(snapshot));
    lines.extend(super::sizes::over_all(snapshot));
    lines.extend(super::spread::over_all(snapshot));
    lines.extend(contract::lines(snapshot));
    lines.push(String::new());
    lines.extend(findings::at_end(snapshot, is_verbose));
    lines.extend(history::change_lines(snapshot));
    lines.extend(snapshot.trace.as_ref().map(trace_line));
    lines.extend(losses(snapshot));
    lines
}

/// Where the time of all ranks went, their pace and efficiencies, and what watching cost.
pub fn overview(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = over_all(snapshot, "over", snapshot.overall());
    lines.extend(parts::around_changes(snapshot));
    lines.extend(pace::over_all(snapshot));
    lines.extend(pace::regions(snapshot));
    lines.extend(scaling::lines(snapshot));
    lines.extend(progress::line(snapshot));
    lines.extend(cost::over_all(snapshot));
    lines
}

/// How the time of all ranks is spent now, in two lines, and how far the trials of changes are.
pub fn summary(snapshot: &Snapshot) -> Vec<String> {
    let rates = snapshot.running().filter_map(|process| process.rates).collect();
    let mut lines = over_all(snapshot, "after", rates);
    lines.extend(findings::trials(snapshot));
    lines
}

fn over_all(snapshot: &Snapshot, word: &str, rates: Vec<Rates>) -> Vec<String> {
    let elapsed = format::time(snapshot.elapsed);
    if rates.is_empty() {
        return vec![format!(" {word} {elapsed:<9} nothing measured")];
    }
    let number = rates.len() as f64;
    let mean = |of: fn(&Rates) -> f64| rates.iter().map(of).sum::<f64>() / number;
    let sum = |of: fn(&Rates) -> f64| rates.iter().map(of).sum::<f64>();
    let in_mpi = inside_mpi::line(snapshot, &rates, word == "over");
    let functions = snapshot.functions();
    let sampled = parts::sampled_mpi(&functions);
    // Of the same span as the rates in this line, which may have been watched completely.
    let part = rates.iter().filter_map(|rates| rates.sampled).reduce(f64::min);
    let is_complete = word == "after" && part.is_some_and(|part| part > 0.999);
    let sampled = sampled.filter(|_| !is_complete);
    let accuracy = Accuracy::of(sampled, parts::mpi_calls(&functions));
    let sampled_text = sampled.map_or_else(String::new, |of| {
        let part = part.unwrap_or(of.watched);
        let period = (word == "after").then_some(snapshot.period);
        sampled_text(part, period, of.to.is_none())
    });
    let calls = in_mpi.as_ref().map_or_else(String::new, |_| {
        format!(
            "{} MPI calls/s, {}/s sent{sampled_text}",
            accuracy.rate(sum(|r| r.calls_per_s)),
            accuracy.bytes(sum(|r| r.sent_per_s))
        )
    });
    let has_mpi = snapshot.job.mpi.is_some();
    let whose = match (rates.len(), if has_mpi { "rank" } else { "process" }) {
        (1, noun) => format!("the {noun}"),
        (several, noun) => format!("the {}", plural(several, noun)),
    };
    let of_cpus = cpus::mean(snapshot, &rates, word != "after");
    // Shares of a process with many threads exceed 100 %, so CPUs are shown instead.
    let spent = match has_mpi {
        true => cpus::rank_time(mean(|r| r.cpu), mean(|r| r.runqueue)),
        false => cpus::spent(snapshot, of_cpus),
    };
    let mut lines = vec![
        format!(" {word} {elapsed:<9} {calls}").trim_end().to_owned(),
        format!(" time of {whose}   {spent}"),
    ];
    lines.extend(in_mpi);
    lines.extend(cpus::line(snapshot, of_cpus));
    lines.extend(memory::lines(snapshot));
    lines
}

/// The part of the last `period`, or of the session, in which calls were counted. Without an upper bound of the
/// calls, the probes slow the program too much to know the rate between the sampling windows.
fn sampled_text(part: f64, period: Option<Duration>, is_unbounded: bool) -> String {
    let span = period.map_or_else(
        || "the time".to_owned(),
        |period| format!("the last {}", format::time(period)),
    );
    let what = match part > 0.0 {
        true => format!("sampled {} of {span}", percent(part)),
        false => format!("not sampled in {span}; this rate is of earlier windows"),
    };
    let slowed = match is_unbounded {
        true => "; probes slow the sampled time: ≥ is a lower bound",
        false => "",
    };
    format!("   ({what}{slowed})")
}

fn function_lines(snapshot: &Snapshot, functions: &[FunctionTotals]) -> Vec<String> {
    let running = snapshot.running().count().max(1) as f64;
    let row = |function: &FunctionTotals| Row {
        name: function.name.clone(),
        calls: Some(function.calls_per_s).filter(|_| !function.is_resting),
        accuracy: Accuracy::of(function.estimate, function.calls),
        mean_ns: function.mean_ns,
        share: function.time_ns.map(|_| function.share / running),
        ..Row::default()
    };
    rows("calls/s", functions.iter().map(row))
}

/// A number with a mark if it is estimated.
pub(super) fn estimated(is_estimated: bool, number: String) -> String {
    if is_estimated {
        format!("~{number}")
    } else {
        number
    }
}

fn trace_line(trace: &TraceView) -> String {
    let number = |number: u64, what: &str| match number {
        0 => String::new(),
        number => format!("; {} {what}", count(number as f64)),
    };
    format!(
        " trace: {} calls and {} iterations, of all processes and loops, in {} ({}){}{}{}",
        count(trace.calls as f64),
        count(trace.iterations as f64),
        trace.file,
        bytes(trace.bytes as f64),
        number(trace.dropped, "calls did not fit (--trace-max)"),
        number(trace.not_seen, "came faster than they were read"),
        number(
            trace.polling,
            "polling calls (MPI_Test, MPI_Iprobe) are not traced"
        ),
    )
}

/// What was lost, and what is missing.
pub fn losses(snapshot: &Snapshot) -> Vec<String> {
    let lost = snapshot.lost.iter().filter(|(_, count)| *count > 0);
    let mut lines: Vec<String> = lost
        .map(|(kind, number)| format!(" lost: {} ({kind})", count(*number as f64)))
        .collect();
    let missing = snapshot.missing.iter();
    lines.extend(missing.map(|what| format!(" missing: {what}")));
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::example::{finding, job, rule};
    use profile::{FindingView, ProcessView, RuleView, Standing};
    use std::time::Duration;

    fn rank(number: u32) -> ProcessView {
        ProcessView {
            pid: 8120 + number as i32,
            rank: Some(number),
            rates: Some(Rates {
                mpi: Some(0.981),
                mpi_waiting: Some(0.65),
                cpu: 0.332,
                runqueue: 0.661,
                calls_per_s: 412.0,
                sent_per_s: 3.4 * 1024.0 * 1024.0,
                switches_per_s: 83.0,
                sampled: None,
            }),
            functions: vec![FunctionTotals {
                name: "MPI_Wait".into(),
                calls: 800,
                time_ns: Some(1),
                calls_per_s: 350.0,
                share: 0.8,
                mean_ns: Some(6.1e6),
                ..FunctionTotals::default()
            }],
            ..ProcessView::default()
        }
    }

    fn text(snapshot: &Snapshot) -> String {
        let blocks = screen(snapshot);
        let blocks: Vec<String> = blocks.iter().map(|block| block.join("\n")).collect();
        blocks.join("\n\n")
    }

    pub(in crate::view) fn snapshot(ranks: u32) -> Snapshot {
        Snapshot {
            job: job(Some(ranks as usize)),
            elapsed: Duration::from_secs(2),
            processes: (0..ranks).map(rank).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn ranks_that_have_ended_count_no_more_and_losses_are_reported() {
        let mut snapshot = snapshot(2);
        snapshot.processes[1].ended = true;
        snapshot.rules.push(RuleView {
            had_processes: true,
            ..rule("openmpi-busy-wait", Standing::Quiet, "condition false")
        });
        snapshot.lost.push(("ring_full", 3));
        let text = [header(&snapshot), text(&snapshot)].join("\n\n");
        insta::assert_snapshot!(text, @"
        lmp: 2 ranks (pids 8120-8121), Open MPI 4.1.4, user ana, this node only

         after 2 s       412 MPI calls/s, 3.4 MiB/s sent
         time of the rank   on a CPU 33 %   waiting for a CPU 66 %   asleep 0.7 %
                               inside MPI 98 % (65 points of it waiting for a CPU)   outside 1.9 %

         function               calls/s      mean   share of the time
         MPI_Wait                   700    6.1 ms    160 %  ###########################

         no findings from 1 rule
            but it waits for a CPU 67 % of the time that it wants one; other programs use its CPUs (tuneagent ps names them): wait for them, or use other CPUs
            openmpi-busy-wait        condition false
         lost: 3 (ring_full)
        ");
    }

    #[test]
    fn of_a_command_that_ended_before_it_was_seen_nothing_is_said_but_that() {
        let text = [vec![header(&snapshot(0))], closing(&snapshot(0), false)]
            .concat()
            .join("\n");
        insta::assert_snapshot!(text, @"
        no process was watched

         over 2 s   nothing measured: no process was there for long enough
        ");
    }

    #[test]
    fn a_header_that_does_not_fit_lacks_complete_parts_first_those_that_matter_least() {
        let snapshot = snapshot(2);
        let of = |columns| header_within(&snapshot, columns);
        assert_eq!(of(71), header(&snapshot));
        assert_eq!(
            of(70),
            "lmp: 2 ranks (pids 8120-8121), Open MPI 4.1.4, this node only"
        );
        assert_eq!(of(60), "lmp: 2 ranks, Open MPI 4.1.4, this node only");
        assert_eq!(of(43), "lmp: 2 ranks, this node only");
        assert_eq!(of(27), "lmp: 2 ranks");
        assert_eq!(of(3), "lmp: 2 ranks");
    }

    #[test]
    fn a_header_has_the_script_of_an_interpreter_where_it_fits() {
        let mut snapshot = snapshot(2);
        snapshot.job.script = Some("in.py".to_owned());
        let of = |columns| header_within(&snapshot, columns);
        assert_eq!(of(60), "lmp in.py: 2 ranks, Open MPI 4.1.4, this node only");
        assert_eq!(of(49), "lmp: 2 ranks, Open MPI 4.1.4, this node only");
    }

    #[test]
    fn functions_that_are_called_no_more_leave_their_rows_to_those_that_are() {
        let mut snapshot = snapshot(2);
        let gone = FunctionTotals {
            name: "MPI_Bcast".into(),
            calls: 7,
            ..FunctionTotals::default()
        };
        snapshot.processes[0].functions.push(gone.clone());
        assert!(!text(&snapshot).contains("MPI_Bcast"));
        snapshot
            .processes
            .iter_mut()
            .for_each(|process| process.functions = vec![gone.clone()]);
        assert!(text(&snapshot).contains("MPI_Bcast"), "there is nothing else");
    }

    #[test]
    fn an_estimate_without_an_upper_bound_is_shown_with_the_part_of_the_time_that_it_is_of() {
        let mut snapshot = snapshot(1);
        let process = &mut snapshot.processes[0];
        process.functions[0].estimate = Some(profile::cost::Estimate {
            watched: 0.38,
            from: process.functions[0].calls,
            ..Default::default()
        });
        process.functions[0].calls_per_s = 1_213_059.0;
        let rates = process.rates.as_mut().unwrap();
        rates.sampled = Some(0.013);
        process.overall = Some(Rates {
            sampled: Some(0.38),
            ..*rates
        });
        snapshot.period = Duration::from_secs(10);
        let first = |lines: Vec<String>| lines[0].clone();
        insta::assert_snapshot!([first(summary(&snapshot)), first(overview(&snapshot)), text(&snapshot)].join("\n"), @"
        after 2 s       ≥410 MPI calls/s, ≥3.34 MiB/s sent   (sampled 1.3 % of the last 10 s; probes slow the sampled time: ≥ is a lower bound)
        over 2 s       ≥410 MPI calls/s, ≥3.34 MiB/s sent   (sampled 38 % of the time; probes slow the sampled time: ≥ is a lower bound)
        after 2 s       ≥410 MPI calls/s, ≥3.34 MiB/s sent   (sampled 1.3 % of the last 10 s; probes slow the sampled time: ≥ is a lower bound)
        time of the rank   on a CPU 33 %   waiting for a CPU 66 %   asleep 0.7 %
                              inside MPI ~98 % (~65 points of it waiting for a CPU)   outside ~1.9 %

        function                calls/s      mean   share of the time
        MPI_Wait             ≥1 200 000   ~6.1 ms    ~80 %  ######################
        ");
        snapshot.processes[0].functions[0].name = "step".to_owned();
        assert!(text(&snapshot).ends_with("at other times calls are shorter and more frequent"));
        // A period that was watched completely was counted.
        let rates = snapshot.processes[0].rates.as_mut().unwrap();
        rates.sampled = Some(1.0);
        snapshot.processes[0].functions[0].name = "MPI_Wait".to_owned();
        assert_eq!(
            first(summary(&snapshot)),
            " after 2 s       412 MPI calls/s, 3.4 MiB/s sent"
        );
    }

    #[test]
    fn a_period_without_a_sampling_window_says_where_its_rate_is_from() {
        let period = Some(Duration::from_secs(1));
        let line = sampled_text(0.0, period, false);
        assert_eq!(
            line,
            "   (not sampled in the last 1 s; this rate is of earlier windows)"
        );
    }

    #[test]
    fn a_finding_is_shown_with_what_to_do() {
        let mut snapshot = snapshot(64);
        snapshot.findings.push(FindingView {
            at: Duration::from_millis(3200),
            numbers_at: Duration::from_millis(4700),
            now: Some("sudo tuneagent attach 8120 --apply\nsets one byte in each rank".into()),
            next_start: Some("mpirun --mca mpi_yield_when_idle 1".into()),
            ..finding("openmpi-busy-wait", "64 ranks share 2 CPUs")
        });
        let advising = rule("openmpi-busy-wait", Standing::Advising, "advising");
        snapshot.rules.push(advising);
        insta::assert_snapshot!(text(&snapshot), @"
        after 2 s       26 368 MPI calls/s, 218 MiB/s sent
        time of the 64 ranks   on a CPU 33 %   waiting for a CPU 66 %   asleep 0.7 %
                              inside MPI 98 % (65 points of it waiting for a CPU)   outside 1.9 %

        1 finding
        1  openmpi-busy-wait (since 3.2 s; numbers at 4.7 s)   64 ranks share 2 CPUs
           now    sudo tuneagent attach 8120 --apply
                  sets one byte in each rank
           next   mpirun --mca mpi_yield_when_idle 1
           state  advising

        function               calls/s      mean   share of the time
        MPI_Wait                22 400    6.1 ms     80 %  ######################
        ");
    }
}
