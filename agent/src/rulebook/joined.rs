//! Makes a snapshot of a job from recordings, without any rule: the ranks of all nodes together, as a session
//! that watched all of them would show them. Efficiencies of a complete job need only the share of time that
//! each rank is outside MPI, and its node.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use recording::{Header, ProbeDefinition, ProbeKey, ProbePlace, Record};
use rules::{Measure, ProcessFacts, ProcessId};

use profile::cost::Estimate;
use profile::{
    Efficiencies, EfficienciesView, FunctionTotals, IterationView, JobView, ProcessView, Rates, Snapshot,
    Steps, mpi,
};

use super::replay::{Unreadable, merged};

/// A running total: its first and its newest value.
#[derive(Clone, Copy, Debug)]
struct Total {
    first: u64,
    last: u64,
}

/// The recorded data of one process.
#[derive(Clone, Debug, Default)]
struct Recorded {
    facts: ProcessFacts,
    /// The index of its recording.
    source: usize,
    /// Times of the first and the newest reading of its totals.
    read: Option<(u64, u64)>,
    totals: BTreeMap<Measure, Total>,
    functions: BTreeMap<String, FunctionTotals>,
    iterations: Option<IterationView>,
    /// Time from the first begin of an iteration to the last, and the part inside MPI; nanoseconds.
    over_iterations: Option<(u64, u64)>,
    ended: bool,
}

/// Why recordings show no job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("rank {rank} was recorded on {} and on {}: these are recordings of different jobs, or one was given twice", hosts[0], hosts[1])]
    RankTwice { rank: u32, hosts: [String; 2] },
    #[error(
        "the job has {} ranks on {} and {} on {}: these are recordings of different jobs",
        sizes[0], hosts[0], sizes[1], hosts[1]
    )]
    Sizes { sizes: [u32; 2], hosts: [String; 2] },
}

/// All that recordings of one job say of it.
pub(crate) fn joined(recordings: &[(String, Vec<u8>)]) -> Result<Snapshot, JoinError> {
    let mut merge = merged(recordings)?;
    let mut processes: BTreeMap<u32, Recorded> = BTreeMap::new();
    let mut definitions: BTreeMap<ProbeKey, ProbeDefinition> = BTreeMap::new();
    let mut missing = Vec::new();
    for merged in merge.by_ref() {
        match merged {
            Ok(merged) => take(merged.source, merged.record, &mut processes, &mut definitions),
            Err(broken) => missing.push(broken.to_string()),
        }
    }
    let headers: Vec<Header> = merge.headers().cloned().collect();
    let mut all: Vec<Recorded> = processes.into_values().collect();
    all.sort_by_key(|process| (process.facts.rank.unwrap_or(u32::MAX), process.source));
    one_job(&all, &headers)?;
    let watched = definitions
        .values()
        .filter(|known| mpi::find(&known.function).is_some());
    let watched: BTreeSet<&String> = watched.map(|known| &known.function).collect();
    Ok(snapshot(&all, &headers, watched.len(), missing))
}

fn take(
    source: usize,
    record: Record,
    processes: &mut BTreeMap<u32, Recorded>,
    definitions: &mut BTreeMap<ProbeKey, ProbeDefinition>,
) {
    match record {
        Record::ProcessJoined { process, facts, .. } | Record::ProcessLearned { process, facts, .. } => {
            let known = processes.entry(process.0).or_default();
            (known.facts, known.source) = (facts, source);
        }
        Record::ProcessLeft { process, .. } => processes.entry(process.0).or_default().ended = true,
        Record::ProbeDefined { probe, definition } => {
            definitions.insert(probe, definition);
        }
        Record::Counter {
            process: Some(process),
            measure,
            time,
            total,
        } => {
            let known = processes.entry(process.0).or_default();
            known.read_total(measure, time.0, total);
        }
        Record::ProbeTotals {
            probe,
            process,
            count,
            duration_sum_ns,
            ..
        } => {
            let known = definitions.get(&probe).filter(|_| count > 0);
            let place = known.map(|definition| definition.place);
            let of = known.map(|definition| function(definition, process, processes));
            match (of, place) {
                (Some(of), Some(ProbePlace::Entry)) => of.calls = count,
                (Some(of), _) => {
                    (of.returned, of.returned_ns) = (count, duration_sum_ns);
                    // If only some calls of a function were timed, their time is not the time of all calls.
                    of.time_ns = Some(duration_sum_ns).filter(|_| count >= of.calls / 2);
                }
                (None, _) => {}
            }
        }
        Record::Estimated {
            probe,
            process,
            counted,
            counted_bytes,
            from,
            to,
            watched,
            ..
        } => {
            if let Some(definition) = definitions.get(&probe) {
                function(definition, process, processes).estimate = Some(Estimate {
                    counted,
                    counted_bytes,
                    from,
                    to,
                    watched,
                });
            }
        }
        Record::Iterations { process, .. } => processes.entry(process.0).or_default().iterate(&record),
        _ => {}
    }
}

/// The data of a probe's function in a process.
fn function<'p>(
    of: &ProbeDefinition,
    process: ProcessId,
    processes: &'p mut BTreeMap<u32, Recorded>,
) -> &'p mut FunctionTotals {
    let functions = &mut processes.entry(process.0).or_default().functions;
    functions.entry(of.function.clone()).or_default()
}

/// Checks that the recordings have no rank in common, and agree on the size of the job.
fn one_job(all: &[Recorded], headers: &[Header]) -> Result<(), JoinError> {
    let host = |process: &Recorded| {
        headers
            .get(process.source)
            .map_or("?", |header| header.host.as_str())
            .to_owned()
    };
    let mut ranks: BTreeMap<u32, &Recorded> = BTreeMap::new();
    let mut size: Option<(u32, &Recorded)> = None;
    for process in all {
        if let Some(rank) = process.facts.rank {
            let before = ranks.insert(rank, process);
            if let Some(before) = before.filter(|before| before.source != process.source) {
                let hosts = [host(before), host(process)];
                return Err(JoinError::RankTwice { rank, hosts });
            }
        }
        let Some(own) = process.facts.size else { continue };
        match size {
            Some((known, other)) if known != own => {
                return Err(JoinError::Sizes {
                    sizes: [known, own],
                    hosts: [host(other), host(process)],
                });
            }
            _ => size = Some((own, process)),
        }
    }
    Ok(())
}

fn snapshot(all: &[Recorded], headers: &[Header], watched: usize, missing: Vec<String>) -> Snapshot {
    let hosts: BTreeSet<&str> = headers.iter().map(|header| header.host.as_str()).collect();
    let note = |name: &str| {
        let mut notes = headers.iter().filter_map(|header| header.notes.get(name));
        notes.find(|text| !text.is_empty()).cloned()
    };
    let size = all.iter().filter_map(|process| process.facts.size).max();
    let size = size.map(|size| size as usize);
    let mpi = all.iter().find_map(|process| process.facts.mpi.clone());
    let lengths = all.iter().map(Recorded::watched_ns);
    let elapsed = Duration::from_nanos(lengths.max().unwrap_or_default());
    let mut snapshot = Snapshot {
        job: JobView {
            id: note("job").unwrap_or_default(),
            program: headers
                .first()
                .map(|header| header.program.clone())
                .unwrap_or_default(),
            user: note("user").unwrap_or_else(|| "?".to_owned()),
            host: hosts.into_iter().collect::<Vec<_>>().join(", "),
            launcher: None,
            size,
            mpi: mpi.map(|name| (name, note("mpi_version"))),
            library: None,
            watched,
        },
        taken_at: began_at(headers),
        elapsed,
        period: elapsed,
        processes: all.iter().map(Recorded::view).collect(),
        missing,
        ..Snapshot::default()
    };
    snapshot.sequence.efficiencies = efficiencies(all, size);
    // All ranks run in the same loop; a loop of any rank is that of the job.
    snapshot.sequence.iteration = all.iter().find_map(|process| process.iterations.clone());
    snapshot.sequence.steps = match snapshot.job.mpi {
        Some(_) => Steps::MpiCalls,
        None => Steps::Regions,
    };
    if snapshot.sequence.iteration.is_none() && snapshot.job.mpi.is_some() {
        snapshot.sequence.without = Some("the session that was recorded detected none".to_owned());
    }
    snapshot
}

/// The start time of the first recording.
fn began_at(headers: &[Header]) -> String {
    let first_ns = headers
        .iter()
        .map(|header| header.wall_start_ns)
        .min()
        .unwrap_or_default();
    let since = Duration::from_nanos(first_ns);
    job::rfc3339(since.as_secs(), since.subsec_millis())
}

/// Covers complete iterations of each rank, or else the recorded time. Nodes are the hosts that the facts
/// name.
fn efficiencies(all: &[Recorded], size: Option<usize>) -> Option<EfficienciesView> {
    let ranks: Vec<&Recorded> = all.iter().filter(|process| process.facts.mpi.is_some()).collect();
    let mut nodes: BTreeMap<(Option<&String>, usize), Vec<f64>> = BTreeMap::new();
    let mut over_iterations = true;
    for process in &ranks {
        let (useful, is_complete) = process.useful()?;
        over_iterations &= is_complete;
        let host = process.facts.host.as_ref();
        // Without a host name, each recording counts as a node.
        let node = (host, if host.is_some() { 0 } else { process.source });
        nodes.entry(node).or_default().push(useful);
    }
    let nodes: Vec<Vec<f64>> = nodes.into_values().collect();
    let of = Efficiencies::of(&nodes)?;
    Some(EfficienciesView {
        of,
        between_nodes: (size == Some(ranks.len())).then_some(of.between_nodes),
        ranks: ranks.len(),
        nodes: nodes.len(),
        over_iterations,
        // Recordings do not contain single calls.
        split: None,
        useful_ns: None,
        scalability: None,
    })
}

impl Recorded {
    /// Adds a total that was read at `at_ns`.
    fn read_total(&mut self, measure: Measure, at_ns: u64, total: u64) {
        self.read = Some((self.read.map_or(at_ns, |(first, _)| first), at_ns));
        let first = total;
        let of = self.totals.entry(measure).or_insert(Total { first, last: total });
        of.last = total;
    }

    fn iterate(&mut self, record: &Record) {
        let &Record::Iterations {
            count,
            sum_ns,
            elapsed_ns,
            mpi_ns,
            calls_per_1000,
            ..
        } = record
        else {
            return;
        };
        self.over_iterations = Some((elapsed_ns, mpi_ns)).filter(|(elapsed, _)| *elapsed > 0);
        self.iterations = (count > 0).then(|| IterationView {
            rank: self.facts.rank,
            calls: calls_per_1000 as f64 / 1e3,
            count,
            mean_ns: sum_ns as f64 / count as f64,
            ..IterationView::default()
        });
    }

    fn watched_ns(&self) -> u64 {
        self.read.map_or(0, |(first, last)| last.saturating_sub(first))
    }

    fn grown(&self, measure: Measure) -> Option<u64> {
        let total = self.totals.get(&measure)?;
        Some(total.last.saturating_sub(total.first))
    }

    /// The share of its time outside MPI, and whether it covers complete iterations.
    fn useful(&self) -> Option<(f64, bool)> {
        let share = |elapsed: u64, mpi: u64| {
            let is_one_thread = elapsed > 0 && mpi <= elapsed;
            is_one_thread.then(|| 1.0 - mpi as f64 / elapsed as f64)
        };
        let overall = self
            .over_iterations
            .and_then(|(elapsed, mpi)| share(elapsed, mpi));
        let of_all = || share(self.watched_ns(), self.grown(Measure::MpiTime)?);
        overall
            .map(|share| (share, true))
            .or_else(|| Some((of_all()?, false)))
    }

    fn rates(&self) -> Option<Rates> {
        let elapsed = Some(self.watched_ns() as f64).filter(|elapsed| *elapsed > 0.0)?;
        let share = |measure| self.grown(measure).map(|grown| grown as f64 / elapsed);
        Some(Rates {
            mpi: share(Measure::MpiTime),
            mpi_waiting: None,
            cpu: share(Measure::CpuTime)?,
            runqueue: share(Measure::RunqueueTime)?,
            calls_per_s: share(Measure::MpiCalls).unwrap_or_default() * 1e9,
            sent_per_s: share(Measure::MpiBytes).unwrap_or_default() * 1e9,
            switches_per_s: share(Measure::SwitchesInvoluntary).unwrap_or_default() * 1e9,
            sampled: None,
        })
    }

    fn view(&self) -> ProcessView {
        let function = |(name, totals): (&String, &FunctionTotals)| FunctionTotals {
            name: name.clone(),
            ..totals.clone()
        };
        ProcessView {
            rank: self.facts.rank,
            ended: self.ended,
            host: self.facts.host.clone(),
            watched_ns: self.watched_ns(),
            // All functions that were sampled are recorded with their estimates, even if they were not
            // called.
            functions: (self.functions.iter().filter(|(_, totals)| totals.calls > 0))
                .map(function)
                .collect(),
            mpi_ns: self.grown(Measure::MpiTime),
            useful: self
                .over_iterations
                .and_then(|_| self.useful())
                .map(|(useful, _)| useful),
            overall: self.rates(),
            ..ProcessView::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use recording::RecordingWriter;
    use rules::Time;

    use super::*;

    /// A recording of ranks of a job of four, which are inside MPI for these parts of a second.
    fn recording(host: &str, ranks: &[(u32, f64)], has_iterations: bool) -> (String, Vec<u8>) {
        let header = Header {
            host: host.into(),
            program: "simulate".into(),
            notes: [("user".to_owned(), "ana".to_owned())].into(),
            ..Header::default()
        };
        let mut writer = RecordingWriter::new(&header).unwrap();
        for (slot, (rank, mpi)) in (0..).zip(ranks) {
            let process = ProcessId(slot);
            let facts = ProcessFacts {
                rank: Some(*rank),
                size: Some(4),
                mpi: Some("MPICH".into()),
                host: Some(host.into()),
                ..ProcessFacts::default()
            };
            let time = Time(5);
            writer
                .write(&Record::ProcessJoined { process, time, facts })
                .unwrap();
            let mpi_ns = (mpi * 1e9) as u64;
            let totals = [
                (Measure::MpiTime, mpi_ns),
                (Measure::CpuTime, 1_000_000_000),
                (Measure::RunqueueTime, 0),
            ];
            for (time, part) in [(1_000, 0), (1_000_001_000, 1)] {
                for (measure, total) in totals {
                    let (process, time) = (Some(process), Time(time));
                    let total = 77 + total * part;
                    writer
                        .write(&Record::Counter {
                            process,
                            measure,
                            time,
                            total,
                        })
                        .unwrap();
                }
            }
            if has_iterations {
                let record = Record::Iterations {
                    process,
                    time,
                    count: 10,
                    sum_ns: 1_000_000_000,
                    elapsed_ns: 1_000_000_000,
                    mpi_ns,
                    calls_per_1000: 2_500,
                };
                writer.write(&record).unwrap();
            }
        }
        (host.to_owned(), writer.finish())
    }

    #[test]
    fn recordings_of_two_nodes_are_one_job_with_load_balance_between_them() {
        let a = recording("a", &[(0, 0.2), (1, 0.2)], true);
        let b = recording("b", &[(2, 0.6), (3, 0.6)], true);
        let snapshot = joined(&[b, a]).unwrap();
        let found = snapshot.sequence.efficiencies.unwrap();
        assert!((found.of.parallel - 0.6).abs() < 1e-9);
        assert!((found.of.within_nodes - 1.0).abs() < 1e-9);
        assert!((found.between_nodes.unwrap() - 0.75).abs() < 1e-9);
        assert_eq!((found.nodes, found.ranks, found.over_iterations), (2, 4, true));
        let ranks: Vec<_> = snapshot.processes.iter().map(|process| process.rank).collect();
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(snapshot.processes[2].host.as_deref(), Some("b"));
        assert_eq!(snapshot.sequence.iteration.unwrap().calls, 2.5);
        assert_eq!(snapshot.job.user, "ana");
    }

    #[test]
    fn one_node_of_two_says_nothing_of_the_balance_between_them() {
        let snapshot = joined(&[recording("a", &[(0, 0.2), (1, 0.6)], false)]).unwrap();
        let found = snapshot.sequence.efficiencies.unwrap();
        assert_eq!((found.between_nodes, found.over_iterations), (None, false));
        assert!((found.of.load_balance - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_function_that_was_timed_now_and_then_has_no_time_and_steps_without_mpi_are_of_regions() {
        let mut writer = RecordingWriter::new(&Header::default()).unwrap();
        let (process, time) = (ProcessId(0), Time(5));
        let facts = ProcessFacts::default();
        writer
            .write(&Record::ProcessJoined { process, time, facts })
            .unwrap();
        for (function, first, timed) in [("seldom", 0, 20), ("always", 2, 1000)] {
            for (place, probe, count) in [
                (ProbePlace::Entry, first, 1000),
                (ProbePlace::Span, first + 1, timed),
            ] {
                let probe = ProbeKey(probe);
                let definition = ProbeDefinition {
                    name: function.into(),
                    function: function.into(),
                    place,
                    captures: Vec::new(),
                };
                writer.write(&Record::ProbeDefined { probe, definition }).unwrap();
                let totals = Record::ProbeTotals {
                    probe,
                    process,
                    time,
                    count,
                    duration_sum_ns: 3_000,
                };
                writer.write(&totals).unwrap();
            }
        }
        let snapshot = joined(&[("a".to_owned(), writer.finish())]).unwrap();
        assert_eq!(snapshot.sequence.steps, Steps::Regions);
        let functions = &snapshot.processes[0].functions;
        let times: Vec<_> = functions
            .iter()
            .map(|of| (of.name.as_str(), of.time_ns))
            .collect();
        assert_eq!(times, [("always", Some(3_000)), ("seldom", None)]);
    }

    #[test]
    fn what_was_estimated_in_the_session_is_marked_in_its_recording() {
        let header = Header {
            host: "a".into(),
            program: "simulate".into(),
            wall_start_ns: 0,
            origin: Time(0),
            notes: [].into(),
        };
        let mut writer = RecordingWriter::new(&header).unwrap();
        let process = ProcessId(0);
        for (probe, (function, counted)) in (0..).zip([
            ("MPI_Send", None),
            ("MPI_Iprobe", Some(40)),
            ("MPI_Accumulate", Some(0)),
        ]) {
            let (probe, time) = (ProbeKey(probe), Time(5));
            let definition = ProbeDefinition {
                name: function.into(),
                function: function.into(),
                place: ProbePlace::Entry,
                captures: Vec::new(),
            };
            writer.write(&Record::ProbeDefined { probe, definition }).unwrap();
            let totals = Record::ProbeTotals {
                probe,
                process,
                time,
                count: if counted == Some(0) { 0 } else { 1000 },
                duration_sum_ns: 0,
            };
            writer.write(&totals).unwrap();
            if let Some(counted) = counted {
                let estimated = Record::Estimated {
                    process,
                    probe,
                    time,
                    counted,
                    counted_bytes: 0,
                    from: counted,
                    to: None,
                    watched: 0.04,
                };
                writer.write(&estimated).unwrap();
            }
        }
        let snapshot = joined(&[("a".to_owned(), writer.finish())]).unwrap();
        let lines = report::view::closing(&snapshot, false).join("\n");
        assert!(
            lines.contains("MPI_Iprobe") && lines.contains("~1 000"),
            "{lines}"
        );
        let functions = &snapshot.processes[0].functions;
        let estimates: Vec<_> = functions
            .iter()
            .map(|of| of.estimate.map(|of| (of.counted, of.to)))
            .collect();
        // Functions that were sampled but never called are recorded, but are not part of a profile.
        assert_eq!(estimates, [Some((40, None)), None], "{functions:?}");
    }

    #[test]
    fn a_loop_of_which_not_all_time_inside_mpi_was_seen_is_shown_without_its_efficiency() {
        for (elapsed_ns, over_iterations) in [(1_000_000_000, true), (0, false)] {
            let mut process = Recorded {
                facts: ProcessFacts {
                    mpi: Some("mpich".into()),
                    ..ProcessFacts::of_rank(0)
                },
                ..Recorded::default()
            };
            process.read_total(Measure::MpiTime, 0, 0);
            process.read_total(Measure::MpiTime, 2_000_000_000, 400_000_000);
            process.iterate(&Record::Iterations {
                process: ProcessId(0),
                time: Time(0),
                count: 113,
                sum_ns: 113 * 43_800_000,
                elapsed_ns,
                mpi_ns: elapsed_ns / 5,
                calls_per_1000: 2_000,
            });
            let snapshot = snapshot(&[process], &[], 1, Vec::new());
            let iteration = snapshot.sequence.iteration.unwrap();
            assert_eq!((iteration.count, iteration.mean_ns), (113, 43.8e6));
            let efficiencies = snapshot.sequence.efficiencies.unwrap();
            assert_eq!(efficiencies.over_iterations, over_iterations);
            assert!((efficiencies.of.parallel - 0.8).abs() < 1e-9);
        }
    }

    #[test]
    fn recordings_of_different_jobs_are_not_joined() {
        let a = recording("a", &[(0, 0.2), (1, 0.2)], true);
        let b = recording("b", &[(1, 0.6)], true);
        let error = joined(&[a, b]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 1 was recorded on a and on b: these are recordings of different jobs, or one was given twice"
        );
    }
}
