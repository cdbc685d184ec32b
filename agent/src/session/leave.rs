//! The end of a session: last reading, detach, put back what does not stay, report, last words.

use std::time::Duration;

use tuner::{
    actuator::{ChangeNumber, ClientError, Farewell, RefusalKind},
    journal::RevertOutcome,
};

use super::{
    Session, kernel_failure,
    ledger::{REVERTED, UNDONE},
    meter::Metered,
    probes::Probes,
};
use crate::{
    clock::monotonic_ns,
    exit::{Code, Failure, Outcome},
    format::{duration, plural},
    snapshot::{Snapshot, TraceView},
    trace::Ending,
    view,
    watchdog::Step,
};

/// So long the end of a session waits for the kernel to let go of its probes. On a machine with a CPU to spare that takes 20 to 100 ms.
const DETACH_WAIT: Duration = Duration::from_millis(300);

/// The reason when a request ends the session.
pub(super) const STOPPED: &str = "stopped by tuneagent session stop";

impl Session {
    /// With --keep a session ends by itself when everything that was changed is confirmed.
    pub(super) fn is_settled(&self) -> bool {
        let (in_force, confirmed) = self.ledger.in_force();
        let is_quiet = !self.ledger.is_waiting() && self.ledger.again.is_empty();
        self.options.keep && in_force > 0 && in_force == confirmed && is_quiet
    }

    pub(super) async fn leave(mut self, reason: &str) -> Outcome {
        // Whoever asked for the end gets the answer first.
        tokio::task::yield_now().await;
        self.pace.progress.begin(Step::Leave);
        // Putting back may take a while: it is said line by line.
        self.painter.end();
        self.take_family().map_err(kernel_failure)?;
        self.take_last_hits().map_err(kernel_failure)?;
        self.read().map_err(kernel_failure)?;
        self.evaluate_last();
        self.summarise_recording();
        let recorded = self.rules.finish_recording();
        self.end_trials();
        let farewell = self.put_back().await;
        let mut code = Code::Done;
        if let Some(Ok(farewell)) = &farewell {
            code = self.take_note(farewell);
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
        view::closing(&snapshot)
            .iter()
            .for_each(|line| self.painter.say(line));
        self.pace.progress.begin(Step::WriteReport);
        let Session {
            mut probes,
            mut painter,
            outputs,
            options,
            ledger,
            control,
            ..
        } = self;
        // Before anything that the kernel may take long for.
        let (written, printed) = outputs.write(&snapshot);
        let detached = detach(&mut probes);
        let changes = match &farewell {
            None => "nothing was written".to_owned(),
            Some(Err(error)) => {
                code = Code::No;
                format!("the actuator did not say what it put back: {error}; tuneagent journal tells")
            }
            Some(Ok(farewell)) => last_words(
                farewell,
                snapshot.changes.len(),
                &options.typed,
                &snapshot.job.program,
            ),
        };
        painter.say(&format!("{reason}; {detached}; {changes}"));
        if has_undone(&snapshot) {
            code = Code::No;
        }
        drop((ledger, control));
        let printed = printed.write();
        written_all(code, [recorded, traced, written, printed])
    }

    /// The actuator puts back what does not stay, and ends; none in a session that has none.
    async fn put_back(&mut self) -> Option<Result<Farewell, ClientError>> {
        let hands = self.hands.take()?;
        // The actuator's answers have a bound of their own.
        self.pace.progress.begin(Step::Waiting);
        let (last, farewell) = hands.finish().await;
        self.pace.progress.begin(Step::Leave);
        last.into_iter().for_each(|receipt| self.receive(receipt));
        Some(farewell)
    }

    /// Nothing comes any more: the trace is complete.
    fn end_trace(&mut self) -> (Option<TraceView>, Result<(), String>) {
        let polled = |process: &Metered| process.polling_calls(self.probes.list());
        let (program, host) = (self.job.program(), self.host.clone());
        let ending = Ending {
            program: &program,
            host: &host,
            not_seen: self
                .processes
                .iter()
                .map(|process| process.sequence.unseen())
                .sum(),
            polling: self.processes.iter().map(polled).sum(),
        };
        self.outputs.end_trace(&ending)
    }

    /// Enters into the ledger what the actuator put back.
    fn take_note(&mut self, farewell: &Farewell) -> Code {
        let mut code = Code::Done;
        for (pid, undone) in &farewell.undone {
            let outcome = match &undone.outcome {
                RevertOutcome::Reverted => REVERTED.to_owned(),
                RevertOutcome::ChangedSince(_) => "left alone: the program changed it since".to_owned(),
                RevertOutcome::Failed(reason) => {
                    code = Code::No;
                    format!("not put back: {reason}")
                }
            };
            self.ledger.set_outcome(*pid, undone.change, &outcome);
        }
        for (number, refusal) in &farewell.failed {
            // A process that has ended holds nothing any more.
            if refusal.kind != RefusalKind::Ended {
                code = Code::No;
            }
            self.ledger
                .set_outcome(number.pid, number.change, &format!("not put back: {refusal}"));
        }
        for (pid, refusal) in &farewell.refused {
            if refusal.kind != RefusalKind::Ended {
                code = Code::No;
            }
            self.painter.say(&format!("process {pid}: {refusal}"));
        }
        code
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
        false => "probes end in the background".to_owned(),
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
    guards.any(|guard| guard.verdict == UNDONE)
}

fn last_words(farewell: &Farewell, made: usize, target: &str, program: &str) -> String {
    let back = farewell
        .undone
        .iter()
        .filter(|(_, undone)| undone.outcome == RevertOutcome::Reverted)
        .count();
    let ended = farewell
        .failed
        .iter()
        .filter(|(_, refusal)| refusal.kind == RefusalKind::Ended)
        .count();
    let left = farewell.undone.len() - back + farewell.failed.len() - ended;
    let failed = |number: &ChangeNumber| farewell.failed.iter().any(|(failed, _)| *failed == *number);
    let kept = farewell.kept.iter().filter(|number| !failed(number)).count();
    let mut words = Vec::new();
    if kept > 0 {
        words.push(format!(
            "{} left in place until {program} ends. Take it back: {}",
            plural(kept, "change"),
            target
                .split(' ')
                .map(|target| crate::commands::as_we_are(&format!("undo {target}")))
                .collect::<Vec<_>>()
                .join("; "),
        ));
    }
    if back > 0 {
        words.push(format!("{} put back", plural(back, "change")));
    }
    if left > 0 {
        words.push(format!(
            "{} could not be put back (tuneagent journal tells why)",
            plural(left, "change")
        ));
    }
    match (words.is_empty(), made) {
        (true, 0) => "nothing was changed".to_owned(),
        (true, _) => format!("what was changed ended with {program}"),
        (false, _) => words.join("; "),
    }
}
