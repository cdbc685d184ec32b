//! What comes in through the control socket: every request is answered, and only `switch`, `add`, `remove` and `stop` change anything.

use tokio::sync::oneshot;

use super::{Session, leave};
use crate::{
    clock::monotonic_ns,
    report,
    request::{Answer, Mode, RefusalKind, Request, SessionView},
    rulebook::NotSwitched,
};

/// Processes that are listed; the snapshot has all.
const PIDS_MAX: usize = 4096;

/// A session without hands never gets any: who was started to watch watches.
pub(super) const CANNOT_WRITE: &str =
    "this session was started without --apply and cannot write: start another one with it";

impl Session {
    /// Answers a request; gives the reason when the session is over.
    pub(super) fn answer(&mut self, request: Request, to: oneshot::Sender<Answer>) -> Option<&'static str> {
        let (answer, reason) = match request {
            Request::List => (Answer::Session(Box::new(self.session_view())), None),
            Request::Snapshot => (self.report_now(), None),
            Request::Switch { rule, mode } => (self.switch(&rule, mode), None),
            Request::Add { given, mode } => (self.add_rule(&given, mode), None),
            Request::Remove { rule, keep } => (self.remove_rule(&rule, keep), None),
            Request::Stop => (Answer::Stopping, Some(leave::STOPPED)),
        };
        // Whoever asked may be gone; what was asked for is done.
        let _ = to.send(answer);
        reason
    }

    fn session_view(&self) -> SessionView {
        let snapshot = self.snapshot();
        let launcher = snapshot.job.launcher.into_iter();
        let rules = snapshot.rules.into_iter();
        SessionView {
            pid: std::process::id(),
            program: snapshot.job.program,
            user: snapshot.job.user,
            pids: launcher
                .chain(snapshot.processes.iter().map(|process| process.pid))
                .take(PIDS_MAX)
                .collect(),
            applies: self.options.applies,
            elapsed_s: snapshot.elapsed.as_secs_f64(),
            rules: rules
                .map(|rule| (rule.name, rule.mode.to_owned(), rule.state))
                .collect(),
        }
    }

    fn report_now(&mut self) -> Answer {
        // While nothing happens the last reading may be seconds old.
        let read = self.read().and_then(|()| self.read_matrix(true));
        if let Err(error) = read {
            return Answer::refused(RefusalKind::Failed, error.to_string());
        }
        let text = report::render(&self.snapshot());
        match text.and_then(|text| serde_json::from_str(&text)) {
            Ok(report) => Answer::Report(report),
            Err(error) => Answer::refused(RefusalKind::Failed, error.to_string()),
        }
    }

    pub(super) fn switch(&mut self, rule: &str, mode: Mode) -> Answer {
        if mode == Mode::Applying && !self.options.applies {
            return Answer::refused(RefusalKind::NotPermitted, CANNOT_WRITE);
        }
        let (before, acts) = match self.rules.switch(rule, mode, monotonic_ns()) {
            Ok(switched) => switched,
            Err(NotSwitched::NoSuchRule) => {
                return Answer::refused(RefusalKind::NotThere, self.rules.unknown(rule));
            }
            Err(NotSwitched::Stays) => {
                return Answer::refused(
                    RefusalKind::NotPermitted,
                    format!(
                        "{rule} makes a call without an `inverse`, which this session could not revert at its end: start another \
                         session with --keep"
                    ),
                );
            }
            Err(NotSwitched::NotNamed) => {
                return Answer::refused(
                    RefusalKind::NotPermitted,
                    format!(
                        "{rule} changes code or loads libraries, which only rules that --apply named may: start another \
                         session with --apply={rule}"
                    ),
                );
            }
        };
        for act in acts {
            self.take_note_of(act);
        }
        self.give_up();
        if before != mode.name() {
            self.painter
                .say(&format!("{rule} switched from {before} to {}", mode.name()));
        }
        Answer::Switched {
            before: before.to_owned(),
        }
    }
}
