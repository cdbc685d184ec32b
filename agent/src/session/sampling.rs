//! Keeps what watching costs to the budget: looks at what functions cost, has dear ones watched in windows, and keeps with each process what was
//! counted in them. When a window begins and ends is decided in [`crate::cost`]; which links that is, in `probes`.

mod spent;

use std::{collections::BTreeSet, time::Duration};

use abi::Frame;
use tokio::time::Instant;

pub(super) use self::spent::Spent;
use super::{Options, Session, meter::Metered};
use crate::{
    clock::{CpuClock, monotonic_ns},
    cost::{Budget, Load, Moment, Turn, Window, Windows, WindowsView},
    discover::Member,
    format::{percent, plural},
    kernel::KernelError,
    mpi,
    probe::Probe,
};

/// Costs are looked at this often at most while all functions are watched all the time, in nanoseconds: every second reading.
const LOOK_NS: u64 = 900_000_000;

/// How long a process of a command is seen when it has joined before there is a gap.
const BEGIN_NS: u64 = 2_000_000_000;

/// Functions that are named in a message.
const NAMED_MAX: usize = 3;

/// Looks in a row that find the costs too high, where nothing can be done about it, before that is said.
const OVER_MAX: u32 = 3;

/// The same where it is the agent that costs.
const AGENT_OVER_MAX: u32 = 15;

/// Which functions are watched in windows now.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    functions: BTreeSet<u32>,
    is_shut: bool,
    /// When the last window began.
    opened_ns: u64,
}

impl Sampled {
    /// A call that was under way when its function was no longer watched: nobody sees its end.
    pub(super) fn is_stale(&self, frame: &Frame) -> bool {
        self.functions.contains(&frame.probe) && (self.is_shut || frame.entered_ns < self.opened_ns)
    }
}

/// When functions are watched, and what they cost.
#[derive(Debug)]
pub(super) struct Sampling {
    windows: Windows,
    pub(super) counting: super::counting::Counting,
    pub(super) sampled: Sampled,
    has_gaps: bool,
    cuts_sequence: bool,
    has_cut: bool,
    /// At the last look, or when the last window was over.
    before: Option<Spent>,
    /// When the window began that is open.
    opened: Option<Spent>,
    /// Shares over the last window and gap.
    of_late: Option<(f64, f64)>,
    over: u32,
    /// What makes it less was said.
    is_advised: bool,
    /// Processes of a command that joined in a gap which did not end for them.
    unseen_begins: BTreeSet<i32>,
    /// A window is to begin once the links of the last one are closed, and to stay open until then at least; 0 for as long as planned.
    put_off: Option<u64>,
}

impl Sampling {
    /// All are watched, as long as that costs no more than this.
    pub(super) fn new(budget: Budget) -> Sampling {
        Sampling {
            windows: Windows::new(budget, monotonic_ns()),
            counting: super::counting::Counting::default(),
            sampled: Sampled::default(),
            has_gaps: false,
            cuts_sequence: false,
            has_cut: false,
            before: None,
            opened: None,
            of_late: None,
            over: 0,
            is_advised: false,
            unseen_begins: BTreeSet::new(),
            put_off: None,
        }
    }

    /// How long functions that rules only count rest.
    pub(super) fn rest_ns(&self, load: &Load, watched_ns: u64) -> Option<u64> {
        self.windows.rest_ns(load, watched_ns)
    }

    /// What watching may cost.
    pub(super) fn budget(&self) -> Budget {
        self.windows.budget()
    }

    /// Whether some function was not watched at some time.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Whether some function is not watched now.
    pub(super) fn is_shut(&self) -> bool {
        self.sampled.is_shut
    }

    /// Whether functions are not watched now without which no sequence of calls is whole.
    pub(super) fn cuts_sequence(&self) -> bool {
        self.cuts_sequence && self.sampled.is_shut
    }

    /// What is of the windows alone, in words.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        let cut = self.has_cut.then(|| {
            "MPI was watched in windows (--budget): call sites, sizes of messages, who sends to whom and iterations are those of the windows"
                .to_owned()
        });
        let unseen = (!self.unseen_begins.is_empty()).then(|| {
            format!(
                "{} began with MPI between two windows (--budget), after so many others that no window began for it: calls before the \
                 next one are not counted",
                plural(self.unseen_begins.len(), "process"),
            )
        });
        cut.into_iter().chain(unseen)
    }

    /// When a window begins or ends.
    pub(super) fn next(&self) -> Option<Instant> {
        let next_ns = self.windows.next_ns().filter(|_| self.put_off.is_none())?;
        Some(Instant::now() + Duration::from_nanos(next_ns.saturating_sub(monotonic_ns())))
    }

    /// A window is open, and may come to cost too much.
    pub(super) fn is_open(&self) -> bool {
        self.windows.most_ns().is_some()
    }

    /// What part of the job's CPU time hits took over the last window and gap, and hits and agent together: none before the first window. None
    /// of it where all is watched all the time.
    pub(super) fn of_late(&self) -> Option<Option<(f64, f64)>> {
        (!self.windows.functions().is_empty()).then_some(self.of_late)
    }
}

impl Session {
    /// Opens and shuts windows, where it is time to.
    pub(super) fn take_turns(&mut self) -> Result<(), KernelError> {
        let Some(next_ns) = self.sampling.windows.next_ns() else {
            return Ok(());
        };
        let is_due = monotonic_ns() >= next_ns;
        match self.sampling.windows.most_ns() {
            None if self.sampling.put_off.is_some() => Ok(()),
            None if is_due => self.open_window(),
            Some(_) if is_due || self.is_overspent() => self.shut_window(),
            _ => Ok(()),
        }
    }

    /// Of a command, one that is about to join with its MPI is seen from here on: its first call of MPI told of it, and while that lasts the
    /// others are probed anew. So it is seen for a while, by whose pace the first gap is told then. Unless so many have come of late that the budget
    /// would not be kept.
    pub(super) fn see_begin(&mut self, pid: i32) -> Result<(), KernelError> {
        let windows = &self.sampling.windows;
        let may_open = self.probes.can_take_turns() && windows.may_open(monotonic_ns(), BEGIN_NS);
        match (self.sampling.is_shut(), may_open) {
            (true, true) => self.open_window()?,
            (true, false) => drop(self.sampling.unseen_begins.insert(pid)),
            (false, _) => {}
        }
        let until_ns = monotonic_ns() + BEGIN_NS;
        self.sampling.put_off = self.sampling.put_off.map(|_| until_ns);
        self.sampling.windows.stay_open(until_ns);
        Ok(())
    }

    /// Links may have been closed: what waited for that is attached.
    pub(super) fn take_closed(&mut self) -> Result<(), KernelError> {
        if self.probes.is_closing() {
            return Ok(());
        }
        let members = living(&self.processes, &self.job.members);
        if let Some(since_ns) = self.probes.attach_rest((&members, foreseen(&self.options)))? {
            let slots: Vec<u32> = members.iter().map(|(slot, _)| *slot).collect();
            self.rules.lost(slots.into_iter(), since_ns, monotonic_ns());
        }
        if let Some(until_ns) = self.sampling.put_off.take() {
            self.open_window()?;
            if until_ns > 0 {
                self.sampling.windows.stay_open(until_ns);
            }
        }
        Ok(())
    }

    /// One that has just joined: what it does until the next window is not seen.
    pub(super) fn take_in(&self, process: &mut Metered, now_ns: u64) {
        let sampled = &self.sampling.sampled;
        let at = Moment {
            at_ns: now_ns,
            cpu_ns: CpuClock::of(process.pid).and_then(CpuClock::ns).unwrap_or(now_ns),
        };
        match sampled.is_shut {
            true => process
                .unwatched
                .shut(at, &[], &[], &sampled.functions, Window::default()),
            false => process.unwatched.open(at, &[]),
        }
    }

    /// What the windows are, for those who look.
    pub(super) fn windows_view(&self) -> Option<WindowsView> {
        let windows = &self.sampling.windows;
        let functions = windows.functions();
        (!functions.is_empty()).then(|| WindowsView {
            functions: self.named(functions),
            part: windows.part(),
            budget: windows.budget(),
            cuts_sequence: self.sampling.cuts_sequence,
        })
    }

    /// Those that were called, the dearest first.
    fn named(&self, functions: &BTreeSet<u32>) -> Vec<String> {
        let spent = self.sampling.before.as_ref();
        let cost = |probe: &u32| spent.map_or(0.0, |spent| spent.of(*probe));
        let mut called: Vec<u32> = functions
            .iter()
            .copied()
            .filter(|probe| cost(probe) > 0.0)
            .collect();
        called.sort_by(|one, other| cost(other).total_cmp(&cost(one)));
        let probes = called
            .iter()
            .filter_map(|probe| self.probes.list().get(*probe as usize));
        probes.map(|probe| probe.name.clone()).collect()
    }

    /// Looks at what was just read, while all functions are watched all the time.
    pub(super) fn look_at_cost(&mut self) -> Result<(), KernelError> {
        let is_new = |before: &Spent| self.read_ns.saturating_sub(before.at_ns) < LOOK_NS;
        let is_early = self.sampling.before.as_ref().is_some_and(is_new);
        let windows = &self.sampling.windows;
        if windows.budget().0.is_none() || windows.next_ns().is_some() || is_early {
            return Ok(());
        }
        if self.is_still()
            && let Some(before) = &mut self.sampling.before
        {
            before.pass(self.read_ns, self.costs.agent().cpu_ns);
            let nothing = Load::default();
            self.sampling.windows.look(&nothing, self.read_ns);
            self.advise(&nothing);
            return Ok(());
        }
        let spent = self.spent();
        let before = self.sampling.before.replace(spent.clone());
        let Some(before) = before.filter(|before| spent.at_ns > before.at_ns) else {
            return Ok(());
        };
        let load = self.load(&before, None, &spent);
        self.advise(&load);
        // While a change is being judged what is compared is to be counted in one way.
        if !self.probes.can_take_turns() || !self.rules.on_trial().is_empty() {
            return Ok(());
        }
        if let Turn::Sample(functions) = self.sampling.windows.look(&load, spent.at_ns) {
            for process in self.processes.iter_mut().filter(|process| !process.ended) {
                if let Some(first) = process
                    .oldest()
                    .map(|first| (first.moment(), first.counted.clone()))
                {
                    process.unwatched.open(first.0, &first.1);
                }
            }
            let share = spent.shares_since(&before).map_or(0.0, |(hits, _)| hits);
            self.sampling.of_late = None;
            self.begin_gap(functions)?;
            self.tell_of_windows(share);
        }
        Ok(())
    }

    /// A window begins, at once or when the links of the last one are closed: were both attached, the same calls would be counted twice.
    fn open_window(&mut self) -> Result<(), KernelError> {
        if self.probes.is_closing() {
            self.sampling.put_off = Some(0);
            return Ok(());
        }
        self.take_calls()?;
        let functions = self.sampling.sampled.functions.clone();
        let is_off = |probe: u32| functions.contains(&probe);
        self.forget_open(is_off, |thread| {
            let open = thread.frames.iter().take(thread.depth as usize);
            open.into_iter().all(|frame| is_off(frame.probe))
        })?;
        let members = living(&self.processes, &self.job.members);
        // What they cost while they are being attached is a part of the window.
        self.sampling.windows.open(monotonic_ns());
        let sampled = self.sampling.windows.functions();
        self.probes.open(sampled, (&members, foreseen(&self.options)))?;
        self.sampling.sampled.functions.clone_from(sampled);
        let now = monotonic_ns();
        self.sampling.windows.attached(now);
        (self.sampling.sampled.is_shut, self.sampling.sampled.opened_ns) = (false, now);
        self.threads = None;
        self.read()?;
        for process in self.processes.iter_mut().filter(|process| !process.ended) {
            if self.sampling.cuts_sequence {
                process.sequence.gap();
            }
            if let Some(last) = process.last().map(|last| (last.moment(), last.counted.clone())) {
                process.unwatched.open(last.0, &last.1);
            }
        }
        self.sampling.opened = Some(self.spent());
        Ok(())
    }

    /// A window is over.
    fn shut_window(&mut self) -> Result<(), KernelError> {
        self.read()?;
        let spent = self.spent();
        let opened = self.sampling.opened.take().unwrap_or_default();
        let before = self.sampling.before.replace(spent.clone()).unwrap_or_default();
        self.sampling.of_late = spent.shares_since(&before);
        let load = self.load(&before, Some(&opened), &spent);
        self.advise(&load);
        match self.sampling.windows.shut(&load, spent.at_ns) {
            Turn::Sample(functions) => {
                self.begin_gap(functions)?;
                self.tell_of_windows(self.sampling.of_late.map_or(0.0, |(hits, _)| hits));
            }
            Turn::Shut => self.begin_gap(self.sampling.windows.functions().clone())?,
            _ => self
                .screen
                .say("note: all functions are watched all the time again"),
        }
        Ok(())
    }

    /// These functions are not watched from now on; what was counted up to now was just read.
    fn begin_gap(&mut self, functions: BTreeSet<u32>) -> Result<(), KernelError> {
        let windows = self.windows_of_processes();
        self.probes.shut(&functions);
        let cuts_sequence = functions.iter().any(|probe| !self.is_apart(*probe));
        self.sampling.cuts_sequence = cuts_sequence;
        self.sampling.has_cut |= cuts_sequence;
        for (process, window) in self.processes.iter_mut().zip(windows) {
            let last = process.last().filter(|_| !process.ended);
            let last = last.map(|last| (last.moment(), last.counted.clone(), last.open.clone()));
            if let Some((at, counted, open)) = last {
                process.unwatched.shut(at, &counted, &open, &functions, window);
            }
        }
        self.sampling.sampled.functions = functions;
        self.sampling.sampled.is_shut = true;
        self.sampling.has_gaps = true;
        self.threads = None;
        Ok(())
    }

    /// Whether a function is in no sequence of calls.
    fn is_apart(&self, probe: u32) -> bool {
        let mpi = self.probes.list().get(probe as usize).and_then(|probe| probe.mpi);
        mpi.is_none_or(mpi::Function::is_asked_again)
    }

    /// Calls that were recorded while others were not: no sequence is made of them.
    pub(super) fn pass_calls(&mut self) -> Result<(), KernelError> {
        let Some(kernel) = self.probes.kernel() else {
            return Ok(());
        };
        for (place, process) in self.processes.iter_mut().enumerate() {
            let Some(next) = kernel
                .calls_so_far(process.slot)
                .filter(|next| *next > process.sequence.next())
            else {
                continue;
            };
            if let Some(trace) = self.screen.trace() {
                let (_, calls) = kernel.calls(process.slot, process.sequence.next())?;
                trace.calls(process.whose(), &calls, self.probes.list());
            }
            self.collectives.take(place, &[], 1, |_| false);
            process.sequence.pass(next);
            kernel.pass_calls(process.slot, next);
        }
        Ok(())
    }

    fn tell_of_windows(&mut self, share: f64) {
        let Some(view) = self.windows_view() else { return };
        let what = if view.cuts_sequence {
            "Call sites, sizes of messages, who sends to whom and iterations are those of the windows"
        } else {
            "All else is told as before, but the parts of the communication efficiency"
        };
        let (names, budget) = (view.names(NAMED_MAX), view.budget);
        self.screen.say(&format!(
            "note: {names} from now on watched in windows, {} of the time (--budget {budget}; watching cost {} of the job's CPU time): their \
             calls, times and bytes are estimated (~). {what}",
            percent(view.part),
            percent(share),
        ));
    }

    /// Reads less often where that is what costs, and says once what makes it less where that is not ours to decide.
    fn advise(&mut self, load: &Load) {
        let windows = &self.sampling.windows;
        if let Some(allowed) = windows.allowed(load) {
            self.rest_where_dear(load.agent, allowed);
        }
        let rest = match self.probes.can_take_turns() {
            true => load.asked,
            false => load.asked + load.of_functions(),
        };
        if self.sampling.is_advised {
            return;
        }
        let windows = &self.sampling.windows;
        let is_over = windows
            .allowed(load)
            .is_some_and(|allowed| rest + load.agent > allowed);
        self.sampling.over = if is_over { self.sampling.over + 1 } else { 0 };
        // At its start, and while programs begin, the agent does more than later on.
        let is_of_probes = rest > load.agent;
        let patience = if is_of_probes { OVER_MAX } else { AGENT_OVER_MAX };
        if self.sampling.over >= patience {
            let text = match is_of_probes {
                true => self.advice_on_probes(load, rest),
                false => advice_on_agent(load, windows.budget()),
            };
            self.screen.say(&text);
            self.sampling.is_advised = true;
        }
    }

    /// Which function costs most that is not ours to take off.
    fn advice_on_probes(&self, load: &Load, rest: f64) -> String {
        let budget = self.sampling.windows.budget();
        let spent = self.sampling.before.as_ref();
        let costs = spent.iter().flat_map(|spent| &spent.costs);
        let asked =
            costs.filter(|(probe, _)| !self.probes.can_take_turns() || !self.probes.may_pause(**probe));
        let dearest = asked.max_by(|one, other| one.1.total_cmp(other.1));
        let dearest = dearest.and_then(|(probe, _)| self.probes.list().get(*probe as usize));
        let name = dearest.map_or("a function", |probe: &Probe| &probe.name);
        let why = match self.probes.can_take_turns() {
            true => format!(
                "{name} is watched for a rule that needs every call of it, or is recorded: do without that"
            ),
            false => format!(
                "{name} costs most, and in this session probes cannot be taken off: attach to less of the program"
            ),
        };
        format!(
            "note: watching costs {} of the job's CPU time, more than it should (--budget {budget}): {why}, or allow more",
            percent((rest + load.agent) / load.job.max(f64::MIN_POSITIVE)),
        )
    }
}

fn advice_on_agent(load: &Load, budget: Budget) -> String {
    format!(
        "note: tuneagent itself takes {} of a core, more than it should beside what this job computes (--budget {budget}): fewer rules \
         (--rules none) and fewer processes have it do less, or allow more",
        percent(load.agent),
    )
}

/// Of a command, what its processes will be, as far as that was known before there were any.
fn foreseen(options: &Options) -> &[Member] {
    options.started.as_ref().map_or(&[], |started| &started.foreseen)
}

/// Processes that are watched, with their slots.
pub(super) fn living<'a>(processes: &[Metered], members: &'a [Member]) -> Vec<(u32, &'a Member)> {
    let living = processes.iter().filter(|process| process.is_watched());
    living
        .filter_map(|process| Some((process.slot, members.get(process.slot as usize)?)))
        .collect()
}
