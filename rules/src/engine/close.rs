//! Windows that are over: those of a length at a tick, those from probe to probe as far as their hits are known.

use std::collections::BTreeMap;

use super::output::RuleId;
use super::stream::Arrived;
use super::track::{Closed, Surroundings};
use super::tune::{Outbox, TuneState, Turn};
use super::{ClosedWindow, Engine, MOST_CLOSED, Mode, Open, Running};
use crate::eval::{Context, WindowData, boolean};
use crate::rule::{Borders, WindowKind};
use crate::value::{ProcessId, Time};

impl Engine {
    /// Closes the windows that end by `now`, and says what follows. Call it after the observations up to `now`.
    pub fn tick(&mut self, now: Time) -> Vec<super::Output> {
        // At most one change of a job is on trial at a time: two would be judged by each other's effect.
        let busy = self
            .rules
            .iter()
            .flat_map(|running| running.tunes.iter().zip(&running.rule.tunes))
            .any(|(tune, checked)| checked.occupies_the_trial() && tune.is_busy());
        let mut decisions = self.decisions;
        let mut outbox = Outbox {
            busy,
            decisions: &mut decisions,
            outputs: Vec::new(),
        };
        for index in 0..self.rules.len() {
            for (place, window) in self.closed_windows(RuleId(index), now) {
                if let Some(running) = self.rules.get_mut(index) {
                    let closed = running.evaluate(RuleId(index), place, &window, now, &mut outbox);
                    self.closed.push_back(closed);
                    if self.closed.len() > MOST_CLOSED {
                        self.closed.pop_front();
                    }
                }
            }
        }
        let mut outputs = outbox.outputs;
        self.decisions = decisions;
        outputs.extend(self.write_initial());
        self.forget_the_past(now);
        outputs
    }

    /// The windows of a rule that are over, in the order of their ends; none is made ready for a rule that is off.
    fn closed_windows(&mut self, id: RuleId, now: Time) -> Vec<(usize, WindowData)> {
        let mut out = Vec::new();
        for place in 0..self.rules.get(id.0).map_or(0, |running| running.windows.len()) {
            let Some(running) = self.rules.get(id.0) else {
                continue;
            };
            let (Some(Open::Timed { since, index }), Some(window)) =
                (running.windows.get(place), running.rule.windows.get(place))
            else {
                continue;
            };
            let WindowKind::Timed(every) = window.kind else {
                continue;
            };
            if now.since(*since) < every {
                continue;
            }
            if running.mode != Mode::Off {
                out.push((place, self.timed(id, running, *index, (*since, now))));
            }
            let next = Open::Timed {
                since: now,
                index: index + 1,
            };
            let running = self.rules.get_mut(id.0);
            if let Some(open) = running.and_then(|running| running.windows.get_mut(place)) {
                *open = next;
            }
        }
        for (place, closed) in self.advance(id, now) {
            out.extend(
                self.probed_window(id, place, closed, now)
                    .map(|window| (place, window)),
            );
        }
        out
    }

    /// Releases the hits of a rule as far as they are known, and gives the instances that closed.
    fn advance(&mut self, id: RuleId, now: Time) -> Vec<(usize, Closed)> {
        let (joined, ranks) = (self.joined(), self.ranks_of_all());
        let Some(running) = self.rules.get_mut(id.0) else {
            return Vec::new();
        };
        let tracked = running
            .rule
            .windows
            .iter()
            .any(|window| window.borders().is_some());
        let concerned = running.concerned(&joined);
        let latest = running
            .patience()
            .map(|patience| Time(now.0.saturating_sub(patience)));
        let reach = running.stream.reach(&concerned, latest);
        let (true, Some(reach)) = (tracked, reach) else {
            return Vec::new();
        };
        let Running {
            rule,
            windows,
            stream,
            joiners,
            roles,
            ..
        } = running;
        let around = Surroundings {
            rule,
            roles,
            ranks: &ranks,
            joined: &joined,
        };
        windows
            .iter_mut()
            .filter_map(Open::track)
            .for_each(super::track::Track::look_again);
        let mut out = Vec::new();
        while let Some(arrived) = stream.next(reach) {
            let mut hits = vec![arrived];
            for (place, (joiner, join)) in joiners.iter_mut().zip(&rule.joins).enumerate() {
                let pair = hits
                    .first()
                    .and_then(|hit| joiner.take(hit, join, &mut stream.dropped));
                let probe = rule.probes.len() + place;
                hits.extend(pair.map(|hit| Arrived { probe, hit }));
            }
            for hit in &hits {
                for (place, (open, window)) in windows.iter_mut().zip(&rule.windows).enumerate() {
                    if let (Open::Probed(track), Some(borders)) = (open, window.borders()) {
                        let closed = track.take(hit, borders, &around, &mut stream.dropped);
                        out.extend(closed.into_iter().map(|closed| (place, closed)));
                    }
                }
            }
        }
        for (place, (open, window)) in windows.iter_mut().zip(&rule.windows).enumerate() {
            if let (Open::Probed(track), Some(borders)) = (open, window.borders()) {
                let closed = track.close(reach, true, borders, &around);
                out.extend(closed.into_iter().map(|closed| (place, closed)));
            }
        }
        out
    }

    /// When each process that has not left joined.
    fn joined(&self) -> BTreeMap<ProcessId, Time> {
        let there = self
            .processes
            .iter()
            .filter(|(_, process)| process.left.is_none());
        there.map(|(id, process)| (*id, process.joined)).collect()
    }

    fn ranks_of_all(&self) -> BTreeMap<ProcessId, u32> {
        let rank = |(id, process): (&ProcessId, &super::Process)| Some((*id, process.facts.rank?));
        self.processes.iter().filter_map(rank).collect()
    }

    /// What formulas see of an instance; nothing if it is left out.
    fn probed_window(&mut self, id: RuleId, place: usize, closed: Closed, now: Time) -> Option<WindowData> {
        let (joined, ranks) = (self.joined(), self.ranks_of_all());
        let running = self.rules.get(id.0)?;
        let borders = running.rule.windows.get(place)?.borders()?;
        let around = Surroundings {
            rule: &running.rule,
            roles: &running.roles,
            ranks: &ranks,
            joined: &joined,
        };
        let (start, end) = (closed.instance.start(), closed.instance.end().unwrap_or(now));
        let lost = running.stream.lost_between(start, end);
        let silent = running.concerned(&joined).into_iter().find(|(process, joined)| {
            let heard = running.stream.heard_of(*process);
            heard.unwrap_or(*joined) < end
        });
        let missing = closed
            .missing
            .or_else(|| lost.then(|| "hits were lost in it".to_string()))
            .or_else(|| {
                silent.map(|(process, _)| format!("{} was not heard of until its end", self.name(process)))
            });
        let mut data = closed.instance.data(&around);
        self.complete_data(running, &mut data, (start, end), missing.as_deref());
        let left_out = left_out(borders, &data);
        let running = self.rules.get_mut(id.0)?;
        let dropped = &mut running.stream.dropped;
        dropped.partial += u64::from(missing.is_some());
        match left_out {
            Some(LeftOut::Skipped) => dropped.skipped += 1,
            Some(LeftOut::Discarded) => dropped.discarded += 1,
            None => return Some(data).filter(|_| running.mode != Mode::Off),
        }
        None
    }
}

enum LeftOut {
    Skipped,
    Discarded,
}

/// Whether a window is not to be evaluated. A condition that is none discards too: it could have been disturbed.
fn left_out(borders: &Borders, data: &WindowData) -> Option<LeftOut> {
    if data.index < borders.skip {
        return Some(LeftOut::Skipped);
    }
    let context = Context {
        window: Some(data),
        ..Context::default()
    };
    let disturbed =
        |condition| context.eval(condition).single().and_then(|value| boolean(&value)) != Ok(false);
    borders
        .discard
        .as_ref()
        .filter(|condition| disturbed(condition))
        .map(|_| LeftOut::Discarded)
}

impl Running {
    /// The processes whose hits the rule waits for.
    fn concerned(&self, joined: &BTreeMap<ProcessId, Time>) -> BTreeMap<ProcessId, Time> {
        let planned = self.rule.probes.iter().zip(&self.rule.plan.probes);
        let armed = planned.filter(|(_, planned)| planned.delivers == crate::Delivery::EachHit);
        let members = armed
            .filter_map(|(probe, _)| self.roles.get(probe.role))
            .flatten();
        members
            .filter_map(|process| Some((*process, *joined.get(process)?)))
            .collect()
    }

    /// How long at most a silent process is waited for: as long as the window that waits longest; without end if one
    /// has no timeout.
    fn patience(&self) -> Option<u64> {
        let timeouts: Option<Vec<u64>> = self
            .rule
            .windows
            .iter()
            .filter_map(|window| window.borders())
            .map(|borders| borders.timeout)
            .collect();
        timeouts?.into_iter().max()
    }

    fn evaluate(
        &mut self,
        id: RuleId,
        place: usize,
        window: &WindowData,
        now: Time,
        outbox: &mut Outbox<'_>,
    ) -> ClosedWindow {
        self.left_out = window.left_out.clone();
        let history = self.history.get(place).map_or(&[][..], Vec::as_slice);
        let metrics = self.rule.evaluate(place, window, history);
        self.rule.show(place, &metrics, &mut self.metrics);
        let applied: Vec<bool> = self.tunes.iter().map(TuneState::is_applied).collect();
        for (at, tune) in self.tunes.iter_mut().enumerate() {
            let Some(checked) = self
                .rule
                .tunes
                .get(at)
                .filter(|tune| tune.trigger.window() == place)
            else {
                continue;
            };
            let first = checked.after.filter(|first| applied.get(*first) != Some(&true));
            let first = first.and_then(|first| self.rule.tunes.get(first)?.action.as_ref());
            let turn = Turn {
                id,
                rule: &self.rule,
                place: at,
                mode: self.mode,
                window,
                metrics: &metrics,
                history,
                first: first.map(|change| change.deed.target()),
                now,
            };
            tune.window_closed(&turn, outbox);
        }
        let keep = self.rule.windows.get(place).map_or(0, |window| window.history);
        if let Some(history) = self.history.get_mut(place).filter(|_| keep > 0) {
            history.push((window.index, metrics));
            let beyond = history.len().saturating_sub(keep);
            history.drain(..beyond);
        }
        let of_it = self.rule.metrics.iter().zip(&self.metrics);
        let of_it = of_it.filter(|(metric, _)| metric.window == place && !metric.is_called);
        ClosedWindow {
            rule: id,
            window: self
                .rule
                .windows
                .get(place)
                .map_or_else(String::new, |window| window.name.clone()),
            index: window.index,
            metrics: of_it.map(|(_, shown)| shown.clone()).collect(),
        }
    }
}
