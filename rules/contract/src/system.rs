//! The linear system of a contract: its performance features, which are rates, and the equations between
//! them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use syntax::diag::{Diagnostic, Span, names_help};

use super::exact::Exact;
use super::model::{Contract, Stream};
use super::reduce::{Number, SparseRow, reduce};

/// A rate of the program, in items or activations per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    /// Items that a module takes from a stream.
    Input { module: usize, stream: usize },
    /// Activations of a computation.
    Activation { module: usize, computation: usize },
    /// Items that a module sends on a stream.
    Output { module: usize, stream: usize },
    /// Items at the open end of a stream of a component.
    Outside { stream: usize },
}

impl Feature {
    /// What flows between two ends of a stream with this many senders: a merged stream has the share of each.
    pub(crate) fn on_edge(stream: usize, senders: usize, (from, to): (usize, usize)) -> Feature {
        match senders > 1 {
            true => Feature::Output { module: from, stream },
            false => Feature::Input { module: to, stream },
        }
    }
}

/// What an equation states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An activation takes one item of this stream.
    Takes {
        module: usize,
        computation: usize,
        stream: usize,
    },
    /// What the activations of a module send.
    Gives { module: usize },
    /// What is sent on a stream arrives.
    Stream { stream: usize },
    /// The relation between the interfaces of a module with a contract of its own.
    Part { module: usize },
}

/// The features of a contract, and the equations between them.
pub(crate) struct System {
    pub(crate) features: Vec<Feature>,
    pub(crate) rows: Vec<(Origin, SparseRow<Exact>)>,
    index: BTreeMap<Feature, usize>,
}

impl System {
    /// System (36) of the source, with the reduced systems of components in the place of their modules.
    pub(crate) fn of(contract: &Contract) -> System {
        let mut system = System {
            features: Vec::new(),
            rows: Vec::new(),
            index: BTreeMap::new(),
        };
        system.number_features(contract);
        for (module, one) in contract.modules.iter().enumerate() {
            match &one.part {
                Some(_) => system.part(contract, module),
                None => system.module(contract, module),
            }
        }
        for stream in 0..contract.streams.len() {
            system.stream(contract, stream);
        }
        system
    }

    fn number_features(&mut self, contract: &Contract) {
        let mut all = Vec::new();
        for (module, one) in contract.modules.iter().enumerate() {
            for computation in 0..one.computations.len() {
                all.push(Feature::Activation { module, computation });
            }
        }
        for (stream, one) in contract.streams.iter().enumerate() {
            all.extend(one.to.iter().map(|&module| Feature::Input { module, stream }));
            all.extend(one.from.iter().map(|&module| Feature::Output { module, stream }));
            if one.from.is_empty() || one.to.is_empty() {
                all.push(Feature::Outside { stream });
            }
        }
        // Inputs, activations, outputs, as in the source: x = [i; e; o].
        all.sort();
        self.index = all
            .iter()
            .enumerate()
            .map(|(at, feature)| (*feature, at))
            .collect();
        self.features = all;
    }

    /// The equations that `keep` accepts, in the numbers of an elimination.
    pub(crate) fn rows_in<N: Number>(&self, keep: impl Fn(Origin) -> bool) -> Vec<SparseRow<N>> {
        let kept = self.rows.iter().filter(|(origin, _)| keep(*origin));
        let rows = kept.map(|(_, row)| {
            let converted = row.iter().map(|(column, value)| (*column, N::from_exact(*value)));
            converted.collect()
        });
        rows.collect()
    }

    /// The column of a feature.
    pub(crate) fn column(&self, feature: Feature) -> Option<usize> {
        self.index.get(&feature).copied()
    }

    fn equation(&mut self, origin: Origin, terms: &[(Feature, Exact)]) {
        let mut row = SparseRow::new();
        for (feature, coefficient) in terms {
            if let Some(column) = self.column(*feature) {
                *row.entry(column).or_default() += coefficient;
            }
        }
        row.retain(|_, coefficient| *coefficient != Exact::from_integer(0));
        if !row.is_empty() {
            self.rows.push((origin, row));
        }
    }

    /// (33) and (34): activations take one item of each input, and send.
    fn module(&mut self, contract: &Contract, module: usize) {
        let one = &contract.modules[module];
        for (computation, it) in one.computations.iter().enumerate() {
            let activation = Feature::Activation { module, computation };
            for &stream in &it.takes {
                let origin = Origin::Takes {
                    module,
                    computation,
                    stream,
                };
                let input = Feature::Input { module, stream };
                self.equation(origin, &[(activation, integer(1)), (input, integer(-1))]);
            }
        }
        let mut outputs: BTreeMap<usize, Vec<(Feature, Exact)>> = BTreeMap::new();
        for (computation, it) in one.computations.iter().enumerate() {
            for (stream, items) in &it.gives {
                let sent = (Feature::Activation { module, computation }, *items);
                outputs.entry(*stream).or_default().push(sent);
            }
        }
        for (stream, mut terms) in outputs {
            terms.push((Feature::Output { module, stream }, integer(-1)));
            self.equation(Origin::Gives { module }, &terms);
        }
    }

    /// (35): unicast, merge, broadcast or on demand, by the number of ends.
    fn stream(&mut self, contract: &Contract, stream: usize) {
        let one = &contract.streams[stream];
        let ends = |modules: &[usize], feature: fn(usize, usize) -> Feature| match modules.is_empty() {
            true => vec![Feature::Outside { stream }],
            false => modules.iter().map(|module| feature(*module, stream)).collect(),
        };
        let sent: Vec<Feature> = ends(&one.from, |module, stream| Feature::Output { module, stream });
        let received: Vec<Feature> = ends(&one.to, |module, stream| Feature::Input { module, stream });
        let Some((first, others)) = received.split_first() else {
            return;
        };
        let shared = if one.on_demand {
            received.as_slice()
        } else {
            &received[..1]
        };
        let mut terms: Vec<(Feature, Exact)> = sent.iter().map(|end| (*end, integer(1))).collect();
        terms.extend(shared.iter().map(|end| (*end, integer(-1))));
        self.equation(Origin::Stream { stream }, &terms);
        if !one.on_demand {
            // Receivers of a broadcast have the rate of the first.
            for other in others {
                self.equation(
                    Origin::Stream { stream },
                    &[(*first, integer(1)), (*other, integer(-1))],
                );
            }
        }
    }

    /// The black box of a component: what elimination of its inner features leaves between its interfaces.
    fn part(&mut self, contract: &Contract, module: usize) {
        for row in black_box(contract, module) {
            let terms: Vec<(Feature, Exact)> = row.into_iter().collect();
            self.equation(Origin::Part { module }, &terms);
        }
    }

    /// The name of a feature in requirements and reports.
    pub(crate) fn name(&self, contract: &Contract, column: usize) -> String {
        let stream_name = |stream: usize| &contract.streams[stream].name;
        let end = |module: usize, stream: usize, side: &str| {
            let it = &contract.streams[stream];
            let both = it.from.contains(&module) && it.to.contains(&module);
            let side = if both { side } else { "" };
            format!("{}.{}{side}", contract.modules[module].name, it.name)
        };
        match self.features[column] {
            Feature::Input { module, stream } => end(module, stream, ".in"),
            Feature::Output { module, stream } => end(module, stream, ".out"),
            Feature::Outside { stream } => stream_name(stream).clone(),
            Feature::Activation { module, computation } => {
                contract.modules[module].computation_name(computation)
            }
        }
    }

    /// The column of a named feature: a computation, an end of a stream, or a stream with one end on a side.
    pub(crate) fn resolve(&self, contract: &Contract, name: &str, span: Span) -> Result<usize, Diagnostic> {
        let names: Vec<String> = (0..self.features.len())
            .map(|column| self.name(contract, column))
            .collect();
        if let Some(column) = names.iter().position(|known| known == name) {
            return Ok(column);
        }
        let stream = contract.streams.iter().position(|stream| stream.name == name);
        let Some(stream) = stream else {
            let streams = contract.streams.iter().map(|stream| stream.name.as_str());
            let near = names_help(name, names.iter().map(String::as_str).chain(streams));
            let message = format!("there is no stream, module or end of a stream `{name}`");
            return Err(Diagnostic::wrong("E0174", span, message).help_if(near));
        };
        let one = &contract.streams[stream];
        // The one end on a side has all items.
        let feature = match (one.from.as_slice(), one.to.as_slice()) {
            (&[module], _) => Some(Feature::Output { module, stream }),
            (_, &[module]) => Some(Feature::Input { module, stream }),
            (_, &[module, ..]) if !one.on_demand => Some(Feature::Input { module, stream }),
            _ => None,
        };
        feature.and_then(|feature| self.column(feature)).ok_or_else(|| {
            let message = format!("no single rate has all items of `{name}`");
            Diagnostic::wrong("E0174", span, message).help("name one end: `module.stream`")
        })
    }
}

/// The feature of a module at its stream, which is mapped to an open stream of its own contract.
pub(super) fn end_of_part(module: usize, stream: usize, open: &Stream) -> Feature {
    match open.from.is_empty() {
        true => Feature::Input { module, stream },
        false => Feature::Output { module, stream },
    }
}

/// The modules of a shortest cycle through one of this number of modules, beginning with it; `next` has those that
/// follow a module.
pub(super) fn cycle_through(
    modules: usize,
    first: usize,
    next: impl Fn(usize) -> Vec<usize>,
) -> Option<Vec<usize>> {
    let mut before: Vec<Option<usize>> = vec![None; modules];
    let mut queue = VecDeque::from([first]);
    let mut seen = BTreeSet::new();
    while let Some(module) = queue.pop_front() {
        for next in next(module) {
            if next == first {
                let mut cycle: Vec<usize> = std::iter::successors(Some(module), |at| before[*at]).collect();
                cycle.reverse();
                return Some(cycle);
            }
            if seen.insert(next) {
                before[next] = Some(module);
                queue.push_back(next);
            }
        }
    }
    None
}

/// The first names, and how many more there are.
pub(super) fn listed(names: &[String], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn integer(value: i128) -> Exact {
    Exact::from_integer(value)
}

/// The relations between the interfaces of a module that is a program itself, in the features of the module.
/// Empty if fractions grow too large, so that the interfaces count as independent; the projection then checks.
fn black_box(contract: &Contract, module: usize) -> Vec<BTreeMap<Feature, Exact>> {
    let Some(part) = &contract.modules[module].part else {
        return Vec::new();
    };
    let inner = System::of(&contract.parts[part.contract]);
    let last: Vec<usize> = (0..inner.features.len())
        .filter(|column| matches!(inner.features[*column], Feature::Outside { .. }))
        .collect();
    let Some(reduced) = reduce::<Exact>(inner.rows_in(|_| true), inner.features.len(), &last) else {
        return Vec::new();
    };
    let outer_end = |column: usize| {
        let Feature::Outside { stream } = inner.features[column] else {
            return None;
        };
        let (outer, _) = part.map.iter().find(|(_, to)| **to == stream)?;
        let open = &contract.parts[part.contract].streams[stream];
        Some(end_of_part(module, *outer, open))
    };
    let named = |row: &SparseRow<Exact>| {
        let terms = row
            .iter()
            .map(|(column, value)| Some((outer_end(*column)?, *value)));
        terms.collect::<Option<BTreeMap<Feature, Exact>>>()
    };
    reduced.relations.iter().filter_map(named).collect()
}
