//! The end of a session: carries out the effects of [`super::leave`].

use std::time::Duration;

use job::monotonic_ns;
use report::view;

use super::{
    Session, changes, error, kernel_failure,
    leave::{LeaveEffect, LeaveEvent},
    measuring::Measuring,
    nodes,
    orders::process_here,
    outputs::{Closing, Printout},
    parts::{self, EffectQueue, Event},
    receipts,
    sources::Sources,
};
use crate::{
    control::Control,
    exit::{Code, CommandResult, Failure},
    rulebook::Time,
    watchdog::LoopStep,
};

/// How long the end of a session waits until the kernel has detached its probes. With an idle CPU that takes
/// 20 to 100 ms.
const DETACH_WAIT: Duration = Duration::from_millis(300);

impl Session {
    /// Leaves, for this reason. Pending requests are answered.
    pub(super) async fn leave(
        mut self,
        reason: &'static str,
        mut sources: Sources,
        control: Option<Control>,
    ) -> CommandResult {
        // The client receives its answer before the end.
        tokio::task::yield_now().await;
        nodes::end(&mut self.target, &mut self.rules, &mut self.screen, reason).await;
        self.liveness.progress.begin(LoopStep::Leave);
        let mut last = Closing {
            control,
            ..Closing::default()
        };
        let (mut pending, mut events) = (EffectQueue::default(), vec![Event::Stop(reason)]);
        loop {
            for event in events {
                pending.follow(self.parts.on(event, Time(monotonic_ns())));
            }
            events = match pending.take() {
                None | Some(parts::Effect::Leaving(LeaveEffect::End)) => break,
                Some(parts::Effect::Leaving(LeaveEffect::Revert)) => self.revert().await,
                Some(parts::Effect::Leaving(effect)) => self.carry_out_leaving(effect, &mut last)?,
                Some(effect) => self.carry_out(effect).into_iter().collect(),
            };
        }
        sources.requests().for_each(|request| self.answer(request));
        // The connections write these answers before they are closed.
        tokio::task::yield_now().await;
        let (target, rules, screen) = (&mut self.target, &mut self.rules, &mut self.screen);
        nodes::finish(target, rules, screen, &last.snapshot).await;
        self.screen.end_page(last.snapshot).await;
        match self.parts.outcome() {
            Ok(true) => Ok(Code::Done),
            Ok(false) => Ok(Code::Failed),
            Err(errors) => Err(Failure::failed(errors)),
        }
    }

    fn carry_out_leaving(&mut self, effect: LeaveEffect, last: &mut Closing) -> Result<Vec<Event>, Failure> {
        let event = match effect {
            LeaveEffect::EndLive => {
                self.screen.end_live();
                return Ok(Vec::new());
            }
            LeaveEffect::ReadLast => {
                self.measure(Measuring::read_last).map_err(kernel_failure)?;
                (self.rules.tick(monotonic_ns()).into_iter()).for_each(|act| self.record(act));
                self.measuring.summarise(&mut self.rules);
                let has_program_ended = self.measuring.profile.running().next().is_none();
                LeaveEvent::Read { has_program_ended }
            }
            LeaveEffect::Record => LeaveEvent::Recorded(error::with_causes(self.rules.finish_recording())),
            LeaveEffect::EndChanges(ending) => {
                let on_trial = self.rules.on_trial();
                let time_to_verdict = self.rules.time_to_verdict();
                return Ok(vec![Event::Changes(changes::ChangeEvent::Stop {
                    ending,
                    on_trial,
                    time_to_verdict,
                })]);
            }
            LeaveEffect::Show => return self.show_last(last),
            LeaveEffect::Write => {
                self.liveness.progress.begin(LoopStep::WriteReport);
                let (written, printout) = std::mem::take(&mut last.outputs).write(&last.snapshot);
                last.printout = Some(printout);
                LeaveEvent::Written(error::with_causes(written))
            }
            LeaveEffect::Detach => {
                let began = monotonic_ns();
                // A session that is over does not wait until the kernel is sure that no hit is in progress.
                let is_off = self.measuring.probes.detach(DETACH_WAIT);
                let took_ns = monotonic_ns().saturating_sub(began);
                LeaveEvent::Detached(is_off.then_some(took_ns))
            }
            LeaveEffect::Print => {
                last.control = None;
                let printed = last.printout.take().map_or(Ok(()), Printout::write);
                LeaveEvent::Printed(error::with_causes(printed))
            }
            // Handled by the parts and by `leave`.
            LeaveEffect::Say(_) | LeaveEffect::ReportReverts(_) | LeaveEffect::Revert | LeaveEffect::End => {
                return Ok(Vec::new());
            }
        };
        Ok(vec![Event::Leaving(event)])
    }

    /// Makes the actuator revert what does not stay, and end.
    async fn revert(&mut self) -> Vec<Event> {
        let Some(queue) = self.actuation.queue.take() else {
            return Vec::new();
        };
        // The actuator's answers have a separate time limit.
        self.liveness.progress.begin(LoopStep::Waiting);
        let (receipts, summary) = queue.finish().await;
        self.liveness.progress.begin(LoopStep::Leave);
        receipts.into_iter().for_each(|receipt| self.receive(receipt));
        vec![match summary {
            Ok(summary) => Event::Reverted {
                actuator_end: Box::new(receipts::actuator_end(&summary)),
                unnamed: summary.omitted,
            },
            Err(error) => Event::Leaving(LeaveEvent::NotKnown(error::ErrorText::new(error))),
        }]
    }

    /// Nothing follows: completes the trace, and takes the last snapshot.
    fn show_last(&mut self, last: &mut Closing) -> Result<Vec<Event>, Failure> {
        self.measure(Measuring::read_messages).map_err(kernel_failure)?;
        // For repairs that were reverted at the end, shows the command with which they stay.
        for rule in self.parts.changes.repairs_ended() {
            let command = self.showing().1.repair(&rule).stays();
            self.parts.changes.findings.stays_with(&rule, command);
        }
        let (screen, views) = self.showing();
        let mut snapshot = views.snapshot();
        views.name_call_sites(&mut screen.namer, &mut snapshot.sequence);
        views.add_series(&mut snapshot);
        last.outputs = screen.take_outputs();
        let (trace, traced) = views.end_trace(&mut last.outputs);
        snapshot.trace = trace;
        let slots = 0..views.measuring.probes.slots();
        let shown = Event::Shown {
            header: view::header(&snapshot),
            closing: view::closing(&snapshot, views.options.is_verbose),
            ended: slots
                .filter(|slot| views.target.has_ended(*slot))
                .map(process_here)
                .collect(),
            undo: views.undo_commands(),
            program: snapshot.job.program.clone(),
        };
        last.snapshot = snapshot;
        let traced = LeaveEvent::Traced(error::with_causes(traced));
        Ok(vec![Event::Leaving(traced), shown])
    }
}
