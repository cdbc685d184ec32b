//! What an event makes happen: what `members`, `changes` and `requests` decide is carried out. Decides nothing.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use plan::MarkKind;
use rules::CheckedRule;
use tokio::sync::oneshot;

use super::{
    Session,
    actuator_queue::OrderReceipt,
    changes::{ChangeEffect, ChangeEvent, MemberProcess, NotDone},
    log::Requests,
    members::{self, MachineId},
    orders::{Path, Resolver},
    prefetch,
    requests::{self, NotAdded, RequestState, RequestStep},
    target::{Read, candidate},
};
use crate::{
    clock::monotonic_ns,
    kernel::{Kernel, KernelError},
    request::{Answer, Given, Mode, RefusalKind, Request},
    rulebook::{self, Act, ProbeSwitch, ResolvedDecision, Time},
    snapshot::{FindingView, GuardView},
    view::{Input, Wish},
};

/// So long the receipt of a value is waited for where nobody else wants the CPU: no longer than hits are looked for at a time.
const RECEIPT: Duration = Duration::from_millis(2);

// What rules decide, and what becomes of it.
impl Session {
    /// Closes windows that are over and does what the rules say.
    pub(super) fn evaluate(&mut self, begun_ns: u64) {
        let acts = self.rules.tick(begun_ns);
        let evaluated_ns = monotonic_ns();
        for act in acts {
            match act {
                Act::Decided(decision) => {
                    let id = decision.id;
                    self.decided(decision);
                    let path = Path {
                        begun_ns,
                        evaluated_ns,
                        ordered_ns: monotonic_ns(),
                    };
                    // Nobody else wants that CPU, but for the actuator.
                    let longest = self.options.busy_poll.then_some(RECEIPT);
                    self.actuation.ordered(id, path, longest);
                }
                other => self.take_note_of(other),
            }
        }
        self.give_up();
    }

    /// What the rules wait for no longer, for it grew stale or its rule was switched or removed, is not to be done any more.
    pub(super) fn give_up(&mut self) {
        let given_up: Vec<u64> = (self.changes.waiting())
            .filter(|decision| !self.rules.awaits(*decision))
            .collect();
        for decision in given_up {
            self.change(ChangeEvent::GaveUp(decision));
        }
    }

    /// The same at the end of the session, when nothing new is begun.
    pub(super) fn evaluate_last(&mut self) {
        for act in self.rules.tick(monotonic_ns()) {
            self.take_note_of(act);
        }
    }

    pub(super) fn take_note_of(&mut self, act: Act) {
        match act {
            Act::Found {
                rule,
                text,
                next_start,
                is_new,
            } => self.found(rule, text, next_start, is_new),
            Act::Gone { rule } => self.changes.findings.close(&rule),
            Act::Judged {
                decision,
                rule,
                guard,
                keeps,
                slots,
            } => self.judged((decision, rule), guard, keeps, slots),
            Act::Decided(_) => {}
        }
    }

    fn decided(&mut self, decision: ResolvedDecision) {
        if self.actuation.queue.is_none() {
            let refused = Err(NotDone::for_good("this session does not write"));
            self.rules.receipt(decision.id, refused, monotonic_ns());
            return;
        }
        let (id, rule) = (decision.id, decision.rule.clone());
        match self.resolver().resolve(decision) {
            Ok((decided, ordered)) => {
                self.actuation.ordered.insert(id, ordered);
                self.change(ChangeEvent::Decided(decided));
                self.actuation.forget_answered(id, &self.changes);
            }
            Err(reason) => self.change(ChangeEvent::NotOrdered {
                decision: id,
                rule,
                reason,
            }),
        }
    }

    fn judged(
        &mut self,
        (decision, rule): (u64, String),
        mut guard: GuardView,
        keeps: bool,
        slots: Option<BTreeSet<u32>>,
    ) {
        // A duration is in the user's unit already. Where the number of workers changes, so does what a step is found by: the time of a step
        // would then be another thing before and after.
        if !guard.text.contains(".duration")
            && let Some(step) = self.views().step_around(decision)
        {
            guard.text = format!("{step}; {}", guard.text);
        }
        let kind = if keeps { MarkKind::Kept } else { MarkKind::Undone };
        self.rules.record_mark(kind, &rule, &guard.text, monotonic_ns());
        self.change(ChangeEvent::Judged {
            decision,
            rule,
            guard,
            keeps,
            slots,
        });
    }

    /// Takes an event of the changes in, and does what follows from it.
    pub(super) fn change(&mut self, event: ChangeEvent) {
        let effects = self.log.on(&mut self.changes, event, Time(monotonic_ns()));
        for effect in effects {
            match effect {
                ChangeEffect::Order(machine, order) => {
                    if !self.actuation.order(&order) {
                        self.change(ChangeEvent::NoRoom(machine, order));
                    }
                }
                ChangeEffect::Say(notice) => {
                    self.screen.say_when(&notice);
                    if let Some((kind, name, text)) = notice.mark() {
                        self.mark(kind, name, text);
                    }
                }
                ChangeEffect::Result(decision, result) => {
                    self.rules.receipt(decision, result, monotonic_ns());
                }
                ChangeEffect::Switch(decision, switches) => {
                    let result = self.switch_probes(&switches);
                    self.change(ChangeEvent::Switched(decision, result));
                }
                ChangeEffect::SwitchBack(switches) => self.switch_back(&switches),
                // What is neither confirmed nor undone now is put back at the end.
                ChangeEffect::NoRoom(_, order) => tracing::warn!(?order, "too many orders wait"),
                // `leave` waits for the actuator, and says the last words.
                ChangeEffect::Finish | ChangeEffect::LastWords(_) => {}
            }
        }
    }

    pub(super) fn resolver(&self) -> Resolver<'_> {
        Resolver {
            target: &self.target,
            processes: &self.measuring.profile.processes,
            start: &self.start,
        }
    }

    /// Marks this moment in the trace and in the recording, if they are written.
    pub(super) fn mark(&mut self, kind: MarkKind, name: &str, text: &str) {
        let now_ns = monotonic_ns();
        if let Some(trace) = self.screen.trace() {
            trace.mark(kind.name(), name, text, now_ns);
        }
        // A verdict is recorded with its rule, where it is judged.
        if kind != MarkKind::Verdict {
            self.rules.record_mark(kind, name, text, now_ns);
        }
    }

    /// A process that has ended or runs another program needs nothing any more of what was decided for it, and holds nothing.
    pub(super) fn look_whether_ended(&mut self, process: MemberProcess) {
        if self.target.has_ended(process.slot) {
            self.change(ChangeEvent::Ended(process));
        }
    }

    pub(super) fn found(&mut self, rule: String, text: String, next_start: Option<String>, is_new: bool) {
        // Several tunes of a rule have one finding.
        if is_new && !self.changes.findings.is_open(&rule) {
            let indented = text.trim_end().replace('\n', "\n    ");
            self.screen.say(&format_args!("finding  {rule}   {indented}"));
            self.mark(MarkKind::Finding, &rule, &text);
        }
        let now = self.views().advice(&rule);
        self.changes.findings.open(FindingView {
            rule,
            at: self.start.since_armed(),
            text,
            now,
            next_start,
            repaired: false,
        });
    }

    /// Of repairs that were put back at the end, with what command they stay.
    pub(super) fn say_how_repairs_stay(&mut self) {
        for rule in self.changes.repairs_ended() {
            let command = self.views().repair(&rule).stays();
            self.changes.findings.stays_with(&rule, command);
        }
    }

    /// Switches probes that rules ask for: they are the session's own, so nothing is written and it is done at once. What is counted up to now
    /// belongs to the state before.
    fn switch_probes(&mut self, switches: &[ProbeSwitch]) -> Result<(), String> {
        let taken = self.take_all_hits();
        let (measuring, mut context) = self.measuring();
        let switched = taken.and_then(|()| measuring.switch_probes(&mut context, switches));
        switched.map_err(|error| error.to_string())
    }

    /// Puts switches back that a verdict takes back.
    pub(super) fn switch_back(&mut self, back: &[ProbeSwitch]) {
        if let Err(error) = self.switch_probes(back) {
            self.screen
                .say_when(&format_args!("probes could not be switched back: {error}"));
        }
    }

    /// An answer of the actuator.
    pub(super) fn receive(&mut self, receipt: OrderReceipt) {
        let Some(event) = self.actuation.answered(receipt) else {
            return;
        };
        if let Some(process) = self.changes.failed_in(&event) {
            self.look_whether_ended(process);
        }
        let ChangeEvent::Receipt { decision, .. } = event else {
            return self.change(event);
        };
        // What was written for a decision that nobody waits for is taken back.
        if !self.rules.awaits(decision) {
            self.change(ChangeEvent::GaveUp(decision));
        }
        self.change(event);
        self.actuation.forget_answered(decision, &self.changes);
    }
}

// Who belongs to the job.
impl Session {
    /// Takes an event of the members in, and carries out what follows; gives the reason when the session is over.
    pub(super) fn members_on(
        &mut self,
        event: members::MemberEvent,
    ) -> Result<Option<&'static str>, KernelError> {
        self.members_on_with(event, Read::new())
    }

    /// What follows from an effect comes before the effects that are left.
    fn members_on_with(
        &mut self,
        event: members::MemberEvent,
        mut read: Read,
    ) -> Result<Option<&'static str>, KernelError> {
        let (mut over, mut events, mut effects) = (None, vec![event], VecDeque::new());
        loop {
            let mut first = Vec::new();
            for event in events.drain(..) {
                first.extend(self.log.on(&mut self.members, event, Time(monotonic_ns())));
            }
            for effect in first.into_iter().rev() {
                effects.push_front(effect);
            }
            match effects.pop_front() {
                None => return Ok(over),
                Some(members::MemberEffect::Finish(reason)) => over = Some(reason),
                Some(effect) => events = self.carry_out_for_members(effect, &mut read)?,
            }
        }
    }

    fn carry_out_for_members(
        &mut self,
        effect: members::MemberEffect,
        read: &mut Read,
    ) -> Result<Vec<members::MemberEvent>, KernelError> {
        match &effect {
            members::MemberEffect::Scan(_) => return self.scan(read),
            members::MemberEffect::CheckChanges(process) => self.look_whether_ended(*process),
            members::MemberEffect::End(_) => self.take_all_hits()?,
            _ => {}
        }
        let is_newcomer = matches!(effect, members::MemberEffect::Watch { slot: None, .. });
        let (measuring, mut context) = self.measuring();
        let events = measuring.carry_out(&mut context, effect, read)?;
        if is_newcomer && matches!(events.as_slice(), [members::MemberEvent::Watched { .. }]) {
            let newest = self.target.job.members.last().map(std::slice::from_ref);
            prefetch::look_up(
                self.actuation.queue.as_ref(),
                &self.rules,
                newest.unwrap_or_default(),
            );
        }
        Ok(events)
    }

    /// Looks for processes that are not known.
    fn scan(&mut self, read: &mut Read) -> Result<Vec<members::MemberEvent>, KernelError> {
        self.measuring.settle(&mut self.target)?;
        let known = self.members.known(MachineId::HERE);
        let Some(found) = self.target.find(&known) else {
            return Ok(Vec::new());
        };
        // Some of them may have been told of meanwhile, and may have ended since.
        self.take_comings();
        let named = found
            .iter()
            .map(|member| (candidate(member), member.process.pid.is_alive()));
        let event = members::MemberEvent::Found(MachineId::HERE, named.collect());
        let found = found.into_iter();
        read.extend(found.map(|member| (member.process.pid.number, member)));
        Ok(vec![event])
    }

    /// Takes note of processes of the command that came and went.
    pub(super) fn take_family(&mut self) -> Result<(), KernelError> {
        self.take_comings();
        let machine = MachineId::HERE;
        let state = self.measuring.probes.kernel().and_then(Kernel::family_state);
        if let (Some(state), true) = (state, self.target.is_of_command()) {
            let execs = state.execs;
            self.members_on(members::MemberEvent::Look { machine, execs })?;
        }
        self.members_on(members::MemberEvent::Settled(machine)).map(drop)
    }

    /// Takes in what the kernel side tells of processes of the command.
    pub(super) fn take_comings(&mut self) {
        for arrival in self.target.arrivals() {
            let (event, read) = self.measuring.arrived(&mut self.target, arrival);
            // What cannot be attached to is an event, and no error.
            if let Err(error) = self.members_on_with(event, read) {
                tracing::warn!(%error, "a process of the command is not watched");
            }
        }
    }
}

// What others ask for.
impl Session {
    /// Answers a request; gives the reason when the session is over.
    pub(super) fn answer(&mut self, request: Request, to: oneshot::Sender<Answer>) -> Option<&'static str> {
        let (answer, reason) = self.serve(request);
        // Whoever asked may be gone; what was asked for is done.
        let _ = answer.map(|answer| to.send(answer));
        reason
    }

    fn serve(&mut self, request: Request) -> (Option<Answer>, Option<&'static str>) {
        let state = match self.options.applies {
            true => RequestState::MayWrite,
            false => RequestState::Watches,
        };
        let (mut answer, mut reason) = (None, None);
        let now = Time(monotonic_ns());
        let mut steps = VecDeque::from(self.log.on(&mut Requests(check), (request, state), now));
        while let Some(step) = steps.pop_front() {
            let next = match step {
                RequestStep::Answer(given) => {
                    answer = Some(given);
                    continue;
                }
                RequestStep::End(why) => {
                    reason = Some(why);
                    continue;
                }
                RequestStep::Say(notice) => {
                    self.screen.say(&notice);
                    continue;
                }
                RequestStep::List => vec![RequestStep::Answer(Answer::Session(Box::new(
                    self.views().listed(),
                )))],
                RequestStep::Report => vec![RequestStep::Answer(self.report_now())],
                RequestStep::Switch { rule, mode } => self.switch(&rule, mode),
                RequestStep::Add { rule, mode } => {
                    let name = rule.name().to_owned();
                    let result = self.add_rule(*rule, mode);
                    requests::added(name, mode, result)
                }
                RequestStep::Remove { rule, keeps } => self.remove_rule(rule, keeps),
            };
            steps.extend(next);
        }
        (answer, reason)
    }

    /// Does what the user wishes; gives the reason when the session is over.
    pub(super) fn take_input(&mut self, input: Input) -> Option<&'static str> {
        match self.screen.take(input)? {
            Wish::End(reason) => return Some(reason),
            Wish::Switch { rule, mode } => {
                let name = rule.clone();
                if let (Some(answer), _) = self.serve(Request::Switch { rule, mode }) {
                    let (screen, views) = self.showing();
                    screen.answer(requests::in_words(answer, &name, mode), &views);
                }
            }
        }
        None
    }

    fn report_now(&mut self) -> Answer {
        // While nothing happens the last reading may be seconds old.
        let read = self.read().and_then(|()| self.measuring.read_matrix(true));
        match read {
            Ok(()) => self.views().report(),
            Err(error) => Answer::refused(RefusalKind::Failed, error.to_string()),
        }
    }

    fn switch(&mut self, rule: &str, mode: Mode) -> Vec<RequestStep> {
        let (result, acts) = match self.rules.switch(rule, mode, monotonic_ns()) {
            Ok((before, acts)) => (Ok(before), acts),
            Err(refused) => (Err(refused), Vec::new()),
        };
        if result.is_ok() {
            acts.into_iter().for_each(|act| self.take_note_of(act));
            self.give_up();
        }
        requests::switched(rule, mode, result, || self.rules.unknown(rule))
    }

    fn add_rule(&mut self, rule: CheckedRule, mode: Mode) -> Result<Vec<String>, NotAdded> {
        let refuses = self.rules.refuses_calls_of(&rule);
        if let Some(why) = refuses.filter(|_| mode == Mode::Applying) {
            return Err(NotAdded::Stays(why));
        }
        // What was counted before is not the rule's.
        let taken = self.take_all_hits();
        taken.map_err(|error| NotAdded::Failed(error.to_string()))?;
        let (measuring, mut context) = self.measuring();
        measuring.add_rule(&mut context, rule, mode)
    }

    /// Lets go of a rule: its probes end, and what it has in force is taken back, unless it is to be kept.
    fn remove_rule(&mut self, rule: String, keeps: bool) -> Vec<RequestStep> {
        if let Err(error) = self.take_all_hits() {
            return requests::refused(RefusalKind::Failed, error.to_string());
        }
        self.measuring.written.forget();
        let Some((gone, acts)) = self.rules.remove(&rule, monotonic_ns()) else {
            return requests::refused(RefusalKind::NotThere, self.rules.unknown(&rule));
        };
        acts.into_iter().for_each(|act| self.take_note_of(act));
        self.give_up();
        let in_force = self.changes.in_force_of(&rule).count();
        let name = rule.clone();
        self.change(ChangeEvent::Removed { rule: name, keeps });
        match self.measuring.probes.shrink(&gone) {
            Ok(()) => requests::removed(rule, keeps, in_force),
            Err(error) => requests::refused(RefusalKind::Failed, error.to_string()),
        }
    }

    /// Says what the recording cannot hold any more, if that is new.
    pub(super) fn say_news_of_recording(&mut self) {
        if let Some(text) = self.rules.recording_news() {
            self.screen.say(&text);
            let event = members::MemberEvent::NotMeasured(text);
            self.log.on(&mut self.members, event, Time(monotonic_ns()));
        }
    }
}

/// Checks a rule that is given through the socket.
pub(super) fn check(given: &Given) -> Result<CheckedRule, String> {
    rulebook::checked(given).map_err(|failure| failure.message)
}
