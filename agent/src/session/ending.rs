//! The end of a session: carries out what [`super::leave`] decides.

use std::{collections::VecDeque, time::Duration};

use super::{
    Session,
    changes::{self, MachineId},
    events::check,
    kernel_failure,
    leave::{LeaveEffect, LeaveEvent, Leaving},
    orders::process_here,
    outputs::{Outputs, Printout},
    receipts,
    requests::{self, RequestState},
    sources::Sources,
    views::trials,
};
use crate::{
    clock::monotonic_ns,
    control::Control,
    exit::{Code, CommandResult, Failure},
    kernel::KernelError,
    rulebook::Time,
    snapshot::{
        Snapshot,
        outcome::{NOT_UNDONE, UNDONE},
    },
    view,
    watchdog::LoopStep,
};

/// So long the end of a session waits for the kernel to let go of its probes. On a machine with a CPU to spare that takes 20 to 100 ms.
const DETACH_WAIT: Duration = Duration::from_millis(300);

impl Session {
    /// Leaves, for this reason. Requests that came meanwhile are answered.
    pub(super) async fn leave(
        mut self,
        reason: &'static str,
        (mut sources, control): (Sources, Option<Control>),
    ) -> CommandResult {
        // Whoever asked for the end gets the answer first.
        tokio::task::yield_now().await;
        self.liveness.progress.begin(LoopStep::Leave);
        let mut leaving = Leaving::default();
        let mut last = Last {
            control,
            ..Last::default()
        };
        let has_actuator = self.actuation.queue.is_some();
        let mut events = vec![LeaveEvent::Stop {
            reason: reason.to_owned(),
            is_of_command: self.target.is_of_command(),
            has_actuator,
        }];
        // What came of a step is taken in before the next one is made.
        let mut effects = VecDeque::new();
        loop {
            for event in events.drain(..) {
                effects.extend(self.log.on(&mut leaving, event, Time(monotonic_ns())));
            }
            match effects.pop_front() {
                None | Some(LeaveEffect::End) => break,
                Some(LeaveEffect::PutBack) => events.extend(self.put_back(&mut last).await),
                Some(effect) => events.extend(self.carry_out_leaving(effect, &mut last)?),
            }
        }
        while let Some((request, to)) = sources.request() {
            let steps = requests::steps(request, RequestState::Leaves, check).into_iter();
            // Whoever asked may be gone.
            let _ = steps
                .filter_map(requests::RequestStep::answer)
                .next()
                .map(|answer| to.send(answer));
        }
        let logged = self.log.complete();
        match leaving.outcome(logged) {
            Ok(true) => Ok(Code::Done),
            Ok(false) => Ok(Code::No),
            Err(errors) => Err(Failure::no(errors)),
        }
    }

    fn carry_out_leaving(
        &mut self,
        effect: LeaveEffect,
        last: &mut Last,
    ) -> Result<Vec<LeaveEvent>, Failure> {
        match effect {
            LeaveEffect::EndLive => self.screen.end_live(),
            LeaveEffect::ReadLast => {
                self.read_all_last().map_err(kernel_failure)?;
                let has_program_ended = self.measuring.profile.running().next().is_none();
                return Ok(vec![LeaveEvent::Read { has_program_ended }]);
            }
            LeaveEffect::Record => return Ok(vec![LeaveEvent::Recorded(self.rules.finish_recording())]),
            LeaveEffect::EndChanges(ending) => {
                let on_trial = trials(&self.rules);
                self.change(changes::ChangeEvent::Stop { ending, on_trial });
            }
            LeaveEffect::TellChanges(farewell) => {
                self.change(changes::ChangeEvent::Farewell(MachineId::HERE, farewell));
                self.say_how_repairs_stay();
            }
            LeaveEffect::Show => return self.show_last(last),
            LeaveEffect::Say(line) => self.screen.say(&line),
            LeaveEffect::Write => {
                self.liveness.progress.begin(LoopStep::WriteReport);
                let snapshot = last.snapshot.take().unwrap_or_default();
                let (written, printout) = last.outputs.take().unwrap_or_default().write(&snapshot);
                last.printout = Some(printout);
                return Ok(vec![LeaveEvent::Written(written)]);
            }
            LeaveEffect::Detach => {
                let began = monotonic_ns();
                // The kernel may take seconds to be sure that no hit is under way: a session that is over does not wait for it.
                let is_off = self.measuring.probes.detach(DETACH_WAIT);
                let took_ns = monotonic_ns().saturating_sub(began);
                return Ok(vec![LeaveEvent::Detached(is_off.then_some(took_ns))]);
            }
            LeaveEffect::Print => {
                last.control = None;
                let printed = last.printout.take().map_or(Ok(()), Printout::write);
                return Ok(vec![LeaveEvent::Printed(printed)]);
            }
            LeaveEffect::PutBack | LeaveEffect::End => {}
        }
        Ok(Vec::new())
    }

    fn read_all_last(&mut self) -> Result<(), KernelError> {
        self.take_family()?;
        self.take_last_hits()?;
        self.read()?;
        self.evaluate_last();
        self.measuring.summarise(&mut self.rules);
        Ok(())
    }

    /// The actuator puts back what does not stay, and ends.
    async fn put_back(&mut self, last: &mut Last) -> Option<LeaveEvent> {
        let queue = self.actuation.queue.take()?;
        // The actuator's answers have a bound of their own.
        self.liveness.progress.begin(LoopStep::Waiting);
        let (receipts, farewell) = queue.finish().await;
        self.liveness.progress.begin(LoopStep::Leave);
        receipts.into_iter().for_each(|receipt| self.receive(receipt));
        Some(match farewell {
            Ok(farewell) => {
                last.omitted = Some(farewell.omitted);
                LeaveEvent::PutBack(Box::new(receipts::parting(&farewell)))
            }
            Err(error) => LeaveEvent::NotKnown(error.to_string()),
        })
    }

    /// Nothing comes any more: the trace is complete, and the snapshot is the last.
    fn show_last(&mut self, last: &mut Last) -> Result<Vec<LeaveEvent>, Failure> {
        self.measuring.read_matrix(true).map_err(kernel_failure)?;
        let (screen, views) = self.showing();
        let mut snapshot = views.snapshot();
        views.name_call_sites(&mut screen.namer, &mut snapshot.sequence);
        views.add_loads(&mut snapshot.processes);
        let mut outputs = screen.take_outputs();
        let (trace, traced) = views.end_trace(&mut outputs);
        snapshot.trace = trace;
        let ready = LeaveEvent::Ready {
            header: view::header(&snapshot),
            closing: view::closing(&snapshot, self.options.is_verbose),
            has_undone: has_undone(&snapshot),
            changes: self.last_words(last.omitted, &snapshot.job.program),
        };
        (last.snapshot, last.outputs) = (Some(snapshot), Some(outputs));
        Ok(vec![LeaveEvent::Traced(traced), ready])
    }

    /// What became of all changes; `omitted` of them the actuator did not name, if it named any.
    fn last_words(&mut self, omitted: Option<usize>, program: &str) -> String {
        let Some(omitted) = omitted else {
            return String::new();
        };
        (0..self.measuring.probes.slots()).for_each(|slot| self.look_whether_ended(process_here(slot)));
        let event = changes::ChangeEvent::LastWords {
            unknown: omitted,
            undo: self.views().undo_commands(),
            program: program.to_owned(),
        };
        let effects = self.log.on(&mut self.changes, event, Time(monotonic_ns()));
        let mut words = effects.into_iter().filter_map(|effect| match effect {
            changes::ChangeEffect::LastWords(words) => Some(words),
            _ => None,
        });
        words.next().unwrap_or_default()
    }
}

/// What is kept between the last steps.
#[derive(Default)]
struct Last {
    /// Removes its socket when it is dropped.
    control: Option<Control>,
    snapshot: Option<Snapshot>,
    outputs: Option<Outputs>,
    printout: Option<Printout>,
    /// Changes that the actuator did not name; none where it said nothing.
    omitted: Option<usize>,
}

/// The guard took a change back, or could not.
fn has_undone(snapshot: &Snapshot) -> bool {
    let mut guards = snapshot.changes.iter().filter_map(|change| change.guard.as_ref());
    guards.any(|guard| [UNDONE, NOT_UNDONE].contains(&guard.verdict))
}
