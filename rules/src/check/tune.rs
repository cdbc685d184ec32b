//! Checks the triggers and settings of tunes. [`super::action`] checks their actions.

use plan::{Keyword, SyncPoint};
use syntax::ast::Expr;
use syntax::diag::{Diagnostic, names_help};
use syntax::text::Text;
use syntax::unit::Dimension;

use super::{Checker, optional};
use crate::file::{GuardEntry, SyncEntry, TuneEntry};
use crate::guard::Guard;
use crate::rule::{Trigger, Tune};
use crate::term::Typed;
use crate::types::{KeyKind, Kind};
use crate::value::Scalar;

/// Maximum number of windows for which a condition must hold, or that a guard compares: history is kept for
/// them.
const WINDOWS_MAX: f64 = 1000.0;

/// Further settings of a change.
struct TuneSettings {
    initial: Option<Scalar>,
    expect: Option<Typed>,
    stale: Option<u32>,
    after: Option<usize>,
    at: Option<SyncPoint>,
    independent: bool,
}

impl Checker<'_> {
    pub(super) fn tunes(&mut self) -> Vec<Tune> {
        let file = self.file;
        self.same_target();
        let mut tunes: Vec<Tune> = file.tunes.iter().filter_map(|entry| self.tune(entry)).collect();
        share_finding(&mut tunes);
        tunes
    }

    /// Two tunes may not share a target, except for calls, loaded libraries and switched probes.
    fn same_target(&mut self) {
        let shared = [
            Keyword::Call,
            Keyword::Load,
            Keyword::InsertCall,
            Keyword::Enable,
            Keyword::Disable,
        ];
        let actions = self.file.tunes.iter().filter_map(|tune| tune.action.as_ref());
        let targets: Vec<(Keyword, &Text)> = actions
            .filter(|action| !shared.contains(&action.keyword))
            .map(|action| (action.keyword, &action.target))
            .collect();
        for (i, (keyword, target)) in targets.iter().enumerate() {
            let same = |(other, first): &&(Keyword, &Text)| other == keyword && first.raw == target.raw;
            if let Some((_, first)) = targets.iter().take(i).find(same) {
                let message = format!("two tunes {} `{}`", keyword.name(), target.raw);
                let wrong = Diagnostic::error("E0151", message)
                    .at(target.span, "again here")
                    .at(first.span, "first here");
                self.wrong
                    .push(wrong.help("one tune with a value that covers both cases"));
            }
        }
    }

    fn tune(&mut self, entry: &TuneEntry) -> Option<Tune> {
        // An error in the window has been reported; the rest is checked too.
        let trigger = self.trigger(entry).unwrap_or(Trigger::Window(0));
        let home = trigger.window();
        let when = self.when(entry, home);
        let holds_for = match &entry.holds_for {
            Some(expr) => self.count_of_windows(expr, "for"),
            None => Some(1),
        };
        let cooldown = match &entry.cooldown {
            Some(expr) => self
                .setting(expr, Dimension::TIME, "cooldown")
                .and_then(|s| self.not_negative(s, expr)),
            None => Some(0.0),
        };
        let finding = entry
            .finding
            .as_ref()
            .map(|template| self.template(template, home));
        let next_start = entry
            .next_start
            .as_ref()
            .map(|template| self.template(template, home));
        let settings = self.settings(entry, home);
        let action = match &entry.action {
            Some(action) => Some(self.change(entry, action, home)),
            None => {
                self.advice(entry);
                None
            }
        };
        let action = optional(action, |action| action)?;
        let settings = settings?;
        Some(Tune {
            revert_after: entry.while_holds.is_some(),
            initial: settings.initial,
            expect: settings.expect,
            stale: settings.stale,
            after: settings.after,
            at: settings.at,
            together: entry.together.as_ref().map(|window| window.raw.clone()),
            independent: settings.independent,
            trigger,
            when: when?,
            holds_for: holds_for?,
            cooldown: (cooldown? * 1e9).round() as u64,
            finding,
            next_start,
            action,
        })
    }

    /// The window at whose close, or the probe at whose hits, the tune is evaluated.
    pub(super) fn trigger(&mut self, entry: &TuneEntry) -> Option<Trigger> {
        let probe = entry
            .every
            .as_ref()
            .and_then(|name| self.names.probes.get(&name.raw));
        let (Some(probe), Some(name)) = (probe.map(|probe| probe.index), &entry.every) else {
            return self.home_of_tune(entry).map(Trigger::Window);
        };
        match self.innermost_of(&[probe]) {
            Some(window) if self.names.windows.get(window).is_some_and(|window| !window.timed) => {
                Some(Trigger::Hit { probe, window })
            }
            _ => {
                let message = format!(
                    "the hits of `{}` belong to no window from probe to probe",
                    name.raw
                );
                let help = "a tune that is looked at at hits uses what the window has so far";
                self.report(Diagnostic::wrong("E0147", name.span, message).help(help))
            }
        }
    }

    fn settings(&mut self, entry: &TuneEntry, home: usize) -> Option<TuneSettings> {
        let expect = optional(entry.expect.as_ref(), |expr| self.single(expr, home))?;
        let stale = optional(entry.stale.as_ref(), |expr| self.count_of_windows(expr, "stale"))?;
        let after = optional(entry.after.as_ref(), |name| self.before(entry, name))?;
        if let Some(window) = &entry.together {
            self.window_named(window)?;
            if let Some(at) = &entry.at {
                let message =
                    "`at` is for each process by itself, `together` for all at once: a tune has one of them";
                return self.refuse("E0150", at.function.span, message);
            }
        }
        let at = optional(entry.at.as_ref(), |at| self.sync_point(at))?;
        let independent = match &entry.independent {
            Some(expr) => self.independent(expr)?,
            None => false,
        };
        let initial = optional(entry.initial.as_ref(), |expr| {
            self.initial(expr, entry.value.as_ref(), home)
        })?;
        Some(TuneSettings {
            initial,
            expect,
            stale,
            after,
            at,
            independent,
        })
    }

    fn sync_point(&mut self, at: &SyncEntry) -> Option<SyncPoint> {
        let target = self.target(&at.function)?;
        let Some(function) = target.function() else {
            let message = format!("`{target}` is not one function, and a change is made at one");
            let help = "the entry or return of one: `at: {entry: begin_iteration}`";
            return self.report(Diagnostic::wrong("E0169", at.function.span, message).help(help));
        };
        let point = SyncPoint::new(at.moment, function);
        point
            .map_err(|error| Diagnostic::wrong("E0169", at.function.span, error.to_string()))
            .map_or_else(|wrong| self.report(wrong), Some)
    }

    /// A constant of the same kind as the value.
    fn initial(&mut self, expr: &Expr, value: Option<&Expr>, home: usize) -> Option<Scalar> {
        let (initial, of) = self.constant(expr)?;
        let before = self.wrong.len();
        let wanted = value.and_then(|value| self.in_window(home).infer(value));
        // Errors in the value are reported elsewhere.
        self.wrong.truncate(before);
        if wanted.is_none_or(|wanted| wanted.type_of.kind == of.kind) {
            return Some(initial);
        }
        let message = format!("`initial` is not what `value` is: this is {}", of.what());
        self.refuse("E0140", expr.span, message)
    }

    /// The other tune that acts on `name`; it must not itself wait for this one.
    fn before(&mut self, entry: &TuneEntry, name: &Text) -> Option<usize> {
        let tunes = &self.file.tunes;
        let sets = |name: &str| {
            let named = |tune: &TuneEntry| tune.target().is_some_and(|target| target == name);
            tunes.iter().position(named)
        };
        let Some(place) = sets(&name.raw) else {
            let known: Vec<String> = tunes.iter().filter_map(TuneEntry::target).collect();
            let near = names_help(&name.raw, known.iter().map(String::as_str));
            let wrong = Diagnostic::error("E0130", format!("no tune of this rule acts on `{}`", name.raw));
            return self.report(wrong.at(name.span, "").help_if(near));
        };
        let mut next = tunes.get(place);
        for _ in 0..=tunes.len() {
            if next.is_some_and(|tune| tune.span == entry.span) {
                return self.refuse("E0131", name.span, "these tunes wait for each other");
            }
            let after = next.and_then(|tune| tune.after.as_ref());
            next = after.and_then(|after| tunes.get(sets(&after.raw)?));
        }
        Some(place)
    }

    fn independent(&mut self, expr: &Expr) -> Option<bool> {
        match self.constant(expr)? {
            (Scalar::Boolean(value), _) => Some(value),
            (_, of) => {
                let message = format!("`independent` is true or false, this is {}", of.what());
                self.refuse("E0140", expr.span, message)
            }
        }
    }

    /// The condition, for all processes or for each; the outer `None` stands for a reported error.
    fn when(&mut self, entry: &TuneEntry, home: usize) -> Option<Option<Typed>> {
        let expr = match (&entry.when, &entry.while_holds) {
            (Some(expr), None) | (None, Some(expr)) => expr,
            (Some(_), Some(wrong)) => {
                let message = "`when` acts once and `while` as long as it holds: a tune has one of them";
                return self.refuse("E0150", wrong.span, message);
            }
            (None, None) if entry.guard.is_none() && entry.action.is_some() => return Some(None),
            (None, None) => {
                let wrong = Diagnostic::wrong("E0111", entry.span, "a tune must have `when`");
                return self.report(wrong.help(
                    "the condition under which it acts or advises; only a change without a guard may lack it",
                ));
            }
        };
        let typed = self.in_window(home).infer_boolean(expr)?;
        match typed.type_of.table {
            None => Some(Some(typed)),
            Some(KeyKind::Process) if entry.action.is_some() => Some(Some(typed)),
            Some(_) => {
                let message = "one condition is needed here, this has several";
                let wrong = Diagnostic::error("E0143", message).at(typed.span, "a table");
                self.report(
                    wrong.help("fold what is compared: `max(x) > 3`; a change may have one by process"),
                )
            }
        }
    }

    fn not_negative(&mut self, value: f64, expr: &Expr) -> Option<f64> {
        if value >= 0.0 {
            return Some(value);
        }
        self.refuse("E0145", expr.span, "this cannot be negative")
    }

    fn count_of_windows(&mut self, expr: &Expr, what: &str) -> Option<u32> {
        let value = self.setting(expr, Dimension::NONE, what)?;
        if value.fract() == 0.0 && (1.0..=WINDOWS_MAX).contains(&value) {
            return Some(value as u32);
        }
        let message = format!("`{what}` is a number of windows: an integer of 1 to {WINDOWS_MAX}");
        self.refuse("E0145", expr.span, message)
    }

    /// Refuses keys of a change in a tune that only advises.
    fn advice(&mut self, entry: &TuneEntry) {
        for (key, span) in entry.special_keys() {
            let message = format!("`{key}` belongs to a change, and this tune makes none");
            self.wrong.push(Diagnostic::wrong("E0150", span, message));
        }
        if entry.finding.is_none() {
            let message = "a tune must change something or have a `finding`: this one does nothing";
            self.wrong.push(Diagnostic::wrong("E0150", entry.span, message));
        }
    }

    pub(super) fn guard(&mut self, entry: &GuardEntry, home: usize) -> Option<Guard> {
        let was = entry.was.as_ref().map(|was| self.was(was, home));
        let mut infer = self.in_window(home);
        infer
            .variables
            .extend(entry.was.iter().map(|_| "was".to_string()));
        let objective = infer.infer(&entry.objective);
        let objective = objective.and_then(|objective| self.one_value(objective));
        let keeps_unless_worse = match entry.keep.as_ref() {
            Some(text) => self.keeps_unless_worse(text),
            None => Some(false),
        };
        let retry = entry.retry.as_ref();
        let retry = retry.map(|expr| self.count_of_windows(expr, "retry"));
        let over = match &entry.over {
            Some(expr) => self.count_of_windows(expr, "over"),
            None => self.guard_lacks(entry, "over"),
        };
        let margin = match &entry.margin {
            Some(expr) => self.margin(expr),
            None => self.guard_lacks(entry, "undo_if_worse_by"),
        };
        let objective = objective?;
        if !matches!(objective.type_of.kind, Kind::Number(_)) {
            let message = format!("a guard compares numbers, this is {}", objective.type_of.what());
            return self.refuse("E0140", objective.span, message);
        }
        let objective_text = entry.objective.to_string();
        Some(Guard {
            maximize: entry.maximize,
            objective,
            objective_text,
            over: over?,
            margin: margin?,
            keeps_unless_worse: keeps_unless_worse?,
            was: was.map_or(Some(None), |was| was.map(Some))?,
            retry: retry.map_or(Some(None), |retry| retry.map(Some))?,
        })
    }

    /// A number without a unit, as for arguments of metrics.
    fn was(&mut self, expr: &Expr, home: usize) -> Option<Typed> {
        let was = self.single(expr, home)?;
        if was.type_of.kind == Kind::Number(Dimension::NONE) {
            return Some(was);
        }
        let message = format!("`was` is a number without a unit, this is {}", was.type_of.what());
        self.refuse("E0140", was.span, message)
    }

    fn keeps_unless_worse(&mut self, text: &Text) -> Option<bool> {
        match text.raw.as_str() {
            "better" => Some(false),
            "not_worse" => Some(true),
            _ => self.refuse("E0145", text.span, "`keep` is one of better, not_worse"),
        }
    }

    fn guard_lacks<T>(&mut self, entry: &GuardEntry, key: &str) -> Option<T> {
        self.refuse("E0111", entry.span, format!("a guard must have `{key}`"))
    }

    fn margin(&mut self, expr: &Expr) -> Option<f64> {
        let margin = self.setting(expr, Dimension::NONE, "undo_if_worse_by")?;
        if (0.0..1.0).contains(&margin) {
            return Some(margin);
        }
        let message = "`undo_if_worse_by` is a share: 0% or more and less than 100%";
        let wrong = Diagnostic::wrong("E0145", expr.span, message);
        let is_without_sign = (1.0..100.0).contains(&margin);
        self.report(wrong.help_if(is_without_sign.then(|| format!("write `{margin}%`"))))
    }
}

impl TuneEntry {
    /// Its target, as `after` names it.
    fn target(&self) -> Option<String> {
        let action = self.action.as_ref()?;
        let raw = action.target.raw.as_str();
        // For a call, the function without its arguments.
        let end = if action.call.is_some() {
            raw.find('(')
        } else {
            None
        };
        Some(raw.get(..end.unwrap_or(raw.len())).unwrap_or(raw).to_string())
    }
}

/// Windows share one finding: a tune without a text uses that of the first tune of its window that has one.
fn share_finding(tunes: &mut [Tune]) {
    let Some(first) = tunes.iter().find(|tune| tune.finding.is_some()).cloned() else {
        return;
    };
    let window = first.trigger.window();
    let wordless = tunes
        .iter_mut()
        .filter(|tune| tune.has_finding() && tune.finding.is_none() && tune.trigger.window() == window);
    for tune in wordless {
        tune.finding.clone_from(&first.finding);
        tune.next_start = tune.next_start.take().or_else(|| first.next_start.clone());
    }
}
