//! Suspends activities of the agent that cost too much, and lowers its wake-up rate while nothing happens.
//! Every wake-up on a CPU that a rank uses exclusively delays the rank, and all processes that wait for it.

use std::time::Duration;

use super::{BudgetEffect, BudgetEffects};
use profile::format::percent;

/// Consecutive checks that find the agent too expensive before an activity is suspended, and cheap before it
/// resumes.
const EXPENSIVE_LOOKS: u32 = 3;
const CHEAP_LOOKS: u32 = 10;

/// Below this part of the permitted cost the agent may read all rings again: it then reads up to five times
/// as often.
const CHEAP: f64 = 0.2;

/// Most CPUs that predicting decisions takes: ours and the actuator's, which waits for the order meanwhile.
const PREDICTING_MAX: f64 = 2.0 * crate::intake::SHARE_MAX;

/// Longest interval between reads of counters.
pub const TICK: Duration = Duration::from_millis(500);

/// The same while none of the processes runs.
const TICK_STILL: Duration = Duration::from_secs(1);

const TICK_MIN: Duration = Duration::from_millis(50);

/// After this many consecutive ticks at which no process has run, ticks become rarer.
const IDLE_TICKS: u32 = 4;

/// The interval of ticks then. It grows up to a bound if ticks take more than this part of a core.
const TICK_IDLE: Duration = Duration::from_secs(2);
const TICK_IDLE_MAX: Duration = Duration::from_secs(5);
const IDLE_SHARE: f64 = 0.0007;

/// An activity that the agent suspends if it costs too much. Only an activity of the last interval counts:
/// suspending another one would save nothing.
#[derive(Debug, Default)]
struct Suspension {
    is_suspended: bool,
    /// It was active since costs were last checked.
    was_done: bool,
    checks: u32,
}

impl Suspension {
    /// True if it is suspended or resumed now.
    fn toggles(&mut self, is_expensive: bool, is_cheap: bool) -> bool {
        let was_done = std::mem::take(&mut self.was_done);
        let (is_so, checks) = match self.is_suspended {
            true => (is_cheap, CHEAP_LOOKS),
            false => (is_expensive && was_done, EXPENSIVE_LOOKS),
        };
        self.checks = if is_so { self.checks + 1 } else { 0 };
        let turns = self.checks == checks;
        if turns {
            (self.is_suspended, self.checks) = (!self.is_suspended, 0);
        }
        turns
    }
}

/// The suspended activities, and since when nothing has happened.
#[derive(Debug, Default)]
pub struct BackOff {
    /// Reads of call rings between ticks.
    rings: Suspension,
    predictions: Suspension,
    /// Consecutive ticks at which no process had run.
    still: u32,
    was_idle: bool,
    /// CPU time of the agent up to the last tick, and between the last two ticks if nothing happened.
    cpu_ns: u64,
    idle_tick_ns: u64,
}

impl BackOff {
    /// All rings of calls were just read; `was_filling`: one of them was half full.
    pub fn have_read_calls(&mut self, was_filling: bool) {
        self.rings.was_done |= was_filling;
    }

    /// Records a tick, with whether no process has run and the CPU time of the agent so far. True if nothing
    /// has happened for a while, the first time.
    pub fn have_ticked(&mut self, is_still: bool, cpu_ns: u64) -> bool {
        let took_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        self.idle_tick_ns = if self.is_idle() { took_ns } else { 0 };
        self.still = if is_still { self.still.saturating_add(1) } else { 0 };
        self.is_idle() && !std::mem::replace(&mut self.was_idle, true)
    }

    pub fn end_idle(&mut self) {
        self.still = 0;
    }

    /// Whether nothing has happened for a while.
    pub fn is_idle(&self) -> bool {
        self.still >= IDLE_TICKS
    }

    /// Interval until the next tick: the shortest window, within bounds; longer if nothing has happened for a
    /// while and windows `may_linger`.
    pub fn tick(
        &self,
        is_still: bool,
        may_linger: impl FnOnce() -> bool,
        shortest_window: impl FnOnce() -> Duration,
    ) -> Duration {
        let longest = match is_still {
            true if self.is_idle() && may_linger() => return self.idle_tick(),
            true => TICK_STILL,
            false => TICK,
        };
        longest.min(shortest_window()).max(TICK_MIN)
    }

    /// Interval of ticks while nothing happens.
    pub(super) fn idle_tick(&self) -> Duration {
        let fitting = Duration::from_nanos((self.idle_tick_ns as f64 / IDLE_SHARE) as u64);
        fitting.clamp(TICK_IDLE, TICK_IDLE_MAX)
    }

    /// Whether wake-ups for half-full rings of calls are off.
    pub fn suspends_calls(&self) -> bool {
        self.rings.is_suspended
    }

    /// Records that a decision was predicted and polled for.
    pub fn have_predicted(&mut self) {
        self.predictions.was_done = true;
    }

    /// Whether predictions are off: decisions are made when their hits wake us.
    pub fn suspends_predictions(&self) -> bool {
        self.predictions.is_suspended
    }

    /// Compares the agent's CPUs with what watching may cost. Above that, the agent reads rings of calls less
    /// often and predicts no decisions; it resumes both once it costs far less.
    pub(crate) fn at_cost(&mut self, agent: f64, allowed: f64, ticks_per_s: f64) -> BudgetEffects {
        let is_expensive = agent > allowed;
        let has_room = agent + PREDICTING_MAX <= allowed;
        let turns = [
            self.rings.toggles(is_expensive, agent < CHEAP * allowed),
            self.predictions.toggles(is_expensive, has_room),
        ];
        if turns == [false, false] {
            return BudgetEffects::new();
        }
        let agent = percent(agent);
        let more = format!("note: tuneagent itself takes {agent} of a CPU, more than it may (--budget)");
        let less = format!("note: tuneagent itself takes {agent} of a CPU");
        let of_rings = || match self.rings.is_suspended {
            true => format!(
                "{more}: it reads calls only {ticks_per_s:.0} times a second from now on; calls that are overwritten before \
                 they are read are missing in iterations and call sites, and the report has their number"
            ),
            false => format!("{less}: calls are read at once again"),
        };
        let of_predictions = || match self.predictions.is_suspended {
            true => format!(
                "{more}: it no longer polls for decisions, which are written somewhat later from now on"
            ),
            false => format!("{less}: it polls for decisions again"),
        };
        let notices = [turns[0].then(of_rings), turns[1].then(of_predictions)];
        notices.into_iter().flatten().map(BudgetEffect::Say).collect()
    }
}
