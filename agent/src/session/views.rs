//! The displayed data of a session, read from its parts. Changes nothing.

use crate::rulebook::DecisionId;
use std::{collections::BTreeSet, time::Duration};

use job::{Job, Namer, monotonic_ns};
use probe::kernel::{self, Kernel, LinkKind, Ring};
use profile::cost::CostView;
use profile::format::{duration, plural};
use profile::{
    FindingView, JobView, MatrixView, Metered, ProcessView, RISK, SequenceView, Snapshot, TimeView,
    TraceView, has_mpi, name_programs,
    probe::Probe,
    streams::{ContractFollower, RankReport},
};
use report::{TraceEnd, view};
use session::nodes::Coordinator;
use session::request::{Answer, ListedTune, SessionView};

use super::{
    Options, Start,
    budget::CostContext,
    found::{Repair, copies},
    greeting::Greeting,
    measuring::{Measuring, functions},
    members::Unmeasured,
    nodes::Nodes,
    outputs::{OutputError, Outputs},
    parts::{Event, Parts},
    progress::ProgressReader,
    sequence::{self, JobCalls},
    target::WatchedJob,
};
use crate::rulebook::{Act, RuleBook};

/// Maximum number of ranks that are named in one text.
const NAMED_MAX: usize = 8;

/// Maximum number of processes that are listed; the snapshot has all.
const PIDS_MAX: usize = 4096;

/// The parts with data to show.
pub(super) struct Views<'a> {
    pub(super) options: &'a Options,
    pub(super) start: &'a Start,
    pub(super) target: &'a WatchedJob,
    pub(super) parts: &'a Parts,
    pub(super) measuring: &'a Measuring,
    pub(super) rules: &'a RuleBook,
}

impl<'a> Views<'a> {
    pub(super) fn snapshot(&self) -> Snapshot {
        let kernel = self.measuring.probes.kernel();
        let processes = self.process_views();
        let unknown = mpi_unknown(&processes);
        let never_called = self.never_called(&processes);
        let mut snapshot = Snapshot {
            job: JobView {
                host: self.start.host.clone(),
                id: self.start.job_id.clone(),
                ..job_view(&self.target.job, self.measuring.probes.watched())
            },
            taken_at: tuner::now().wall,
            armed_unix_s: self.start.armed_unix_s,
            elapsed: self.start.since_armed(),
            period: self
                .measuring
                .profile
                .processes
                .iter()
                .map(Metered::period)
                .max()
                .unwrap_or_default(),
            processes,
            time: TimeView {
                total: self.measuring.profile.time(has_mpi(self.measuring.probes.list())),
                buckets: Vec::new(),
            },
            cpus: self.measuring.cpus.view(),
            memory_groups: self.measuring.system.memory.reached(),
            progress: self.measuring.progress.as_ref().and_then(ProgressReader::view),
            speedup_hints: self.options.speedup_hints.clone(),
            rules: self.rules.views(),
            contract: self.measuring.contract.as_ref().map(ContractFollower::view),
            rule_values: self.rules.values(),
            findings: self.parts.changes.findings.views(),
            past_findings: self.parts.changes.findings.past(),
            changes: self.parts.changes.views(&self.rules.on_trial()),
            sequence: self.calls().view(),
            frequency: self.measuring.profile.frequency(),
            cost: self.cost(),
            trace: None,
            matrix: self.matrix(),
            lost: self.lost_by_kind(),
            events: self.measuring.partial_sums.view(kernel),
            under_way: kernel.map(Kernel::under_way).filter(|_| unknown.is_none()),
            never_called,
            missing: self.missing().into_iter().chain(unknown).collect(),
            nodes: Vec::new(),
        };
        if let Some(coordinator) = self.coordinator() {
            coordinator.add_to(&mut snapshot, monotonic_ns());
        }
        snapshot
    }

    /// `None` on one machine, and on a node.
    fn coordinator(&self) -> Option<&'a Coordinator> {
        self.target.nodes.as_ref().and_then(Nodes::coordinator)
    }

    /// What the contract is compared with, if there is one and a second has passed.
    pub(super) fn due_report(&self) -> Option<RankReport> {
        let elapsed = self.start.since_armed();
        let contract = self.measuring.contract.as_ref();
        contract.filter(|contract| contract.is_due(elapsed))?;
        let matrix = self.matrix();
        Some(RankReport::of(elapsed, &self.process_views(), matrix.as_ref()))
    }

    fn never_called(&self, processes: &[ProcessView]) -> Vec<String> {
        let is_named = |probe: &&Probe| {
            let mut patterns = self.options.probe.iter();
            probe.mpi.is_none() && patterns.any(|pattern| profile::matches_glob(pattern, &probe.name))
        };
        let is_called = |probe: &Probe| {
            let mut functions = processes.iter().flat_map(|process| &process.functions);
            functions.any(|function| function.name == probe.name)
        };
        // What was not found is reported as missing.
        let probes = &self.measuring.probes;
        let watched = (probes.list().iter().zip(0..)).filter(|(_, number)| probes.is_attached(*number));
        let named = watched.map(|(probe, _)| probe).filter(is_named);
        let never = named.filter(|probe| !is_called(probe));
        never.map(|probe| probe.name.clone()).collect()
    }

    fn missing(&self) -> Vec<String> {
        let kernel = self.measuring.probes.kernel();
        let state = kernel.and_then(Kernel::family_state).unwrap_or_default();
        let of_family = self.parts.members.counted_missing(Unmeasured {
            without_slot: state.without_slot,
            privileged: state.privileged,
        });
        let not_shown = match self.parts.changes.not_shown() {
            0 => None,
            old => Some(format!(
                "the {} before these (tuneagent journal)",
                plural(old, "change")
            )),
        };
        let known = self
            .measuring
            .probes
            .missing()
            .iter()
            .chain(self.parts.members.missing());
        known
            .cloned()
            .chain(self.measuring.probes.never_found())
            .chain(of_family)
            .chain(self.measuring.budget.missing())
            .chain(self.measuring.profile.short_lived())
            .chain(kernel.map(Kernel::not_seen).unwrap_or_default())
            .chain(self.measuring.hits.as_ref().and_then(Ring::not_seen))
            .chain(not_shown)
            .collect()
    }

    /// The processes for display, by rank. Those of a command get their slots as they start, and some slots
    /// stay empty.
    fn process_views(&self) -> Vec<ProcessView> {
        let views = self.shown().into_iter().map(|process| {
            let kernel = self.measuring.probes.kernel();
            let counts = |rows| kernel?.histogram(process.slot, rows);
            let mut view = process.view(self.measuring.probes.list(), counts);
            let durations = &self.measuring.profile.durations;
            durations.enter(process.slot, self.measuring.probes.list(), &mut view);
            view
        });
        let mut views: Vec<ProcessView> = views.collect();
        name_programs(&mut views, &self.programs());
        views
    }

    /// The name of the program of each entry, and when it was first read, in nanoseconds since the probes were armed.
    fn programs(&self) -> Vec<(String, u64)> {
        let program = |process: &Metered| {
            let member = self.target.member(process.slot);
            let first_ns = process.first().map_or(self.start.armed_ns, |first| first.at_ns);
            let from_ns = first_ns.saturating_sub(self.start.armed_ns);
            (
                member.map(|member| member.name.clone()).unwrap_or_default(),
                from_ns,
            )
        };
        self.shown().into_iter().map(program).collect()
    }

    /// Processes in the order of display.
    fn shown(&self) -> Vec<&'a Metered> {
        let there = self
            .measuring
            .profile
            .processes
            .iter()
            .filter(|process| process.pid != 0);
        let mut shown: Vec<&'a Metered> = there.collect();
        if self.target.is_of_command() {
            shown.sort_by_key(|process| (process.rank.is_none(), process.rank));
        }
        shown
    }

    /// The data from which sequences of calls are analysed.
    pub(super) fn calls(&self) -> JobCalls<'a> {
        JobCalls {
            processes: &self.measuring.profile.processes,
            members: &self.target.job.members,
            collectives: &self.measuring.profile.collectives,
            size: self.target.job.size(),
            can_probe: self.measuring.probes.kernel().is_some(),
            has_regions: self.measuring.has_regions(),
            has_gaps: self.measuring.budget.sampling.has_cut_sequence(),
            reference: self.options.reference,
            armed_ns: self.start.armed_ns,
        }
    }

    fn cost(&self) -> Option<CostView> {
        let shown = CostContext {
            prices: self.measuring.probes.prices()?,
            profile: &self.measuring.profile,
            probes: self.measuring.probes.list(),
            held: self.parts.changes.held(),
            unread: self.measuring.intake.unread(),
            armed_ns: self.start.armed_ns,
            is_recorded: self.rules.was_recorded(),
        };
        let view = self.measuring.budget.view(shown, || {
            functions(&self.measuring.probes, &self.measuring.budget.costs)
        });
        Some(view)
    }

    /// Losses so far: of hits, of the matrix and of data for the rules.
    fn lost_by_kind(&self) -> Vec<(&'static str, u64)> {
        let kernel = self.measuring.probes.kernel();
        let of_hits = kernel.map(Kernel::losses);
        let of_matrix = kernel.map(Kernel::losses_of_matrix);
        let of_kernel = of_hits.into_iter().chain(of_matrix).flatten();
        of_kernel.chain(self.rules.losses()).collect()
    }

    /// `None` if MPI is not probed, or if several programs are watched together: their ranks belong to
    /// different worlds.
    fn matrix(&self) -> Option<MatrixView> {
        let is_one = self.target.job.roots.len() < 2 && self.calls().has_sequence();
        is_one.then(|| {
            self.measuring
                .profile
                .matrix
                .view(&self.measuring.profile.processes)
        })
    }

    /// Converts an act of the rules to an event, with additional data.
    pub(super) fn event(&self, act: Act) -> Event {
        match act {
            Act::Found {
                rule,
                text,
                next_start,
                is_new,
            } => Event::Found {
                finding: FindingView {
                    at: self.start.since_armed(),
                    numbers_at: self.start.since_armed(),
                    gone_at: None,
                    now: self.advice(&rule),
                    text: match self.coordinator() {
                        Some(coordinator) if coordinator.has_nodes() && coordinator.is_of_machine(&rule) => {
                            format!("{}: {text}", self.start.host)
                        }
                        _ => text,
                    },
                    rule,
                    next_start,
                    repaired: false,
                },
                is_new,
            },
            Act::Gone { rule } => Event::Gone {
                rule,
                at: self.start.since_armed(),
            },
            Act::Judged(judged) => {
                let step = self.step_around(judged.decision);
                Event::Judged(judged, step)
            }
            Act::Decided(decision) => Event::Decided(decision),
        }
    }

    /// Duration of an iteration before and after a decision, as text; `None` if there is no loop.
    fn step_around(&self, decision: DecisionId) -> Option<String> {
        let at = self.parts.changes.carried_out(decision)?;
        let now = Duration::from_nanos(monotonic_ns().saturating_sub(self.start.armed_ns));
        let watched = (self.measuring.profile.processes.iter())
            .map(|process| process.watched_part())
            .fold(1.0, f64::min);
        let (before, after) =
            (self.calls().iteration()?).around((at, at), now.saturating_sub(at), watched)?;
        Some(format!("one step {} -> {}", duration(before), duration(after)))
    }

    pub(super) fn name_call_sites(&self, namer: &mut Namer, view: &mut SequenceView) {
        // The call sites of this machine alone would be taken for those of the job.
        if self.coordinator().is_some_and(Coordinator::has_nodes) {
            return;
        }
        sequence::name_call_sites(
            namer,
            &self.measuring.profile.processes,
            &self.target.job.members,
            self.measuring.probes.list(),
            self.target.discovery.images(),
            view,
        );
    }

    /// The session for a list of sessions.
    pub(super) fn listed(&self) -> SessionView {
        let snapshot = self.snapshot();
        let launcher = snapshot.job.launcher.into_iter();
        let pids = launcher.chain(snapshot.processes.iter().map(|process| process.pid));
        let listed = |rule: profile::RuleView| ListedTune {
            name: rule.name,
            tune: rule.tune,
            mode: rule.mode,
            state: rule.state,
        };
        SessionView {
            pid: std::process::id(),
            program: snapshot.job.program,
            user: snapshot.job.user,
            pids: pids.take(PIDS_MAX).collect(),
            applies: self.options.applies,
            elapsed_s: snapshot.elapsed.as_secs_f64(),
            rules: snapshot.rules.into_iter().map(listed).collect(),
        }
    }

    /// The effects of a rule with a finding, and the command for them; `None` if there is nothing to report.
    fn advice(&self, rule: &str) -> Option<String> {
        let mut effects = self.rules.effects(rule, &self.target.job.members);
        let variables = self.rules.written_everywhere(rule).into_iter();
        effects.extend(variables.filter_map(|variable| {
            let paths = self.target.copies_at_start(&variable);
            copies(&variable, &paths)
        }));
        if !effects.is_empty() {
            effects.extend(self.rules.risk(rule).map(|risk| format!("{RISK}{risk}")));
        }
        let can_probe = self.measuring.probes.kernel().is_some();
        self.repair(rule).advice(can_probe, effects)
    }

    pub(super) fn repair<'b>(&'b self, rule: &'b str) -> Repair<'b> {
        Repair {
            rule,
            target: &self.options.typed,
            loads: &self.options.loads,
            may_write: self.options.applies,
            acts: self.rules.applies(rule),
            must_be_named: self.rules.must_be_named(rule)
                || self.options.applies && !self.rules.applies(rule),
        }
    }

    /// Ends the trace: what became of it.
    pub(super) fn end_trace(&self, outputs: &mut Outputs) -> (Option<TraceView>, Result<(), OutputError>) {
        let (processes, probes) = (&self.measuring.profile.processes, self.measuring.probes.list());
        let not_seen = processes.iter().map(|process| process.sequence.unseen());
        let polling = processes.iter().map(|process| process.polling_calls(probes));
        outputs.end_trace(&TraceEnd {
            program: &self.target.job.program(),
            host: &self.start.host,
            not_seen: not_seen.sum(),
            polling: polling.sum(),
        })
    }

    /// Adds where the time went over the entire session, of each process and of all together.
    pub(super) fn add_series(&self, snapshot: &mut Snapshot) {
        // The parts of the other machines' runs do not travel.
        if !snapshot.nodes.is_empty() {
            return;
        }
        let probes = self.measuring.probes.list();
        for (process, view) in self.shown().into_iter().zip(&mut snapshot.processes) {
            view.load = process.load(probes, self.start.armed_ns);
        }
        let profile = &self.measuring.profile;
        snapshot.time.buckets = profile.time_buckets(self.start.armed_ns, has_mpi(probes));
    }

    /// The commands that revert what is left in place.
    pub(super) fn undo_commands(&self) -> String {
        crate::hint::undo(&self.options.typed)
    }

    pub(super) fn report(&self) -> Answer {
        Answer::Report(report::report(&self.snapshot()))
    }

    /// What is watched, what is not, and what may be written.
    pub(super) fn greeting(&self, snapshot: &Snapshot) -> Greeting {
        let probes = &self.measuring.probes;
        let is_of_command = self.target.is_of_command();
        Greeting {
            header: (!is_of_command).then(|| view::header(snapshot)),
            can_probe: probes.kernel().is_some(),
            watched: snapshot.job.watched,
            of_mpi: has_mpi(probes.list()).then(|| probes.watched_of_mpi()),
            has_regions: self.measuring.has_regions(),
            may_write: self.options.applies && self.rules.may_change(),
            is_locked: self.options.is_locked,
            is_of_command,
            tracefs: (probes.kernel().map(Kernel::link_kind) == Some(LinkKind::Tracefs))
                .then(|| kernel::perf_wants_admin().map(|level| (level, kernel::lower_paranoia()))),
            shared_libraries: probes.shared_libraries().iter().cloned().collect(),
            missing: probes
                .missing()
                .iter()
                .chain(self.parts.members.missing())
                .cloned()
                .collect(),
            notes: self.options.notes.clone(),
        }
    }
}

/// The processes of which no MPI call was seen, although one may be open, as a text.
fn mpi_unknown(processes: &[ProcessView]) -> Option<String> {
    let mut seen = BTreeSet::new();
    // A process that executed another program has several entries.
    let unknown = processes
        .iter()
        .filter(|process| process.is_mpi_unknown && seen.insert((process.rank, process.pid)));
    let names: Vec<String> = unknown
        .map(|process| match process.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", process.pid),
        })
        .collect();
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "time inside MPI of {shown}{more}: no MPI call began or ended while the probes were armed, so whether one \
             has been open all the time is unknown (does the job hang?)"
        )
    })
}

pub(crate) fn job_view(job: &Job, watched: usize) -> JobView {
    let mpi = job.members.iter().find_map(|member| member.mpi.as_ref());
    let first = job.members.first();
    JobView {
        program: job.program(),
        script: job.script(),
        user: first.map(|member| member.process.user()).unwrap_or_default(),
        host: String::new(),
        id: String::new(),
        launcher: job.launcher().map(|launcher| launcher.pid.number),
        // Processes without MPI are not ranks of a world.
        size: mpi.and_then(|_| job.size()),
        mpi: mpi.map(|mpi| {
            let known = &mpi.implementation;
            (known.name.to_owned(), known.version.clone())
        }),
        library: mpi.map(|mpi| mpi.library.clone()),
        watched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_which_no_mpi_call_was_seen_are_named() {
        let rank = |number: u32, is_mpi_unknown: bool| ProcessView {
            rank: Some(number),
            is_mpi_unknown,
            ..ProcessView::default()
        };
        assert_eq!(mpi_unknown(&[rank(0, false), rank(1, false)]), None);
        let text = mpi_unknown(&[rank(0, false), rank(1, true), rank(2, true)]).unwrap();
        assert!(
            text.starts_with("time inside MPI of rank 1, rank 2: no MPI call began"),
            "{text}"
        );
        let executed = mpi_unknown(&[rank(1, true), rank(1, true)]).unwrap();
        assert!(
            executed.starts_with("time inside MPI of rank 1: no MPI call began"),
            "{executed}"
        );
        let many: Vec<ProcessView> = (0..20).map(|number| rank(number, true)).collect();
        assert!(mpi_unknown(&many).unwrap().contains("rank 7 and 12 more: "));
    }

    #[test]
    fn processes_without_mpi_are_no_ranks_of_a_world() {
        assert_eq!(job_view(&Job::default(), 0).size, None);
    }
}
