//! What is shown of a session while it runs, on the terminal and on /metrics, and what the keys of the live view ask: the same as the
//! control socket, answered in the same words.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{Session, waking::TICK};
use crate::{
    clock::monotonic_ns,
    discover::Job,
    kernel::{self, Kernel, KernelError, LinkKind},
    profile::{self, Metered},
    request::Answer,
    snapshot::{JobView, ProcessView, Snapshot},
    view::{self, Input, Keys, Wish},
};

/// The first numbers are of so much time: enough for a hundred calls of a program that makes any, and nobody waits for them.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// Plain lines come this often, after those of the first second. The live view has a new picture at every second tick at most.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);

impl Session {
    /// What is watched, what is not, and what may be written.
    pub(super) fn greet(&mut self) {
        self.painted_ns = monotonic_ns();
        let snapshot = self.snapshot();
        if self.family.is_none() {
            self.painter.say(&view::header(&snapshot));
        }
        let watched = snapshot.job.watched;
        let regions = if self.has_regions() {
            ", and parallel regions"
        } else {
            ""
        };
        let what = if self.probes.kernel().is_none() {
            "no function is watched; only the data of /proc are shown".to_owned()
        } else if watched == 0 && self.has_regions() {
            "parallel regions watched".to_owned()
        } else if profile::has_mpi(self.probes.list()) {
            let watched = self.probes.watched_of_mpi();
            format!("{watched} MPI functions watched (not local ones such as MPI_Wtime){regions}")
        } else {
            format!("{} watched{regions}", crate::format::plural(watched, "function"))
        };
        let writes = if self.options.applies {
            "Rules may write"
        } else {
            "Nothing is written"
        };
        let end = match self.family {
            Some(_) => "The command begins",
            None => "Ctrl-C ends",
        };
        self.painter.say(&format!("armed: {what}. {writes}. {end}"));
        let kind = self.probes.kernel().map(Kernel::link_kind);
        if kind == Some(LinkKind::Tracefs) {
            let notes = notes_of_tracefs(self.options.applies, kernel::perf_wants_admin());
            notes.iter().for_each(|note| self.painter.say(note));
        }
        if self.probes.strangers_pay() {
            self.painter.say(
                "note: other programs here that use the same library pay for the probes too, about 1 us a call",
            );
        }
        let missing: Vec<String> = self
            .probes
            .missing()
            .iter()
            .chain(&self.missing)
            .cloned()
            .collect();
        missing
            .iter()
            .for_each(|missing| self.painter.say(&format!("missing: {missing}")));
        for note in &self.options.notes {
            self.painter.say(note);
        }
    }

    /// Takes the terminal over, where there is one; whose keys are heard then.
    pub(super) fn show_live(&mut self) -> Option<Keys> {
        let snapshot = self.snapshot();
        if !self.painter.begin(snapshot) {
            return None;
        }
        let keys = Keys::new().ok();
        if keys.is_none() {
            // Nobody could end a view that hears no keys.
            self.painter.end();
        }
        keys
    }

    /// When the first numbers are due; none beside a command, which has the terminal.
    pub(super) fn first_look(&self) -> Option<Instant> {
        self.family.is_none().then(|| Instant::now() + FIRST_LOOK)
    }

    /// Shows people the first numbers, if there are any yet. The next ones come at their own time, as if these had not been: they are
    /// of a whole second.
    pub(super) fn show_first(&mut self) -> Result<(), KernelError> {
        self.read()?;
        let snapshot = self.snapshot();
        if says_something(&snapshot) {
            self.paint(snapshot);
        }
        Ok(())
    }

    /// Shows the state now: to scrapes always, to people if it is time for it.
    pub(super) fn show(&mut self) {
        let now = monotonic_ns();
        let period = match (self.painter.is_live(), self.has_shown) {
            (true, _) | (false, false) => 2 * TICK,
            (false, true) => PLAIN_PERIOD,
        };
        let since = now.saturating_sub(self.painted_ns) + TICK.as_nanos() as u64 / 2;
        let is_due = since >= period.as_nanos() as u64;
        if !is_due && self.shared.is_none() {
            return;
        }
        let mut snapshot = self.snapshot();
        if let Some(shared) = &self.shared {
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot.clone());
        }
        if !is_due {
            return;
        }
        self.painted_ns = now;
        self.has_shown = true;
        if self.painter.wants_call_sites() {
            self.name_call_sites(&mut snapshot.sequence);
        }
        self.paint(snapshot);
    }

    fn paint(&mut self, snapshot: Snapshot) {
        if self.painter.is_live() {
            self.painter.show(snapshot);
        } else if self.family.is_none() {
            view::summary(&snapshot)
                .iter()
                .for_each(|line| self.painter.say(line));
        }
    }

    /// The processes as they are shown. Those of a command get their slots as they come, and some slots nobody: they are shown by rank.
    pub(super) fn process_views(&self) -> Vec<ProcessView> {
        let views = self.shown().into_iter().map(|process| {
            let kernel = self.probes.kernel();
            let counts = |rows| kernel?.histogram(process.slot, rows);
            let mut view = process.view(self.probes.list(), counts);
            let durations = &self.profile.durations;
            durations.enter(process.slot, self.probes.list(), &mut view);
            view
        });
        views.collect()
    }

    /// How each of them spent its time over the run, told at the end.
    pub(super) fn tell_loads(&self, views: &mut [ProcessView]) {
        for (process, view) in self.shown().into_iter().zip(views) {
            view.load = process.load(self.probes.list(), self.armed_ns);
        }
    }

    /// Processes in the order in which they are shown.
    fn shown(&self) -> Vec<&Metered> {
        let there = self.profile.processes.iter().filter(|process| process.pid != 0);
        let mut shown: Vec<&Metered> = there.collect();
        if self.family.is_some() {
            shown.sort_by_key(|process| (process.rank.is_none(), process.rank));
        }
        shown
    }

    /// Does what the user wishes; gives the reason when the session is over.
    pub(super) fn take_input(&mut self, input: Input) -> Option<&'static str> {
        match self.painter.take(input)? {
            Wish::End(reason) => return Some(reason),
            Wish::Switch { rule, mode } => {
                let answer = match self.switch(&rule, mode) {
                    Answer::Refused { message, .. } => message,
                    _ => format!("{rule} is {}", mode.name()),
                };
                let snapshot = self.snapshot();
                self.painter.show(snapshot);
                self.painter.answer(answer);
            }
        }
        None
    }
}

/// Whether numbers of so short a time are worth a look: some rank was in MPI, or there is none, and a look at CPUs needs no call.
fn says_something(snapshot: &Snapshot) -> bool {
    let mut rates = snapshot.running().filter_map(|process| process.rates);
    rates.any(|rates| rates.mpi.is_none_or(|mpi| mpi > 0.0))
}

/// What a session has not where the kernel attaches probes by tracefs alone; `paranoia` is the level at which that is not enough.
fn notes_of_tracefs(applies: bool, paranoia: Option<i32>) -> Vec<String> {
    let mut notes = vec![
        "note: on this kernel (before 6.6) probes are attached at the start only: later programs and rules use \
         only those"
            .to_owned(),
    ];
    notes.extend(paranoia.filter(|_| applies).map(|level| {
        format!(
            "note: changes at a place in the program are refused: kernel.perf_event_paranoid is {level}, and CAP_SYS_ADMIN is given up; {}",
            kernel::lower_paranoia()
        )
    }));
    notes
}

/// What the user does next at the live view; none when nothing can be read any more. Never, without a live view.
pub(super) async fn next_input(keys: &mut Option<Keys>) -> Option<Input> {
    let input = match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    };
    if input.is_none() {
        *keys = None;
    }
    input
}

/// What is shown of a job.
pub fn job_view(job: &Job, watched: usize) -> JobView {
    let mpi = job.members.iter().find_map(|member| member.mpi.as_ref());
    JobView {
        program: job.program(),
        user: job
            .members
            .first()
            .map(|member| member.process.user())
            .unwrap_or_default(),
        host: String::new(),
        id: String::new(),
        launcher: job.launcher().map(|launcher| launcher.pid.number),
        size: job.size(),
        mpi: mpi.map(|mpi| {
            (
                mpi.implementation.name.to_owned(),
                mpi.implementation.version.clone(),
            )
        }),
        library: mpi.map(|mpi| mpi.library.clone()),
        watched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Rates;

    #[test]
    fn first_numbers_are_shown_where_a_rank_was_in_mpi_or_none_is_probed() {
        let of = |shares: &[Option<f64>]| {
            let process = |mpi: &Option<f64>| ProcessView {
                rates: Some(Rates {
                    mpi: *mpi,
                    ..Rates::default()
                }),
                ..ProcessView::default()
            };
            says_something(&Snapshot {
                processes: shares.iter().map(process).collect(),
                ..Snapshot::default()
            })
        };
        assert!(of(&[Some(0.0), Some(0.01)]));
        assert!(!of(&[Some(0.0), Some(0.0)]));
        assert!(of(&[None]));
        assert!(!of(&[]), "nothing was measured");
    }

    #[test]
    fn where_tracefs_is_all_there_is_what_is_missing_is_said_at_the_start() {
        let of = |applies, paranoia| notes_of_tracefs(applies, paranoia).join("\n");
        assert!(of(false, Some(3)).contains("at the start only"));
        assert!(
            !of(false, Some(3)).contains("paranoid"),
            "who only looks changes nothing"
        );
        assert!(!of(true, None).contains("paranoid"));
        assert!(of(true, Some(3)).contains("sysctl kernel.perf_event_paranoid=2"));
    }
}
