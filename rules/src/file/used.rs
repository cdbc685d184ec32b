//! `use: [iteration-time]`: includes definitions of another rule.
//!
//! Only the required definitions are included: names that the formulas of this rule use and it does not
//! define itself, and what these require in turn. The caller supplies the rules.

use std::collections::{BTreeMap, BTreeSet};

use syntax::ast::Expr;
use syntax::diag::{Diagnostic, Span, line_column};
use syntax::text::Text;

use super::{KeyEntry, RuleFile, WindowEntry, lower, read};

/// Maximum number of used rules, including indirect ones.
const USED_MAX: usize = 16;

impl RuleFile {
    /// Includes definitions of other rules; `library` returns the text of a rule by its name.
    ///
    /// # Errors
    /// If a used rule does not exist, cannot be read, uses this one, or defines a name differently.
    pub fn with_library(
        mut self,
        library: &dyn Fn(&str) -> Option<String>,
    ) -> Result<RuleFile, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let mut seen = BTreeSet::from([self.name.raw.clone()]);
        for used in std::mem::take(&mut self.uses) {
            match used_rule(&used, used.span, library, &mut seen) {
                Ok((other, source)) => self.take(other, &used, &source, &mut wrong),
                Err(diagnostics) => wrong.extend(diagnostics),
            }
        }
        if wrong.is_empty() { Ok(self) } else { Err(wrong) }
    }

    /// Includes the required definitions of `other`, which the file names as `used`.
    fn take(&mut self, other: RuleFile, used: &Text, source: &str, wrong: &mut Vec<Diagnostic>) {
        let own = self.definitions();
        let theirs = other.definitions();
        let needed = needed(self, &own, &other, &theirs);
        if needed.is_empty() {
            let message = format!("nothing of the rule `{}` is used", used.raw);
            let known: Vec<&str> = other
                .metrics
                .iter()
                .map(|metric| metric.named.name.raw.as_str())
                .collect();
            let help = format!("its metrics are {}", known.join(", "));
            wrong.push(Diagnostic::wrong("E0135", used.span, message).help(help));
        }
        for name in &needed {
            if let Some(span) = own.get(name) {
                let line = place_in(source, name);
                let message = format!(
                    "`{name}` is defined here, and in the rule `{}` that is used{line}",
                    used.raw
                );
                let clash = Diagnostic::error("E0132", message)
                    .at(*span, "here")
                    .at(used.span, "used here");
                wrong.push(clash.help("give the one here another name"));
            }
        }
        // Both may declare a name of the program: it is the same program.
        extend(&mut self.names, other.names, |(name, _)| {
            !own.contains_key(&name.raw)
        });
        let is_needed = |name: &Text| needed.contains(&name.raw);
        extend(&mut self.parameters, other.parameters, |entry| {
            is_needed(&entry.name)
        });
        extend(&mut self.roles, other.roles, |entry| is_needed(&entry.name));
        extend(&mut self.probes, other.probes, |entry| is_needed(&entry.name));
        extend(&mut self.captures, other.captures, |entry| {
            is_needed(&entry.probe)
        });
        extend(&mut self.joins, other.joins, |entry| is_needed(&entry.name));
        extend(&mut self.windows, other.windows, |entry| is_needed(&entry.name));
        extend(&mut self.metrics, other.metrics, |entry| {
            is_needed(&entry.named.name)
        });
    }

    /// Every defined name, including names of the program, with its place.
    fn definitions(&self) -> BTreeMap<String, Span> {
        let names = self.names.iter().map(|(name, _)| name);
        let parameters = self.parameters.iter().map(|entry| &entry.name);
        let roles = self.roles.iter().map(|entry| &entry.name);
        let probes = self.probes.iter().map(|entry| &entry.name);
        let joins = self.joins.iter().map(|entry| &entry.name);
        let windows = self.windows.iter().map(|entry| &entry.name);
        let metrics = self.metrics.iter().map(|entry| &entry.named.name);
        let all = names.chain(parameters).chain(roles).chain(probes);
        let all = all.chain(joins).chain(windows).chain(metrics);
        all.map(|name| (name.raw.clone(), name.span)).collect()
    }

    /// The names that the definition of a name requires; captures are represented by their probes.
    fn uses_of(&self, name: &str) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        let named = |text: &Text| base(&text.raw).to_string();
        for entry in self.parameters.iter().filter(|entry| entry.name.raw == name) {
            add(&entry.expr, &mut out);
        }
        for entry in self.roles.iter().filter(|entry| entry.name.raw == name) {
            entry.expr.iter().for_each(|expr| add(expr, &mut out));
        }
        for entry in self.probes.iter().filter(|entry| entry.name.raw == name) {
            out.extend(entry.role.iter().map(named));
        }
        for entry in self.captures.iter().filter(|entry| entry.probe.raw == name) {
            add(&entry.expr, &mut out);
        }
        for entry in self.joins.iter().filter(|entry| entry.name.raw == name) {
            out.extend([named(&entry.of.0), named(&entry.of.1)]);
        }
        for entry in self.windows.iter().filter(|entry| entry.name.raw == name) {
            uses_of_window(entry, &mut out);
        }
        for entry in self.metrics.iter().filter(|entry| entry.named.name.raw == name) {
            add(&entry.named.expr, &mut out);
            out.extend(entry.window.iter().map(named));
        }
        out
    }
}

/// Parses a used rule, with the rules that it uses itself.
fn used_rule(
    used: &Text,
    place: Span,
    library: &dyn Fn(&str) -> Option<String>,
    seen: &mut BTreeSet<String>,
) -> Result<(RuleFile, String), Vec<Diagnostic>> {
    let wrong = |message: String| Diagnostic::wrong("E0135", place, message);
    if !seen.insert(used.raw.clone()) {
        let message = format!("the rule `{}` is used twice, or uses itself", used.raw);
        return Err(vec![wrong(message)]);
    }
    if seen.len() > USED_MAX {
        let message = format!("a rule may use at most {USED_MAX} others");
        return Err(vec![Diagnostic::wrong("E0123", place, message)]);
    }
    let Some(source) = library(&used.raw) else {
        return Err(vec![
            wrong(format!("there is no rule `{}` to use", used.raw))
                .help("a rule in the same folder, or one of `tuneagent rule list`"),
        ]);
    };
    let file = read(&source, Some(place), lower::lower).map_err(|diagnostics| {
        let first = diagnostics.first().map_or("", |first| first.message.as_str());
        let message = format!("the rule `{}` that is used cannot be read: {first}", used.raw);
        vec![wrong(message).help(format!("see `tuneagent rule check` of {}", used.raw))]
    })?;
    let mut file = file;
    let mut others = Vec::new();
    for next in std::mem::take(&mut file.uses) {
        others.push((next.clone(), used_rule(&next, place, library, seen)?));
    }
    let mut diagnostics = Vec::new();
    for (next, (other, text)) in others {
        file.take(other, &next, &text, &mut diagnostics);
    }
    if diagnostics.is_empty() {
        Ok((file, source))
    } else {
        Err(diagnostics)
    }
}

/// The names of `theirs` that `file` requires: those it uses and does not define, and what these require in
/// turn.
fn needed(
    file: &RuleFile,
    own: &BTreeMap<String, Span>,
    other: &RuleFile,
    theirs: &BTreeMap<String, Span>,
) -> BTreeSet<String> {
    let mut open: Vec<String> = own.keys().flat_map(|name| file.uses_of(name)).collect();
    for tune in &file.tunes {
        let mut names = BTreeSet::new();
        tune.exprs().into_iter().for_each(|expr| add(expr, &mut names));
        names.extend(
            tune.role
                .iter()
                .chain(&tune.every)
                .chain(&tune.together)
                .map(|text| text.raw.clone()),
        );
        open.extend(names);
    }
    open.retain(|name| !own.contains_key(name));
    let mut needed = BTreeSet::new();
    while let Some(name) = open.pop() {
        let declared_only = other.names.iter().any(|(declared, _)| declared.raw == name);
        if theirs.contains_key(&name) && !declared_only && needed.insert(name.clone()) {
            open.extend(other.uses_of(&name));
        }
    }
    needed
}

fn extend<T>(own: &mut Vec<T>, other: Vec<T>, is_needed: impl Fn(&T) -> bool) {
    own.extend(other.into_iter().filter(is_needed));
}

fn uses_of_window(entry: &WindowEntry, out: &mut BTreeSet<String>) {
    let boundaries = entry.from.iter().chain(&entry.to).chain(&entry.within);
    out.extend(boundaries.map(|text| base(&text.raw).to_string()));
    let conditions = entry.complete.iter().map(|named| &named.expr);
    let conditions = conditions.chain(&entry.until).chain(&entry.discard);
    conditions
        .chain(&entry.every)
        .chain(&entry.timeout)
        .chain(&entry.skip)
        .for_each(|expr| add(expr, out));
    out.extend(entry.complete.iter().map(|named| named.name.raw.clone()));
    if let Some(KeyEntry::Each(each)) = &entry.key {
        out.extend(each.iter().map(|(probe, _)| probe.raw.clone()));
    }
}

fn add(expr: &Expr, out: &mut BTreeSet<String>) {
    out.extend(expr.names().into_iter().map(|(name, _)| base(name).to_string()));
}

fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Where a name is defined in the text of another rule, if that can be found.
fn place_in(source: &str, name: &str) -> String {
    let found = source.match_indices(name).find(|(at, _)| {
        let before = source
            .get(..*at)
            .and_then(|text| text.lines().last())
            .unwrap_or("");
        let after = source.get(at + name.len()..).unwrap_or("");
        before.trim().is_empty() && after.starts_with([':', '('])
    });
    found.map_or_else(String::new, |(at, _)| {
        let (line, column) = line_column(source, at);
        format!(" at {line}:{column}")
    })
}

/// The error for a rule that uses others if these were not supplied.
pub(crate) fn not_taken(uses: &[Text]) -> Option<Diagnostic> {
    let used = uses.first()?;
    let message = format!("the rule `{}` that is used was not looked up", used.raw);
    Some(Diagnostic::wrong("E0135", used.span, message))
}
