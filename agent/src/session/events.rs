//! Carries out the effects of the session's parts, and passes the results back to them. Decides nothing.

use job::monotonic_ns;
use report::view::{Input, UserRequest};
use session::request::{Answer, Request};
use session::requests::RequestTask;

use super::{
    Session,
    actuator_queue::OrderReceipt,
    changes, error,
    measuring::Measuring,
    orders::Resolver,
    parts::{Effect, EffectQueue, Event},
    requests,
};
use crate::{
    control::PendingRequest,
    rulebook::{Act, Time},
};

impl Session {
    /// Passes an event to the parts, and carries out the effects.
    pub(super) fn on(&mut self, event: Event) {
        let (mut pending, mut next) = (EffectQueue::default(), Some(event));
        loop {
            if let Some(event) = next {
                pending.follow(self.parts.on(event, Time(monotonic_ns())));
            }
            let Some(effect) = pending.take() else { return };
            next = self.carry_out(effect);
        }
    }

    /// Carries out an effect; returns the resulting event, if there is one.
    pub(super) fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Order(machine, order) => {
                let is_sent = self.actuation.order(&order);
                return (!is_sent).then_some(Event::Changes(changes::ChangeEvent::NoRoom(machine, order)));
            }
            Effect::Dropped(order) => tracing::warn!(?order, "too many orders wait"),
            Effect::Resolve(decision) => {
                let (id, rule) = (decision.id, decision.rule.clone());
                let resolved = self.resolver().resolve(*decision);
                return Some(Event::Changes(self.actuation.resolved(id, rule, resolved)));
            }
            Effect::Result(decision, result) => _ = self.rules.receipt(decision, result, monotonic_ns()),
            Effect::SwitchProbes(decision, switches) => {
                let switched = self.measure(|measuring, context| measuring.switch_probes(context, &switches));
                return Some(Event::ProbesSwitched(decision, error::with_causes(switched)));
            }
            Effect::Say(line) => self.screen.say(&line),
            Effect::SayDetail(_) if !self.options.is_verbose => {}
            Effect::SayWhen(line) | Effect::SayDetail(line) => self.screen.say_when(&line),
            Effect::Trace(kind, name, text) => {
                let at = self.start.since_armed();
                self.screen.mark(kind.name(), &name, &text, at);
            }
            Effect::Record(kind, name, text) => self.rules.record_mark(kind, &name, &text, monotonic_ns()),
            Effect::Do(RequestTask::List) => {
                let listed = self.showing().1.listed();
                return Some(Event::Listed(Ok(Answer::Session(Box::new(listed)))));
            }
            Effect::Do(RequestTask::Report) => {
                // While nothing happens, the last reading may be seconds old.
                let read = self.measure(Measuring::read_all);
                let report = read.map(|()| self.showing().1.report());
                return Some(Event::Listed(error::with_causes(report)));
            }
            Effect::Do(RequestTask::Switch { rule, mode }) => {
                let unknown = self.rules.unknown(&rule);
                let switched = self.rules.switch(&rule, mode, monotonic_ns());
                let result = switched.map(|(before, acts)| {
                    self.follow(acts);
                    before.to_owned()
                });
                return Some(Event::Switched(rule, mode, result, unknown));
            }
            Effect::Do(RequestTask::Add { rule, mode }) => {
                let name = rule.name().to_owned();
                let result = self.measure(|measuring, context| measuring.add_rule(context, *rule, mode));
                return Some(Event::Added(name, mode, result));
            }
            Effect::Do(RequestTask::Remove { rule, keeps }) => {
                let (result, acts) = self.measure(|measuring, context| measuring.remove_rule(context, &rule));
                self.follow(acts);
                return Some(Event::Removed { rule, keeps, result });
            }
            Effect::Leaving(_) => {} // `leave` takes them one by one.
        }
        None
    }

    /// Closes windows that have ended, and carries out the acts of the rules.
    pub(super) fn evaluate(&mut self, begun_ns: u64) {
        let acts = self.rules.tick(begun_ns);
        let evaluated_ns = monotonic_ns();
        for act in acts {
            let Act::Decided(decision) = act else {
                self.record(act);
                continue;
            };
            let id = decision.id;
            self.on(Event::Decided(decision));
            self.actuation.ordered(id, begun_ns, evaluated_ns);
        }
        self.actuation.forget_answered(&self.parts.changes);
        self.give_up();
    }

    /// Carries out the acts that result from switched or removed rules.
    pub(super) fn follow(&mut self, acts: Vec<Act>) {
        acts.into_iter().for_each(|act| self.record(act));
        self.give_up();
    }

    pub(super) fn record(&mut self, act: Act) {
        let event = self.showing().1.event(act);
        self.on(event);
    }

    fn give_up(&mut self) {
        let given_up = self.parts.given_up(|decision| self.rules.awaits(decision));
        given_up.into_iter().for_each(|event| self.on(event));
    }

    pub(super) fn resolver(&self) -> Resolver<'_> {
        Resolver {
            target: &self.target,
            processes: &self.measuring.profile.processes,
            start: &self.start,
        }
    }

    pub(super) fn receive(&mut self, receipt: OrderReceipt) {
        self.measuring.answered(&receipt);
        let Some(event) = self.actuation.answered(receipt) else {
            return;
        };
        let has_ended = |process: changes::MemberProcess| self.target.has_ended(process.slot);
        let awaits = |decision| self.rules.awaits(decision);
        let events = self.parts.changes.with_causes(event, has_ended, awaits);
        (events.into_iter().map(Event::Changes)).for_each(|event| self.on(event));
        self.actuation.forget_answered(&self.parts.changes);
    }

    /// Carries out a request and answers it, if its sender still exists.
    pub(super) fn answer(&mut self, (request, to): PendingRequest) {
        let _ = self.request(request).map(|answer| to.send(answer));
    }

    /// Carries out a request and returns the answer.
    fn request(&mut self, request: Request) -> Option<Answer> {
        self.on(Event::Request(request));
        self.parts.take_answer()
    }

    /// Handles input of the user.
    pub(super) fn take_input(&mut self, input: Input) {
        match self.screen.take(input) {
            None => {}
            Some(UserRequest::End(reason)) => self.parts.end(reason),
            Some(UserRequest::Switch { rule, mode }) => {
                let name = rule.clone();
                if let Some(answer) = self.request(Request::Switch { rule, mode }) {
                    let (screen, views) = self.showing();
                    screen.answer(requests::in_words(answer, &name, mode), &views);
                }
            }
        }
    }
}
