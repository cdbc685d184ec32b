//! [`Parts`] composes the state machines of a session: it routes each event to its machine, routes effects
//! between machines, and returns those that the shell must carry out. The shell reports their results as
//! events.

mod event;
#[cfg(test)]
mod tests;

pub use self::event::{Effect, EffectQueue, Effects, Event};
use crate::{
    changes::{self, Changes, JudgedDecision, NotDone},
    decision::ResolvedDecision,
    leave::{self, Leaving},
    log::{Log, LogFile, LogHeader, Requests},
    members::{self, MachineId, MemberProcess, Members, MembersOrigin},
    request::{Answer, RefusalKind, Request},
    requests::{self, Check, RemoveResult, RequestState, RequestStep},
};
use plan::MarkKind;
use profile::format::time;
use profile::outcome::GuardVerdict;
use profile::{FindingView, GuardView, error::ErrorText};
use rules::{DecisionId, Time};

/// How a session was started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Rules may write: there is an actuator.
    pub may_write: bool,
    /// Changes that the guard confirmed stay at the end.
    pub keeps: bool,
    pub origin: MembersOrigin,
    /// What is not watched of the job.
    pub missing: Vec<String>,
    pub program: String,
    /// When its probes were armed.
    pub armed: Time,
}

/// The state machines of a session.
pub struct Parts {
    pub members: Members,
    pub changes: Changes,
    leaving: Leaving,
    requests: Requests,
    log: Log,
    may_write: bool,
    keeps: bool,
    is_of_command: bool,
    /// Why the session is over.
    over: Option<&'static str>,
    /// The answer to the last request.
    answer: Option<Answer>,
    /// Number of changes that the actuator did not name at its end; `None` if it reported nothing.
    unnamed: Option<usize>,
    has_left: bool,
}

impl Parts {
    /// The parts of a new session, with its log if there is a file for it; `check` checks added rules.
    pub fn new(setup: Setup, log: Option<LogFile>, check: Check) -> Parts {
        let Setup {
            may_write,
            keeps,
            origin,
            missing,
            program,
            armed,
        } = setup;
        Parts {
            log: Log::new(log, || LogHeader::new(program, origin, missing.clone(), armed)),
            members: Members::new(origin, missing, armed),
            changes: Changes::default(),
            leaving: Leaving::default(),
            requests: Requests(check),
            may_write,
            keeps,
            is_of_command: origin == MembersOrigin::Command,
            over: None,
            answer: None,
            unnamed: None,
            has_left: false,
        }
    }

    /// Ends the session, for this reason; only the first reason counts.
    pub fn end(&mut self, reason: &'static str) {
        self.over.get_or_insert(reason);
    }

    /// Why the session is over, if it is.
    pub fn over(&self) -> Option<&'static str> {
        self.over
    }

    /// Takes the answer to a request.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.answer.take()
    }

    /// Completes the log. Returns the result of the session: true if all went well; the error names what
    /// could not be written.
    pub fn outcome(mut self) -> Result<bool, leave::NotWritten> {
        let log_error = self.log.complete().err();
        let is_fine = self.leaving.outcome(log_error.map(ErrorText::new))?;
        Ok(is_fine && !self.members.has_crashed_after_change)
    }

    /// Decisions for which the rules no longer wait, because they became stale or their rule was switched or
    /// removed. They must not be carried out any more.
    pub fn given_up(&self, awaits: impl Fn(DecisionId) -> bool) -> Vec<Event> {
        let given_up = self.changes.waiting().filter(|decision| !awaits(*decision));
        given_up
            .map(changes::ChangeEvent::GaveUp)
            .map(Event::Changes)
            .collect()
    }

    /// A process has ended or runs another program: its changes no longer exist.
    pub fn ended(&mut self, process: MemberProcess, now: Time) {
        self.log
            .on(&mut self.changes, changes::ChangeEvent::Ended(process), now);
    }

    /// Passes an event to the members; returns the effects to carry out for them.
    pub fn members_on(&mut self, event: members::MemberEvent, now: Time) -> members::MemberEffects {
        let mut effects = self.log.on(&mut self.members, event, now);
        effects.retain(|effect| match effect {
            members::MemberEffect::Finish(reason) => {
                self.over.get_or_insert(*reason);
                false
            }
            _ => true,
        });
        effects
    }

    /// Takes an event; returns the effects to carry out.
    pub fn on(&mut self, event: Event, now: Time) -> Effects {
        match event {
            Event::Found { finding, is_new } => self.found(finding, is_new),
            Event::Gone { rule, at } => {
                self.changes.findings.close(&rule, at);
                Effects::new()
            }
            Event::Decided(decision) => self.decided(decision),
            Event::Judged(mut judged, step) => {
                judged.guard = in_the_users_unit(judged.guard, step);
                let mut effects = self.record_verdict(&judged);
                effects.extend(self.changes_on(changes::ChangeEvent::Judged(judged), now));
                effects
            }
            Event::Changes(event) => self.changes_on(event, now),
            Event::ProbesSwitched(of, result) => self.probes_switched(of, result, now),
            Event::NotMeasured(text) => {
                self.members_on(members::MemberEvent::NotMeasured(text.clone()), now);
                vec![Effect::Say(text)]
            }
            Event::Tick => self.tick(now),
            Event::Request(request) => self.request(request, now),
            Event::Listed(result) => self.listed(result),
            Event::Switched(rule, mode, result, unknown) => {
                let result = result.as_deref().map_err(|refused| *refused);
                self.steps(requests::switched(&rule, mode, result, || unknown))
            }
            Event::Added(rule, mode, result) => self.steps(requests::added(rule, mode, result)),
            Event::Removed { rule, keeps, result } => self.removed(rule, keeps, result, now),
            Event::Stop(reason) => self.stop(reason, now),
            Event::Reverted {
                actuator_end,
                unnamed,
            } => {
                self.unnamed = Some(unnamed);
                self.leaving_on(leave::LeaveEvent::Reverted(actuator_end), now)
            }
            Event::Shown {
                header,
                closing,
                ended,
                undo,
                program,
            } => {
                let ready = leave::LeaveEvent::Ready {
                    header,
                    closing,
                    has_reverted: self.has_reverted(),
                    changes: self.summary(ended, undo, program, now),
                };
                self.leaving_on(ready, now)
            }
            Event::Leaving(event) => self.leaving_on(event, now),
        }
    }

    /// Switching probes back is not a verdict on a change.
    fn record_verdict(&self, judged: &JudgedDecision) -> Effects {
        let kind = if judged.keeps {
            MarkKind::Kept
        } else {
            MarkKind::Reverted
        };
        let record = Effect::Record(kind, judged.rule.clone(), judged.guard.sentence());
        let is_switch = self.changes.is_switch(judged.decision);
        (!is_switch).then_some(record).into_iter().collect()
    }

    /// Several tunes of a rule share one finding.
    fn found(&mut self, finding: FindingView, is_new: bool) -> Effects {
        let is_said = is_new && !self.changes.findings.is_open(&finding.rule);
        let effects = match is_said {
            true => found(&finding),
            false => Effects::new(),
        };
        self.changes.findings.open(finding);
        effects
    }

    fn decided(&self, decision: Box<ResolvedDecision>) -> Effects {
        // While the session ends nothing new is begun.
        if self.has_left {
            return Effects::new();
        }
        // Probes belong to the session: switching them writes nothing.
        if self.may_write || !decision.switches.is_empty() {
            return vec![Effect::Resolve(decision)];
        }
        let refused = NotDone::for_good("this session does not write");
        vec![Effect::Result(decision.id, Err(refused))]
    }

    fn listed(&mut self, result: Result<Answer, ErrorText>) -> Effects {
        let failed = |error: ErrorText| Answer::refused(RefusalKind::Failed, error.to_string());
        self.answer = Some(result.unwrap_or_else(failed));
        Effects::new()
    }

    /// `of` is the decision; `None` if probes are switched back.
    fn probes_switched(
        &mut self,
        of: Option<DecisionId>,
        result: Result<(), ErrorText>,
        now: Time,
    ) -> Effects {
        match (of, result) {
            (Some(decision), result) => {
                self.changes_on(changes::ChangeEvent::Switched(decision, result), now)
            }
            (None, Ok(())) => Effects::new(),
            (None, Err(error)) => {
                vec![Effect::SayWhen(format!(
                    "probes could not be switched back: {error}"
                ))]
            }
        }
    }

    fn tick(&mut self, now: Time) -> Effects {
        let effects = self.changes_on(changes::ChangeEvent::Tick, now);
        if self.keeps && self.changes.is_settled() {
            self.end("all changes are confirmed");
        }
        effects
    }

    fn stop(&mut self, reason: &str, now: Time) -> Effects {
        self.has_left = true;
        let stop = leave::LeaveEvent::Stop {
            reason: reason.to_owned(),
            is_of_command: self.is_of_command,
            has_actuator: self.may_write,
        };
        self.leaving_on(stop, now)
    }

    fn changes_on(&mut self, event: changes::ChangeEvent, now: Time) -> Effects {
        let mut effects = Effects::new();
        for effect in self.log.on(&mut self.changes, event, now) {
            match effect {
                changes::ChangeEffect::Order(machine, order) => effects.push(Effect::Order(machine, order)),
                changes::ChangeEffect::Say(notice @ changes::ChangeNotice::Switched { .. }) => {
                    effects.push(Effect::SayDetail(notice.to_string()));
                }
                changes::ChangeEffect::Say(notice) => {
                    effects.push(Effect::SayWhen(notice.to_string()));
                    if let Some((kind, name, text)) = notice.mark() {
                        effects.extend(marks(kind, name, text));
                    }
                }
                changes::ChangeEffect::Result(decision, result) => {
                    effects.push(Effect::Result(decision, result))
                }
                changes::ChangeEffect::Switch(decision, switches) => {
                    effects.push(Effect::SwitchProbes(Some(decision), switches));
                }
                changes::ChangeEffect::SwitchBack(switches) => {
                    effects.push(Effect::SwitchProbes(None, switches))
                }
                changes::ChangeEffect::NoRoom(_, order) => effects.push(Effect::Dropped(order)),
                // The end waits for the actuator, and says the summary.
                changes::ChangeEffect::Finish | changes::ChangeEffect::Summary(_) => {}
            }
        }
        effects
    }

    fn request(&mut self, request: Request, now: Time) -> Effects {
        let state = match (self.has_left, self.may_write) {
            (true, _) => RequestState::Leaves,
            (false, true) => RequestState::MayWrite,
            (false, false) => RequestState::Watches,
        };
        let steps = match state {
            // Requests that come while the session ends are answered when the log is about to be complete.
            RequestState::Leaves => requests::steps(request, state, self.requests.0),
            _ => self.log.on(&mut self.requests, (request, state), now),
        };
        self.steps(steps)
    }

    fn steps(&mut self, steps: Vec<RequestStep>) -> Effects {
        let mut effects = Effects::new();
        for step in steps {
            match step {
                RequestStep::Answer(answer) => self.answer = Some(answer),
                RequestStep::End(reason) => self.end(reason),
                RequestStep::Say(notice) => effects.push(Effect::Say(notice.to_string())),
                RequestStep::Do(task) => effects.push(Effect::Do(task)),
            }
        }
        effects
    }

    fn removed(&mut self, rule: String, keeps: bool, result: RemoveResult, now: Time) -> Effects {
        let failure = match result {
            RemoveResult::Removed => None,
            RemoveResult::StillProbed(why) => Some(why),
            RemoveResult::NoSuchRule(why) => {
                return self.steps(requests::refused(RefusalKind::NotThere, why));
            }
        };
        let in_force = self.changes.in_force_of(&rule).count();
        let removed = changes::ChangeEvent::Removed {
            rule: rule.clone(),
            keeps,
        };
        let mut effects = self.changes_on(removed, now);
        effects.extend(self.steps(match failure {
            None => requests::removed(rule, keeps, in_force),
            Some(why) => requests::refused(RefusalKind::Failed, why),
        }));
        effects
    }

    fn leaving_on(&mut self, event: leave::LeaveEvent, now: Time) -> Effects {
        let mut effects = Effects::new();
        for effect in self.log.on(&mut self.leaving, event, now) {
            match effect {
                leave::LeaveEffect::Say(line) => effects.push(Effect::Say(line)),
                leave::LeaveEffect::ReportReverts(reverts) => {
                    let reverts = changes::ChangeEvent::ActuatorEnded(MachineId::HERE, reverts);
                    effects.extend(self.changes_on(reverts, now));
                }
                effect => effects.push(Effect::Leaving(effect)),
            }
        }
        effects
    }

    /// Whether a guard reverted a change, or failed to.
    fn has_reverted(&self) -> bool {
        let views = self.changes.views(&[]);
        let mut guards = views.iter().filter_map(|change| change.guard.as_ref());
        guards.any(|guard| matches!(guard.verdict, GuardVerdict::Reverted | GuardVerdict::NotReverted))
    }

    /// The state of all changes; empty if the actuator did not report it.
    fn summary(&mut self, ended: Vec<MemberProcess>, undo: String, program: String, now: Time) -> String {
        let Some(unknown) = self.unnamed else {
            return String::new();
        };
        ended.into_iter().for_each(|process| self.ended(process, now));
        let event = changes::ChangeEvent::Summary {
            unknown,
            undo,
            program,
        };
        let effects = self.log.on(&mut self.changes, event, now).into_iter();
        let mut words = effects.filter_map(|effect| match effect {
            changes::ChangeEffect::Summary(words) => Some(words),
            _ => None,
        });
        words.next().unwrap_or_default()
    }
}

/// Appends the time of an iteration in brackets, if it is known, unless the objective is a duration already.
/// If the number of workers changes, the way in which iterations are detected changes too: their times would
/// not be comparable.
fn in_the_users_unit(mut guard: GuardView, step: Option<String>) -> GuardView {
    if let Some(step) = step.filter(|_| !guard.text.contains(".duration")) {
        guard.text = format!("{} ({step})", guard.text);
    }
    guard
}

fn found(finding: &FindingView) -> Effects {
    let FindingView { rule, text, at, .. } = finding;
    let at = time(*at);
    let indented = text.trim_end().replace('\n', "\n    ");
    let said = Effect::Say(format!("finding  {rule} (at {at})   {indented}"));
    [said]
        .into_iter()
        .chain(marks(MarkKind::Finding, rule, text))
        .collect()
}

/// Marks this moment in the trace and in the recording. Verdicts are recorded where they are judged.
fn marks(kind: MarkKind, name: &str, text: &str) -> impl Iterator<Item = Effect> {
    let (name, text) = (name.to_owned(), text.to_owned());
    let recorded = (kind != MarkKind::Verdict).then(|| Effect::Record(kind, name.clone(), text.clone()));
    [Effect::Trace(kind, name, text)].into_iter().chain(recorded)
}
