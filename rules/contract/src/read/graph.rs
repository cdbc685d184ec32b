//! Streams and modules of a contract file, and whether they agree on who sends and who receives.

use std::collections::{BTreeMap, BTreeSet};

use syntax::ast::ExprNode;
use syntax::diag::{Diagnostic, Span, names_help};
use syntax::fields::{Fields, formula, mapping, text};
use syntax::text::Text;
use syntax::unit::Dimension;
use syntax::yaml::Tree;

use super::super::keys::{self, MODULE_KINDS, STREAM_KINDS};
use super::super::model::{
    Computation, Contract, Module, ModuleKind, ModulePlace, Stream, SubContract, Workers,
};
use super::{ContractReader, entries};

impl ContractReader<'_, '_> {
    pub(super) fn graph(&mut self, out: &mut Contract) {
        for (name, tree) in self.streams.clone() {
            out.streams.extend(self.read_stream(name, tree));
        }
        for (name, tree) in self.modules.clone() {
            out.modules.extend(self.read_module(name, tree, out));
        }
    }

    fn read_stream(&mut self, name: &Text, tree: &Tree) -> Option<Stream> {
        let fields = Fields::of(tree, &keys::STREAM, self.wrong)?;
        let mut ends = |key| {
            let names = self.names_of(&fields, key);
            let found = names
                .iter()
                .filter_map(|name| self.module(name))
                .collect::<BTreeSet<_>>();
            (names.len(), found.into_iter().collect::<Vec<usize>>())
        };
        let ((senders, from), (receivers, to)) = (ends("from"), ends("to"));
        let lacks = match (senders, receivers) {
            (0, 0) => Some("no end"),
            (0, _) if !self.is_part => Some("no `from`: no module sends on it"),
            (_, 0) if !self.is_part => Some("no `to`: no module receives from it"),
            _ => None,
        };
        if let Some(lacks) = lacks {
            self.push(
                "E0170",
                name.span,
                format!("the stream `{}` has {lacks}", name.raw),
            );
        }
        let item_bytes = fields
            .get("item")
            .and_then(|value| self.positive(value, Dimension::BYTES, "the size of an item"));
        let mut number = |key, what| fields.get(key).and_then(|value| self.count(value, what));
        let (buffer, initial) = (
            number("buffer", "a buffer"),
            number("initial", "the number of items"),
        );
        let latency_s = fields
            .get("latency")
            .and_then(|value| self.positive(value, Dimension::TIME, "a latency"));
        let kind = fields
            .text("kind", self.wrong)
            .and_then(|kind| self.word(&kind, STREAM_KINDS));
        let fits = match kind {
            Some("unicast") => senders <= 1 && receivers <= 1,
            Some("merge") => senders > 1,
            Some("broadcast" | "on-demand") => receivers > 1,
            _ => true,
        };
        if let (false, Some(kind)) = (fits, kind) {
            let message = format!("{kind} does not fit {senders} senders and {receivers} receivers");
            self.push("E0170", name.span, message);
        }
        Some(Stream {
            name: name.raw.clone(),
            span: name.span,
            from,
            to,
            on_demand: kind == Some("on-demand"),
            item_bytes,
            buffer,
            initial,
            latency_s,
        })
    }

    fn word(&mut self, given: &Text, words: &'static [&'static str]) -> Option<&'static str> {
        let found = words.iter().find(|word| **word == given.raw).copied();
        if found.is_none() {
            let known = names_help(&given.raw, words.iter().copied());
            let message = format!("there is no kind `{}`", given.raw);
            self.wrong
                .push(Diagnostic::wrong("E0174", given.span, message).help_if(known));
        }
        found
    }

    fn read_module(&mut self, name: &Text, tree: &Tree, out: &Contract) -> Option<Module> {
        let fields = Fields::of(tree, &keys::MODULE, self.wrong)?;
        let kind = fields
            .text("kind", self.wrong)
            .and_then(|kind| self.word(&kind, MODULE_KINDS));
        let kind = match kind {
            Some("data-parallel") => ModuleKind::DataParallel,
            Some("task-parallel") => ModuleKind::TaskParallel,
            _ => ModuleKind::Sequential,
        };
        let part = self.part(&fields, out);
        let (mut computations, mut taken) = (Vec::new(), BTreeMap::new());
        match fields.get("computations") {
            Some(tree) => {
                for (key, tree) in entries(tree, "`computations`", self.wrong) {
                    let Some(fields) = Fields::of(tree, &keys::COMPUTATION, self.wrong) else {
                        continue;
                    };
                    computations.push(self.computation(key, &fields, &mut taken));
                }
                let direct = ["takes", "gives", "work"]
                    .iter()
                    .find(|key| fields.get(key).is_some());
                if let Some(key) = direct {
                    let message = format!("`{key}` of a module with `computations` belongs to one of them");
                    self.push("E0171", name.span, message);
                }
            }
            None if fields.get("contract").is_some() => {}
            None => computations.push(Computation {
                name: String::new(),
                ..self.computation(name, &fields, &mut taken)
            }),
        }
        let workers = fields.get("workers").and_then(|value| self.workers(value));
        if let (Some(_), ModuleKind::Sequential) = (&workers, kind) {
            let message = format!("`{}` is sequential and has one worker", name.raw);
            let help =
                "`kind: task-parallel`: activations side by side; `data-parallel`: one activation shared";
            self.wrong
                .push(Diagnostic::wrong("E0171", name.span, message).help(help));
        }
        let efficiency = fields
            .get("efficiency")
            .map(|value| self.efficiency(value))
            .unwrap_or_default();
        let place = match fields.get("place") {
            Some(value) => self.place(value)?,
            None => ModulePlace::default(),
        };
        Some(Module {
            name: name.raw.clone(),
            span: name.span,
            kind,
            computations,
            part,
            workers,
            efficiency,
            measured_s: None,
            place,
        })
    }

    /// `taken` has the inputs of the module's other computations, with their places: each input belongs to exactly one,
    /// (1) and (2) of the source.
    fn computation(
        &mut self,
        name: &Text,
        fields: &Fields<'_>,
        taken: &mut BTreeMap<usize, (String, Span)>,
    ) -> Computation {
        let mut takes = Vec::new();
        for input in &self.names_of(fields, "takes") {
            let Some(stream) = self.stream(input) else {
                continue;
            };
            takes.push(stream);
            let Some((first, place)) = taken.insert(stream, (name.raw.clone(), input.span)) else {
                continue;
            };
            let message = format!(
                "the stream `{}` is taken twice; an input belongs to exactly one computation, once",
                input.raw
            );
            let help = format!("leave it out of `{first}` or of `{}`", name.raw);
            let wrong = Diagnostic::wrong("E0171", input.span, message).at(place, "taken here, too");
            self.wrong
                .push(wrong.help_if((first != name.raw).then_some(help)));
        }
        let mut gives = Vec::new();
        if let Some(tree) = fields.get("gives") {
            for (name, value) in entries(tree, "`gives`", self.wrong) {
                let items = self.exact(value, Dimension::NONE, "the number of items per activation");
                if let (Some(stream), Some(items)) = (self.stream(name), items) {
                    gives.push((stream, items));
                }
            }
        }
        let work = fields
            .text("work", self.wrong)
            .and_then(|name| self.index(|it| &it.works, "work", &name));
        Computation {
            name: name.raw.clone(),
            takes,
            gives,
            work,
        }
    }

    /// A number, a parameter, or a variable of the program without a value in the file.
    fn workers(&mut self, tree: &Tree) -> Option<Workers> {
        let expr = formula(tree, self.wrong)?;
        let name = match expr.node {
            ExprNode::Name(name) => Some(name),
            _ => None,
        };
        let is_variable = name
            .as_ref()
            .is_some_and(|name| !self.parameters.contains_key(name));
        let count = match is_variable {
            true => None,
            false => Some(self.count(tree, "the number of workers")?),
        };
        Some(Workers { name, count })
    }

    fn efficiency(&mut self, tree: &Tree) -> Vec<(u32, f64)> {
        let rows = mapping(tree, "`efficiency`", self.wrong).unwrap_or_default();
        let mut out = Vec::new();
        for (workers, value) in rows {
            let share = self.positive(value, Dimension::NONE, "an efficiency");
            match (workers.raw.parse::<u32>(), share) {
                (Ok(workers), Some(share)) if workers > 0 && share <= 1.0 => out.push((workers, share)),
                (_, None) => {}
                _ => self.push(
                    "E0172",
                    workers.span,
                    "an efficiency is `workers: share`, with a share up to 1",
                ),
            }
        }
        out.sort_by_key(|(workers, _)| *workers);
        out
    }

    fn part(&mut self, fields: &Fields<'_>, out: &Contract) -> Option<SubContract> {
        let name = fields.text("contract", self.wrong)?;
        let Some(contract) = out.parts.iter().position(|part| part.name == name.raw) else {
            self.push("E0174", name.span, format!("there is no contract `{}`", name.raw));
            return None;
        };
        let inner = &out.parts[contract];
        let mut map = BTreeMap::new();
        for (outer, value) in fields.get("map").map(|tree| entries(tree, "`map`", self.wrong))? {
            let (Some(stream), Some(to)) = (self.stream(outer), text(value, self.wrong)) else {
                continue;
            };
            match inner.streams.iter().position(|stream| stream.name == to.raw) {
                Some(inner) => {
                    map.insert(stream, inner);
                }
                None => {
                    let message = format!("`{}` has no stream `{}`", inner.name, to.raw);
                    self.push("E0174", to.span, message);
                }
            }
        }
        Some(SubContract { contract, map })
    }
}
