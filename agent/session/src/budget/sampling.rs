//! Keeps the cost of watching within the budget: checks the costs of functions, and has expensive ones
//! sampled in windows. The lengths of windows are decided in [`profile::cost`]; what was counted in windows
//! is kept with each process.

use std::collections::BTreeSet;

use abi::Frame;
use profile::cost::{BudgetShare, Load, SamplingStep, Windows, WindowsView};
use profile::format::{percent, plural};

use super::{
    BackOff, BudgetEffect, BudgetEffects,
    spent::{CallNeed, Functions, Spent},
};

/// Least interval between checks of costs while no function is sampled, in nanoseconds: every second reading.
const LOOK_NS: u64 = 900_000_000;

/// The same before the first check: a program of short calls runs at a fraction of its pace until then.
const FIRST_LOOK_NS: u64 = 250_000_000;

/// How long a joining process of a command is watched before a gap may begin.
const BEGIN_NS: u64 = 2_000_000_000;

/// Most functions that a message names.
const NAMED_MAX: usize = 3;

/// Consecutive checks that find the costs too high, without a way to lower them, before that is reported.
const OVER_MAX: u32 = 3;

/// The same if the agent is what costs.
const AGENT_OVER_MAX: u32 = 15;

/// Whether links can be closed and attached again while the session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detaching {
    Possible,
    Impossible,
}

/// Conditions for what the session can do now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingState {
    pub detaching: Detaching,
    /// A change is on trial: the compared values must be counted in one way.
    pub is_judged: bool,
    pub ticks_per_s: f64,
    pub is_recorded: bool,
}

/// The functions that are sampled now.
#[derive(Debug, Default)]
pub struct Sampled {
    functions: BTreeSet<u32>,
    is_gap: bool,
    opened_ns: u64,
}

impl Sampled {
    /// Whether a call was open when its function was detached, so that its end is not seen.
    pub fn is_stale(&self, frame: &Frame) -> bool {
        self.functions.contains(&frame.probe) && (self.is_gap || frame.entered_ns < self.opened_ns)
    }

    /// The functions that are not watched now; `None` while all are.
    pub fn gap(&self) -> Option<&BTreeSet<u32>> {
        self.is_gap.then_some(&self.functions)
    }

    pub fn functions(&self) -> &BTreeSet<u32> {
        &self.functions
    }
}

/// What is due of a sampling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChange {
    Open,
    Close,
}

/// When functions are watched, and what they cost.
#[derive(Debug, Default)]
pub struct Sampling {
    windows: Windows,
    sampled: Sampled,
    /// The agent has CPUs of its own, so its work delays no process of the job.
    has_own_cpus: bool,
    has_gaps: bool,
    /// Functions are sampled without which no sequence of calls is complete.
    pub cuts_sequence: bool,
    has_cut: bool,
    /// Costs at the last check, or at the end of the last window.
    before: Option<Spent>,
    /// Costs were compared with earlier ones.
    has_looked: bool,
    /// Costs when the open window began.
    opened: Option<Spent>,
    /// Shares over the last window and gap.
    recent: Option<(f64, f64)>,
    over: u32,
    /// Advice on how to lower the cost was given.
    is_advised: bool,
    /// Processes of a command that joined in a gap which could not be ended for them.
    unseen_begins: BTreeSet<i32>,
    /// A window must begin once the links of the last one are closed, and stay open at least until this time;
    /// 0 for the planned length.
    put_off: Option<u64>,
}

impl Sampling {
    /// All functions are watched, as long as that costs no more than `budget`.
    pub fn new(budget: BudgetShare, seed: u64, has_own_cpus: bool) -> Sampling {
        Sampling {
            windows: Windows::new(budget, seed),
            has_own_cpus,
            ..Sampling::default()
        }
    }

    /// The functions that are sampled.
    pub fn sampled(&self) -> &Sampled {
        &self.sampled
    }

    /// How long functions that rules only count are detached.
    pub fn rest_ns(&self, load: &Load, watched_ns: u64) -> Option<u64> {
        self.windows.rest_ns(load, watched_ns)
    }

    pub fn budget(&self) -> BudgetShare {
        self.windows.budget()
    }

    /// Whether some function was not watched at some time.
    pub fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Whether functions of the sequence of calls were not watched at some time.
    pub fn has_cut_sequence(&self) -> bool {
        self.has_cut
    }

    /// Whether some function is not watched now.
    pub fn is_gap(&self) -> bool {
        self.sampled.is_gap
    }

    /// Whether functions of the sequence of calls are not watched now.
    pub fn is_sequence_cut(&self) -> bool {
        self.cuts_sequence && self.is_gap()
    }

    /// What is known from windows only, as text.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let cut = self.has_cut.then(|| {
            "MPI was sampled (--budget): call sites, message sizes, pairs of ranks and iterations cover the sampled time only"
                .to_owned()
        });
        let unseen = (!self.unseen_begins.is_empty()).then(|| {
            format!(
                "{} loaded MPI outside a sampling window (--budget), and the limit on extra windows was reached: calls before the next \
                 window are not counted",
                plural(self.unseen_begins.len(), "process"),
            )
        });
        cut.into_iter().chain(unseen)
    }

    /// When a window begins or ends, by CLOCK_MONOTONIC.
    pub fn next_ns(&self) -> Option<u64> {
        self.windows.next_ns().filter(|_| self.put_off.is_none())
    }

    /// Whether a window is open, which may come to cost too much.
    pub fn is_open(&self) -> bool {
        self.windows.most_ns().is_some()
    }

    pub fn has_windows(&self) -> bool {
        !self.windows.functions().is_empty()
    }

    /// The share of the job's CPU time that hits took over the last window and gap, and hits and agent
    /// together; `None` before the first window. The outer `None`: nothing is sampled.
    pub fn recent(&self) -> Option<Option<(f64, f64)>> {
        self.has_windows().then_some(self.recent)
    }

    /// Whether a change is on trial that is judged by what is sampled.
    pub fn judge(&mut self, is_judged: bool, now_ns: u64) {
        self.windows.judge(is_judged, now_ns);
    }

    /// Whether a window begins or ends now. `cost_ns` is the CPU time that hits of sampled functions have
    /// taken in it so far; it is evaluated only while one is open.
    pub fn due(&self, now_ns: u64, cost_ns: impl FnOnce() -> f64) -> Option<WindowChange> {
        let is_due = now_ns >= self.windows.next_ns()?;
        match self.windows.most_ns() {
            None if self.put_off.is_some() => None,
            None => is_due.then_some(WindowChange::Open),
            Some(most_ns) => (is_due || cost_ns() > most_ns).then_some(WindowChange::Close),
        }
    }

    /// In a session of a command: a process is about to join with its MPI and must be watched from here on.
    /// It was detected by its first call of MPI, and during that call the other functions are probed again.
    /// True if a window must begin for it; there is none if so many processes have come recently that the
    /// budget would be exceeded. [`Sampling::stay_open`] follows.
    pub fn join(&mut self, pid: i32, detaching: Detaching, now_ns: u64) -> bool {
        let may_open = detaching == Detaching::Possible && self.windows.may_open(now_ns, BEGIN_NS);
        if self.is_gap() && !may_open {
            self.unseen_begins.insert(pid);
        }
        self.is_gap() && may_open
    }

    /// Watches a joining process for a while; its rate of calls then determines the first gap.
    pub fn stay_open(&mut self, now_ns: u64) {
        let until_ns = now_ns + BEGIN_NS;
        self.put_off = self.put_off.map(|_| until_ns);
        self.windows.stay_open(until_ns);
    }

    /// A window must begin while links of the last one are still being closed: if both were attached, the
    /// same calls would be counted twice.
    pub fn wait_for_links(&mut self) {
        self.put_off = Some(0);
    }

    /// Links were closed. Returns until when a window that waited for that must stay open at least.
    pub fn take_waiting(&mut self) -> Option<u64> {
        self.put_off.take()
    }

    /// A window that waited has begun.
    pub fn stay_open_until(&mut self, until_ns: u64) {
        if until_ns > 0 {
            self.windows.stay_open(until_ns);
        }
    }

    /// Begins a window: returns the functions to attach. The cost of attaching is part of the window.
    pub fn open(&mut self, now_ns: u64) -> BTreeSet<u32> {
        self.windows.open(now_ns);
        self.sampled.functions.clone_from(self.windows.functions());
        self.sampled.functions.clone()
    }

    /// All of them are attached.
    pub fn attached(&mut self, now_ns: u64) {
        self.windows.attached(now_ns);
        (self.sampled.is_gap, self.sampled.opened_ns) = (false, now_ns);
    }

    /// Records the costs when the window began.
    pub fn opened(&mut self, spent: Spent) {
        self.opened = Some(spent);
    }

    /// The view of the windows.
    pub fn view(&self, functions: &Functions<'_>) -> Option<WindowsView> {
        let sampled = self.windows.functions();
        (!sampled.is_empty()).then(|| WindowsView {
            functions: self.called(functions),
            part: self.windows.part(),
            budget: self.windows.budget(),
            cuts_sequence: self.cuts_sequence,
        })
    }

    /// Names of the called functions, the most expensive first.
    fn called(&self, functions: &Functions<'_>) -> Vec<String> {
        let spent = self.before.as_ref();
        let cost = |probe: u32| spent.map_or(0.0, |spent| spent.of_function(probe));
        let sampled = self.windows.functions().iter().copied();
        let mut called: Vec<u32> = sampled.filter(|probe| cost(*probe) > 0.0).collect();
        called.sort_by(|one, other| cost(*other).total_cmp(&cost(*one)));
        let called = called.iter().filter_map(|probe| functions.get(probe));
        called.map(|watched| watched.name.to_owned()).collect()
    }

    /// Whether a reading must be followed by a check of costs, while no function is sampled.
    pub fn is_look_due(&self, read_ns: u64) -> bool {
        let pause_ns = if self.has_looked { LOOK_NS } else { FIRST_LOOK_NS };
        let is_new = |before: &Spent| read_ns.saturating_sub(before.at_ns) < pause_ns;
        let is_early = self.before.as_ref().is_some_and(is_new);
        self.budget().0.is_some() && self.windows.next_ns().is_none() && !is_early
    }

    /// Records that no process has run since the last check. False if a full check is needed first.
    pub fn check_idle(&mut self, read_ns: u64, agent_ns: u64) -> bool {
        let Some(before) = &mut self.before else {
            return false;
        };
        before.pass(read_ns, agent_ns);
        self.windows.look(&Load::default(), read_ns);
        true
    }

    /// Checks the costs up to the last reading, while no function is sampled.
    pub fn look(
        &mut self,
        spent: Spent,
        functions: &Functions<'_>,
        state: SamplingState,
        back_off: &mut BackOff,
    ) -> BudgetEffects {
        let before = self.before.replace(spent.clone());
        let Some(before) = before.filter(|before| spent.at_ns > before.at_ns) else {
            return BudgetEffects::new();
        };
        self.has_looked = true;
        let load = self.load(&before, None, &spent, functions);
        let mut effects = self.advise(&load, functions, state, back_off);
        if state.detaching == Detaching::Impossible || state.is_judged {
            return effects;
        }
        if let SamplingStep::Sample(sampled) = self.windows.look(&load, spent.at_ns) {
            let shares = spent.shares_since(&before);
            self.recent = None;
            effects.push(BudgetEffect::BeginSampling);
            effects.push(self.begin_gap(sampled, functions));
            effects.extend(self.notice_of_windows(functions, shares));
        }
        effects
    }

    pub fn close_window(
        &mut self,
        spent: Spent,
        functions: &Functions<'_>,
        state: SamplingState,
        back_off: &mut BackOff,
    ) -> BudgetEffects {
        let opened = self.opened.take().unwrap_or_default();
        let before = self.before.replace(spent.clone()).unwrap_or_default();
        self.recent = spent.shares_since(&before);
        let load = self.load(&before, Some(&opened), &spent, functions);
        let mut effects = self.advise(&load, functions, state, back_off);
        match self.windows.close_window(&load, spent.at_ns) {
            SamplingStep::Sample(sampled) => {
                effects.push(self.begin_gap(sampled, functions));
                effects.extend(self.notice_of_windows(functions, self.recent));
            }
            SamplingStep::Close => {
                let sampled = self.windows.functions().clone();
                effects.push(self.begin_gap(sampled, functions));
            }
            _ => effects.push(BudgetEffect::Say(
                "note: all functions are watched all the time again".to_owned(),
            )),
        }
        effects
    }

    /// The load: functions that are sampled as in the window since `opened`, everything else since `before`.
    pub(super) fn load(
        &self,
        before: &Spent,
        opened: Option<&Spent>,
        now: &Spent,
        functions: &Functions<'_>,
    ) -> Load {
        let mut load = now.load_since(before, opened, &self.sampled.functions, functions);
        if self.has_own_cpus {
            load.agent = 0.0;
        }
        load
    }

    /// Begins a gap of these functions; their counts up to now were just read.
    fn begin_gap(&mut self, sampled: BTreeSet<u32>, functions: &Functions<'_>) -> BudgetEffect {
        let is_apart = |probe: &u32| functions.get(probe).is_none_or(|watched| watched.is_apart);
        self.cuts_sequence = !sampled.iter().all(is_apart);
        self.has_cut |= self.cuts_sequence;
        self.sampled.functions.clone_from(&sampled);
        self.sampled.is_gap = true;
        self.has_gaps = true;
        BudgetEffect::Detach(sampled)
    }

    /// The note about sampling. `shares` of the job's CPU time: hits, and hits and agent together.
    fn notice_of_windows(
        &self,
        functions: &Functions<'_>,
        shares: Option<(f64, f64)>,
    ) -> Option<BudgetEffect> {
        let view = self.view(functions)?;
        let (hits, all) = shares.unwrap_or_default();
        let (who, share) = match self.has_own_cpus {
            true => ("probes", hits),
            false => ("probes and tuneagent", all),
        };
        let (are, their) = match view.functions.len() {
            1 => ("is", "its"),
            _ => ("are", "their"),
        };
        let what = if view.cuts_sequence {
            "Call sites, message sizes, pairs of ranks and iterations cover the sampled time only"
        } else if view.functions.iter().any(|name| name.starts_with("MPI_")) {
            "Everything else is reported as before, but serialisation and transfer are no longer measured"
        } else {
            "Everything else is reported as before"
        };
        let (names, budget) = (view.names(NAMED_MAX), view.budget);
        Some(BudgetEffect::Say(format!(
            "note: {names} {are} sampled from now on, at first {} of the time (--budget {budget}; until now {who} took {} of the job's CPU \
             time): {their} calls, times and bytes are estimates (~). {what}",
            percent(view.part),
            percent(share),
        )))
    }

    /// Lowers the read rate if that is what costs, and advises once what else would help if the session
    /// cannot decide it.
    pub fn advise(
        &mut self,
        load: &Load,
        functions: &Functions<'_>,
        state: SamplingState,
        back_off: &mut BackOff,
    ) -> BudgetEffects {
        let allowed = self.windows.allowed(load);
        let mut effects = match allowed {
            Some(allowed) => back_off.at_cost(load.agent, allowed, state.ticks_per_s),
            None => BudgetEffects::new(),
        };
        // A trial counts every call; what is used after it is to be advised on.
        if self.is_advised || state.is_judged {
            return effects;
        }
        let rest = match state.detaching {
            Detaching::Possible => load.requested,
            Detaching::Impossible => load.requested + load.of_functions(),
        };
        let is_over = allowed.is_some_and(|allowed| rest + load.agent > allowed);
        self.over = if is_over { self.over + 1 } else { 0 };
        // At its start, and while programs begin, the agent does more than later.
        let is_of_probes = rest > load.agent;
        let patience = if is_of_probes { OVER_MAX } else { AGENT_OVER_MAX };
        if self.over >= patience {
            effects.push(BudgetEffect::Say(match is_of_probes {
                true => self.advice_on_probes(load, rest, functions, state),
                false => advice_on_agent(load, self.budget()),
            }));
            self.is_advised = true;
        }
        effects
    }

    /// Advice that names the most expensive function that the session may not detach.
    fn advice_on_probes(
        &self,
        load: &Load,
        rest: f64,
        functions: &Functions<'_>,
        state: SamplingState,
    ) -> String {
        let budget = self.budget();
        let cost = |probe: u32| self.before.as_ref().map_or(0.0, |spent| spent.of_function(probe));
        let needed = functions.iter();
        let needed = needed.filter(|(_, watched)| {
            state.detaching == Detaching::Impossible || watched.need == CallNeed::Each
        });
        let most_expensive = needed.max_by(|one, other| cost(*one.0).total_cmp(&cost(*other.0)));
        let name = most_expensive.map_or("a function", |(_, watched)| watched.name);
        let why = match state.detaching {
            Detaching::Possible if state.is_recorded => format!(
                "a rule or the recording needs every call of {name}: use --rules none or remove the rule, and no --record"
            ),
            Detaching::Possible => {
                format!("a rule needs every call of {name}: use --rules none or remove the rule")
            }
            Detaching::Impossible => {
                format!("{name} costs most, and this session cannot detach probes: watch fewer functions")
            }
        };
        format!(
            "note: watching costs {} of the job's CPU time, more than it should (--budget {budget}): {why}, or give a greater --budget",
            percent((rest + load.agent) / load.job.max(f64::MIN_POSITIVE)),
        )
    }
}

fn advice_on_agent(load: &Load, budget: BudgetShare) -> String {
    format!(
        "note: tuneagent takes {} of a CPU, more than --budget allows ({budget} of this job's CPU time), and cannot take less: \
         use --rules none or watch fewer processes",
        percent(load.agent),
    )
}
