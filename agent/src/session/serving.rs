//! What a session does for others: requests and keys, receipts of the actuator, findings, switches of probes. Carries out what `requests`,
//! `receipts` and `found` decide.

use std::collections::{BTreeSet, VecDeque};

use plan::MarkKind;
use rules::CheckedRule;
use tokio::sync::oneshot;

use super::{
    Session,
    act::time_of_day,
    actuator_queue::Receipt,
    changes::Event,
    found::{Repair, copies},
    log::Requests,
    members,
    requests::{self, NotAdded, State, Step},
};
use crate::{
    clock::monotonic_ns,
    discover::Member,
    kernel::KernelError,
    report,
    request::{Answer, Mode, RefusalKind, Request, SessionView},
    rulebook::{self, Switch, Time},
    snapshot::FindingView,
    view::{Input, Wish},
};

/// Processes that are listed; the snapshot has all.
const PIDS_MAX: usize = 4096;

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
            true => State::MayWrite,
            false => State::Watches,
        };
        let (mut answer, mut reason) = (None, None);
        let now = Time(monotonic_ns());
        let mut steps = VecDeque::from(self.log.on(&mut Requests, (request, state), now));
        while let Some(step) = steps.pop_front() {
            let next = match step {
                Step::Answer(given) => {
                    answer = Some(given);
                    continue;
                }
                Step::End(why) => {
                    reason = Some(why);
                    continue;
                }
                Step::Say(notice) => {
                    self.screen.say(&notice);
                    continue;
                }
                Step::List => vec![Step::Answer(Answer::Session(Box::new(self.session_view())))],
                Step::Report => vec![Step::Answer(self.report_now())],
                Step::Switch { rule, mode } => self.switch(&rule, mode),
                Step::Add { rule, mode } => {
                    let name = rule.name().to_owned();
                    let result = self.add_rule(*rule, mode);
                    requests::added(name, mode, result)
                }
                Step::Remove { rule, keeps } => self.remove_rule(rule, keeps),
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
                    let snapshot = self.snapshot();
                    self.screen
                        .answer(requests::in_words(answer, &name, mode), snapshot);
                }
            }
        }
        None
    }

    fn session_view(&self) -> SessionView {
        let snapshot = self.snapshot();
        let launcher = snapshot.job.launcher.into_iter();
        let pids = launcher.chain(snapshot.processes.iter().map(|process| process.pid));
        let rules = snapshot.rules.into_iter();
        SessionView {
            pid: std::process::id(),
            program: snapshot.job.program,
            user: snapshot.job.user,
            pids: pids.take(PIDS_MAX).collect(),
            applies: self.options.applies,
            elapsed_s: snapshot.elapsed.as_secs_f64(),
            rules: rules
                .map(|rule| (rule.name, rule.mode.to_owned(), rule.state))
                .collect(),
        }
    }

    fn report_now(&mut self) -> Answer {
        // While nothing happens the last reading may be seconds old.
        let read = self.read().and_then(|()| self.measuring.read_matrix(true));
        if let Err(error) = read {
            return Answer::refused(RefusalKind::Failed, error.to_string());
        }
        let text = report::render(&self.snapshot());
        match text.and_then(|text| serde_json::from_str(&text)) {
            Ok(report) => Answer::Report(report),
            Err(error) => Answer::refused(RefusalKind::Failed, error.to_string()),
        }
    }

    fn switch(&mut self, rule: &str, mode: Mode) -> Vec<Step> {
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

    /// Takes a rule in beside the others, which do not notice; gives what of it is not probed.
    fn add_rule(&mut self, rule: CheckedRule, mode: Mode) -> Result<Vec<String>, NotAdded> {
        let refuses = self.rules.refuses_calls_of(&rule);
        if let Some(why) = refuses.filter(|_| mode == Mode::Applying) {
            return Err(NotAdded::Stays(why));
        }
        let failed = |error: KernelError| NotAdded::Failed(error.to_string());
        // What was counted before is not the rule's.
        self.take_all_hits().and_then(|()| self.read()).map_err(failed)?;
        let first = self.measuring.probes.wanted_count();
        self.measuring.written.forget();
        let added = self.rules.add(rule, first, monotonic_ns());
        let added = added.map_err(|rulebook::NotAdded::Conflict(text)| NotAdded::Conflict(text))?;
        let members = self.target.watched(&self.measuring.profile.processes).into_iter();
        let members: Vec<_> = members
            .map(|(slot, member)| (slot, member, self.rules.added_in(&added, member)))
            .collect();
        let before = self.measuring.probes.missing().len();
        if let Err(error) = self
            .measuring
            .probes
            .grow(&self.target.job, added.wanted.clone(), &members)
        {
            self.rules.give_up(&added);
            return Err(NotAdded::NotProbed(error.to_string()));
        }
        if self.measuring.probes.take_moved() {
            self.measuring.lose_hits(&mut self.rules);
        }
        self.read().map_err(failed)?;
        self.rules.begin(&added, mode, monotonic_ns());
        Ok(self
            .measuring
            .probes
            .missing()
            .iter()
            .skip(before)
            .cloned()
            .collect())
    }

    /// Lets go of a rule: its probes end, and what it has in force is taken back, unless it is to be kept.
    fn remove_rule(&mut self, rule: String, keeps: bool) -> Vec<Step> {
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
        self.change(Event::Removed { rule: name, keeps });
        match self.measuring.probes.shrink(&gone) {
            Ok(()) => requests::removed(rule, keeps, in_force),
            Err(error) => requests::refused(RefusalKind::Failed, error.to_string()),
        }
    }

    /// An answer of the actuator.
    pub(super) fn receive(&mut self, receipt: Receipt) {
        let Some(event) = self.actuation.answered(receipt) else {
            return;
        };
        if let Some(process) = self.changes.failed_in(&event) {
            self.look_whether_ended(process);
        }
        let Event::Receipt { decision, .. } = event else {
            return self.change(event);
        };
        // What was written for a decision that nobody waits for is taken back.
        if !self.rules.awaits(decision) {
            self.change(Event::GaveUp(decision));
        }
        self.change(event);
        self.actuation.forget_answered(decision, &self.changes);
    }

    pub(super) fn found(&mut self, rule: String, text: String, next_start: Option<String>, is_new: bool) {
        // Several tunes of a rule have one finding.
        if is_new && !self.changes.findings.is_open(&rule) {
            let indented = text.trim_end().replace('\n', "\n    ");
            self.screen.say(&format_args!("finding  {rule}   {indented}"));
            self.mark(MarkKind::Finding, &rule, &text);
        }
        let mut effects = self.rules.effects(&rule);
        let variables = self.rules.written_everywhere(&rule).into_iter();
        effects.extend(variables.filter_map(|variable| {
            let of = |member: &Member| member.copies_at_start(&variable);
            let paths: BTreeSet<String> = self.target.job.members.iter().flat_map(of).collect();
            copies(&variable, &paths)
        }));
        let must_be_named = self.rules.never_applying().contains(&rule);
        let now = self
            .repair(&rule, must_be_named)
            .advice(self.measuring.probes.kernel().is_some(), effects);
        self.changes.findings.open(FindingView {
            rule,
            at: self.start.since_armed(),
            text,
            now,
            next_start,
            repaired: false,
        });
    }

    fn repair<'a>(&'a self, rule: &'a str, must_be_named: bool) -> Repair<'a> {
        Repair {
            rule,
            target: &self.options.typed,
            may_write: self.options.applies,
            must_be_named,
        }
    }

    /// Of repairs that were put back at the end, with what command they stay.
    pub(super) fn say_how_repairs_stay(&mut self) {
        let must_be_named = self.rules.never_applying();
        for rule in self.changes.repairs_ended() {
            let command = self.repair(&rule, must_be_named.contains(&rule)).stays();
            self.changes.findings.stays_with(&rule, command);
        }
    }

    /// Switches probes that rules ask for: they are the session's own, so nothing is written and it is done at once. What is counted up to now
    /// belongs to the state before.
    pub(super) fn switch_probes(&mut self, switches: &[Switch]) -> Result<(), String> {
        let in_words = |error: KernelError| error.to_string();
        self.take_all_hits().map_err(in_words)?;
        self.read().map_err(in_words)?;
        self.rules.switch_probes(switches);
        let members = self.target.watched(&self.measuring.profile.processes);
        for (want, on) in self.rules.switched() {
            self.measuring
                .probes
                .switch(want, on, &members)
                .map_err(in_words)?;
        }
        self.read().map_err(in_words)
    }

    /// Puts switches back that a verdict takes back.
    pub(super) fn switch_back(&mut self, back: &[Switch]) {
        if let Err(error) = self.switch_probes(back) {
            self.screen.say(&format_args!(
                "{}  probes could not be switched back: {error}",
                time_of_day()
            ));
        }
    }

    /// Records what the whole iterations of each process came to.
    pub(super) fn say_news_of_recording(&mut self) {
        if let Some(text) = self.rules.recording_news() {
            self.screen.say(&text);
            let event = members::Event::NotMeasured(text);
            self.log.on(&mut self.members, event, Time(monotonic_ns()));
        }
    }
}
