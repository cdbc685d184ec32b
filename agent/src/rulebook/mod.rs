//! The loaded rules and their engine, as the session uses them: takes readings and hits, returns acts. The
//! only module of a session that uses the crate `rules`. Here a process is identified by its slot, and a
//! function by the number of its probe.

mod act;
mod effects;
mod ingest;
mod joined;
mod live;
mod modes;
mod nodes;
mod pairs;
mod permissions;
mod places;
mod probe_requests;
mod readings;
mod receipt;
mod recorder;
mod replay;
mod sources;
mod switches;
mod texts;
mod values;
mod warm_up;

pub(crate) use joined::{joined, rank_reports};
pub(crate) use live::RuleConflict;
pub(crate) use places::ProbePlaces;
pub(crate) use probe_requests::facts;
pub(crate) use recorder::{Recorder, RecordingIncomplete};
pub(crate) use replay::{ReplayEvent, replay};
/// Nanoseconds of the clock of hits and readings.
pub(crate) use rules::{DecisionId, Time};
pub(crate) use session::changes::ProbeSwitch;
pub(crate) use session::{Act, ResolvedAction, ResolvedDecision};
pub(crate) use sources::{beside, checked, given, given_all, load};

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use job::{Member, Variables};
use plan::{MarkKind, Mode};
use profile::cost::Estimate;
use profile::probe::Wanted;
use profile::{Iterations, MatrixView, RegionsView, RuleView};
use rules::{CheckedRule, Engine, Observation, ProcessFacts, ProcessId, Standing, TrialProgress};
use session::nodes::JobPart;
use session::request::Settings;

use self::{
    act::{found, newest_first},
    ingest::SeenHits,
    pairs::Pairs,
    permissions::Permissions,
    probe_requests::{ProbeRequest, ReadsByProbe},
    readings::LastReading,
    switches::Switches,
    texts::Waiting,
    warm_up::EngineWarmUp,
};
use crate::exit::Failure;

#[derive(Default)]
pub(crate) struct RuleBook {
    engine: Engine,
    /// The probe requests of the rules, by the number of the [`Wanted`].
    requests: BTreeMap<usize, ProbeRequest>,
    reads: ReadsByProbe,
    variables: Variables,
    /// Slots of the current processes.
    slots: BTreeSet<u32>,
    texts: Waiting,
    pairs: Pairs,
    switches: Switches,
    /// Probe requests whose counting is paused for the budget.
    resting: BTreeSet<usize>,
    permissions: Permissions,
    /// On a recording: rules that have not been added yet.
    held: Vec<CheckedRule>,
    recorder: Option<Recorder>,
    /// A recording was begun; it may have ended.
    was_recorded: bool,
    seen: SeenHits,
    warm_up: EngineWarmUp,
    /// The last reading of each process, by slot.
    last_readings: BTreeMap<u32, LastReading>,
    /// None of the loaded rules was named by the user.
    has_only_builtin_rules: bool,
    /// This machine's part of the rules of a job on several.
    part: Option<JobPart>,
}

impl RuleBook {
    /// Loads the built-in rules and those in `paths`, and sets their parameters and names. `apply` is the
    /// value of `--apply`: nothing, everything (an empty list), or names. `probes` is whether the session has
    /// probes.
    pub(crate) fn load(
        paths: &[String],
        settings: Settings<'_>,
        apply: Option<&[String]>,
        probes: bool,
    ) -> Result<RuleBook, Failure> {
        let checked = sources::load(paths, settings, probes)?;
        Ok(RuleBook {
            has_only_builtin_rules: paths.iter().all(|path| path == "none"),
            ..RuleBook::of(checked, apply)?
        })
    }

    fn of(checked: Vec<CheckedRule>, apply: Option<&[String]>) -> Result<RuleBook, Failure> {
        let permissions = Permissions::new(&checked, apply)?;
        let engine = Engine::new(checked, Time(0)).map_err(Failure::invalid)?;
        let requests = engine
            .rules()
            .flat_map(|(id, rule, _)| probe_requests::requests(id, rule));
        Ok(RuleBook {
            requests: requests.enumerate().collect(),
            engine,
            permissions,
            ..RuleBook::default()
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.engine.rules().next().is_none()
    }

    /// Records all observations from now on.
    pub(crate) fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
        self.was_recorded = true;
    }

    pub(crate) fn was_recorded(&self) -> bool {
        self.was_recorded
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// Records the results of a process's complete iterations and whether all of its time inside MPI was
    /// measured, if a recording is being made.
    pub(crate) fn summarise(&mut self, slot: u32, iterations: &Iterations, knows_mpi: bool, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.iterations(ProcessId(slot), Time(now_ns), iterations, knows_mpi);
        }
    }

    /// Records the parallel regions of a process over the session, if a recording is being made.
    pub(crate) fn record_regions(&mut self, slot: u32, regions: &RegionsView, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.regions(ProcessId(slot), Time(now_ns), regions);
        }
    }

    /// Records the uncertainty of functions with estimated calls, if a recording is being made: once for each
    /// function, and at its end.
    pub(crate) fn record_estimates(
        &mut self,
        slot: u32,
        of: impl Iterator<Item = (usize, Estimate)>,
        now_ns: u64,
        is_end: bool,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.estimates(ProcessId(slot), Time(now_ns), of, is_end);
        }
    }

    /// Records what ranks have sent to each other, if a recording is being made.
    pub(crate) fn record_sent(&mut self, matrix: impl FnOnce() -> MatrixView, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(Time(now_ns), &matrix());
        }
    }

    /// Records what the session reported of a rule.
    pub(crate) fn record_mark(&mut self, kind: MarkKind, rule: &str, text: &str, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.marked(Time(now_ns), kind, rule, text);
        }
    }

    /// A message that the recording has stopped; returned once.
    pub(crate) fn recording_news(&mut self) -> Option<String> {
        self.recorder.as_mut().and_then(Recorder::news)
    }

    /// Ends the recording, if one is being made.
    pub(crate) fn finish_recording(&mut self) -> Result<(), RecordingIncomplete> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }

    fn report(&mut self, observation: Observation) {
        if let Some(recorder) = &mut self.recorder {
            recorder.observed(&observation);
        }
        self.pass(observation);
    }

    /// Passes an observation to the engine, and to this machine's part of a job on several.
    fn pass(&mut self, observation: Observation) {
        if let Some(part) = &mut self.part {
            part.observe(&observation);
        }
        self.engine.observe(observation);
    }

    pub(crate) fn start(&mut self, now_ns: u64) {
        let rules: Vec<CheckedRule> = self.engine.rules().map(|(_, rule, _)| rule.clone()).collect();
        // The same rules were accepted before. If they are refused now, those that run are kept: only their first windows
        // are wrong then, as they begin before the session.
        match Engine::new(rules, Time(now_ns)) {
            Ok(engine) => self.engine = engine,
            Err(conflict) => warn!("the first windows of the rules begin before the session: {conflict}"),
        }
        let rules = self.engine.rules();
        let requests = rules.flat_map(|(id, rule, _)| probe_requests::requests(id, rule));
        self.requests = requests.enumerate().collect();
        let apply: Vec<_> = self
            .engine
            .rules()
            .map(|(id, rule, _)| (id, self.permissions.applies(rule.name())))
            .collect();
        for (id, applies) in apply {
            if applies {
                self.engine.set_mode(id, Mode::Applying);
            }
        }
    }

    /// The probe requests of the rules.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.requests
            .values()
            .filter_map(|request| self.wanted_of(*request))
            .collect()
    }

    fn wanted_of(&self, request: ProbeRequest) -> Option<Wanted> {
        let wanted = request.wanted(request.planned(&self.engine)?)?;
        // A recording contains each hit, because it may be replayed with any rule.
        let partial_sum = wanted.partial_sum.filter(|_| self.recorder.is_none());
        Some(Wanted {
            partial_sum,
            ..wanted
        })
    }

    /// Which probe requests apply to a process, by its roles.
    pub(crate) fn requested_in(&self, member: &Member) -> Vec<bool> {
        let facts = self.facts_of(member);
        // Numbers that no rule uses (any more) are not requested.
        let count = self.requests.last_key_value().map_or(0, |(last, _)| last + 1);
        let mut requested = vec![false; count];
        for (number, request) in &self.requests {
            requested[*number] = request.is_of(&facts, &self.engine);
        }
        requested
    }

    fn facts_of(&self, member: &Member) -> ProcessFacts {
        let symbols = self.engine.rules().flat_map(|(_, rule, _)| &rule.plan().symbols);
        probe_requests::facts_by(member, symbols, |name| self.variables.has(member, name))
    }

    /// The rules in which a process has a role `now`, and had none `before`.
    pub(crate) fn gained(&self, before: &Member, now: &Member) -> Vec<String> {
        let (before, now) = (self.facts_of(before), self.facts_of(now));
        let rules = self.engine.rules().map(|(_, rule, _)| rule);
        let gained =
            rules.filter(|rule| rule.roles_of(&before).is_empty() && !rule.roles_of(&now).is_empty());
        gained.map(|rule| rule.name().to_owned()).collect()
    }

    /// Stores the states of switched probes.
    pub(crate) fn switch_probes(&mut self, switches: &[ProbeSwitch]) {
        switches.iter().for_each(|switch| self.switches.set(*switch));
    }

    /// Pauses the counting of these probe requests, for the budget, and resumes all others. The rules have no
    /// value for paused ones.
    pub(crate) fn rest(&mut self, wanted: BTreeSet<usize>) {
        self.resting = wanted;
    }

    /// These probe requests name functions that no process has: rules have no value for them.
    pub(crate) fn lack(&mut self, absent: &BTreeMap<usize, String>) {
        let mut by_rule: BTreeMap<rules::RuleId, BTreeMap<usize, String>> = BTreeMap::new();
        for (index, request) in &self.requests {
            let of = by_rule.entry(request.rule).or_default();
            let name = absent.get(index).map(|name| format!("no process has {name}"));
            of.extend(name.map(|text| (request.probe.0, text)));
        }
        for (rule, absent) in by_rule {
            self.engine.lacks(rule, absent);
        }
    }

    /// The probe requests that are switched during the session, and whether each is on in any process.
    pub(crate) fn switched(&self) -> Vec<(usize, bool)> {
        let on = |(&place, request): (&usize, &ProbeRequest)| {
            let checked = self.engine.rule(request.rule)?;
            let planned = request
                .planned(&self.engine)
                .filter(|planned| planned.is_switched);
            planned?;
            let slots = self.slots.iter().copied();
            let is_on = self
                .switches
                .is_on_in_any(request.rule, request.probe, slots, checked.plan());
            Some((place, is_on))
        };
        self.requests.iter().filter_map(on).collect()
    }

    /// Losses between the kernel side and the rules, by kind.
    pub(crate) fn losses(&self) -> [(&'static str, u64); 2] {
        [
            ("texts", self.texts.dropped()),
            ("open_spans", self.pairs.dropped()),
        ]
    }

    /// A process of the job was found.
    pub(crate) fn join(&mut self, slot: u32, member: &Member, now_ns: u64) {
        let facts = self.facts_of(member);
        self.join_facts(slot, facts, now_ns);
    }

    fn join_facts(&mut self, slot: u32, facts: ProcessFacts, now_ns: u64) {
        self.slots.insert(slot);
        self.warm_up.forget();
        self.switches.forget(slot);
        if let Some(recorder) = &mut self.recorder {
            recorder.joined(ProcessId(slot), Time(now_ns), &facts);
        }
        if let Some(part) = &mut self.part {
            part.joined(ProcessId(slot), facts.clone(), Time(now_ns));
        }
        self.engine.process_joined(ProcessId(slot), facts, Time(now_ns));
    }

    /// A process has ended.
    pub(crate) fn leave(&mut self, slot: u32, now_ns: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.left(ProcessId(slot), Time(now_ns));
        }
        self.slots.remove(&slot);
        self.warm_up.forget();
        self.pairs.forget(slot);
        self.last_readings.remove(&slot);
        if let Some(part) = &mut self.part {
            part.left(ProcessId(slot), Time(now_ns));
        }
        self.engine.process_left(ProcessId(slot), Time(now_ns));
    }

    /// Whether a rule has windows that begin and end at hits: these are evaluated when hits come, not at the
    /// next tick.
    pub(crate) fn has_probed_windows(&self) -> bool {
        let mut windows = self.engine.rules().flat_map(|(_, rule, _)| &rule.plan().windows);
        windows.any(|window| window.every.is_none())
    }

    /// All hits of these processes up to this time have been passed in.
    pub(crate) fn watermark(&mut self, slots: impl Iterator<Item = u32>, time_ns: u64) {
        for slot in slots {
            let (process, time) = (ProcessId(slot), Time(time_ns));
            self.report(Observation::Watermark { process, time });
        }
    }

    /// Closes windows that have ended; returns the resulting acts, in the order in which they must be carried
    /// out.
    pub(crate) fn tick(&mut self, now_ns: u64) -> Vec<Act> {
        if let Some(recorder) = &mut self.recorder {
            recorder.ticked(Time(now_ns));
        }
        self.engine.forget_windows();
        self.seen.is_due = false;
        let copy = self.warm_up.copy(&self.engine);
        let mut acts: Vec<Act> = self
            .engine
            .tick(Time(now_ns))
            .into_iter()
            .filter_map(|output| self.act(output))
            .collect();
        self.warm_up.keep(copy, Time(now_ns), &acts);
        // Open findings are updated with the values of the last window. Several tunes of a rule have one
        // finding: that of the first.
        let mut findings = self.engine.findings();
        findings.dedup_by_key(|finding| finding.rule);
        acts.extend(findings.into_iter().map(|finding| found(finding, false)));
        acts.retain(|act| !self.is_of_job(act));
        newest_first(acts)
    }

    /// The objectives of the rules: the rule, and the objective as written in it.
    pub(crate) fn objectives(&self) -> Vec<(String, String)> {
        let of_rule = |rule: &CheckedRule| {
            let name = rule.name().to_owned();
            let named = rule.objectives().map(move |text| (name.clone(), text.to_owned()));
            named.collect::<Vec<_>>()
        };
        let rules = self.engine.rules();
        rules.flat_map(|(_, rule, _)| of_rule(rule)).collect()
    }

    /// The windows that the last tick closed.
    fn closed_windows(&mut self) -> Vec<ReplayEvent> {
        let closed = self.engine.drain_windows();
        let window = |window: rules::ClosedWindow| ReplayEvent::Window {
            rule: self.name_of(window.rule),
            window: window.window,
            index: window.index,
            duration: window.duration,
            metrics: window.metrics,
            readings: window.readings,
        };
        closed.into_iter().map(window).collect()
    }

    fn name_of(&self, rule: rules::RuleId) -> String {
        self.engine.rule_name(rule).to_owned()
    }

    /// Whether the rules wait for the outcome of a decision.
    pub(crate) fn awaits(&self, decision: DecisionId) -> bool {
        self.engine.awaits(decision)
    }

    /// The decisions that are being judged.
    pub(crate) fn on_trial(&self) -> Vec<TrialProgress> {
        self.engine.on_trial()
    }

    /// How long the verdicts on changes take, by rule, in seconds.
    pub(crate) fn time_to_verdict(&self) -> BTreeMap<String, (f64, f64)> {
        self.engine.time_to_verdict()
    }

    /// Whether a change is being judged, including while it is reverted to compare.
    pub(crate) fn is_judging(&self) -> bool {
        self.engine.is_judging()
    }

    pub(crate) fn is_judging_iterations(&self) -> bool {
        self.engine.is_judging_iterations()
    }

    /// The state of each rule and its reasons.
    pub(crate) fn views(&self) -> Vec<RuleView> {
        let rules = self.engine.rules();
        let modes_now: BTreeMap<_, _> = rules
            .map(|(id, rule, mode)| (id, modes::shown(mode, rule)))
            .collect();
        let view = |status: rules::TuneStatus| RuleView {
            mode: *modes_now.get(&status.rule).unwrap_or(&Mode::Off),
            is_named: self.permissions.is_named(&status.rule_name),
            saw_no_process: status.saw_no_process && says_nothing(status.standing),
            standing: status.standing,
            had_processes: status.had_processes,
            had_value: status.had_value,
            windows: status.windows,
            dropped: status.dropped,
            state: std::iter::once(status.why)
                .chain(status.left_out)
                .collect::<Vec<_>>()
                .join("; "),
            name: status.rule_name,
            tune: status.label,
        };
        self.engine.status().into_iter().map(view).collect()
    }

    /// Whether windows may be longer than stated while the program is idle: the user named no rule, and
    /// nothing is recorded.
    pub(crate) fn may_linger(&self) -> bool {
        self.has_only_builtin_rules && self.recorder.is_none()
    }

    /// Whether a timed window is over, so that a reading is needed before its evaluation.
    pub(crate) fn has_timed_window_over(&self, now_ns: u64) -> bool {
        self.engine.has_timed_window_over(Time(now_ns))
    }

    pub(crate) fn shortest_window(&self) -> Duration {
        let rules = self.engine.rules();
        let windows =
            rules.flat_map(|(_, rule, _)| rule.plan().windows.iter().filter_map(|window| window.every));
        windows.min().map_or(Duration::MAX, Duration::from_nanos)
    }
}

/// Whether a standing contains no information if the tune was evaluated without a process.
fn says_nothing(standing: Standing) -> bool {
    matches!(
        standing,
        Standing::Quiet | Standing::NoValue | Standing::Counting | Standing::GivesWay | Standing::Waiting
    )
}
