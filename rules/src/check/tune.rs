//! Tunes: what each must have, and that its settings are sane.

use super::Checker;
use crate::diag::{Diagnostic, did_you_mean};
use crate::file::{GuardEntry, TuneEntry};
use crate::lang::ast::Expr;
use crate::lang::text::Text;
use crate::rule::{Action, FilledPart, Guard, Tune};
use crate::term::{Kind, Type, Typed};
use crate::unit::Dimension;
use crate::value::Scalar;

/// The most windows a condition may have to hold, or a guard may compare: history is kept for them.
const MOST_WINDOWS: f64 = 1000.0;

/// What a change may have besides.
struct More {
    initial: Option<Scalar>,
    expect: Option<Typed>,
    stale: Option<u32>,
    after: Option<usize>,
    independent: bool,
}

impl Checker<'_> {
    pub(super) fn tunes(&mut self) -> Vec<Tune> {
        let file = self.file;
        self.same_target();
        file.tunes.iter().filter_map(|entry| self.tune(entry)).collect()
    }

    fn same_target(&mut self) {
        let targets: Vec<&Text> = self
            .file
            .tunes
            .iter()
            .filter_map(|tune| tune.set.as_ref())
            .collect();
        for (i, target) in targets.iter().enumerate() {
            if let Some(first) = targets[..i].iter().find(|other| other.raw == target.raw) {
                let message = format!("two tunes set `{}`", target.raw);
                let wrong = Diagnostic::error("E0151", message)
                    .at(target.span, "again here")
                    .at(first.span, "first here");
                self.wrong
                    .push(wrong.help("one tune with a value that covers both cases"));
            }
        }
    }

    fn tune(&mut self, entry: &TuneEntry) -> Option<Tune> {
        // What is wrong with the window has been reported; the rest may be right.
        let home = self.home_of_tune(entry).unwrap_or(0);
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
        let more = self.more(entry, home);
        let action = match &entry.set {
            Some(set) => Some(self.action(entry, set, home)),
            None => {
                self.advice(entry);
                None
            }
        };
        let action = match action {
            Some(action) => Some(action?),
            None => None,
        };
        let cooldown = (cooldown? * 1e9).round() as u64;
        let more = more?;
        Some(Tune {
            undo_after: entry.while_holds.is_some(),
            initial: more.initial,
            expect: more.expect,
            stale: more.stale,
            after: more.after,
            at: entry
                .at
                .as_ref()
                .map(|(site, function)| (*site, self.file.bound(&function.raw))),
            together: entry.together.as_ref().map(|window| window.raw.clone()),
            independent: more.independent,
            window: home,
            when: when?,
            holds_for: holds_for?,
            cooldown,
            finding,
            next_start,
            action,
        })
    }

    fn more(&mut self, entry: &TuneEntry, home: usize) -> Option<More> {
        let expect = match &entry.expect {
            Some(expr) => Some(self.single(expr, home)?),
            None => None,
        };
        let stale = match &entry.stale {
            Some(expr) => Some(self.count_of_windows(expr, "stale")?),
            None => None,
        };
        let after = match &entry.after {
            Some(name) => Some(self.before(entry, name)?),
            None => None,
        };
        if let Some(window) = &entry.together {
            self.window_named(window)?;
            if let Some((_, function)) = &entry.at {
                let message =
                    "`at` is for each process by itself, `together` for all at once: a tune has one of them";
                return self.report(Diagnostic::error("E0150", message).at(function.span, ""));
            }
        }
        let independent = match &entry.independent {
            Some(expr) => self.switch(expr, "independent")?,
            None => false,
        };
        let initial = match &entry.initial {
            Some(expr) => Some(self.initial(expr, entry.value.as_ref(), home)?),
            None => None,
        };
        Some(More {
            initial,
            expect,
            stale,
            after,
            independent,
        })
    }

    /// A constant of the kind of the value.
    fn initial(&mut self, expr: &Expr, value: Option<&Expr>, home: usize) -> Option<Scalar> {
        let (initial, of) = self.constant(expr)?;
        let before = self.wrong.len();
        let wanted = value.and_then(|value| self.in_window(home).infer(value));
        // What is wrong with the value is reported where it is read.
        self.wrong.truncate(before);
        if wanted.is_none_or(|wanted| wanted.of.kind == of.kind) {
            return Some(initial);
        }
        let message = format!("`initial` is not what `value` is: this is {}", of.what());
        self.report(Diagnostic::error("E0140", message).at(expr.span, ""))
    }

    /// The tune that sets the variable `name`, which is another one and does not itself wait for this.
    fn before(&mut self, entry: &TuneEntry, name: &Text) -> Option<usize> {
        let tunes = &self.file.tunes;
        let sets = |name: &str| {
            let named = |tune: &TuneEntry| tune.set.as_ref().is_some_and(|set| set.raw == name);
            tunes.iter().position(named)
        };
        let Some(place) = sets(&name.raw) else {
            let known = tunes.iter().filter_map(|tune| tune.set.as_ref());
            let near = did_you_mean(&name.raw, known.map(|set| set.raw.as_str()));
            let wrong = Diagnostic::error("E0130", format!("no tune of this rule sets `{}`", name.raw));
            return self.report(wrong.at(name.span, "").help_if(near));
        };
        let mut next = tunes.get(place);
        for _ in 0..=tunes.len() {
            if next.is_some_and(|tune| tune.span == entry.span) {
                let message = "these tunes wait for each other";
                return self.report(Diagnostic::error("E0131", message).at(name.span, ""));
            }
            let after = next.and_then(|tune| tune.after.as_ref());
            next = after.and_then(|after| tunes.get(sets(&after.raw)?));
        }
        Some(place)
    }

    fn switch(&mut self, expr: &Expr, what: &str) -> Option<bool> {
        match self.constant(expr)? {
            (Scalar::Boolean(value), _) => Some(value),
            (_, of) => {
                let message = format!("`{what}` is true or false, this is {}", of.what());
                self.report(Diagnostic::error("E0140", message).at(expr.span, ""))
            }
        }
    }

    fn when(&mut self, entry: &TuneEntry, home: usize) -> Option<Typed> {
        let expr = match (&entry.when, &entry.while_holds) {
            (Some(expr), None) | (None, Some(expr)) => expr,
            (Some(_), Some(wrong)) => {
                let message = "`when` acts once and `while` as long as it holds: a tune has one of them";
                return self.report(Diagnostic::error("E0150", message).at(wrong.span, ""));
            }
            (None, None) => {
                let wrong = Diagnostic::error("E0111", "a tune must have `when`").at(entry.span, "");
                return self.report(wrong.help("the condition under which it acts or advises"));
            }
        };
        let typed = self.in_window(home).infer_boolean(expr)?;
        if typed.of.table.is_some() {
            let message = "a condition for each process is not in this version";
            let wrong = Diagnostic::error("E0105", message).at(typed.span, "a table by process");
            return self.report(wrong.help("fold what is compared: `max(x) > 3`"));
        }
        Some(typed)
    }

    fn not_negative(&mut self, value: f64, expr: &Expr) -> Option<f64> {
        if value >= 0.0 {
            return Some(value);
        }
        self.report(Diagnostic::error("E0145", "this cannot be negative").at(expr.span, ""))
    }

    fn count_of_windows(&mut self, expr: &Expr, what: &str) -> Option<u32> {
        let value = self.setting(expr, Dimension::NONE, what)?;
        if value.fract() == 0.0 && (1.0..=MOST_WINDOWS).contains(&value) {
            return Some(value as u32);
        }
        let message = format!("`{what}` is a number of windows: a whole number of 1 to {MOST_WINDOWS}");
        self.report(Diagnostic::error("E0145", message).at(expr.span, ""))
    }

    /// A tune without `set` only advises: what belongs to a change has no place in it.
    fn advice(&mut self, entry: &TuneEntry) {
        let of_a_change = [
            ("role", entry.role.as_ref().map(|text| text.span)),
            ("value", entry.value.as_ref().map(|expr| expr.span)),
            ("range", entry.range.as_ref().map(|expr| expr.span)),
            ("guard", entry.guard.as_ref().map(|guard| guard.span)),
            ("cooldown", entry.cooldown.as_ref().map(|expr| expr.span)),
            ("while", entry.while_holds.as_ref().map(|expr| expr.span)),
            ("initial", entry.initial.as_ref().map(|expr| expr.span)),
            ("expect", entry.expect.as_ref().map(|expr| expr.span)),
            ("stale", entry.stale.as_ref().map(|expr| expr.span)),
            ("after", entry.after.as_ref().map(|text| text.span)),
            ("at", entry.at.as_ref().map(|(_, text)| text.span)),
            ("together", entry.together.as_ref().map(|text| text.span)),
            ("independent", entry.independent.as_ref().map(|expr| expr.span)),
        ];
        for (key, span) in of_a_change {
            if let Some(span) = span {
                let message = format!("`{key}` belongs to a change, and this tune has no `set`");
                self.wrong.push(Diagnostic::error("E0150", message).at(span, ""));
            }
        }
        if entry.finding.is_none() {
            let message = "a tune must have `set` or `finding`: this one does nothing";
            self.wrong
                .push(Diagnostic::error("E0150", message).at(entry.span, ""));
        }
    }

    fn action(&mut self, entry: &TuneEntry, set: &Text, home: usize) -> Option<Action> {
        self.variable_name(set);
        let role = match &entry.role {
            Some(role) => self.role_named(role),
            None => self.lacks(entry, "role", "which processes are changed"),
        };
        let value = match &entry.value {
            Some(expr) => self.value(expr, home),
            None => self.lacks(entry, "value", "what the variable is set to"),
        };
        let guard = match &entry.guard {
            Some(guard) => self.guard(guard, home),
            None => self.lacks(entry, "guard", "a change is undone unless it is seen to help"),
        };
        let value = value?;
        let range = match &entry.range {
            Some(expr) => Some((self.range(expr, &value, home)?, expr.to_string())),
            None => None,
        };
        Some(Action {
            variable: self.file.bound(&set.raw),
            role: role?,
            value,
            range,
            guard: guard?,
        })
    }

    fn lacks<T>(&mut self, entry: &TuneEntry, key: &str, help: &str) -> Option<T> {
        let message = format!("a tune that sets a variable must have `{key}`");
        self.report(Diagnostic::error("E0111", message).at(entry.span, "").help(help))
    }

    fn variable_name(&mut self, set: &Text) {
        let raw = set.raw.as_str();
        if raw.contains(['.', '[', '*']) || raw.contains("->") {
            let message = "setting a field or an element is not in this version";
            self.wrong.push(
                Diagnostic::error("E0105", message)
                    .at(set.span, "")
                    .help("name a global variable"),
            );
        } else if raw.is_empty() || raw.contains(char::is_whitespace) {
            let message = "this cannot be the name of a variable";
            self.wrong
                .push(Diagnostic::error("E0113", message).at(set.span, ""));
        }
    }

    /// A boolean or a plain number, for all processes or for each: the program knows no units.
    fn value(&mut self, expr: &Expr, home: usize) -> Option<Typed> {
        let typed = self.in_window(home).infer(expr)?;
        match typed.of.kind {
            Kind::Boolean => Some(typed),
            Kind::Number(Dimension::NONE) => Some(typed),
            Kind::Number(dimension) => {
                let message = format!("a variable is set to a plain number, this is {dimension}");
                let help = format!(
                    "say the unit the program counts in: `({expr}) / ({})`",
                    dimension.as_factor()
                );
                self.report(Diagnostic::error("E0141", message).at(typed.span, "").help(help))
            }
            Kind::Text => {
                let message = "setting a text is not in this version";
                self.report(Diagnostic::error("E0105", message).at(typed.span, ""))
            }
        }
    }

    fn range(&mut self, expr: &Expr, value: &Typed, home: usize) -> Option<Typed> {
        let mut infer = self.in_window(home);
        infer.proposed = Some(Type::single(value.of.kind));
        let typed = infer.infer_boolean(expr)?;
        if typed.of.table.is_some() {
            let message = "one condition is needed here, this has several";
            return self.report(Diagnostic::error("E0143", message).at(typed.span, "a table"));
        }
        Some(typed)
    }

    fn guard(&mut self, entry: &GuardEntry, home: usize) -> Option<Guard> {
        let objective = self.single(&entry.objective, home);
        let over = match &entry.over {
            Some(expr) => self.count_of_windows(expr, "over"),
            None => self.guard_lacks(entry, "over"),
        };
        let margin = match &entry.margin {
            Some(expr) => self.margin(expr),
            None => self.guard_lacks(entry, "undo_if_worse_by"),
        };
        let objective = objective?;
        if !matches!(objective.of.kind, Kind::Number(_)) {
            let message = format!("a guard compares numbers, this is {}", objective.of.what());
            return self.report(Diagnostic::error("E0140", message).at(objective.span, ""));
        }
        let objective_text = entry.objective.to_string();
        Some(Guard {
            maximize: entry.maximize,
            objective,
            objective_text,
            over: over?,
            margin: margin?,
        })
    }

    fn guard_lacks<T>(&mut self, entry: &GuardEntry, key: &str) -> Option<T> {
        self.report(Diagnostic::error("E0111", format!("a guard must have `{key}`")).at(entry.span, ""))
    }

    fn margin(&mut self, expr: &Expr) -> Option<f64> {
        let margin = self.setting(expr, Dimension::NONE, "undo_if_worse_by")?;
        if (0.0..1.0).contains(&margin) {
            return Some(margin);
        }
        let message = "`undo_if_worse_by` is a share: 0% or more and less than 100%";
        self.report(Diagnostic::error("E0145", message).at(expr.span, ""))
    }
}

impl Tune {
    /// Every formula of the tune.
    pub(crate) fn formulas(&self) -> Vec<&Typed> {
        let mut out = vec![&self.when];
        out.extend(&self.expect);
        for template in [&self.finding, &self.next_start].into_iter().flatten() {
            out.extend(template.0.iter().filter_map(|part| match part {
                FilledPart::Value(typed) => Some(typed),
                FilledPart::Literal(_) => None,
            }));
        }
        if let Some(action) = &self.action {
            out.extend([&action.value, &action.guard.objective]);
            out.extend(action.range.iter().map(|(condition, _)| condition));
        }
        out
    }
}
