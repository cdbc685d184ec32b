//! Closes windows: timed windows at a tick, windows from probe to probe as far as their hits are known.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::advance::DueInstance;
use super::instance::{Closed, HITS_LOST, Instance, InstanceEnvironment};
use super::retained::Evaluated;
use super::running::{Open, Running};
use super::timed::AwaitedWindow;
use super::tune::{Outbox, TuneEvaluation, TuneState};
use super::{CLOSED_MAX, Engine, Mode, Output, Standing};
use crate::eval::partial::Content;
use crate::eval::{Context, WindowData};
use crate::ids::RuleId;
use crate::rule::Tune;
use crate::value::{ProcessId, Time, Value, boolean};
use crate::window::{Window, WindowKind};

impl Engine {
    /// Closes the windows that end by `now`, and returns the resulting outputs. Call it after the
    /// observations up to `now`.
    pub fn tick(&mut self, now: Time) -> Vec<super::Output> {
        // At most one change of a job is on trial at a time: each of two would be judged by the effect of the
        // other.
        let on_trial = |running: &&Running| {
            let mut tunes = running.tunes.iter().zip(&running.rule.tunes);
            tunes.any(|(tune, checked)| checked.occupies_the_trial() && tune.is_busy())
        };
        let busy = self
            .rules
            .iter()
            .find(on_trial)
            .map(|running| running.rule.name.clone());
        let mut decisions = self.decisions;
        let mut outbox = Outbox {
            busy,
            claimed: self.claimed(),
            decisions: &mut decisions,
            variables: Arc::clone(&self.variables),
            outputs: Vec::new(),
        };
        // Rules are evaluated by priority: lower ones leave alone what higher ones claim.
        let mut order: Vec<usize> = (0..self.rules.len()).collect();
        order.sort_by_key(|index| {
            self.rules
                .get(*index)
                .map(|running| Reverse(running.rule.priority))
        });
        for index in order {
            for (window_index, due) in self.due(RuleId(index), now) {
                // Prepared after the preceding windows were evaluated, because its formulas may refer to
                // them.
                let window = match due {
                    DueWindow::Timed(awaited) => self.timed_window(RuleId(index), &awaited),
                    DueWindow::Probed(due) => match *due {
                        DueInstance::Closed(closed) => {
                            self.probed_window(RuleId(index), window_index, closed, now)
                        }
                        DueInstance::Hit { tune, instance, time } => {
                            self.look_at(RuleId(index), tune, &instance, time, now, &mut outbox);
                            None
                        }
                    },
                };
                if let (Some(window), Some(running)) = (window, self.rules.get_mut(index)) {
                    let closed = running.evaluate(RuleId(index), window_index, window, now, &mut outbox);
                    self.closed.push_back(closed);
                    if self.closed.len() > CLOSED_MAX {
                        self.closed.pop_front();
                    }
                }
            }
        }
        let mut outputs = outbox.outputs;
        self.decisions = decisions;
        outputs.extend(self.end_silent_trials(now));
        outputs.extend(self.write_initial());
        outputs.extend(self.catch_up());
        self.forget_the_past(now);
        outputs
    }

    /// Ends trials whose windows no longer close or cannot be used: what a rule measures may have ceased.
    fn end_silent_trials(&mut self, now: Time) -> Vec<Output> {
        let mut outputs = Vec::new();
        for (index, running) in self.rules.iter_mut().enumerate() {
            for (tune_index, (tune, checked)) in running.tunes.iter_mut().zip(&running.rule.tunes).enumerate()
            {
                let verdicts = tune.end_silent_trial((RuleId(index), tune_index), checked, now);
                if !verdicts.is_empty() {
                    running.progress.switched = Some((now, true));
                }
                outputs.extend(verdicts);
            }
        }
        outputs
    }

    /// Whether a tick at `now` would close a timed window.
    pub fn has_timed_window_over(&self, now: Time) -> bool {
        let is_over = |(window, open): (&Window, &Open)| match (&window.kind, open) {
            (WindowKind::Timed(every), Open::Timed { since, .. }) => now.since(*since) >= *every,
            _ => false,
        };
        self.rules
            .iter()
            .any(|running| running.rule.windows.iter().zip(&running.windows).any(is_over))
    }

    /// The ended windows of a rule, in the order of their ends; no timed windows for a rule that is off.
    fn due(&mut self, id: RuleId, now: Time) -> Vec<(usize, DueWindow)> {
        // First, because pairs of hits belong to the timed windows in which they become known.
        let closed = self.advance(id, now);
        self.close_timed(id, now);
        let ready = self.timed_ready(id, now).into_iter();
        let mut out: Vec<(usize, DueWindow)> = ready
            .map(|awaited| (awaited.window, DueWindow::Timed(Box::new(awaited))))
            .collect();
        out.extend(
            closed
                .into_iter()
                .map(|(index, closed)| (index, DueWindow::Probed(Box::new(closed)))),
        );
        out
    }

    /// Closes the windows of a length that end by `now`, and begins the next ones. They are evaluated when the
    /// nodes have reported their parts: at once, without nodes.
    fn close_timed(&mut self, id: RuleId, now: Time) {
        let room = self.room();
        let Some(running) = self.rules.get_mut(id.0) else {
            return;
        };
        for (window_index, (open, window)) in
            running.windows.iter_mut().zip(&running.rule.windows).enumerate()
        {
            let (
                Open::Timed {
                    since,
                    index,
                    pairs,
                    incomplete,
                },
                WindowKind::Timed(every),
            ) = (open, &window.kind)
            else {
                continue;
            };
            if now.since(*since) < *every {
                continue;
            }
            let next = Arc::new(Content::new(pairs.folds(), room));
            let pairs = std::mem::replace(pairs, next);
            let over = AwaitedWindow {
                window: window_index,
                index: *index,
                span: (*since, now),
                pairs,
                incomplete: incomplete.take(),
                parts: BTreeMap::new(),
            };
            (*since, *index) = (now, *index + 1);
            if running.mode != Mode::Off {
                running.parts.windows.push_back(over);
            }
        }
    }

    fn environment<'a>(&'a self, running: &'a Running) -> InstanceEnvironment<'a> {
        InstanceEnvironment {
            rule: &running.rule,
            roles: &running.roles,
            ranks: &self.ranks,
            joined: &self.joined,
        }
    }

    /// The data of an instance for formulas; `None` if it is left out.
    fn probed_window(
        &mut self,
        id: RuleId,
        index: usize,
        mut closed: Closed,
        now: Time,
    ) -> Option<WindowData> {
        closed.instance.merge_partials();
        let running = self.rules.get(id.0)?;
        let around = self.environment(running);
        let (start, end) = (closed.instance.start(), closed.instance.end().unwrap_or(now));
        let lost = running.intake.stream.lost_between(start, end);
        let (concerned, of_nodes) = self.observers(running);
        let mut silent = concerned.iter().filter(|(process, joined)| {
            let observed = running.intake.stream.observed_of(**process);
            observed.unwrap_or(**joined) < end
        });
        let silent = silent.next().map(|(process, _)| self.name(*process));
        let silent = silent.or_else(|| (of_nodes? < end).then(|| "a node".to_string()));
        let missing = closed.instance.incomplete.clone().or(closed.missing);
        let missing = missing
            .or_else(|| lost.then(|| HITS_LOST.to_string()))
            .or_else(|| silent.map(|name| format!("{name} was not observed until its end")));
        let mut data = closed.instance.data(&around);
        self.complete_data(running, &mut data, (start, end), missing.as_deref());
        data.at_boundaries = self.at_boundaries(running, index, (start, end), &data);
        let running = self.rules.get_mut(id.0)?;
        let mut data = running.retained.looking_back(index, data);
        data.inner = running.retained.take_inner(index, data.number);
        let left_out = running.left_out(index, &data);
        let dropped = &mut running.intake.stream.dropped;
        dropped.partial += u64::from(missing.is_some());
        match left_out {
            Some(LeftOut::Skipped) => dropped.skipped += 1,
            Some(LeftOut::Discarded) => {
                dropped.discarded += 1;
                let tunes = running.tunes.iter_mut().zip(&running.rule.tunes);
                let of_window = tunes.filter(|(_, checked)| checked.trigger.window() == index);
                of_window.for_each(|(tune, _)| tune.silence.window_discarded());
            }
            None => return Some(data).filter(|_| running.mode != Mode::Off),
        }
        None
    }

    /// Evaluates a tune in the middle of an instance, with the values up to a hit.
    fn look_at(
        &mut self,
        id: RuleId,
        tune: usize,
        instance: &Instance,
        time: Time,
        now: Time,
        outbox: &mut Outbox<'_>,
    ) {
        let Some(running) = self.rules.get(id.0).filter(|running| running.mode != Mode::Off) else {
            return;
        };
        let around = self.environment(running);
        let mut data = instance.data(&around);
        self.complete_data(
            running,
            &mut data,
            (instance.start(), time),
            instance.incomplete.as_deref(),
        );
        data.duration = None;
        let data = running.retained.looking_back(instance.frame.window, data);
        if let Some(running) = self.rules.get_mut(id.0) {
            let metrics = running
                .rule
                .evaluate(instance.frame.window, &data, running.retained.memory());
            running.turn(id, tune, &data, &metrics, now, |tune, turn| {
                tune.hit(turn, outbox)
            });
        }
    }
}

enum DueWindow {
    Timed(Box<AwaitedWindow>),
    Probed(Box<DueInstance>),
}

enum LeftOut {
    Skipped,
    Discarded,
}

impl Running {
    /// Evaluates a tune for a window.
    fn turn(
        &mut self,
        id: RuleId,
        index: usize,
        window: &WindowData,
        metrics: &[(String, Value)],
        now: Time,
        f: impl FnOnce(&mut TuneState, &TuneEvaluation<'_>),
    ) {
        let applied = |first: &usize| self.tunes.get(*first).is_some_and(TuneState::is_applied);
        let Some(checked) = self.rule.tunes.get(index) else {
            return;
        };
        let first = checked.after.filter(|first| !applied(first));
        let first = first.and_then(|first| self.rule.tunes.get(first)?.action.as_ref());
        let needless = checked.action.is_none().then(|| self.needless()).flatten();
        let turn = TuneEvaluation {
            id,
            rule: &self.rule,
            index,
            mode: self.mode,
            window,
            metrics,
            memory: self.retained.memory(),
            first: first.map(|change| change.action.target()),
            needless,
            now,
        };
        if let Some(tune) = self.tunes.get_mut(index) {
            f(tune, &turn);
        }
    }

    /// Why the rule needs to change nothing: a change of it would write what is there already, and no other of its
    /// changes is due.
    fn needless(&self) -> Option<String> {
        let tunes = self.tunes.iter().zip(&self.rule.tunes);
        let changes = tunes.filter(|(_, checked)| checked.action.is_some() && !checked.switches());
        let mut needless = None;
        for (tune, _) in changes {
            match (&tune.needless, tune.standing) {
                (Some(why), _) => needless = Some(why.clone()),
                (None, Standing::Quiet | Standing::NoValue | Standing::Waiting) => {}
                (None, _) => return None,
            }
        }
        needless
    }

    /// Whether a window shows the program as it is after the last change. Iterations of the detected loop are
    /// known later than they end: those that began before, and the next one, do not.
    fn shows_state(&mut self, index: usize, begin: Time) -> bool {
        let boundaries = self.rule.windows.get(index).and_then(Window::boundaries);
        let is_of_loop = boundaries.is_some_and(|boundaries| self.rule.is_bounded_by_loop(boundaries));
        match &mut self.progress.switched {
            Some((switched, _)) if is_of_loop && begin < *switched => false,
            Some((_, is_next)) if is_of_loop => !std::mem::take(is_next),
            _ => true,
        }
    }

    /// A timed window with the pairs of hits that became known in it; without any if some were lost.
    pub(super) fn with_pairs(
        &self,
        window: WindowData,
        pairs: &Content,
        incomplete: Option<&str>,
        (start, end): (Time, Time),
    ) -> WindowData {
        let mut window = window.also_with(pairs);
        let is_complete = |process: &ProcessId| window.roles.iter().any(|members| members.contains(process));
        window.excluded = pairs
            .processes()
            .filter(|process| !is_complete(process))
            .collect();
        let lost = self.intake.stream.lost_between(start, end).then_some(HITS_LOST);
        if let Some(reason) = incomplete.or(lost) {
            let lacking = Some(format!("the window is partial: {reason}"));
            window.lacking.extend(vec![lacking; self.rule.joins.len()]);
        }
        window
    }

    /// Why an instance is not evaluated, if so. A condition that is none discards too: the instance may have
    /// been disturbed.
    fn left_out(&self, index: usize, data: &WindowData) -> Option<LeftOut> {
        let boundaries = self.rule.windows.get(index)?.boundaries()?;
        if data.number < boundaries.skip {
            return Some(LeftOut::Skipped);
        }
        let condition = boundaries.discard.as_ref()?;
        let metrics = self.rule.evaluate(index, data, self.retained.memory());
        let context = Context {
            window: Some(data),
            metrics: &metrics,
            memory: self.retained.memory(),
            ..Context::default()
        };
        let disturbed = context.eval(condition).single().and_then(|value| boolean(&value)) != Ok(false);
        disturbed.then_some(LeftOut::Discarded)
    }

    /// The processes whose hits the rule waits for.
    pub(super) fn concerned(&self, joined: &BTreeMap<ProcessId, Time>) -> BTreeMap<ProcessId, Time> {
        let roles = self.rule.requirements.roles_with_hits();
        let members = roles.filter_map(|role| self.roles.get(role)).flatten();
        members
            .filter_map(|process| Some((*process, *joined.get(process)?)))
            .collect()
    }

    /// The longest wait for a silent process: the longest timeout of a window; `None`, without limit, if a
    /// window has no timeout.
    pub(super) fn patience(&self) -> Option<u64> {
        let timeouts: Option<Vec<u64>> = self
            .rule
            .windows
            .iter()
            .filter_map(|window| window.boundaries())
            .map(|boundaries| boundaries.timeout)
            .collect();
        timeouts?.into_iter().max()
    }

    /// Passes a closed window to the tunes that use it.
    fn close_for_tunes(
        &mut self,
        id: RuleId,
        index: usize,
        window: &WindowData,
        metrics: &[(String, Value)],
        now: Time,
        outbox: &mut Outbox<'_>,
    ) {
        let of_window = |tune: &Tune| tune.trigger.window() == index;
        let reverts = |output: &Output| matches!(output, Output::Verdict(verdict) if !verdict.keep);
        for at in 0..self.rule.tunes.len() {
            if !self.rule.tunes.get(at).is_some_and(of_window) {
                continue;
            }
            if !self.shows_state(index, window.span.0) {
                break;
            }
            let said = outbox.outputs.len();
            self.turn(id, at, window, metrics, now, |tune, turn| {
                tune.window_closed(turn, outbox)
            });
            if outbox.outputs.iter().skip(said).any(reverts) {
                self.progress.switched = Some((now, true));
            }
        }
    }

    fn evaluate(
        &mut self,
        id: RuleId,
        window_index: usize,
        window: WindowData,
        now: Time,
        outbox: &mut Outbox<'_>,
    ) -> Arc<Evaluated> {
        self.progress.left_out = window.left_out.clone();
        self.progress.saw_no_process = window.roles.iter().all(BTreeSet::is_empty);
        self.progress.had_processes |= !self.progress.saw_no_process;
        self.progress.closed += 1;
        let memory = self.retained.memory();
        let metrics = self.rule.evaluate(window_index, &window, memory);
        self.close_for_tunes(id, window_index, &window, &metrics, now, outbox);
        let over = Arc::new(Evaluated {
            rule: id,
            window: window_index,
            index: window.index,
            duration: window.duration.clone().and_then(Result::ok),
            metrics,
        });
        self.retained.push(&self.rule, &window, &over);
        over
    }
}
