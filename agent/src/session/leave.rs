//! The end of a session: last reading, detach, put back what does not stay, report, last words.

use std::time::Duration;

use tuner::actuator::{ChangeNumber, ClientError, Farewell, Refusal, RefusalKind};

use super::{
    Session,
    act::here,
    changes::{self, Ending, Event, Machine, Undo},
    kernel_failure,
    orders::process_here,
    receipts::reverted,
};
use crate::{
    clock::monotonic_ns,
    exit::{Code, Failure, Outcome},
    format::duration,
    probe::Probes,
    profile::Metered,
    snapshot::{
        Snapshot, TraceView,
        outcome::{NOT_UNDONE, UNDONE},
    },
    trace, view,
    watchdog::Step,
};

/// So long the end of a session waits for the kernel to let go of its probes. On a machine with a CPU to spare that takes 20 to 100 ms.
const DETACH_WAIT: Duration = Duration::from_millis(300);

/// The reason when a request ends the session.
pub(super) const STOPPED: &str = "stopped by tuneagent session stop";

impl Session {
    /// With --keep a session ends by itself when everything that was changed is confirmed.
    pub(super) fn is_settled(&self) -> bool {
        self.options.keep && self.changes.is_settled()
    }

    pub(super) async fn leave(mut self, reason: &str) -> Outcome {
        // Whoever asked for the end gets the answer first.
        tokio::task::yield_now().await;
        self.liveness.progress.begin(Step::Leave);
        // Putting back may take a while: it is said line by line.
        self.painter.end();
        self.take_family().map_err(kernel_failure)?;
        self.take_last_hits().map_err(kernel_failure)?;
        self.read().map_err(kernel_failure)?;
        self.evaluate_last();
        self.summarise_recording();
        let recorded = self.rules.finish_recording();
        self.end_changes();
        let farewell = self.put_back().await;
        let mut code = Code::Done;
        if let Some(Ok(farewell)) = &farewell {
            code = self.take_note(farewell);
            self.say_how_repairs_stay();
        }
        self.read_matrix(true).map_err(kernel_failure)?;
        let mut snapshot = self.snapshot();
        self.name_call_sites(&mut snapshot.sequence);
        self.tell_loads(&mut snapshot.processes);
        let (trace, traced) = self.end_trace();
        snapshot.trace = trace;
        if self.family.is_some() {
            self.painter.say(&view::header(&snapshot));
        }
        view::closing(&snapshot, self.options.is_verbose)
            .iter()
            .for_each(|line| self.painter.say(line));
        if let Some(Err(_)) = &farewell {
            code = Code::No;
        }
        let changes = self.words_on_changes(farewell.as_ref(), &snapshot.job.program);
        self.liveness.progress.begin(Step::WriteReport);
        let Session {
            mut probes,
            mut painter,
            outputs,
            changes: all_changes,
            control,
            ..
        } = self;
        // Before anything that the kernel may take long for.
        let (written, printed) = outputs.write(&snapshot);
        let detached = detach(&mut probes);
        painter.say(&format!("{reason}; {detached}; {changes}"));
        if has_undone(&snapshot) {
            code = Code::No;
        }
        drop((all_changes, control));
        let printed = printed.write();
        written_all(code, [recorded, traced, written, printed])
    }

    /// The actuator puts back what does not stay, and ends; none in a session that has none.
    async fn put_back(&mut self) -> Option<Result<Farewell, ClientError>> {
        let hands = self.hands.take()?;
        // The actuator's answers have a bound of their own.
        self.liveness.progress.begin(Step::Waiting);
        let (last, farewell) = hands.finish().await;
        self.liveness.progress.begin(Step::Leave);
        last.into_iter().for_each(|receipt| self.receive(receipt));
        Some(farewell)
    }

    /// Nothing comes any more: the trace is complete.
    fn end_trace(&mut self) -> (Option<TraceView>, Result<(), String>) {
        let polled = |process: &Metered| process.polling_calls(self.probes.list());
        let (program, host) = (self.job.program(), self.host.clone());
        let ending = trace::Ending {
            program: &program,
            host: &host,
            not_seen: self
                .profile
                .processes
                .iter()
                .map(|process| process.sequence.unseen())
                .sum(),
            polling: self.profile.processes.iter().map(polled).sum(),
        };
        self.outputs.end_trace(&ending)
    }

    /// Nothing is decided any more, and what has not been judged never will be.
    fn end_changes(&mut self) {
        let has_ended = self.profile.processes.iter().all(|process| process.ended);
        let ending = match has_ended {
            true => Ending::Program,
            false => Ending::Session,
        };
        let on_trial = self.trials();
        self.change(Event::Stop { ending, on_trial });
    }

    /// Takes note of what the actuator put back.
    fn take_note(&mut self, farewell: &Farewell) -> Code {
        let mut code = Code::Done;
        let of = |number: &ChangeNumber| here(number.pid, number.change);
        let undone = farewell.undone.iter();
        let undone = undone.map(|(pid, undone)| {
            let undo = reverted(undone.outcome.clone());
            if matches!(undo, Undo::Failed { .. }) {
                code = Code::No;
            }
            (here(*pid, undone.change), undo)
        });
        let undone = undone.collect();
        let has_ended = |refusal: &Refusal| refusal.kind == RefusalKind::Ended;
        let failed = farewell.failed.iter();
        let failed = failed.map(|(number, refusal)| (of(number), refusal.to_string(), has_ended(refusal)));
        // A process that has ended holds nothing any more.
        let mut refusals = (farewell.failed.iter().map(|(_, refusal)| refusal))
            .chain(farewell.refused.iter().map(|(_, refusal)| refusal));
        if refusals.any(|refusal| !has_ended(refusal)) {
            code = Code::No;
        }
        let farewell_here = changes::Farewell {
            undone,
            failed: failed.collect(),
            kept: farewell.kept.iter().map(of).collect(),
        };
        self.change(Event::Farewell(Machine::HERE, farewell_here));
        for (pid, refusal) in &farewell.refused {
            self.painter.say(&format!("process {pid}: {refusal}"));
        }
        code
    }

    /// What became of all changes, for the last line.
    fn words_on_changes(
        &mut self,
        farewell: Option<&Result<Farewell, ClientError>>,
        program: &str,
    ) -> String {
        match farewell {
            None => "nothing was written".to_owned(),
            Some(Err(error)) => {
                format!("the actuator did not report what it reverted: {error}; see tuneagent journal")
            }
            Some(Ok(farewell)) => {
                (0..self.probes.slots()).for_each(|slot| self.look_whether_ended(process_here(slot)));
                let undo = self.undo_command();
                self.changes.last_words(farewell.omitted, &undo, program)
            }
        }
    }

    /// What takes back what is left in place.
    fn undo_command(&self) -> String {
        let targets = self.options.typed.split(' ');
        let commands = targets.map(|target| crate::hint::as_we_are(&format!("undo {target}")));
        commands.collect::<Vec<_>>().join("; ")
    }
}

/// Takes the probes off, in words. The kernel may take seconds to be sure that no hit is under way: a session that is over does not wait for it.
fn detach(probes: &mut Probes) -> String {
    let began = monotonic_ns();
    match probes.detach(DETACH_WAIT) {
        true => format!(
            "detached in {}",
            duration(monotonic_ns().saturating_sub(began) as f64)
        ),
        false => "detached; probes end in the background".to_owned(),
    }
}

/// What could not be written is no success.
fn written_all(code: Code, written: [Result<(), String>; 4]) -> Outcome {
    let errors: Vec<String> = written.into_iter().filter_map(Result::err).collect();
    match errors.is_empty() {
        true => Ok(code),
        false => Err(Failure::no(errors.join("\n"))),
    }
}

/// The guard took a change back.
fn has_undone(snapshot: &Snapshot) -> bool {
    let mut guards = snapshot.changes.iter().filter_map(|change| change.guard.as_ref());
    guards.any(|guard| [UNDONE, NOT_UNDONE].contains(&guard.verdict))
}
