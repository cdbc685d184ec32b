//! /metrics: a snapshot in the text format of Prometheus, rendered at each scrape. `declared` declares the
//! metrics and their bounds, `page` holds the page. docs/metrics.md explains them, and is generated from the
//! declarations.

mod contract;
mod cost;
mod declared;
mod page;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use plan::Mode;
use profile::outcome::{ChangeOutcome, GuardVerdict};
use profile::progress::ProgressView;
use profile::{
    ChangeView, FunctionTotals, ProcessView, RegionsView, ScalingView, SequenceView, SizeView, Snapshot,
};

pub use contract::render as render_contract;
pub(crate) use declared::{DeclaredMetric, LABELS, METRICS};

use self::{
    declared::{CHANGES_MAX, SIZES_MAX, SIZES_UP_TO},
    page::{Distribution, Page},
};

/// Maximum length of a label value; longer texts are cut.
const TEXT_MAX: usize = 200;

/// The metrics of a snapshot in the text format of Prometheus.
pub fn render(snapshot: &Snapshot) -> prometheus::Result<String> {
    let page = Filling {
        page: Page::new()?,
        job: cut(&snapshot.job.id),
    };
    page.fill_session(snapshot);
    page.fill_sequence(&snapshot.sequence);
    if let Some(progress) = &snapshot.progress {
        page.fill_progress(progress);
    }
    page.fill_functions(snapshot);
    page.fill_ranks(snapshot);
    page.fill_matrix(snapshot);
    page.fill_rules(snapshot);
    page.fill_changes(snapshot);
    page.fill_cost(snapshot);
    let contract = snapshot.contract.as_ref();
    if let Some(window) = contract.and_then(|contract| contract.window.as_ref()) {
        contract::fill(&page.page, &page.job, window);
    }
    page.page.text()
}

/// The maximum number of values of a label.
fn values_max(label: &str) -> usize {
    let bound = LABELS.iter().find(|known| known.name == label);
    bound.map_or(0, |known| known.values_max)
}

struct Filling {
    page: Page,
    job: String,
}

impl Filling {
    /// Adds to a series with the job's label.
    fn add(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let job = [("jobid", self.job.as_str())];
        self.page.add(name, &[&job, labels].concat(), value);
    }

    /// The first values, up to the maximum of the label; the others are counted.
    fn within<T>(&self, label: &str, kind: &str, mut all: Vec<T>) -> Vec<T> {
        let most = values_max(label);
        let more = all.len().saturating_sub(most);
        self.add("tuneagent_unpublished", &[("kind", kind)], more as f64);
        all.truncate(most);
        all
    }

    fn fill_session(&self, snapshot: &Snapshot) {
        let job = &snapshot.job;
        let version = env!("CARGO_PKG_VERSION");
        self.page
            .add("tuneagent_build_info", &[("version", version)], 1.0);
        let mpi = job.mpi.as_ref();
        let mpi_version = mpi.and_then(|(_, version)| version.as_deref());
        self.add(
            "tuneagent_job_info",
            &[
                ("program", &cut(&job.program)),
                ("user", &cut(&job.user)),
                ("host", &cut(&job.host)),
                ("mpi", mpi.map_or("", |(name, _)| name)),
                ("mpi_version", mpi_version.unwrap_or_default()),
            ],
            1.0,
        );
        self.add("tuneagent_processes", &[], snapshot.running().count() as f64);
        self.add(
            "tuneagent_session_seconds_total",
            &[],
            snapshot.elapsed.as_secs_f64(),
        );
        for (kind, count) in &snapshot.lost {
            self.add("tuneagent_lost_total", &[("kind", kind)], *count as f64);
        }
        let events = &snapshot.events;
        self.add("tuneagent_events_total", &[], events.received as f64);
        self.add("tuneagent_hits_aggregated_total", &[], events.aggregated as f64);
        self.add(
            "tuneagent_hits_not_aggregated_total",
            &[],
            events.sent_alone as f64,
        );
        self.add("tuneagent_missing", &[], snapshot.missing.len() as f64);
    }

    fn fill_sequence(&self, sequence: &SequenceView) {
        self.add("tuneagent_mpi_unseen_calls_total", &[], sequence.unseen as f64);
        if let Some(iteration) = &sequence.iteration {
            let count = iteration.count as f64;
            self.add("tuneagent_iterations_total", &[], count);
            let seconds = count * iteration.mean_ns / 1e9;
            self.add("tuneagent_iteration_seconds_total", &[], seconds);
        }
        let recent = sequence.recent_efficiencies.as_ref();
        let Some(found) = recent.or(sequence.efficiencies.as_ref()) else {
            return;
        };
        for (efficiency, value) in [
            ("parallel", Some(found.of.parallel)),
            ("load_balance", Some(found.of.load_balance)),
            ("communication", Some(found.of.communication)),
            ("within_nodes", Some(found.of.within_nodes)),
            ("between_nodes", found.between_nodes),
            ("serialisation", found.split.map(|split| split.serialisation)),
            ("transfer", found.split.map(|split| split.transfer)),
        ] {
            if let Some(value) = value {
                self.add("tuneagent_efficiency_ratio", &[("efficiency", efficiency)], value);
            }
        }
        let of_all = sequence.efficiencies.as_ref().unwrap_or(found);
        if let Some(scalability) = &of_all.scalability {
            for (scaling, value) in [("strong", scalability.strong), ("weak", scalability.weak)] {
                self.add(
                    "tuneagent_computation_scalability_ratio",
                    &[("scaling", scaling)],
                    value,
                );
            }
        }
    }

    fn fill_functions(&self, snapshot: &Snapshot) {
        let mut functions = snapshot.functions();
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        for function in self.within("function", "functions", functions) {
            let of = ("function", function.name.as_str());
            let (calls, seconds) = if function.is_of_mpi() {
                let unsized_calls = function.bytes_unknown as f64;
                self.add("tuneagent_mpi_unsized_calls_total", &[of], unsized_calls);
                (
                    "tuneagent_mpi_function_calls_total",
                    "tuneagent_mpi_function_seconds_total",
                )
            } else {
                (
                    "tuneagent_function_calls_total",
                    "tuneagent_function_seconds_total",
                )
            };
            self.add(calls, &[of], function.calls as f64);
            if let Some(estimate) = function.estimate {
                self.add("tuneagent_watched_ratio", &[of], estimate.watched);
                self.add("tuneagent_counted_calls_total", &[of], estimate.counted as f64);
            }
            if let Some(ns) = function.time_ns {
                self.add(seconds, &[of], ns as f64 / 1e9);
                self.add("tuneagent_untimed_calls_total", &[of], function.untimed as f64);
            }
            if let (Some(bytes), Some(direction)) = (function.bytes, function.bytes_kind) {
                let labels = [of, ("direction", direction)];
                self.add("tuneagent_mpi_function_bytes_total", &labels, bytes as f64);
                let counted = function.estimate.map_or(bytes, |estimate| estimate.counted_bytes);
                self.fill_sizes(&function, counted);
            }
        }
    }

    fn fill_sizes(&self, function: &FunctionTotals, sum: u64) {
        let count: u64 = function.sizes.iter().sum();
        if count == 0 {
            return;
        }
        let sizes = function.sizes.iter().enumerate();
        let up_to = |most: u64| {
            let small = sizes
                .clone()
                .filter(|(bucket, _)| abi::Sizes::greatest(*bucket).is_some_and(|greatest| greatest <= most));
            (most, small.map(|(_, count)| count).sum())
        };
        let of = Distribution {
            buckets: SIZES_UP_TO.into_iter().map(up_to).collect(),
            count,
            sum,
        };
        let labels = [("jobid", self.job.as_str()), ("function", function.name.as_str())];
        self.page.distribute("tuneagent_mpi_message_bytes", &labels, &of);
    }

    fn fill_ranks(&self, snapshot: &Snapshot) {
        let mut seen: BTreeMap<Option<u32>, BTreeSet<i32>> = BTreeMap::new();
        for process in &snapshot.processes {
            seen.entry(process.rank).or_default().insert(process.pid);
        }
        let named = snapshot.processes.iter().map(|process| {
            let name = match process.rank {
                None => format!("pid{}", process.pid),
                Some(rank) if seen.get(&process.rank).is_some_and(|pids| pids.len() == 1) => rank.to_string(),
                Some(rank) => format!("{rank}:{}", process.pid),
            };
            (name, process)
        });
        let named: Vec<_> = named.collect();
        let indices = named.iter().zip(0_usize..);
        let newest: BTreeMap<String, usize> =
            indices.map(|((name, _), index)| (name.clone(), index)).collect();
        let named = named.into_iter().zip(0_usize..).map(|((name, process), index)| {
            let is_newest = newest.get(&name) == Some(&index);
            (name, process, is_newest)
        });
        for (name, process, is_newest) in self.within("rank", "ranks", named.collect()) {
            let of = ("rank", name.as_str());
            self.fill_calls(of, process);
            // The counters of /proc continue when a process execs another program.
            if is_newest {
                self.fill_counters(of, process);
            }
        }
    }

    fn fill_calls(&self, of: (&str, &str), process: &ProcessView) {
        if let Some(ns) = process.mpi_ns {
            self.add("tuneagent_mpi_rank_seconds_total", &[of], ns as f64 / 1e9);
            let of_mpi = process.functions.iter().filter(|function| function.is_of_mpi());
            let calls: u64 = of_mpi.clone().map(|function| function.calls).sum();
            self.add("tuneagent_mpi_rank_calls_total", &[of], calls as f64);
            for function in of_mpi {
                if let (Some(bytes), Some(direction)) = (function.bytes, function.bytes_kind) {
                    let labels = [of, ("direction", direction)];
                    self.add("tuneagent_mpi_rank_bytes_total", &labels, bytes as f64);
                }
            }
        }
        if let Some(ns) = process.mpi_waited_ns {
            self.add("tuneagent_mpi_runqueue_seconds_total", &[of], ns as f64 / 1e9);
        }
    }

    fn fill_counters(&self, of: (&str, &str), process: &ProcessView) {
        if let Some(useful) = process.useful {
            self.add("tuneagent_useful_ratio", &[of], useful);
        }
        if let Some(regions) = &process.regions {
            self.fill_regions(of, regions);
        }
        let Some(counters) = &process.counters else { return };
        let switches = "tuneagent_context_switches_total";
        let (involuntary, voluntary) = (counters.switches_involuntary, counters.switches_voluntary);
        self.add(switches, &[of, ("type", "involuntary")], involuntary as f64);
        self.add(switches, &[of, ("type", "voluntary")], voluntary as f64);
        let cpu = counters.cpu_ns as f64 / 1e9;
        self.add("tuneagent_cpu_seconds_total", &[of], cpu);
        let runqueue = counters.runqueue_ns as f64 / 1e9;
        self.add("tuneagent_runqueue_seconds_total", &[of], runqueue);
        let faults = counters.faults_minor as f64;
        self.add("tuneagent_minor_page_faults_total", &[of], faults);
        let faults = counters.faults_major as f64;
        self.add("tuneagent_major_page_faults_total", &[of], faults);
        if !process.ended {
            let bytes = counters.resident_bytes as f64;
            self.add("tuneagent_resident_memory_bytes", &[of], bytes);
            self.add("tuneagent_threads", &[of], counters.threads as f64);
        }
    }

    fn fill_progress(&self, view: &ProgressView) {
        if let Some(done) = view.done {
            self.add("tuneagent_steps_done", &[], done);
        }
        self.add("tuneagent_steps", &[], view.total);
        let Ok(eta) = view.eta else { return };
        for (estimate, time) in [
            ("expected", Some(eta.remaining)),
            ("least", Some(eta.least)),
            ("most", eta.most),
        ] {
            if let Some(time) = time {
                let labels = [("estimate", estimate)];
                self.add("tuneagent_remaining_seconds", &labels, time.as_secs_f64());
            }
        }
    }

    fn fill_scaling(&self, of: (&str, &str), scaling: &ScalingView) {
        let add = |name, threads: u32, value| {
            self.add(name, &[of, ("threads", &threads.to_string())], value);
        };
        let mut sizes: Vec<&SizeView> = scaling.sizes.iter().collect();
        sizes.sort_by_key(|size| size.age);
        for size in sizes.into_iter().take(SIZES_MAX) {
            add(
                "tuneagent_openmp_iteration_seconds",
                size.threads,
                size.time_ns / 1e9,
            );
            add("tuneagent_openmp_speedup", size.threads, size.losses.speedup);
        }
        let predicted = scaling.prediction.iter().flat_map(|prediction| &prediction.sizes);
        for size in predicted.take(SIZES_MAX) {
            let name = "tuneagent_openmp_predicted_iteration_seconds";
            add(name, size.threads, size.time_ns / 1e9);
        }
        let Some(losses) = scaling.now().map(|now| now.losses) else {
            return;
        };
        for (cause, threads) in losses.by_cause() {
            if let Some(threads) = threads {
                self.add("tuneagent_openmp_lost_threads", &[of, ("cause", cause)], threads);
            }
        }
    }

    fn fill_regions(&self, of: (&str, &str), regions: &RegionsView) {
        self.add("tuneagent_openmp_regions_total", &[of], regions.regions as f64);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let probed = seconds(regions.watched_ns);
        self.add("tuneagent_openmp_probed_seconds_total", &[of], probed);
        if let Some(ns) = regions.inside_ns {
            self.add("tuneagent_openmp_region_seconds_total", &[of], seconds(ns));
        }
        if let Some(scaling) = &regions.scaling {
            self.fill_scaling(of, scaling);
        }
        let Some(teams) = &regions.teams else { return };
        let totals = &teams.of;
        self.add(
            "tuneagent_openmp_team_regions_total",
            &[of],
            totals.regions as f64,
        );
        self.add(
            "tuneagent_openmp_team_members_total",
            &[of],
            totals.threads as f64,
        );
        let longest = seconds(totals.longest_ns);
        self.add("tuneagent_openmp_team_longest_seconds_total", &[of], longest);
        for (bound, threads) in [("least", totals.threads_least), ("most", totals.threads_most)] {
            let labels = [of, ("bound", bound)];
            self.add("tuneagent_openmp_team_threads", &labels, threads as f64);
        }
        for (activity, ns) in [
            ("working", totals.working_ns),
            ("starting", totals.starting_ns),
            ("waiting", totals.waiting_ns),
            ("ending", totals.ending_ns),
        ] {
            let labels = [of, ("activity", activity)];
            self.add("tuneagent_openmp_team_seconds_total", &labels, seconds(ns));
        }
    }

    /// Rows and columns of the communication matrix. Cells are not published, because their number is
    /// quadratic in the number of ranks.
    fn fill_matrix(&self, snapshot: &Snapshot) {
        let Some(matrix) = &snapshot.matrix else { return };
        self.add("tuneagent_mpi_point_to_point_pairs", &[], matrix.pairs as f64);
        let unresolved = "tuneagent_mpi_unresolved_messages_total";
        for (direction, of) in [
            ("sent", matrix.unresolved_sent),
            ("posted", matrix.unresolved_received),
        ] {
            self.add(unresolved, &[("direction", direction)], of.count as f64);
        }
        // Ranks beyond the bound are counted with the other values by rank.
        for of in matrix.ranks.iter().take(values_max("rank")) {
            let rank = of.rank.to_string();
            for (direction, amount) in [("sent", of.sent), ("posted", of.received)] {
                let labels = [("rank", rank.as_str()), ("direction", direction)];
                let messages = "tuneagent_mpi_point_to_point_messages_total";
                self.add(messages, &labels, amount.count as f64);
                let bytes = "tuneagent_mpi_point_to_point_bytes_total";
                self.add(bytes, &labels, amount.bytes as f64);
            }
        }
    }

    fn fill_rules(&self, snapshot: &Snapshot) {
        // Each tune of a rule has its own entry; the mode is that of the rule.
        let modes: BTreeMap<&str, &str> = snapshot
            .rules
            .iter()
            .map(|rule| (rule.name.as_str(), rule.mode.name()))
            .collect();
        let found = |rule: &str| {
            let mut findings = snapshot.findings.iter();
            findings.any(|finding| finding.rule == rule && !finding.repaired)
        };
        let published = self.within("rule", "rules", modes.into_iter().collect());
        for (rule, now) in &published {
            let of = ("rule", *rule);
            for mode in Mode::ALL.map(Mode::name) {
                let is_it = f64::from(u8::from(mode == *now));
                self.add("tuneagent_rule_mode", &[of, ("mode", mode)], is_it);
            }
            let holds = f64::from(u8::from(found(rule)));
            self.add("tuneagent_rule_finding", &[of], holds);
            // All tunes of a rule have the same values.
            if let Some(view) = snapshot.rules.iter().find(|view| view.name == **rule) {
                self.add("tuneagent_rule_windows_total", &[of], view.windows as f64);
                for (metric, left_out) in [
                    ("tuneagent_rule_windows_left_out_total", view.dropped.windows()),
                    ("tuneagent_rule_hits_left_out_total", view.dropped.hits()),
                ] {
                    for one in left_out {
                        self.add(metric, &[of, ("reason", one.reason)], one.count as f64);
                    }
                }
            }
        }
        let published: BTreeSet<&str> = published.into_iter().map(|(rule, _)| rule).collect();
        let mut unpublished = 0;
        let mut room = series_max("tuneagent_rule_value");
        for value in &snapshot.rule_values {
            if room == 0 || !published.contains(value.rule.as_str()) {
                unpublished += 1;
                continue;
            }
            room -= 1;
            let labels = [("rule", value.rule.as_str()), ("metric", &value.metric)];
            self.add("tuneagent_rule_value", &labels, value.value);
        }
        let kind = [("kind", "rule_values")];
        self.add("tuneagent_unpublished", &kind, f64::from(unpublished));
    }

    fn fill_changes(&self, snapshot: &Snapshot) {
        let loaded = snapshot.rules.iter().map(|rule| rule.name.as_str());
        let changes = &snapshot.changes;
        let rules: BTreeSet<&str> = loaded
            .chain(changes.iter().map(|change| change.rule.as_str()))
            .collect();
        for rule in rules.into_iter().take(values_max("rule")) {
            self.fill_changes_of(rule, changes.iter().filter(|change| change.rule == rule));
        }
        let unpublished = changes.len().saturating_sub(CHANGES_MAX) as f64;
        self.add("tuneagent_unpublished", &[("kind", "changes")], unpublished);
        // Of several changes at one place in one decision, only one is published.
        let mut seen = BTreeSet::new();
        let made = changes.iter().rev().take(CHANGES_MAX);
        let made = made.filter(|change| state(change) != "refused");
        for change in made.filter(|change| seen.insert((change.decision, change.pid, &change.variable))) {
            self.fill_moment(change, snapshot.armed_unix_s);
        }
    }

    fn fill_changes_of<'a>(&self, rule: &str, changes: impl Iterator<Item = &'a ChangeView>) {
        let of = ("rule", rule);
        // With series that exist from the first scrape, a missing series differs from a count of 0.
        for state in STATES {
            self.add("tuneagent_changes", &[of, ("state", state)], 0.0);
        }
        for verdict in GuardVerdict::ALL {
            self.add("tuneagent_guard_changes", &[of, ("verdict", verdict.name())], 0.0);
        }
        self.add("tuneagent_reactions_total", &[of], 0.0);
        let mut judged = None;
        for change in changes {
            self.fill_change(change);
            if change.guard.as_ref().is_some_and(|guard| guard.ratio.is_some()) {
                judged = Some(change);
            }
        }
        if let Some(change) = judged {
            self.fill_judgement(of, change);
        }
    }

    fn fill_change(&self, change: &ChangeView) {
        let rule = ("rule", change.rule.as_str());
        let state = ("state", state(change));
        self.add("tuneagent_changes", &[rule, state], 1.0);
        if let Some(guard) = &change.guard {
            let labels = [rule, ("verdict", guard.verdict.name())];
            self.add("tuneagent_guard_changes", &labels, 1.0);
        }
        let Some(reaction) = &change.reaction else { return };
        self.add("tuneagent_reactions_total", &[rule], 1.0);
        for (part, ns) in [
            ("update", reaction.update_ns),
            ("evaluate", reaction.evaluate_ns),
            ("order", reaction.order_ns),
            ("write", reaction.write_ns),
        ] {
            let labels = [rule, ("part", part)];
            self.add("tuneagent_reaction_seconds_total", &labels, ns as f64 / 1e9);
        }
    }

    /// The rule's newest change with a judgement.
    fn fill_judgement(&self, rule: (&str, &str), change: &ChangeView) {
        let Some(guard) = &change.guard else { return };
        if let Some(ratio) = guard.ratio {
            self.add("tuneagent_guard_improvement_ratio", &[rule], ratio);
        }
        for (moment, value) in [("before", guard.before), ("after", guard.after)] {
            if let Some(value) = value {
                let labels = [rule, ("moment", moment)];
                self.add("tuneagent_guard_objective", &labels, value);
            }
        }
    }

    /// The time of a change, for annotations on a graph.
    fn fill_moment(&self, change: &ChangeView, armed_unix_s: f64) {
        let rank = change
            .rank
            .map_or_else(|| format!("pid{}", change.pid), |rank| rank.to_string());
        let labels = [
            ("rule", change.rule.as_str()),
            ("rank", &rank),
            ("decision", &change.decision.to_string()),
            ("variable", &cut(&change.variable)),
            ("old", &cut(&change.old)),
            ("new", &cut(&change.new)),
        ];
        let at_s = armed_unix_s + change.at.as_secs_f64();
        self.add("tuneagent_change_timestamp_seconds", &labels, at_s);
    }
}

fn series_max(name: &str) -> usize {
    let metric = METRICS.iter().find(|metric| metric.name == name);
    metric.map_or(0, DeclaredMetric::series_max)
}

const STATES: [&str; 4] = ["in_force", "reverted", "refused", "other"];

/// One of [`STATES`].
fn state(change: &ChangeView) -> &'static str {
    let [in_force, reverted, refused, other] = STATES;
    match &change.outcome {
        ChangeOutcome::AlreadyThere | ChangeOutcome::Gone => other,
        _ if change.number == 0 => refused,
        outcome if outcome.is_in_force() => in_force,
        ChangeOutcome::Reverted => reverted,
        _ => other,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}
