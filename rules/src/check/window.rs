//! Windows: every so long, or from hit to hit; and which window a formula lives in.

use super::Checker;
use super::infer::{Infer, WindowNames};
use crate::diag::{Diagnostic, Span, did_you_mean};
use crate::file::{KeyEntry, TuneEntry, WindowEntry};
use crate::lang::ast::Expr;
use crate::lang::text::Text;
use crate::rule::{Begin, Borders, Straddle, Window, WindowKind};
use crate::term::{Kind, Typed};
use crate::unit::Dimension;

/// The shortest and the longest time window, in nanoseconds: 10 ms and an hour.
const WINDOW_LIMITS: (f64, f64) = (1e7, 3.6e12);
/// How many windows a rule may have.
const MOST_WINDOWS: usize = 16;
/// How many instances may be skipped.
const MOST_SKIPPED: f64 = 1e6;

impl Checker<'_> {
    pub(super) fn windows(&mut self) -> Vec<Window> {
        let file = self.file;
        if file.windows.is_empty() {
            let wrong = Diagnostic::error("E0111", "a rule must have a window").at(file.name.span, "");
            self.wrong
                .push(wrong.help("for example `windows: {pulse: {every: 500ms}}`"));
        }
        if let Some(beyond) = file.windows.get(MOST_WINDOWS) {
            let message = format!("a rule may have at most {MOST_WINDOWS} windows");
            self.wrong
                .push(Diagnostic::error("E0123", message).at(beyond.name.span, ""));
            return Vec::new();
        }
        // Names first: a condition of one window may not speak of another, and must say so.
        for entry in &file.windows {
            let probe = |text: &Text| self.names.probes.get(&text.raw).map(|probe| probe.index);
            let borders = [&entry.from, &entry.to].into_iter().flatten().filter_map(probe);
            let names = WindowNames {
                name: entry.name.raw.clone(),
                timed: entry.every.is_some(),
                borders: borders.collect(),
            };
            self.names.windows.push(names);
        }
        let windows = file.windows.iter().enumerate();
        windows
            .filter_map(|(place, entry)| self.window(place, entry))
            .collect()
    }

    fn window(&mut self, place: usize, entry: &WindowEntry) -> Option<Window> {
        let kind = match (&entry.every, &entry.from) {
            (Some(every), None) => {
                self.only_of_probed(entry);
                WindowKind::Timed(self.every(every)?)
            }
            (None, Some(from)) => WindowKind::Probed(Box::new(self.borders(place, entry, from)?)),
            _ => {
                let message = "a window must have one of `every` and `from`";
                let wrong = Diagnostic::error("E0111", message).at(entry.name.span, "");
                return self.report(wrong.help("`every: 500ms`, or `from: begin` and `to: end`"));
            }
        };
        Some(Window {
            name: entry.name.raw.clone(),
            history: 0,
            kind,
        })
    }

    fn every(&mut self, every: &Expr) -> Option<u64> {
        let length = self.setting(every, Dimension::TIME, "every")? * 1e9;
        if !(WINDOW_LIMITS.0..=WINDOW_LIMITS.1).contains(&length) {
            let message = "a window lasts at least 10ms and at most 60min";
            return self.report(Diagnostic::error("E0145", message).at(every.span, ""));
        }
        Some(length.round() as u64)
    }

    /// A timed window has no borders to say more of.
    fn only_of_probed(&mut self, entry: &WindowEntry) {
        let key = entry.key.as_ref().map(|key| match key {
            KeyEntry::Same(name) => name.span,
            KeyEntry::Each(each) => each.first().map_or(entry.name.span, |(probe, _)| probe.span),
        });
        let of_probed = [
            ("to", entry.to.as_ref().map(|text| text.span)),
            ("key", key),
            ("complete", entry.complete.first().map(|named| named.name.span)),
            ("timeout", entry.timeout.as_ref().map(|expr| expr.span)),
            ("skip", entry.skip.as_ref().map(|expr| expr.span)),
            ("discard", entry.discard.as_ref().map(|expr| expr.span)),
            ("straddle", entry.straddle.as_ref().map(|text| text.span)),
        ];
        for (key, span) in of_probed {
            if let Some(span) = span {
                let message = format!("`{key}` belongs to windows from probe to probe");
                self.wrong.push(Diagnostic::error("E0148", message).at(span, ""));
            }
        }
    }

    fn borders(&mut self, place: usize, entry: &WindowEntry, from: &Text) -> Option<Borders> {
        let from = self.border(from);
        let to = match &entry.to {
            Some(to) => Some(self.border(to)?),
            None => None,
        };
        let keys = self.keys(entry, from);
        let mut complete = Vec::new();
        for named in &entry.complete {
            let role = self.role_named(&named.name);
            let condition = self.condition(place, &named.expr);
            complete.extend(role.zip(condition));
        }
        let timeout = match &entry.timeout {
            Some(expr) => Some(self.setting(expr, Dimension::TIME, "timeout")?),
            None => None,
        };
        if let (Some(seconds), Some(expr)) = (timeout, &entry.timeout)
            && !(0.0..=3600.0).contains(&seconds)
        {
            let message = "a timeout is at most 60min";
            return self.report(Diagnostic::error("E0145", message).at(expr.span, ""));
        }
        let skip = match &entry.skip {
            Some(expr) => self.skip(expr)?,
            None => 0,
        };
        let discard = match &entry.discard {
            Some(expr) => Some(self.condition(place, expr)?),
            None => None,
        };
        let straddle = self.straddle(entry.straddle.as_ref())?;
        Some(Borders {
            from: vec![Begin::Hit(from?)],
            to,
            until: None,
            within: None,
            keys: keys?,
            complete,
            timeout: timeout.map(|seconds| (seconds * 1e9).round() as u64),
            skip,
            discard,
            straddle,
        })
    }

    fn border(&mut self, name: &Text) -> Option<usize> {
        if let Some(probe) = self.names.probes.get(&name.raw) {
            return Some(probe.index);
        }
        let base = name.raw.split('.').next().unwrap_or("");
        if self.names.probes.contains_key(base) {
            let message = "one end of a span as a border is not in this version";
            let wrong = Diagnostic::error("E0105", message).at(name.span, "");
            return self.report(
                wrong.help("a span's hit is at its return; for the entry declare a probe with `entry:`"),
            );
        }
        let near = did_you_mean(&name.raw, self.names.probes.keys().map(String::as_str));
        let wrong = Diagnostic::error("E0130", format!("there is no probe `{}`", name.raw));
        self.report(wrong.at(name.span, "").help_if(near))
    }

    /// For each probe the capture that places its hits.
    fn keys(&mut self, entry: &WindowEntry, from: Option<usize>) -> Option<Vec<Option<usize>>> {
        let mut keys = vec![None; self.file.probes.len() + self.file.joins.len()];
        let place = match &entry.key {
            None => return Some(keys),
            Some(KeyEntry::Same(name)) => {
                for probe in self.names.probes.values() {
                    if let (Some(place), Some(key)) = (probe.capture(&name.raw), keys.get_mut(probe.index)) {
                        *key = Some(place);
                    }
                }
                name.span
            }
            Some(KeyEntry::Each(each)) => {
                for (probe, field) in each {
                    let index = self.border(probe)?;
                    let names = self.names.probes.get(&probe.raw)?;
                    let Some(place) = names.capture(&field.raw) else {
                        let message = format!("`{}` captures no `{}`", probe.raw, field.raw);
                        return self.report(Diagnostic::error("E0130", message).at(field.span, ""));
                    };
                    if let Some(key) = keys.get_mut(index) {
                        *key = Some(place);
                    }
                }
                entry.name.span
            }
        };
        // An end without a key ends what goes on in its process.
        let missing = from.filter(|probe| keys.get(*probe) == Some(&None));
        if let Some(missing) = missing {
            let probe = self
                .file
                .probes
                .get(missing)
                .map_or("", |probe| probe.name.raw.as_str());
            let message = format!("`{probe}`, where the window begins, does not capture the key");
            let help = format!("under `capture`: `{probe}.…: a variable that counts the instances`");
            return self.report(Diagnostic::error("E0148", message).at(place, "").help(help));
        }
        Some(keys)
    }

    fn condition(&mut self, place: usize, expr: &Expr) -> Option<Typed> {
        let condition = self.in_window(place).infer_boolean(expr)?;
        if condition.of.table.is_some() {
            let message = "one condition is needed here, this has several";
            return self.report(Diagnostic::error("E0143", message).at(condition.span, "a table"));
        }
        Some(condition)
    }

    fn skip(&mut self, expr: &Expr) -> Option<u64> {
        let value = self.setting(expr, Dimension::NONE, "skip")?;
        if value.fract() == 0.0 && (0.0..=MOST_SKIPPED).contains(&value) {
            return Some(value as u64);
        }
        let message = "`skip` is a whole number of instances";
        self.report(Diagnostic::error("E0145", message).at(expr.span, ""))
    }

    fn straddle(&mut self, text: Option<&Text>) -> Option<Straddle> {
        let Some(text) = text else {
            return Some(Straddle::End);
        };
        match text.raw.as_str() {
            "end" => Some(Straddle::End),
            "drop" => Some(Straddle::Drop),
            "begin" | "split" => {
                let message = format!("`straddle: {}` is not in this version", text.raw);
                let wrong = Diagnostic::error("E0105", message).at(text.span, "");
                self.report(wrong.help(
                    "this version has `end`, where a span belongs to the instance it ends in, and `drop`",
                ))
            }
            _ => {
                let message = "`straddle` is one of end, begin, split and drop";
                self.report(Diagnostic::error("E0145", message).at(text.span, ""))
            }
        }
    }

    pub(super) fn window_named(&mut self, name: &Text) -> Option<usize> {
        if let Some(place) = self.names.window_named(&name.raw) {
            return Some(place);
        }
        let near = did_you_mean(
            &name.raw,
            self.names.windows.iter().map(|window| window.name.as_str()),
        );
        let help = match (near, self.names.windows.as_slice()) {
            (None, [only]) => Some(format!("it is called `{}`", only.name)),
            (near, _) => near,
        };
        let message = format!("there is no window `{}`", name.raw);
        self.report(
            Diagnostic::error("E0130", message)
                .at(name.span, "")
                .help_if(help),
        )
    }

    /// The window that formulas live in: the one they name, else that of the metrics they use and the windows they
    /// speak of, else the only one.
    pub(super) fn home(&mut self, named: Option<&Text>, formulas: &[&Expr], place: Span) -> Option<usize> {
        if let Some(name) = named {
            return self.window_named(name);
        }
        if self.names.windows.len() <= 1 {
            return Some(0);
        }
        let mut homes: Vec<usize> = Vec::new();
        for (name, _) in formulas.iter().flat_map(|expr| expr.names()) {
            let base = name.split('.').next().unwrap_or(name);
            homes.extend(match self.names.metrics.get(name) {
                Some(metric) => metric.as_ref().map(|metric| metric.window),
                None => self.names.window_named(base),
            });
        }
        if let Some(first) = homes.first() {
            return Some(*first);
        }
        let windows: Vec<&str> = self
            .names
            .windows
            .iter()
            .map(|window| window.name.as_str())
            .collect();
        let message = format!("this could be in any of the windows {}", windows.join(", "));
        let help = "say it: `name: {in: window, value: …}` for a metric, `every: window` in a tune";
        self.report(Diagnostic::error("E0147", message).at(place, "").help(help))
    }

    pub(super) fn home_of_tune(&mut self, entry: &TuneEntry) -> Option<usize> {
        let formulas: Vec<&Expr> = [&entry.when, &entry.while_holds, &entry.value]
            .into_iter()
            .flatten()
            .collect();
        self.home(entry.every.as_ref(), &formulas, entry.span)
    }
}

impl Infer<'_> {
    pub(super) fn of_another_window(&mut self, name: &str, window: usize, span: Span) -> Option<Typed> {
        let called = |place: usize| {
            self.names
                .windows
                .get(place)
                .map_or("", |window| window.name.as_str())
        };
        let message = format!(
            "`{name}` is of the window {}, and this formula of {}",
            called(window),
            called(self.home)
        );
        self.report(Diagnostic::error("E0147", message).at(span, ""))
    }
}

impl super::infer::Names {
    pub(super) fn window_named(&self, name: &str) -> Option<usize> {
        self.windows.iter().position(|window| window.name == name)
    }
}

impl super::infer::ProbeNames {
    /// The place of a capture that can be a key.
    fn capture(&self, name: &str) -> Option<usize> {
        // A pair has the captures of both its hits.
        let fits = |capture: &str| capture == name || capture.ends_with(&format!(".{name}"));
        let place = self.captures.iter().position(|(capture, _)| fits(capture))?;
        let of = self.captures.get(place)?.1?;
        matches!(of.kind, Kind::Number(_) | Kind::Text).then_some(place)
    }
}
