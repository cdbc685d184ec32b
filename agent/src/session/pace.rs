//! When the loop wakes beside its ticks: how long calls and hits may lie, and whether decisions are looked out for. Every waking on a CPU that a
//! rank has for itself delays the rank, and with it all that wait for it. What is done then is the session's.

use std::time::Duration;

use tokio::time::Instant;

use super::{Session, anticipate::SHARE_MOST};
use crate::{clock::monotonic_ns, format::percent, priority::Hurry, watchdog::Progress};

/// Rings of calls are read this often at most, ticks aside: what a rank calls more often than its ring has room for is counted as not
/// seen, and nothing is gained by following it.
const CALLS_PERIOD: Duration = Duration::from_millis(100);

/// Hits at which nothing falls due are let lie for so long: no hit is to lie for 5 ms, and the clock of the loop is a millisecond or two late.
const HITS_NS: u64 = 3_000_000;

/// Looks in a row that find the agent too dear before it does less, and cheap before it does all again.
const DEAR_LOOKS: u32 = 3;
const CHEAP_LOOKS: u32 = 10;

/// It is cheap enough to read all rings below this part of what all may take: it reads up to five times as often then.
const CHEAP: f64 = 0.2;

/// CPUs that looking out for decisions takes at most: ours and the actuator's, who waits for the order meanwhile.
const LOOKING_OUT_MOST: f64 = 2.0 * SHARE_MOST;

/// Ticks in a row at which nobody has run before they come less often yet.
const IDLE_TICKS: u32 = 4;

/// Ticks come this often then, and more seldom, to a bound, where they take more than this part of a core.
const TICK_IDLE: Duration = Duration::from_secs(2);
const TICK_IDLE_MOST: Duration = Duration::from_secs(5);
const IDLE_SHARE: f64 = 0.0007;

/// Something that the agent leaves when it is too dear, if it did it lately: what it does not cause would not become less.
#[derive(Debug, Default)]
struct Brake {
    rests: bool,
    /// It was done since it was last looked what all costs.
    was_done: bool,
    looks: u32,
}

impl Brake {
    /// True where it is left from now on, or done again.
    fn turns_at(&mut self, is_dear: bool, is_cheap: bool) -> bool {
        let was_done = std::mem::take(&mut self.was_done);
        let (is_so, most) = match self.rests {
            true => (is_cheap, CHEAP_LOOKS),
            false => (is_dear && was_done, DEAR_LOOKS),
        };
        self.looks = if is_so { self.looks + 1 } else { 0 };
        let turns = self.looks == most;
        if turns {
            (self.rests, self.looks) = (!self.rests, 0);
        }
        turns
    }
}

/// What is kept of it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// A ring of calls is half full.
    pub(super) is_filling: bool,
    calls_read_ns: u64,
    /// When hits are to be looked for again, on the monotonic clock; 0 where one that comes wakes us.
    hits_due_ns: u64,
    /// Rings of calls are read beside ticks.
    rings: Brake,
    /// Decisions are looked out for.
    look_outs: Brake,
    /// Until there are first numbers.
    pub(super) hurry: Option<Hurry>,
    /// For the watchdog.
    pub(super) progress: Progress,
    /// Ticks in a row at which nobody had run.
    still: u32,
    was_idle: bool,
    /// What the agent had taken of CPUs at the last tick, and between the last two of them where nothing happened.
    cpu_ns: u64,
    idle_tick_ns: u64,
}

impl Pace {
    /// All rings of calls were just read.
    pub(super) fn have_read_calls(&mut self, now_ns: u64) {
        self.rings.was_done |= self.is_filling;
        (self.is_filling, self.calls_read_ns) = (false, now_ns);
    }

    /// The ring of hits was just emptied. When we look again by ourselves, where that is now another time than before.
    pub(super) fn have_read_hits(&mut self, has_found: bool, now_ns: u64) -> Option<u64> {
        let due_ns = match has_found {
            true => now_ns + HITS_NS,
            false if now_ns < self.hits_due_ns => self.hits_due_ns,
            false => 0,
        };
        (std::mem::replace(&mut self.hits_due_ns, due_ns) != due_ns).then_some(due_ns)
    }

    /// A tick is over, at which nobody had run or somebody had; the agent has taken so much of CPUs so far. True where nothing has happened
    /// for a while, the first time.
    pub(super) fn have_ticked(&mut self, is_still: bool, cpu_ns: u64) -> bool {
        let took_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        self.idle_tick_ns = if self.is_idle() { took_ns } else { 0 };
        self.still = if is_still { self.still.saturating_add(1) } else { 0 };
        self.is_idle() && !std::mem::replace(&mut self.was_idle, true)
    }

    /// Somebody does something.
    pub(super) fn stir(&mut self) {
        self.still = 0;
    }

    /// Nothing has happened for a while.
    pub(super) fn is_idle(&self) -> bool {
        self.still >= IDLE_TICKS
    }

    /// How often ticks come while nothing happens.
    pub(super) fn idle_tick(&self) -> Duration {
        let fitting = Duration::from_nanos((self.idle_tick_ns as f64 / IDLE_SHARE) as u64);
        fitting.clamp(TICK_IDLE, TICK_IDLE_MOST)
    }

    /// Nobody is to wake us when a ring of calls fills.
    pub(super) fn rests(&self) -> bool {
        self.rings.rests
    }

    /// A decision was looked out for.
    pub(super) fn have_looked_out(&mut self) {
        self.look_outs.was_done = true;
    }

    /// Decisions are made when their hits wake us.
    pub(super) fn lets_decisions_come(&self) -> bool {
        self.look_outs.rests
    }

    /// The agent takes so many CPUs, and all may take so many. Whether rings are read less often from now on, or as ever; and whether decisions are
    /// looked out for no more, or again.
    fn turn_at(&mut self, agent: f64, allowed: f64) -> (bool, bool) {
        let is_dear = agent > allowed;
        let rings = self.rings.turns_at(is_dear, agent < CHEAP * allowed);
        let has_room = agent + LOOKING_OUT_MOST <= allowed;
        (rings, self.look_outs.turns_at(is_dear, has_room))
    }

    /// When hits are to be looked for; none where one that comes wakes us.
    pub(super) fn hits_due(&self) -> Option<Instant> {
        let rest = Duration::from_nanos(self.hits_due_ns.saturating_sub(monotonic_ns()));
        (self.hits_due_ns > 0).then(|| Instant::now() + rest)
    }
}

impl Session {
    /// When calls are to be looked at before the next tick: a ring is half full, or a window is open.
    pub(super) fn calls_due(&self) -> Option<Instant> {
        let since = Duration::from_nanos(monotonic_ns().saturating_sub(self.pace.calls_read_ns));
        let must = self.pace.is_filling || self.sampling.is_open();
        must.then(|| Instant::now() + CALLS_PERIOD.saturating_sub(since))
    }

    /// Reads rings of calls less often and looks out for no decision where the agent takes more than it may, both in CPUs, and as ever once it
    /// takes far less.
    pub(super) fn rest_where_dear(&mut self, agent: f64, allowed: f64) {
        let (rings_turn, look_outs_turn) = self.pace.turn_at(agent, allowed);
        if !rings_turn && !look_outs_turn {
            return;
        }
        let (agent, often) = (percent(agent), 1.0 / self.tick().as_secs_f64());
        let dear = format!("note: tuneagent itself takes {agent} of a core, more than it may (--budget)");
        let cheap = format!("note: tuneagent itself takes {agent} of a core");
        if rings_turn {
            self.screen.say(&match self.pace.rests() {
                true => format!(
                    "{dear}: it reads calls only {often:.0} times a second from now on; where more are made than there is room for, \
                     iterations and call sites lack some, which are counted"
                ),
                false => format!("{cheap}: calls are read as they come again"),
            });
        }
        if look_outs_turn {
            self.screen.say(&match self.pace.lets_decisions_come() {
                true => format!(
                    "{dear}: it looks out for decisions no longer, which follow the program somewhat later from now on"
                ),
                false => format!("{cheap}: decisions are looked out for again"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_dear_for_what_rings_bring_reads_them_less_often_until_it_is_cheap() {
        let mut pace = Pace::default();
        let mut look = |part: f64, has_filled: bool| {
            pace.is_filling = has_filled;
            pace.have_read_calls(0);
            let (turns, _) = pace.turn_at(part, 1.0);
            turns.then(|| pace.rests())
        };
        // Not for what it does besides.
        assert!((0..9).all(|_| look(2.0, false).is_none()));
        // Nor for once.
        let looks = [(2.0, true), (2.0, true), (0.9, true), (2.0, true), (2.0, true)];
        assert!(
            looks
                .iter()
                .all(|(part, has_filled)| look(*part, *has_filled).is_none())
        );
        assert_eq!(look(2.0, true), Some(true));
        // Half of what it may is no reason to read more.
        assert!((0..99).all(|_| look(0.5, false).is_none()));
        assert!((1..CHEAP_LOOKS).all(|_| look(0.1, false).is_none()));
        assert_eq!(look(0.1, false), Some(false));
    }

    #[test]
    fn an_agent_that_is_dear_looks_out_for_no_decision_until_there_is_room_for_it() {
        let mut pace = Pace::default();
        let mut look = |agent: f64, allowed: f64, looks_out: bool| {
            if looks_out && !pace.lets_decisions_come() {
                pace.have_looked_out();
            }
            let (_, turns) = pace.turn_at(agent, allowed);
            turns.then(|| pace.lets_decisions_come())
        };
        // Dear for something else, or for once.
        assert!((0..9).all(|_| look(0.03, 0.02, false).is_none()));
        let agent = [0.03, 0.03, 0.01, 0.03, 0.03];
        assert!(agent.iter().all(|agent| look(*agent, 0.02, true).is_none()));
        assert_eq!(look(0.03, 0.02, true), Some(true));
        // Whatever it takes without: looking out might take it beyond again.
        assert!((0..99).all(|_| look(0.001, 0.02, true).is_none()));
        // A job of more CPUs.
        assert!((1..CHEAP_LOOKS).all(|_| look(0.001, 0.11, true).is_none()));
        assert_eq!(look(0.001, 0.11, true), Some(false));
    }

    #[test]
    fn who_has_not_run_for_a_while_is_idle_until_he_runs() {
        let mut pace = Pace::default();
        let mut tick = |is_still| (pace.have_ticked(is_still, 0), pace.is_idle());
        assert!((1..IDLE_TICKS).all(|_| tick(true) == (false, false)));
        assert_eq!(tick(true), (true, true));
        assert_eq!(tick(true), (false, true));
        assert_eq!(tick(false), (false, false));
        assert!((1..IDLE_TICKS).all(|_| tick(true) == (false, false)));
        assert_eq!(tick(true), (false, true), "what is done once was done");
        pace.stir();
        assert!(!pace.is_idle());
    }

    #[test]
    fn ticks_that_find_nothing_come_the_more_seldom_the_more_they_take() {
        let mut pace = Pace::default();
        let mut cpu_ns = 0;
        let mut after = |took_ns| {
            cpu_ns += took_ns;
            pace.have_ticked(true, cpu_ns);
            pace.idle_tick().as_millis()
        };
        // Of what was done before nothing is concluded.
        assert!((0..IDLE_TICKS).all(|_| after(900_000_000) == 2_000));
        assert_eq!(after(700_000), 2_000);
        assert_eq!(after(2_800_000), 4_000);
        assert_eq!(after(28_000_000), 5_000);
        assert_eq!(after(700_000), 2_000);
    }

    #[test]
    fn hits_are_looked_for_again_as_long_as_there_are_some_and_then_wake_us() {
        let mut pace = Pace::default();
        assert_eq!(pace.have_read_hits(false, 100), None);
        assert_eq!(pace.hits_due(), None);
        assert_eq!(pace.have_read_hits(true, 100), Some(100 + HITS_NS));
        assert!(pace.hits_due().is_some());
        // Woken before that time for another reason.
        assert_eq!(pace.have_read_hits(false, 200), None);
        assert_eq!(pace.have_read_hits(true, 300), Some(300 + HITS_NS));
        assert_eq!(pace.have_read_hits(false, 300 + HITS_NS), Some(0));
        assert_eq!(pace.hits_due(), None);
    }
}
