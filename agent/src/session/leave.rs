//! The end of a session: last reading, detach, put back what does not stay, report, last words.

use std::time::Duration;

use tuner::{
    actuator::{ChangeNumber, ClientError, Farewell, RefusalKind},
    journal::RevertOutcome,
    process::Pid,
};

use super::{
    Session, kernel_failure,
    meter::Metered,
    standing::{Left, Standing, last_words},
};
use crate::{
    clock::monotonic_ns,
    exit::{Code, Failure, Outcome},
    format::duration,
    probe::Probes,
    snapshot::{
        Snapshot, TraceView,
        outcome::{LEFT_ALONE, NOT_UNDONE, REVERTED, UNDONE},
    },
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
        let mut strangers = Vec::new();
        if let Some(Ok(farewell)) = &farewell {
            (code, strangers) = self.take_note(farewell);
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
        let changes = self.words_on_changes(farewell.as_ref(), strangers, &snapshot.job.program);
        self.pace.progress.begin(Step::WriteReport);
        let Session {
            mut probes,
            mut painter,
            outputs,
            ledger,
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

    /// Enters into the ledger what the actuator put back; what it was of changes that are not there, as of processes that were forked.
    fn take_note(&mut self, farewell: &Farewell) -> (Code, Vec<Left>) {
        let (mut code, mut strangers) = (Code::Done, Vec::new());
        let mut stranger = |standing| {
            strangers.push(Left {
                standing,
                is_gone: false,
                text: String::new(),
            });
        };
        for (pid, undone) in &farewell.undone {
            let (outcome, standing) = match &undone.outcome {
                RevertOutcome::Reverted => {
                    // One that could not be taken back before, if a guard wanted it: its verdict holds now.
                    self.ledger.heard_of_undo((*pid, undone.change), None);
                    (REVERTED.to_owned(), Standing::Back)
                }
                RevertOutcome::ChangedSince(_) => (LEFT_ALONE.to_owned(), Standing::LeftAlone),
                RevertOutcome::Failed(reason) => {
                    code = Code::No;
                    (format!("not put back: {reason}"), Standing::NotBack)
                }
            };
            if !self.ledger.set_outcome(*pid, undone.change, &outcome, standing) {
                stranger(standing);
            }
        }
        for (number, refusal) in &farewell.failed {
            let has_ended = refusal.kind == RefusalKind::Ended;
            // A process that has ended holds nothing any more.
            if !has_ended {
                code = Code::No;
            }
            let outcome = format!("not put back: {refusal}");
            let ChangeNumber { pid, change } = *number;
            let is_known = self.ledger.set_outcome(pid, change, &outcome, Standing::NotBack);
            if !is_known && !has_ended {
                stranger(Standing::NotBack);
            }
        }
        for (pid, refusal) in &farewell.refused {
            if refusal.kind != RefusalKind::Ended {
                code = Code::No;
            }
            self.painter.say(&format!("process {pid}: {refusal}"));
        }
        let failed = |number: &ChangeNumber| farewell.failed.iter().any(|(failed, _)| *failed == *number);
        for number in farewell.kept.iter().filter(|number| !failed(number)) {
            if !self.ledger.set_kept(number.pid, number.change) {
                stranger(Standing::Kept);
            }
        }
        (code, strangers)
    }

    /// What became of all changes, for the last line.
    fn words_on_changes(
        &self,
        farewell: Option<&Result<Farewell, ClientError>>,
        strangers: Vec<Left>,
        program: &str,
    ) -> String {
        match farewell {
            None => "nothing was written".to_owned(),
            Some(Err(error)) => {
                format!("the actuator did not say what it put back: {error}; tuneagent journal tells")
            }
            Some(Ok(farewell)) => {
                let mut left = self.left();
                left.extend(strangers);
                last_words(&left, farewell.omitted, &self.undo_command(), program)
            }
        }
    }

    /// How every change of the session stands.
    fn left(&self) -> Vec<Left> {
        let standings = self.ledger.standings();
        let left = standings.map(|(pid, standing, text)| Left {
            standing,
            is_gone: !pid.is_alive() || self.runs_another_program(pid),
            text: text.to_owned(),
        });
        left.collect()
    }

    fn runs_another_program(&self, pid: Pid) -> bool {
        let mut of = self.job.members.iter().filter(|member| member.process.pid == pid);
        of.any(|member| member.space.is_gone())
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
