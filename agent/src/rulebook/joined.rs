//! Makes a snapshot of a job from recordings, without any rule: the ranks of all nodes together, as a session
//! that watched all of them would show them. Efficiencies of a complete job need only the share of time that
//! each rank is outside MPI, and its node.

mod reports;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use recording::{Header, ProbeDefinition, ProbeKey, ProbePlace, Record};
use rules::{Measure, ProcessFacts, ProcessId};

use profile::cost::Estimate;
use profile::{
    Efficiencies, EfficienciesView, FunctionTotals, IterationView, JobView, ProcessView, Rates, RegionsView,
    Snapshot, Steps, mpi,
    probe::{ProbeSelector, starts_team},
};

pub(crate) use self::reports::rank_reports;
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
    regions: Option<RegionsView>,
    /// Time from the first begin of an iteration to the last, and the part inside MPI; nanoseconds.
    over_iterations: Option<(u64, u64)>,
    ended: bool,
}

/// Of regions that are counted outside of their windows, too, there are more calls than timed regions by this factor.
const COUNTED_BESIDE: f64 = 1.1;

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
                (Some(of), _) => time(of, (count, duration_sum_ns)),
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
        Record::Regions { process, .. } => {
            processes.entry(process.0).or_default().regions = regions(&record);
        }
        _ => {}
    }
}

/// Adds calls that were timed, and their time. If only some calls were timed, they say nothing about all calls.
fn time(of: &mut FunctionTotals, (count, sum_ns): (u64, u64)) {
    let timed = Some((count, sum_ns)).filter(|_| count >= of.calls / 2);
    (of.returned, of.returned_ns) = timed.unwrap_or_default();
    of.time_ns = timed.map(|(_, sum_ns)| sum_ns);
}

fn regions(record: &Record) -> Option<RegionsView> {
    let &Record::Regions {
        count,
        inside_ns,
        watched_ns,
        until_ns,
        ..
    } = record
    else {
        return None;
    };
    Some(RegionsView {
        regions: count,
        inside_ns,
        // Recordings do not have it.
        inside_to_ns: None,
        watched_ns,
        until_ns,
        teams: None,
        without_teams: None,
        scaling: None,
    })
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
            script: None,
            // A recording of a command was begun before the user of its program was known.
            user: note("user").unwrap_or_default(),
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
            mpi_waiting: share(Measure::MpiRunqueueTime),
            cpu: share(Measure::CpuTime)?,
            runqueue: share(Measure::RunqueueTime)?,
            calls_per_s: share(Measure::MpiCalls).unwrap_or_default() * 1e9,
            sent_per_s: share(Measure::MpiBytes).unwrap_or_default() * 1e9,
            switches_per_s: share(Measure::SwitchesInvoluntary).unwrap_or_default() * 1e9,
            sampled: None,
        })
    }

    /// The part of the time in which the starts of parallel regions were counted, if they were only counted in the windows
    /// in which regions were timed; `None` if it is nearly all of the time.
    fn counted_part_of_regions(&self) -> Option<f64> {
        let regions = self.regions.as_ref()?;
        let part = regions.watched_ns as f64 / self.watched_ns().max(1) as f64;
        let starts = self.functions.iter().filter(|(name, _)| starts_team(name));
        let counted: u64 = starts.map(|(_, totals)| totals.calls).sum();
        // A rule that counts regions does so beside the windows.
        let is_counted_beside = counted as f64 > COUNTED_BESIDE * regions.regions as f64;
        Some(part).filter(|part| *part < 1.0 / COUNTED_BESIDE && !is_counted_beside)
    }

    fn view(&self) -> ProcessView {
        let of_regions = self.counted_part_of_regions();
        let function = |(name, totals): (&String, &FunctionTotals)| FunctionTotals {
            name: name.clone(),
            counted: of_regions.filter(|_| starts_team(name)),
            ..totals.clone()
        };
        ProcessView {
            rank: self.facts.rank,
            ended: self.ended,
            host: self.facts.host.clone(),
            watched_ns: self.watched_ns(),
            // All functions that were sampled are recorded with their estimates, even if they were not
            // called.
            functions: (self.functions.iter())
                .filter(|(name, totals)| totals.calls > 0 && !ProbeSelector::OpenmpBody.means(name, false))
                .map(function)
                .collect(),
            mpi_ns: self.grown(Measure::MpiTime),
            useful: self
                .over_iterations
                .and_then(|_| self.useful())
                .map(|(useful, _)| useful),
            overall: self.rates(),
            regions: self.regions.clone(),
            ..ProcessView::default()
        }
    }
}

#[cfg(test)]
mod tests;
