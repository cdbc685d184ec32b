//! Declares every published metric once: name, labels, meaning. The documentation (docs/metrics.md) and the
//! bounds of the page follow from the declarations.

/// A label, and its maximum number of values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub name: &'static str,
    /// Maximum number of values in one session. Further values are left out and counted.
    pub(crate) values_max: usize,
    /// A test writes docs/metrics.md with it.
    #[cfg(test)]
    pub help: &'static str,
}

const fn label(name: &'static str, values_max: usize, _help: &'static str) -> Label {
    Label {
        name,
        values_max,
        #[cfg(test)]
        help: _help,
    }
}

/// Each row has a constructor and its arguments.
macro_rules! table {
    ($(#[$about:meta])* $name:ident: $of:ty = $($make:ident $($argument:expr),+;)*) => {
        $(#[$about])* pub(crate) const $name: &[$of] = &[$($make($($argument),+)),*];
    };
}

/// Maximum number of published functions: those of MPI with their variants for large counts, and as many
/// others.
const FUNCTIONS_MAX: usize = 768;

/// Maximum number of published team sizes of a rank.
pub(super) const SIZES_MAX: usize = 8;

table! {
    /// All labels. Labels whose values are arbitrary texts belong to metrics that declare their own number of
    /// series.
    LABELS: Label =
    label "jobid", 1,
        "what the site calls the job: the batch system's number (Slurm, PBS, LSF, Flux, Grid Engine), else the number of the process that started it";
    label "function", FUNCTIONS_MAX, "a function, by its C name";
    label "rank", abi::PROCESSES_MAX as usize,
        "MPI's rank; `pid8123` for a process that has none, `0:8123` where several processes have the same";
    label "direction", 4,
        "`sent`: passed to MPI for sending; `posted`: room offered for receiving, what arrives may be less; `written` to and `read` from files";
    label "activity", 4,
        "of the threads of OpenMP teams, from the beginning of a region to its end: `working`, `starting` (not yet there), `waiting` (at the end, for the last one), `ending`";
    label "threads", SIZES_MAX, "the size of the largest OpenMP team of an iteration: the eight sizes that were measured last";
    label "estimate", 3, "`expected`, and the bounds of its 90 % interval: `least`, `most`";
    label "cause", 5,
        "of lost threads: `sequential` (code outside of regions), `imbalance`, `starting_and_ending`, `small_teams`, `work_inflation` (more work by more threads; no series while unknown)";
    label "bound", 2, "`least` or `most` of all so far";
    label "type", 2, "of context switches: `involuntary` or `voluntary`";
    label "kind", 16, "what was lost, or what is not published";
    label "rule", 256, "a rule, by its name";
    label "reason", 8,
        "why a rule's numbers leave something out; of windows: `partial` (hits of them were lost), `discarded` (by the rule), `skipped` (the first); of hits: `late`, `duplicate`, `outside` (of all windows), `unplaced` (without the key of a window), `overflow` (no room), `outdated` (of an agent that was replaced), `foreign` (of another node), `straddling` (a boundary)";
    label "metric", 8, "a metric of a rule, by its name (eight a rule, on average)";
    label "efficiency", 7,
        "POP's: `parallel` = `load_balance` (= `within_nodes` × `between_nodes`) × `communication` (= `serialisation` × `transfer`)";
    label "scaling", 2, "`strong`: the same problem as the reference; `weak`: a problem that grew with the ranks";
    label "mode", 3, "`off`, `advising`, `applying`";
    label "state", 4, "of changes: `in_force`, `reverted`, `refused`, `other` (a call that stays, or one that could not be reverted)";
    label "contract", 1, "a contract that a program is compared with (`contract watch`, `attach --contract`), by its name";
    label "feature", 1024, "what a contract has a rate of: a module, a stream, or an end of one";
    label "verdict", 8,
        "of a module: `compute-bound`, `waits for a CPU`, `starved` or `blocked`; the guard's: `kept`, `reverted`, `ended`, `on trial`, `not judged`, `being reverted`, `not reverted` (it could not be), `reverted to compare` (for some windows)";
    label "moment", 2, "`before` or `after` the change";
    label "action", 8, "the action of a change: `set`, `call`, `load`, `replace`, `insert_call`, `remove_call`, `set_arg`, `affinity`";
    label "part", 4, "`update`, `evaluate`, `order`, `write`: the steps from the end of a window to the written value";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    /// A value that may rise and fall.
    Gauge,
    /// A distribution: series of `_bucket`, `_sum` and `_count`.
    Histogram,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredMetric {
    /// The name: the unit comes last, followed by `_total` for counters.
    pub name: &'static str,
    pub labels: Labels,
    pub kind: MetricKind,
    /// Maximum number of series, if it does not follow from the labels.
    pub series: Option<usize>,
    pub help: &'static str,
}

impl DeclaredMetric {
    /// Maximum number of series in one session.
    pub(crate) fn series_max(&self) -> usize {
        let values = |label: &&str| {
            let known = LABELS.iter().find(|known| known.name == *label);
            known.map_or(1, |known| known.values_max)
        };
        self.series
            .unwrap_or_else(|| self.labels.iter().map(values).product())
    }
}

type Labels = &'static [&'static str];

const fn counter(name: &'static str, labels: Labels, help: &'static str) -> DeclaredMetric {
    DeclaredMetric {
        name,
        labels,
        kind: MetricKind::Counter,
        series: None,
        help,
    }
}

const fn gauge(name: &'static str, labels: Labels, help: &'static str) -> DeclaredMetric {
    DeclaredMetric {
        name,
        labels,
        kind: MetricKind::Gauge,
        series: None,
        help,
    }
}

/// Upper bounds of the buckets of message sizes; the last bucket has no bound.
pub(super) const SIZES_UP_TO: [u64; 8] = [
    1 << 6,
    1 << 9,
    1 << 12,
    1 << 15,
    1 << 18,
    1 << 21,
    1 << 24,
    1 << 27,
];

/// Series of a histogram for each function: the buckets, the unbounded bucket, sum and count.
const SERIES_OF_SIZES: usize = SIZES_UP_TO.len() + 3;

const fn histogram(name: &'static str, help: &'static str) -> DeclaredMetric {
    DeclaredMetric {
        name,
        labels: FUNCTION,
        kind: MetricKind::Histogram,
        series: Some(FUNCTIONS_MAX * SERIES_OF_SIZES),
        help,
    }
}

/// A metric whose labels are texts, with its maximum number of series.
const fn info(name: &'static str, labels: Labels, series: usize, help: &'static str) -> DeclaredMetric {
    DeclaredMetric {
        name,
        labels,
        kind: MetricKind::Gauge,
        series: Some(series),
        help,
    }
}

/// Maximum number of changes that are published one by one; the report has all.
pub(super) const CHANGES_MAX: usize = 100;

const JOB: Labels = &["jobid"];
const FUNCTION: Labels = &["jobid", "function"];
const RANK: Labels = &["jobid", "rank"];
/// Directions as in the matrix: sent and posted.
const RANK_DIRECTION: Labels = &["jobid", "rank", "direction"];
const RULE: Labels = &["jobid", "rule"];
const FEATURE: Labels = &["contract", "feature"];
const RULE_REASON: Labels = &["jobid", "rule", "reason"];

table! {
    METRICS: DeclaredMetric =
    info "tuneagent_build_info", &["version"], 1, "1, with the version of tuneagent.";
    info "tuneagent_job_info", &["jobid", "program", "user", "host", "mpi", "mpi_version"], 1,
        "1, with what does not change while the job runs: join it by jobid.";
    gauge "tuneagent_processes", JOB, "Running processes of the job on this node that are watched.";
    counter "tuneagent_session_seconds_total", JOB, "Time since all probes were armed.";
    counter "tuneagent_mpi_function_calls_total", FUNCTION, "Outermost MPI calls since the probes were armed, by function.";
    counter "tuneagent_mpi_rank_calls_total", RANK,
        "The same by rank. By function and rank they would be 100 000 series for 2048 ranks: the report has them.";
    gauge "tuneagent_watched_ratio", FUNCTION,
        "Of a function that is watched in sampling windows (`--budget`): the part of the time in which its calls were counted.";
    counter "tuneagent_counted_calls_total", FUNCTION,
        "Of a function that is watched in sampling windows: those of its calls that were counted; totals over all calls are estimated.";
    counter "tuneagent_mpi_function_seconds_total", FUNCTION,
        "Time inside MPI since the probes were armed, open calls included, summed over threads, by function.";
    counter "tuneagent_mpi_rank_seconds_total", RANK, "The same by rank.";
    counter "tuneagent_mpi_function_bytes_total", &["jobid", "function", "direction"],
        "What calls carry: count times size of the datatype, of vectors and of all-to-all the sum over all ranks.";
    counter "tuneagent_mpi_rank_bytes_total", RANK_DIRECTION, "The same by rank.";
    histogram "tuneagent_mpi_message_bytes", "Sizes of what calls carry, by function; what goes to MPI_PROC_NULL has none.";
    counter "tuneagent_mpi_point_to_point_messages_total", RANK_DIRECTION,
        "Sums over rows and columns of the communication matrix: messages to and from known ranks.";
    counter "tuneagent_mpi_point_to_point_bytes_total", RANK_DIRECTION, "What they carry.";
    gauge "tuneagent_mpi_point_to_point_pairs", JOB,
        "Pairs of ranks of which the one, here, has sent the other a message: of n ranks n (n - 1) at most, and n more to themselves.";
    counter "tuneagent_mpi_unresolved_messages_total", &["jobid", "direction"],
        "Point-to-point messages that are in no pair, because the world rank of the other end is not known.";
    counter "tuneagent_mpi_runqueue_seconds_total", RANK, "Of the time inside MPI: ready to run, waiting for a CPU.";
    gauge "tuneagent_efficiency_ratio", &["jobid", "efficiency"],
        "The POP efficiencies of the last seconds, of the ranks here: 1 is perfect. Over complete iterations where a loop was detected.";
    gauge "tuneagent_computation_scalability_ratio", &["jobid", "scaling"],
        "Useful time of all ranks in an iteration of the reference (--reference) to that of this run: 1 is perfect.";
    gauge "tuneagent_useful_ratio", RANK, "Share of a rank's time outside MPI, over complete iterations of the detected loop.";
    gauge "tuneagent_steps_done", JOB, "Steps that the program has done, by its own variable (`--progress`), or by its loop (`--iterations`).";
    gauge "tuneagent_steps", JOB, "Steps of the run.";
    gauge "tuneagent_remaining_seconds", &["jobid", "estimate"], "Time that is left, at the pace of the time observed.";
    counter "tuneagent_iterations_total", JOB, "Iterations of the detected loop that were observed from begin to end.";
    counter "tuneagent_iteration_seconds_total", JOB, "Time that they took: divided by their number, the pace of the program.";
    counter "tuneagent_mpi_unseen_calls_total", JOB,
        "Calls that came faster than they were read: they are in all totals, but in no iteration and no call site.";
    counter "tuneagent_mpi_unsized_calls_total", FUNCTION, "Calls whose bytes are not known.";
    counter "tuneagent_untimed_calls_total", FUNCTION, "Calls that were counted but not timed: nested too deep, or left without a return.";
    counter "tuneagent_function_calls_total", FUNCTION, "Outermost calls of functions other than MPI's that rules or --probe watch.";
    counter "tuneagent_function_seconds_total", FUNCTION, "Time inside them, where it is measured.";
    counter "tuneagent_cpu_seconds_total", RANK, "Time on a CPU since the process started.";
    counter "tuneagent_runqueue_seconds_total", RANK, "Time ready to run, waiting for a CPU, since the process started.";
    counter "tuneagent_context_switches_total", &["jobid", "rank", "type"],
        "Context switches: the kernel took the CPU away (involuntary), or the process gave it up (voluntary).";
    counter "tuneagent_minor_page_faults_total", RANK, "Page faults served without the disk since the process started.";
    counter "tuneagent_major_page_faults_total", RANK, "Page faults that read the disk since the process started.";
    counter "tuneagent_openmp_regions_total", RANK, "Parallel regions that began while they were probed.";
    counter "tuneagent_openmp_region_seconds_total", RANK,
        "Time inside them, of the threads that start them: divided by the time probed, the share inside.";
    counter "tuneagent_openmp_probed_seconds_total", RANK,
        "Time in which parallel regions were probed: short ones are probed in sampling windows.";
    counter "tuneagent_openmp_team_seconds_total", &["jobid", "rank", "activity"],
        "Time of all threads of the teams of regions that were seen from begin to end, by what they do.";
    counter "tuneagent_openmp_team_regions_total", RANK, "Regions that were seen from begin to end, with all of their teams.";
    counter "tuneagent_openmp_team_members_total", RANK, "Threads of those teams: divided by their regions, the size of the mean team.";
    gauge "tuneagent_openmp_team_threads", &["jobid", "rank", "bound"],
        "Threads of the smallest and of the greatest team since the probes were armed.";
    counter "tuneagent_openmp_team_longest_seconds_total", RANK,
        "Time that the teams would work if all their threads worked as long as the longest: the time worked divided by it is their load balance.";
    gauge "tuneagent_openmp_iteration_seconds", &["jobid", "rank", "threads"],
        "Time of an iteration of the detected loop by team size, as measured last.";
    gauge "tuneagent_openmp_speedup", &["jobid", "rank", "threads"],
        "Speedup of these iterations: the threads less those that are lost. An upper bound while one team size was seen.";
    gauge "tuneagent_openmp_predicted_iteration_seconds", &["jobid", "rank", "threads"],
        "Predicted time of an iteration with team sizes that were not measured, by the fitted law.";
    gauge "tuneagent_openmp_lost_threads", &["jobid", "rank", "cause"], "Threads that the last iterations lost, by cause.";
    gauge "tuneagent_resident_memory_bytes", RANK, "Memory in use.";
    gauge "tuneagent_threads", RANK, "Threads of the process.";
    gauge "tuneagent_rule_mode", &["jobid", "rule", "mode"], "1 for the mode that the rule is in, 0 for the others.";
    gauge "tuneagent_rule_finding", RULE, "1 while the rule's condition holds and nothing has repaired it, else 0.";
    counter "tuneagent_rule_windows_total", RULE, "Windows of the rule that closed and were evaluated.";
    counter "tuneagent_rule_windows_left_out_total", RULE_REASON, "Windows of the rule that were not evaluated, or have no values of hits.";
    counter "tuneagent_rule_hits_left_out_total", RULE_REASON, "Hits of the rule's probes that count in none of its windows.";
    gauge "tuneagent_rule_value", &["jobid", "rule", "metric"],
        "The value of a metric of the rule in its window that closed last, in seconds, bytes or without a unit; of a table the mean of its rows.";
    gauge "tuneagent_changes", &["jobid", "rule", "state"], "Changes of this session, one for each process that was changed.";
    gauge "tuneagent_guard_changes", &["jobid", "rule", "verdict"], "Changes by the guard's verdict.";
    gauge "tuneagent_guard_improvement_ratio", RULE, "How many times better the objective was after the change that was judged last.";
    gauge "tuneagent_guard_objective", &["jobid", "rule", "moment"],
        "The objective before and after the change that was judged last, in seconds, bytes or without a unit.";
    info "tuneagent_change_timestamp_seconds", &["jobid", "rule", "rank", "decision", "variable", "old", "new"], CHANGES_MAX,
        "When each of the newest changes was made, in seconds since 1970: for annotations. The report has its reasons and its verdict.";
    counter "tuneagent_reactions_total", RULE, "Changes with a timed reaction, from the end of a window to the write.";
    counter "tuneagent_reaction_seconds_total", &["jobid", "rule", "part"], "Time from the ends of windows to the writes.";
    counter "tuneagent_probe_seconds_total", FUNCTION,
        "What the hits of a function's probe cost the program: calls times the price of one.";
    gauge "tuneagent_slowdown_ratio", JOB,
        "How much longer the program takes in the last seconds because it is watched, estimated, as share of its time.";
    gauge "tuneagent_probe_cost_ratio", JOB, "What all probes cost in the last seconds, as share of the job's CPU time.";
    gauge "tuneagent_cost_ratio", JOB, "What probes and agent cost together in the last seconds, as share of the job's CPU time.";
    counter "tuneagent_hold_seconds_total", &["jobid", "action"], "Time that threads of the program were stopped for changes.";
    counter "tuneagent_agent_cpu_seconds_total", JOB, "Time on a CPU of the agent and its actuator.";
    gauge "tuneagent_agent_resident_memory_bytes", JOB, "Memory of the agent and its actuator.";
    gauge "tuneagent_unread_event_seconds", JOB, "The longest time in the last seconds that an event was not read.";
    counter "tuneagent_lost_total", &["jobid", "kind"], "What was lost between the program and the rules, by kind.";
    counter "tuneagent_events_total", JOB, "Hits and partial sums that were sent to the rules.";
    counter "tuneagent_hits_aggregated_total", JOB, "Hits that were aggregated in the kernel and not sent.";
    counter "tuneagent_hits_not_aggregated_total", JOB,
        "Hits that should have been aggregated and were sent one by one: a value was no integer or not read, or there was no room.";
    gauge "tuneagent_missing", JOB, "What is missing in the measurement, in the words of the report.";
    gauge "tuneagent_contract_rate", FEATURE,
        "Items or activations a second in the last window that was compared with a contract.";
    gauge "tuneagent_contract_target", FEATURE, "The least that the contract requires of it.";
    gauge "tuneagent_contract_utilisation", FEATURE,
        "Share of its time in which a module waited for no other: it computed, or waited for a CPU.";
    gauge "tuneagent_contract_verdict", &["contract", "feature", "verdict"], "1 for what a module mostly does, 0 for the others.";
    gauge "tuneagent_unpublished", &["jobid", "kind"],
        "What this page leaves out: `functions`, `ranks`, `rules`, `rule_values`, `changes`, `features` of a contract. The report has all.";
}

#[cfg(test)]
mod tests {
    use plan::{Keyword, Mode};
    use profile::outcome::GuardVerdict;
    use profile::streams::ModuleVerdict;

    use super::*;

    #[test]
    fn the_help_of_a_label_names_each_of_its_values() {
        let verdicts = ModuleVerdict::ALL.map(ModuleVerdict::words).into_iter();
        let verdicts = verdicts
            .chain(GuardVerdict::ALL.map(GuardVerdict::name))
            .collect();
        // Rules are not part of the program that is changed.
        let is_of_rules = |keyword: &Keyword| matches!(keyword, Keyword::Enable | Keyword::Disable);
        let changes = Keyword::ALL.into_iter().filter(|keyword| !is_of_rules(keyword));
        for (name, values) in [
            ("verdict", verdicts),
            ("mode", Mode::ALL.map(Mode::name).to_vec()),
            ("action", changes.map(Keyword::name).collect()),
        ] {
            let label = LABELS.iter().find(|label| label.name == name).unwrap();
            for value in values {
                assert!(label.help.contains(&format!("`{value}`")), "{name}: {value}");
            }
        }
    }
}
