//! The status of an engine, for display. Evaluates nothing.

use std::{collections::BTreeMap, sync::Arc};

use plan::Mode;
use syntax::quantity::duration;

use super::Engine;
use super::output::{ClosedWindow, Dropped, Finding, Standing, TrialProgress, TuneStatus};
use super::retained::Evaluated;
use super::running::Running;
use super::trial::windows_to_verdict;
use super::tune::TuneState;
use crate::ids::RuleId;
use crate::rule::{CheckedRule, Tune};
use crate::window::Window;

/// Why a rule for other programs has no value.
const NO_PROCESS: &str = "not for this program: none of its processes fits a role of the rule";

impl Engine {
    /// The state of every tune and why it does not act, in the order of rules and tunes.
    pub fn status(&self) -> Vec<TuneStatus> {
        let mut out = Vec::new();
        for (index, running) in self.rules.iter().enumerate() {
            for (tune_index, (tune, checked)) in running.tunes.iter().zip(&running.rule.tunes).enumerate() {
                let label = checked.action.as_ref().map(|change| change.action.label());
                let dropped = running.intake.stream.dropped;
                let (standing, why) = match tune.status(running.mode, checked) {
                    (Standing::Waiting, _)
                        if running.progress.closed == 0 && !dropped.windows().is_empty() =>
                    {
                        (Standing::NoValue, all_left_out(&dropped))
                    }
                    (Standing::Waiting, _)
                        if running.progress.closed == 0 && running.absent().next().is_some() =>
                    {
                        let absent: Vec<&str> = running.absent().collect();
                        (Standing::NoValue, not_evaluated(&absent.join("; ")))
                    }
                    (Standing::Waiting, why) if running.progress.closed == 0 => {
                        match running.boundary_not_hit() {
                            Some(missing) => (Standing::Waiting, format!("{why}: {missing}")),
                            None => (Standing::Waiting, why),
                        }
                    }
                    (Standing::NoValue, _) if running.matches_no_process() => {
                        (Standing::NoValue, NO_PROCESS.to_owned())
                    }
                    // That a probe is enabled is not an applied change of the program, and becomes no finding.
                    (Standing::Applied | Standing::Counting, why) if checked.switches() => {
                        (Standing::Quiet, why)
                    }
                    (Standing::OnTrial, why) => (Standing::OnTrial, why + &running.verdict_text(checked)),
                    status => status,
                };
                out.push(TuneStatus {
                    rule: RuleId(index),
                    rule_name: running.rule.name.clone(),
                    tune: tune_index,
                    label: label.unwrap_or_else(|| "advice".to_string()),
                    standing,
                    why,
                    left_out: running.progress.left_out.clone(),
                    saw_no_process: running.progress.saw_no_process,
                    had_processes: running.progress.had_processes,
                    had_value: tune.has_turned,
                    windows: running.progress.closed,
                    dropped,
                });
            }
        }
        out
    }

    /// The decisions that are being judged.
    pub fn on_trial(&self) -> Vec<TrialProgress> {
        let tunes = |running: &'_ Running| -> Vec<_> {
            let tunes = running.tunes.iter().zip(&running.rule.tunes);
            tunes.flat_map(|(state, tune)| state.on_trial(tune)).collect()
        };
        self.rules.iter().flat_map(tunes).collect()
    }

    /// By rule with a change that has no verdict yet: the least and the greatest time from the change to its
    /// verdict, in seconds, if windows are as long as the last one.
    pub fn time_to_verdict(&self) -> BTreeMap<String, (f64, f64)> {
        let mut times = BTreeMap::new();
        for running in &self.rules {
            let tunes = running.tunes.iter().zip(&running.rule.tunes);
            let busy = tunes.filter(|(state, _)| state.is_busy());
            let of_rule = busy.filter_map(|(_, tune)| running.time_to_verdict(tune));
            times.extend(of_rule.map(|time| (running.rule.name.clone(), time)));
        }
        times
    }

    /// Whether a change is being compared with the time without it; the measurement must not be interrupted.
    pub fn is_judging(&self) -> bool {
        let tunes = |running: &Running| running.tunes.iter().any(TuneState::is_judging);
        self.rules.iter().any(tunes)
    }

    /// The same for changes that are compared by iterations of the detected loop.
    pub fn is_judging_iterations(&self) -> bool {
        let by_loop = |running: &Running, window: usize| {
            let boundaries = running.rule.windows.get(window).and_then(Window::boundaries);
            boundaries.is_some_and(|boundaries| running.rule.is_bounded_by_loop(boundaries))
        };
        self.rules.iter().any(|running| {
            let mut tunes = running.tunes.iter().zip(&running.rule.tunes);
            tunes.any(|(state, tune)| state.is_judging() && by_loop(running, tune.trigger.window()))
        })
    }

    /// The open findings, with the numbers of the last window, or of the last one before a change.
    pub fn findings(&self) -> Vec<Finding> {
        self.rules
            .iter()
            .flat_map(|running| &running.tunes)
            .filter_map(|tune| tune.finding.clone())
            .collect()
    }

    /// The rules, in the order of their [`RuleId`]s, without those that were removed.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &CheckedRule, Mode)> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter(|(_, running)| !running.is_removed)
            .map(|(index, running)| (RuleId(index), &*running.rule, running.mode))
    }

    /// A rule; `None` if it was removed.
    pub fn rule(&self, rule: RuleId) -> Option<&CheckedRule> {
        let running = self.rules.get(rule.0).filter(|running| !running.is_removed);
        running.map(|running| &*running.rule)
    }

    /// The metrics of the rule's last closed window, each with its value for display or `none (reason)`.
    pub fn metrics(&self, rule: RuleId) -> Vec<(String, String)> {
        let running = self.rules.get(rule.0);
        running.map_or_else(Vec::new, |running| running.retained.shown(&running.rule))
    }

    /// The last closed instance of each window of a rule.
    pub fn last_windows(&self, rule: RuleId) -> Vec<ClosedWindow> {
        let Some(running) = self.rules.get(rule.0) else {
            return Vec::new();
        };
        let windows = running.retained.last_of_each();
        windows.map(|over| over.shown(&running.rule)).collect()
    }

    /// The windows that closed since the last call, in order of evaluation. A bounded number is kept; the
    /// oldest are dropped.
    pub fn drain_windows(&mut self) -> Vec<ClosedWindow> {
        let rules = &self.rules;
        let shown = |over: Arc<Evaluated>| Some(over.shown(&rules.get(over.rule.0)?.rule));
        self.closed.drain(..).filter_map(shown).collect()
    }

    /// Drops the windows that closed until now.
    pub fn forget_windows(&mut self) {
        self.closed.clear();
    }

    /// What was left out of a rule's hits and windows since the beginning.
    pub fn dropped(&self, rule: RuleId) -> Dropped {
        self.rules
            .get(rule.0)
            .map_or_else(Dropped::default, |running| running.intake.stream.dropped)
    }
}

impl Running {
    /// The least and the greatest time from a change of the tune to its verdict, in seconds, if windows are as long as
    /// the last one.
    fn time_to_verdict(&self, tune: &Tune) -> Option<(f64, f64)> {
        let (least, most) = windows_to_verdict(tune.guard()?);
        let window = self.retained.last(tune.trigger.window())?;
        let length_s = window.duration?;
        Some((least as f64 * length_s, most as f64 * length_s))
    }

    /// How long a user has to wait for the verdict, as a suffix; empty if that is not known.
    fn verdict_text(&self, tune: &Tune) -> String {
        self.time_to_verdict(tune).map_or_else(String::new, |(_, most)| {
            format!(
                "; a verdict comes within {} of the first change",
                duration(most * 1e9)
            )
        })
    }

    /// Whether windows closed although no process had a role of the rule, or came or went within one.
    fn matches_no_process(&self) -> bool {
        self.progress.closed > 0 && !self.progress.had_processes && self.progress.left_out.is_empty()
    }

    /// The boundary without which no window of the rule can close, if it was not hit, and why.
    fn boundary_not_hit(&self) -> Option<String> {
        let boundaries = self.rule.windows.iter().filter_map(Window::boundaries);
        let probes = boundaries
            .flat_map(|of| [of.begins_at(), of.closes_at()])
            .flatten();
        let mut missing = probes.filter(|probe| self.probes.get(*probe).is_some_and(|state| !state.was_hit));
        let probe = self.rule.probes.get(missing.next()?)?;
        let has_process = self.roles.get(probe.role).is_some_and(|of| !of.is_empty());
        let role = self.rule.roles.get(probe.role).filter(|_| !has_process);
        Some(match role {
            Some(role) => format!(
                "no process has the role `{}` of its boundary `{}`",
                role.name, probe.name
            ),
            None => format!("its boundary `{}` was not hit", probe.name),
        })
    }
}

/// Why a condition was not evaluated, for display.
pub(super) fn not_evaluated(reason: &str) -> String {
    format!("not evaluated: {reason}")
}

/// Why a rule has no value if none of its windows was evaluated.
fn all_left_out(dropped: &Dropped) -> String {
    let left_out = dropped.windows();
    let all: u64 = left_out.iter().map(|one| one.count).sum();
    let reasons = left_out.iter().map(|one| format!("{} {}", one.count, one.words));
    let reasons: Vec<String> = reasons.collect();
    not_evaluated(&format!(
        "all {all} windows were left out: {}",
        reasons.join("; ")
    ))
}
