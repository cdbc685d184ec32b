//! The graph of a contract as a picture: modules with their rates and use, streams between them, the bottleneck.
//! Colours come from a style sheet for light and dark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use syntax::quantity::{percent, significant};

use super::assess::Assessment;
use super::capacity::{Capacity, Resource};
use super::model::{Contract, ModuleKind};
use super::system::{Feature, System};

const BOX: (f64, f64) = (168.0, 84.0);
/// From the left edge of a layer to that of the next, and from a box to the one below it.
const STEP: (f64, f64) = (300.0, 124.0);
const LEFT: f64 = 32.0;
const TOP: f64 = 92.0;
const LINE: f64 = 20.0;
/// Streams that go back run below the boxes, each this much deeper.
const DEEPER: f64 = 36.0;
/// How far they keep from the modules at their sides.
const ASIDE: f64 = 14.0;

const STYLE: &str = "
text { font: 12px system-ui, 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }
.title { font-size: 17px; font-weight: 600 } .name { font-size: 14px; font-weight: 600 } .dim { fill: #59636e }
.mid { text-anchor: middle } .end { text-anchor: end } .halo { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
.paper { fill: #ffffff } .box { fill: #f6f8fa; stroke: #afb8c1 } .first { stroke: #c62828; stroke-width: 2 }
.stream { fill: none; stroke: #6e7781; stroke-width: 1.4 } .demand { stroke-dasharray: 5 4 } .arrow { fill: #6e7781 }
.bar { fill: #d8dee4 } .used { fill: #0b62b8 } .over { fill: #c62828 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #9198a1 } .paper { fill: #0d1117 } .halo { stroke: #0d1117 }
.box { fill: #161b22; stroke: #444c56 } .first { stroke: #ff7b72 } .stream { stroke: #9198a1 } .arrow { fill: #9198a1 }
.bar { fill: #262c36 } .used { fill: #58a6ff } .over { fill: #ff7b72 }
}
";

/// What was seen of a contract's program while it ran: rates by feature, and by module the share of the time in
/// which it waited for no other.
#[derive(Clone, Debug, Default)]
pub struct SeenRates {
    pub rates: BTreeMap<String, f64>,
    pub busy: BTreeMap<String, f64>,
    pub bottleneck: Option<String>,
}

impl Contract {
    /// The picture of an assessed contract, or of what was seen of it beside its targets.
    pub fn svg(&self, assessment: &Assessment, capacity: &Capacity, seen: Option<&SeenRates>) -> String {
        let layout = Layout::of(self);
        let picture = Picture {
            contract: self,
            system: System::of(self),
            assessment,
            capacity,
            seen,
            layout: &layout,
        };
        picture.draw()
    }
}

/// Where modules are: layer and row, from left to right along the streams.
struct Layout {
    /// Modules, then places through which a stream passes between layers that are not neighbours.
    places: Vec<(usize, usize)>,
    /// For each sender and receiver of a stream, the places between them; none for a stream that goes back.
    ways: BTreeMap<(usize, usize, usize), Vec<usize>>,
    layers: usize,
    rows: usize,
}

impl Layout {
    fn of(contract: &Contract) -> Layout {
        let mut layer_of = layers(contract);
        let mut ways = BTreeMap::new();
        // Who sends to each module and place.
        let mut senders = vec![Vec::new(); layer_of.len()];
        for (stream, one) in contract.streams.iter().enumerate() {
            for (&from, &to) in one
                .from
                .iter()
                .flat_map(|from| one.to.iter().map(move |to| (from, to)))
            {
                let mut way = Vec::new();
                let mut before = from;
                for layer in layer_of[from] + 1..layer_of[to] {
                    way.push(layer_of.len());
                    layer_of.push(layer);
                    senders.push(vec![before]);
                    before = layer_of.len() - 1;
                }
                if layer_of[from] < layer_of[to] {
                    senders[to].push(before);
                }
                ways.insert((stream, from, to), way);
            }
        }
        let count = layer_of.iter().max().map_or(1, |last| last + 1);
        let mut places = vec![(0, 0); layer_of.len()];
        let mut rows = 1;
        for layer in 0..count {
            let members = (0..layer_of.len()).filter(|index| layer_of[*index] == layer);
            // Near the mean of those that send to it.
            let height = |index: usize| {
                let sum: usize = senders[index].iter().map(|sender| places[*sender].1).sum();
                sum as f64 / senders[index].len().max(1) as f64
            };
            let mut ordered: Vec<(f64, usize)> = members.map(|index| (height(index), index)).collect();
            ordered.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            rows = rows.max(ordered.len());
            for (row, (_, index)) in ordered.into_iter().enumerate() {
                places[index] = (layer, row);
            }
        }
        Layout {
            places,
            ways,
            layers: count,
            rows,
        }
    }

    /// The upper left corner of a module or place; layers are centred.
    fn corner(&self, index: usize) -> (f64, f64) {
        let (layer, row) = self.places[index];
        let members = self.places.iter().filter(|place| place.0 == layer).count();
        let free = (self.rows - members) as f64 / 2.0;
        (LEFT + layer as f64 * STEP.0, TOP + (row as f64 + free) * STEP.1)
    }

    /// The lower edge of the lowest modules.
    fn bottom(&self) -> f64 {
        TOP + self.rows as f64 * STEP.1 - (STEP.1 - BOX.1)
    }

    /// The points in the middle of the left and of the right side.
    fn sides(&self, index: usize) -> [(f64, f64); 2] {
        let (x, y) = self.corner(index);
        [(x, y + BOX.1 / 2.0), (x + BOX.0, y + BOX.1 / 2.0)]
    }

    /// A curve along the streams, and the middle of its first part.
    fn forward(&self, from: usize, way: &[usize], to: usize) -> (String, (f64, f64)) {
        let [_, first] = self.sides(from);
        let mut path = format!("M{} {}", first.0, first.1);
        let (mut start, mut middle) = (first, None);
        for &index in way.iter().chain([&to]) {
            let [left, right] = self.sides(index);
            let x = (start.0 + left.0) / 2.0;
            let _ = write!(path, "C{x} {} {x} {} {} {}", start.1, left.1, left.0, left.1);
            if index != to {
                let _ = write!(path, "L{} {}", right.0, right.1);
            }
            middle.get_or_insert((x, (start.1 + left.1) / 2.0));
            start = right;
        }
        (path, middle.unwrap_or(first))
    }

    /// A line below all modules, at this height, and its middle.
    fn backward(&self, from: usize, to: usize, y: f64) -> (String, (f64, f64)) {
        let ([_, start], [end, _]) = (self.sides(from), self.sides(to));
        let (right, left) = (start.0 + ASIDE, end.0 - ASIDE);
        let path = format!(
            "M{} {}Q{right} {} {right} {}L{right} {}Q{right} {y} {} {y}L{} {y}Q{left} {y} {left} {}L{left} {}Q{left} {} {} {}",
            start.0,
            start.1,
            start.1,
            start.1 + ASIDE,
            y - ASIDE,
            right - ASIDE,
            left + ASIDE,
            y - ASIDE,
            end.1 + ASIDE,
            end.1,
            end.0,
            end.1
        );
        (path, ((left + right) / 2.0, y))
    }
}

/// The longest way to each module from one without earlier ones; streams that close a cycle do not count.
fn layers(contract: &Contract) -> Vec<usize> {
    let next = |module: usize| -> Vec<usize> {
        let sent = contract
            .streams
            .iter()
            .filter(|stream| stream.from.contains(&module));
        sent.flat_map(|stream| stream.to.iter().copied()).collect()
    };
    let modules = contract.modules.len();
    // Modules in the order in which a search in depth leaves them, the last first.
    let (mut left, mut state) = (Vec::new(), vec![0_u8; modules]);
    let has_input = |module: &usize| contract.streams.iter().any(|stream| stream.to.contains(module));
    let (fed, sources): (Vec<usize>, Vec<usize>) = (0..modules).partition(has_input);
    let mut back = BTreeSet::new();
    for first in sources.into_iter().chain(fed) {
        if state[first] > 0 {
            continue;
        }
        state[first] = 1;
        let mut path = vec![(first, next(first))];
        while let Some((module, rest)) = path.last_mut() {
            let module = *module;
            match rest.pop() {
                Some(to) if state[to] == 1 => {
                    back.insert((module, to));
                }
                Some(to) if state[to] == 0 => {
                    state[to] = 1;
                    path.push((to, next(to)));
                }
                Some(_) => {}
                None => {
                    state[module] = 2;
                    left.push(module);
                    path.pop();
                }
            }
        }
    }
    let mut layers = vec![0; modules];
    for &module in left.iter().rev() {
        for to in next(module)
            .into_iter()
            .filter(|to| !back.contains(&(module, *to)))
        {
            layers[to] = layers[to].max(layers[module] + 1);
        }
    }
    layers
}

struct Picture<'a> {
    contract: &'a Contract,
    system: System,
    assessment: &'a Assessment,
    capacity: &'a Capacity,
    seen: Option<&'a SeenRates>,
    layout: &'a Layout,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let (mut streams, mut labels, mut backward) = (String::new(), String::new(), 0);
        for stream in 0..self.contract.streams.len() {
            self.stream(stream, &mut streams, &mut labels, &mut backward);
        }
        let mut boxes = String::new();
        for module in 0..self.contract.modules.len() {
            self.module(module, &mut boxes);
        }
        let others: Vec<String> = self
            .capacity
            .resources
            .iter()
            .filter(|one| !self.is_module(one))
            .map(used)
            .collect();
        let below = self.layout.bottom() + f64::from(backward) * DEEPER + STEP.1 - BOX.1;
        let width = (LEFT * 2.0 + (self.layout.layers - 1) as f64 * STEP.0 + BOX.0).max(560.0);
        let height = below + others.len() as f64 * LINE + 12.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
             <title>{name}</title><style>{STYLE}</style>\n\
             <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
             <path class=\"arrow\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"34\">{name}</text>\n<text class=\"dim\" x=\"{LEFT}\" y=\"56\">{greatest}</text>\n",
            name = escaped(&self.contract.name),
            greatest = escaped(&self.greatest()),
        );
        out.push_str(&streams);
        out.push_str(&boxes);
        out.push_str(&labels);
        for (line, text) in others.iter().enumerate() {
            let y = below + line as f64 * LINE;
            let _ = writeln!(
                out,
                "<text class=\"dim\" x=\"{LEFT}\" y=\"{y}\">{}</text>",
                escaped(text)
            );
        }
        out.push_str("</svg>\n");
        out
    }

    fn greatest(&self) -> String {
        let capacity = self.capacity;
        let first = capacity.resources.first().map_or("", |one| one.resource.as_str());
        let assessed = format!("{} assessed at {}", capacity.feature, rate(capacity.rate));
        match capacity.greatest {
            Some(greatest) => format!("{assessed}; at most {}, bound by {first}", rate(greatest)),
            None => format!("{assessed}; nothing in the contract limits it"),
        }
    }

    fn rate(&self, feature: Feature) -> Option<f64> {
        Some(self.assessment.features.get(self.system.column(feature)?)?.rate)
    }

    /// A rate as assessed; where the program was watched, what was seen of the first of these features beside it.
    fn beside(&self, features: &[&String], least: f64) -> String {
        let seen = features.iter().find_map(|feature| self.seen?.rates.get(*feature));
        match seen {
            Some(seen) => format!("{} of {}", rate(*seen), rate(least)),
            None => rate(least),
        }
    }

    fn is_module(&self, resource: &Resource) -> bool {
        self.contract
            .modules
            .iter()
            .any(|module| module.name == resource.resource)
    }

    fn module(&self, module: usize, out: &mut String) {
        let one = &self.contract.modules[module];
        let (x, y) = self.layout.corner(module);
        let mut resources = self.capacity.resources.iter();
        let used = match self.seen {
            Some(seen) => seen.busy.get(&one.name).copied(),
            None => resources
                .find(|resource| resource.resource == one.name)
                .map(|used| used.utilisation),
        };
        let first = match self.seen {
            Some(seen) => seen.bottleneck.as_ref(),
            None => self.capacity.resources.first().map(|first| &first.resource),
        };
        let is_first = first == Some(&one.name);
        let class = if is_first { "box first" } else { "box" };
        let rates = (0..one.computations.len())
            .filter_map(|computation| self.rate(Feature::Activation { module, computation }));
        let rates: Vec<String> = rates.map(|least| self.beside(&[&one.name], least)).collect();
        let workers = one
            .workers
            .as_ref()
            .filter(|_| one.kind != ModuleKind::Sequential);
        let workers = workers.and_then(|workers| workers.count);
        let kind = workers.map_or(String::new(), |count| format!(" \u{d7} {count}"));
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
             <text class=\"name\" x=\"{}\" y=\"{}\">{}<tspan class=\"dim\">{kind}</tspan></text>\n\
             <text x=\"{}\" y=\"{}\">{}</text>",
            BOX.0,
            BOX.1,
            x + 12.0,
            y + 24.0,
            escaped(&one.name),
            x + 12.0,
            y + 45.0,
            escaped(&rates.join(", ")),
        );
        if let Some(used) = used {
            let (width, share) = (BOX.0 - 76.0, used.min(1.0));
            let class = if used > 1.0 + 1e-9 { "over" } else { "used" };
            let _ = writeln!(
                out,
                "<rect class=\"bar\" x=\"{bar}\" y=\"{top}\" width=\"{width}\" height=\"8\" rx=\"4\"/>\
                 <rect class=\"{class}\" x=\"{bar}\" y=\"{top}\" width=\"{}\" height=\"8\" rx=\"4\"/>\
                 <text class=\"end\" x=\"{}\" y=\"{}\">{}</text>",
                (width * share).max(4.0),
                x + BOX.0 - 12.0,
                y + 69.0,
                percent(used),
                bar = x + 12.0,
                top = y + 61.0,
            );
        }
    }

    fn stream(&self, stream: usize, out: &mut String, labels: &mut String, backward: &mut u32) {
        let one = &self.contract.streams[stream];
        let class = if one.on_demand { "stream demand" } else { "stream" };
        for &from in &one.from {
            for &to in &one.to {
                let way = &self.layout.ways[&(stream, from, to)];
                let (path, middle) = match self.layout.places[from].0 < self.layout.places[to].0 {
                    true => self.layout.forward(from, way, to),
                    false => {
                        *backward += 1;
                        let y = self.layout.bottom() + f64::from(*backward) * DEEPER;
                        self.layout.backward(from, to, y)
                    }
                };
                let _ = writeln!(
                    out,
                    "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#a)\"/>"
                );
                let part = Feature::on_edge(stream, one.from.len(), (from, to));
                let names = [
                    one.name.clone(),
                    format!("{}.{}", self.contract.modules[to].name, one.name),
                ];
                let names: Vec<&String> = names.iter().collect();
                let part = self.rate(part).map(|least| self.beside(&names, least));
                let part = part.unwrap_or_default();
                let _ = writeln!(
                    labels,
                    "<text class=\"mid halo\" x=\"{x}\" y=\"{}\">{}</text><text class=\"mid dim halo\" x=\"{x}\" y=\"{}\">{part}</text>",
                    middle.1 - 7.0,
                    escaped(&one.name),
                    middle.1 + 16.0,
                    x = middle.0,
                );
            }
        }
    }
}

fn rate(value: f64) -> String {
    format!("{}/s", significant(value, 3))
}

fn used(resource: &Resource) -> String {
    format!("{}: {} used", resource.resource, percent(resource.utilisation))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::Contract;

    fn drawn(source: &str) -> String {
        let contract = Contract::parse(source).unwrap();
        let (assessment, capacity) = contract.capacity().unwrap();
        contract.svg(&assessment, &capacity, None)
    }

    #[test]
    fn what_was_seen_stands_beside_its_target_and_the_bottleneck_is_the_one_that_was_seen() {
        let source = "contract: two\nstreams: {s: {from: A, to: B}}\nmodules:\n  A: {gives: {s: 1}}\n  B: {takes: [s], work: w}\n\
                      work: {w: {time: 900ms}}\nrequire: [B >= 1/s]\n";
        let contract = Contract::parse(source).unwrap();
        let (assessment, capacity) = contract.capacity().unwrap();
        let seen = super::SeenRates {
            rates: [("s", 0.5), ("B", 0.6)]
                .map(|(name, rate)| (name.to_owned(), rate))
                .into(),
            busy: [("A", 0.98), ("B", 0.25)]
                .map(|(name, busy)| (name.to_owned(), busy))
                .into(),
            bottleneck: Some("A".to_owned()),
        };
        let picture = contract.svg(&assessment, &capacity, Some(&seen));
        for part in [">0.5/s of 1/s<", ">0.6/s of 1/s<", ">98 %<", ">25 %<"] {
            assert!(picture.contains(part), "no {part} in {picture}");
        }
        assert!(!picture.contains(">90 %<"), "not what the contract states");
        let first = picture.split("box first").nth(1).unwrap();
        assert!(first.contains(">A<tspan"), "{first}");
    }

    #[test]
    fn the_picture_has_rates_use_and_the_bottleneck() {
        let page = include_str!("../../../docs/contracts.md");
        let film = page
            .split("```")
            .find_map(|block| block.strip_prefix("yaml film.yaml\n"));
        let picture = drawn(film.unwrap());
        for part in [
            "bound by render",
            ">96 %<",
            ">pictures<",
            ">0.0833/s<",
            "machine quanto: ",
            "\u{d7} 20",
        ] {
            assert!(picture.contains(part), "no {part} in {picture}");
        }
        assert_eq!(picture.matches("box first").count(), 1);
        // Five modules from left to right.
        assert_eq!(picture.matches("marker-end").count(), 4);
        assert!(!picture.contains("NaN"));
    }

    #[test]
    fn streams_that_go_back_and_on_demand_are_drawn() {
        let picture = drawn(
            "contract: round\nstreams:\n  s: {from: [A, C], to: B}\n  t: {from: B, to: [C, D], kind: on-demand}\nmodules:\n  A: {gives: {s: 1}}\n  \
             B: {takes: [s], gives: {t: 1}}\n  C: {takes: [t], gives: {s: 1}}\n  D: {takes: [t]}\nrequire: [A >= 1/s, C >= 2/s]\n",
        );
        assert_eq!(picture.matches("marker-end").count(), 4);
        assert_eq!(picture.matches("stream demand").count(), 2);
        // A sends 1/s of the 3/s that B takes.
        let label = picture.split(">s<").nth(1).unwrap();
        assert!(label.contains(">1/s<"), "{label}");
        let back = picture
            .lines()
            .filter(|line| line.contains("marker-end") && line.contains('L'));
        assert_eq!(back.count(), 1);
    }
}
