//! Windows: timed, from hit to hit, and nested. [`super::scope`] determines the window of a formula.

use syntax::ast::Expr;
use syntax::diag::{Diagnostic, names_help};
use syntax::text::Text;
use syntax::unit::Dimension;

use super::infer::WindowNames;
use super::{Checker, optional};
use crate::file::{KeyEntry, WindowEntry};
use crate::target::Site;
use crate::term::{FoldRange, Term, Typed};
use crate::types::Kind;
use crate::window::{Begin, Boundaries, Straddle, Window, WindowKind};

/// Minimum and maximum length of a timed window, in nanoseconds: 10 ms and an hour.
const WINDOW_LIMITS: (f64, f64) = (1e7, 3.6e12);
/// Maximum number of windows in a rule.
const WINDOWS_MAX: usize = 16;
/// Maximum nesting depth of windows.
const AROUND_MAX: usize = 4;
/// Maximum number of skipped instances.
const SKIPPED_MAX: f64 = 1e6;

impl Checker<'_> {
    pub(super) fn windows(&mut self) -> Vec<Window> {
        let file = self.file;
        if file.windows.is_empty() {
            let wrong = Diagnostic::wrong("E0111", file.name.span, "a rule must have a window");
            self.wrong
                .push(wrong.help("for example `windows: {pulse: {every: 500ms}}`"));
        }
        if let Some(beyond) = file.windows.get(WINDOWS_MAX) {
            let message = format!("a rule may have at most {WINDOWS_MAX} windows");
            self.wrong
                .push(Diagnostic::wrong("E0123", beyond.name.span, message));
            return Vec::new();
        }
        // Names come first, because boundaries, keys and conditions refer to other windows.
        for entry in &file.windows {
            let names = WindowNames {
                name: entry.name.raw.clone(),
                timed: entry.every.is_some(),
                ..WindowNames::default()
            };
            self.names.windows.push(names);
        }
        for (index, entry) in file.windows.iter().enumerate() {
            let within = self.within(index, entry);
            if let Some(names) = self.names.windows.get_mut(index) {
                names.within = within;
            }
        }
        let windows = file.windows.iter().enumerate();
        windows
            .filter_map(|(index, entry)| self.window(index, entry))
            .collect()
    }

    fn within(&mut self, index: usize, entry: &WindowEntry) -> Option<usize> {
        let name = entry.within.as_ref()?;
        let outer = self.window_named(name)?;
        if self.names.is_timed(outer) {
            let message = "only a window from probe to probe has others in it";
            return self.refuse("E0148", name.span, message);
        }
        let around = self.names.around(outer);
        if outer == index || around.contains(&index) {
            return self.refuse("E0131", name.span, "a window cannot lie in itself");
        }
        if around.len() + 1 > AROUND_MAX {
            let message = format!("a window lies in at most {AROUND_MAX} others");
            return self.refuse("E0123", name.span, message);
        }
        Some(outer)
    }

    fn window(&mut self, index: usize, entry: &WindowEntry) -> Option<Window> {
        let kind = match (&entry.every, entry.from.as_slice()) {
            (Some(every), []) => {
                self.only_of_probed(entry);
                WindowKind::Timed(self.every(every)?)
            }
            (None, [_, ..]) => WindowKind::Probed(Box::new(self.boundaries(index, entry)?)),
            _ => {
                let message = "a window must have one of `every`, `from` and `detect`";
                let wrong = Diagnostic::wrong("E0111", entry.name.span, message);
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
            return self.refuse("E0145", every.span, message);
        }
        Some(length.round() as u64)
    }

    /// Refuses keys that require boundaries in a timed window.
    fn only_of_probed(&mut self, entry: &WindowEntry) {
        let key = entry.key.as_ref().map(|key| match key {
            KeyEntry::Same(name) => name.span,
            KeyEntry::Each(each) => each.first().map_or(entry.name.span, |(probe, _)| probe.span),
        });
        let of_probed = [
            ("to", entry.to.as_ref().map(|text| text.span)),
            ("within", entry.within.as_ref().map(|text| text.span)),
            ("until", entry.until.as_ref().map(|expr| expr.span)),
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
                self.wrong.push(Diagnostic::wrong("E0148", span, message));
            }
        }
    }

    /// Begin and end of instances; their conditions are inferred once the metrics are known.
    fn boundaries(&mut self, index: usize, entry: &WindowEntry) -> Option<Boundaries> {
        let begins: Vec<Option<Begin>> = entry.from.iter().map(|from| self.begin(index, from)).collect();
        let to = optional(entry.to.as_ref(), |to| self.boundary(to))?;
        let from = begins.into_iter().collect::<Option<Vec<Begin>>>()?;
        let begins_within = from.len() > 1;
        self.ends(entry, &from)?;
        let hits: Vec<usize> = from.iter().filter_map(|begin| begin.probe()).collect();
        if let ([_, _, ..], Some(second)) = (hits.as_slice(), entry.from.get(1)) {
            let message = "the hits of one probe begin a window, these are two";
            return self.refuse("E0148", second.span, message);
        }
        let begin = hits.first().copied();
        // A hit that ends an instance and begins the next is what a window without `to` has.
        let to = match to.filter(|to| Some(*to) == begin) {
            Some(_) if begins_within => {
                let message =
                    "the hits of one probe cannot both begin and end a window that also begins otherwise";
                return self.refuse("E0148", entry.name.span, message);
            }
            Some(_) => None,
            None => to,
        };
        // A span is at its boundary when it begins or ends; elsewhere its other probe represents it.
        let boundaries = [begin, to].into_iter().flatten().collect();
        let keys = self.keys(entry, begin);
        if let Some(names) = self.names.windows.get_mut(index) {
            names.boundaries = boundaries;
            names.begin = begin;
            names.end = to.or(begin.filter(|_| entry.until.is_none()));
            names.keys = keys.clone();
        }
        let timeout = optional(entry.timeout.as_ref(), |expr| {
            self.setting(expr, Dimension::TIME, "timeout")
        })?;
        if let (Some(seconds), Some(expr)) = (timeout, &entry.timeout)
            && !(0.0..=3600.0).contains(&seconds)
        {
            return self.refuse("E0145", expr.span, "a timeout is at most 60min");
        }
        let skip = match &entry.skip {
            Some(expr) => self.skip(expr)?,
            None => 0,
        };
        let straddle = self.straddle(entry.straddle.as_ref())?;
        Some(Boundaries {
            from,
            to,
            within: self.names.windows.get(index).and_then(|names| names.within),
            keys: keys?,
            timeout: timeout.map(|seconds| (seconds * 1e9).round() as u64),
            skip,
            straddle,
            ..Boundaries::default()
        })
    }

    /// A hit of a probe, the begin of the enclosing window, or the end of the last instance.
    fn begin(&mut self, index: usize, from: &Text) -> Option<Begin> {
        let Some(window) = self.names.window_named(&from.raw) else {
            return self.boundary(from).map(Begin::Hit);
        };
        let within = self.names.windows.get(index).and_then(|names| names.within);
        if within == Some(window) {
            return Some(Begin::Enclosing(window));
        }
        if window == index && within.is_some() {
            return Some(Begin::Itself);
        }
        let message = if window == index {
            "a window begins again when its last instance closed only within another one"
        } else {
            "a window begins with the one it lies in, and this is another"
        };
        let wrong = Diagnostic::wrong("E0148", from.span, message);
        self.report(wrong.help("`within: iteration` and `from: [iteration, batch]`"))
    }

    /// An instance needs exactly one kind of end.
    fn ends(&mut self, entry: &WindowEntry, from: &[Begin]) -> Option<()> {
        let (message, index) = match (&entry.to, &entry.until) {
            (Some(to), Some(_)) => ("a window ends at `to` or when `until` holds, not both", to.span),
            (None, None) if !matches!(from, [Begin::Hit(_)]) => (
                "nothing ends this window: only one that begins at the hits of a probe ends where the next begins",
                entry.name.span,
            ),
            _ => return Some(()),
        };
        self.refuse("E0148", index, message)
    }

    /// The conditions on the instances of a window: end, completeness, discarding.
    pub(super) fn conditions(&mut self, windows: &mut [Window]) {
        let file = self.file;
        for (index, entry) in file.windows.iter().enumerate() {
            let mut complete = Vec::new();
            for named in &entry.complete {
                let role = self.role_named(&named.name);
                let condition = self.condition(index, &named.expr);
                complete.extend(role.zip(condition));
            }
            let discard = entry
                .discard
                .as_ref()
                .and_then(|expr| self.condition(index, expr));
            let until = entry.until.as_ref().and_then(|expr| self.until(index, expr));
            let window = windows.iter_mut().find(|window| window.name == entry.name.raw);
            if let Some(WindowKind::Probed(boundaries)) = window.map(|window| &mut window.kind) {
                boundaries.complete = complete;
                boundaries.discard = discard;
                boundaries.until = until;
            }
        }
    }

    /// A condition on the hits and boundaries of an open instance.
    fn until(&mut self, index: usize, expr: &Expr) -> Option<Typed> {
        let condition = self.condition(index, expr)?;
        let mut unknown = None;
        condition.visit(&mut |term| {
            let message = match term {
                Term::Measure(_) | Term::At { .. } | Term::OfCalls { .. } => "measures are known at its end",
                Term::WindowDuration => "its duration is known at its end",
                Term::Metric(_) | Term::Call { .. } | Term::Over { .. } | Term::Earlier { .. } => {
                    "metrics are evaluated at its end: write the formula out"
                }
                Term::Run(_) | Term::Inner { .. } => "what instances come to is known at their end",
                Term::Fold(fold) if !matches!(fold.range, FoldRange::Instance | FoldRange::Enclosing(_)) => {
                    "a history is of closed instances"
                }
                _ => return,
            };
            unknown = Some(message);
        });
        let Some(reason) = unknown else {
            return Some(condition);
        };
        let message = format!("`until` is about the hits that the open instance has so far, and {reason}");
        self.refuse("E0148", condition.span, message)
    }

    /// A probe, or one end of a span: `loop.entry`, `loop.return`.
    fn boundary(&mut self, name: &Text) -> Option<usize> {
        if let Some(probe) = self.names.probes.get(&name.raw) {
            return Some(probe.index);
        }
        let end = name.raw.split_once('.');
        let of_end = end.and_then(|(base, end)| Some((self.names.probes.get(base)?, end)));
        match of_end {
            // A span's own hit is at its return; for a probe with a single site, it is that site.
            Some((probe, "return")) if probe.site != Site::Entry => return Some(probe.index),
            Some((probe, "entry")) if probe.site == Site::Entry => return Some(probe.index),
            Some((_, end)) => {
                let message = match end {
                    "entry" | "return" => format!("`{}` is not probed there", name.raw),
                    _ => format!("a boundary is a probe, or one end of a span, and there is no end `{end}`"),
                };
                let help = "the ends of a span `p` are `p.entry` and `p.return`";
                return self.report(Diagnostic::wrong("E0148", name.span, message).help(help));
            }
            None => {}
        }
        let near = names_help(&name.raw, self.names.probes.keys().map(String::as_str));
        let wrong = Diagnostic::error("E0130", format!("there is no probe `{}`", name.raw));
        self.report(wrong.at(name.span, "").help_if(near))
    }

    /// For each probe, the capture that is the key of its hits.
    fn keys(&mut self, entry: &WindowEntry, from: Option<usize>) -> Option<Vec<Option<usize>>> {
        let mut keys = vec![None; self.file.probes.len() + self.file.joins.len()];
        let capture = match &entry.key {
            None => return Some(keys),
            Some(KeyEntry::Same(name)) => {
                for probe in self.names.probes.values() {
                    if let (Some(capture), Some(key)) = (probe.capture(&name.raw), keys.get_mut(probe.index))
                    {
                        *key = Some(capture);
                    }
                }
                name.span
            }
            Some(KeyEntry::Each(each)) => {
                for (probe, field) in each {
                    let index = self.boundary(probe)?;
                    let names = self.names.probes.values().find(|names| names.index == index)?;
                    let Some(capture) = names.capture(&field.raw) else {
                        let message = format!("`{}` captures no `{}`", probe.raw, field.raw);
                        return self.refuse("E0130", field.span, message);
                    };
                    if let Some(key) = keys.get_mut(index) {
                        *key = Some(capture);
                    }
                }
                entry.name.span
            }
        };
        // An end without a key ends the open instance of its process.
        let Some(from) = from else {
            let message = "this window begins at no hit, and a key is captured at a hit";
            let help = "without a key its hits belong by their times";
            return self.report(Diagnostic::wrong("E0148", capture, message).help(help));
        };
        let missing = Some(from).filter(|probe| keys.get(*probe) == Some(&None));
        if let Some(missing) = missing {
            let probe = self
                .file
                .probes
                .get(missing)
                .map_or("", |probe| probe.name.raw.as_str());
            let message = format!("`{probe}`, where the window begins, does not capture the key");
            let help = format!("under `capture`: `{probe}.…: a variable that counts the instances`");
            return self.report(Diagnostic::wrong("E0148", capture, message).help(help));
        }
        Some(keys)
    }

    fn condition(&mut self, index: usize, expr: &Expr) -> Option<Typed> {
        let condition = self.in_window(index).infer_boolean(expr)?;
        if condition.type_of.table.is_some() {
            let message = "one condition is needed here, this has several";
            return self.report(Diagnostic::error("E0143", message).at(condition.span, "a table"));
        }
        Some(condition)
    }

    fn skip(&mut self, expr: &Expr) -> Option<u64> {
        let value = self.setting(expr, Dimension::NONE, "skip")?;
        if value.fract() == 0.0 && (0.0..=SKIPPED_MAX).contains(&value) {
            return Some(value as u64);
        }
        self.refuse("E0145", expr.span, "`skip` is a number of instances: an integer")
    }

    fn straddle(&mut self, text: Option<&Text>) -> Option<Straddle> {
        let Some(text) = text else {
            return Some(Straddle::End);
        };
        match text.raw.as_str() {
            "end" => Some(Straddle::End),
            "begin" => Some(Straddle::Begin),
            "split" => Some(Straddle::Split),
            "drop" => Some(Straddle::Drop),
            _ => {
                let message = "`straddle` is one of end, begin, split and drop";
                self.refuse("E0145", text.span, message)
            }
        }
    }

    pub(super) fn window_named(&mut self, name: &Text) -> Option<usize> {
        if let Some(index) = self.names.window_named(&name.raw) {
            return Some(index);
        }
        let windows = self.names.windows.iter().map(|window| window.name.as_str());
        let help = names_help(&name.raw, windows);
        let message = format!("there is no window `{}`", name.raw);
        self.report(Diagnostic::wrong("E0130", name.span, message).help_if(help))
    }
}

impl super::infer::ProbeNames {
    /// The index of a capture that can be a key.
    fn capture(&self, name: &str) -> Option<usize> {
        // A pair has the captures of both its hits.
        let fits = |capture: &str| capture == name || capture.ends_with(&format!(".{name}"));
        let index = self.captures.iter().position(|(capture, _)| fits(capture))?;
        let of = self.captures.get(index)?.1?;
        matches!(of.kind, Kind::Number(_) | Kind::Text).then_some(index)
    }
}
