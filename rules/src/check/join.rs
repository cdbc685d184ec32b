//! Joins: a stream of pairs of the hits of two probes. Formulas see a join as a probe whose hits have the
//! fields of both: `chunk.send.tasks`, `chunk.compute.duration`.

use syntax::diag::{Diagnostic, names_help};
use syntax::text::Text;

use super::infer::ProbeNames;
use super::{Checker, infer::RuleNames};
use crate::file::JoinEntry;
use crate::rule::Join;
use crate::target::Site;
use crate::term::Field;
use crate::types::{KeyKind, Type};

impl Checker<'_> {
    pub(super) fn joins(&mut self) -> Vec<Join> {
        let joins = self.file.joins.iter().enumerate();
        joins
            .filter_map(|(index, entry)| self.join(index, entry))
            .collect()
    }

    fn join(&mut self, join_index: usize, entry: &JoinEntry) -> Option<Join> {
        let first = self.side(&entry.of.0)?;
        let second = self.side(&entry.of.1)?;
        if first == second {
            return self.refuse("E0149", entry.of.1.span, "a probe cannot be joined with itself");
        }
        let mut by = Vec::new();
        for (left, right) in &entry.by {
            let (one, a) = self.part(left)?;
            let (two, b) = self.part(right)?;
            let pair = match (one, two) {
                _ if (one, two) == (first, second) => (a, b),
                _ if (one, two) == (second, first) => (b, a),
                _ => {
                    let message = format!(
                        "a pair is a part of `{}` and one of `{}`",
                        entry.of.0.raw, entry.of.1.raw
                    );
                    return self.refuse("E0149", left.span.to(right.span), message);
                }
            };
            if pair.0.1.kind != pair.1.1.kind {
                let (a, b) = (
                    KeyKind::Of(pair.0.1.kind).what(),
                    KeyKind::Of(pair.1.1.kind).what(),
                );
                let message =
                    format!("the two sides can never be equal: one is identified {a}, the other {b}");
                return self.refuse("E0141", left.span.to(right.span), message);
            }
            by.push((pair.0.0, pair.1.0));
        }
        let mut parts = Vec::new();
        let mut captures = Vec::new();
        for (side, (probe, name)) in [(first, &entry.of.0), (second, &entry.of.1)]
            .into_iter()
            .enumerate()
        {
            for (part, field, of) in self.names.parts_of(probe) {
                captures.push((format!("{}.{part}", name.raw), Some(of)));
                parts.push((side, field));
            }
        }
        let names = ProbeNames {
            index: self.file.probes.len() + join_index,
            site: Site::Entry,
            captures,
        };
        self.names.probes.insert(entry.name.raw.clone(), names);
        Some(Join {
            name: entry.name.raw.clone(),
            of: (first, second),
            by,
            parts,
        })
    }

    fn side(&mut self, name: &Text) -> Option<usize> {
        let known = self.names.probes.get(&name.raw).map(|probe| probe.index);
        if let Some(index) = known.filter(|index| *index < self.file.probes.len()) {
            return Some(index);
        }
        let probes = self.file.probes.iter().map(|probe| probe.name.raw.as_str());
        let near = names_help(&name.raw, probes);
        let wrong = Diagnostic::error("E0130", format!("there is no probe `{}`", name.raw));
        self.report(wrong.at(name.span, "").help_if(near))
    }

    /// `probe.part`.
    fn part(&mut self, text: &Text) -> Option<(usize, (Field, Type))> {
        let (probe, part) = text.raw.split_once('.').unwrap_or((&text.raw, ""));
        let found = self.names.probes.get(probe).and_then(|names| {
            let parts = self.names.parts_of(names.index);
            let found = parts.into_iter().find(|(name, ..)| name == part)?;
            Some((names.index, (found.1, found.2)))
        });
        if found.is_none() {
            let message = format!("`{}` is not a part of a hit", text.raw);
            let wrong = Diagnostic::wrong("E0130", text.span, message);
            self.wrong
                .push(wrong.help("for example `send.to = compute.process`"));
        }
        found
    }
}

impl RuleNames {
    /// The fields of a probe's hits: name, field and type.
    fn parts_of(&self, index: usize) -> Vec<(String, Field, Type)> {
        let Some(probe) = self.probes.values().find(|probe| probe.index == index) else {
            return Vec::new();
        };
        let fixed = ["time", "process", "thread", "host", "duration"].map(String::from);
        let names = fixed
            .into_iter()
            .chain(probe.captures.iter().map(|(name, _)| name.clone()));
        let part = |name: String| {
            let (field, of) = probe.field(&name)??;
            Some((name, field, of))
        };
        names.filter_map(part).collect()
    }
}
