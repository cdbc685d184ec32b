//! The conditions of operating points.

use syntax::diag::{Diagnostic, names_help};
use syntax::fields::mapping;
use syntax::text::Text;
use syntax::unit::Dimension;
use syntax::yaml::{Tree, YamlNode};

use super::super::model::StatedNumber;
use super::super::model::{Contract, LeastNumber, Machine, OperatingPoint};
use super::{ContractReader, Section};

impl ContractReader<'_, '_> {
    /// `if` of an operating point: least numbers of the program, and least properties of the machine.
    pub(super) fn conditions(&mut self, tree: &Tree, machines: &[Machine], point: &mut OperatingPoint) {
        let all = mapping(tree, "`if`", self.wrong).unwrap_or_default();
        let mut written = Vec::new();
        for (name, value) in all {
            if let YamlNode::Scalar(value) = &value.node {
                written.push(format!("{}: {}", name.raw, value.raw));
            }
            self.condition(name, value, machines, point);
        }
        point.condition = written.join(", ");
    }

    fn condition(&mut self, name: &Text, value: &Tree, machines: &[Machine], point: &mut OperatingPoint) {
        let mut properties = machines.iter().flat_map(|machine| machine.properties.keys());
        let is_property = properties.any(|property| *property == name.raw);
        let what = format!("`{}`", name.raw);
        match self.stated_number(name) {
            Some((number, dimension)) => {
                if is_property {
                    let message = format!("{what} is a property of machines, and a stream or a module");
                    self.wrong.push(
                        Diagnostic::wrong("E0107", name.span, message).help("give the property another name"),
                    );
                }
                if let Some(least) = self.positive(value, dimension, &what) {
                    let span = name.span;
                    point.numbers.push(LeastNumber { number, least, span });
                }
            }
            None if is_property => {
                let found = self.constant(value).map(|found| found.dimension);
                let least = found.and_then(|dimension| self.positive(value, dimension, &what));
                point
                    .properties
                    .extend(least.map(|least| (name.raw.clone(), least)));
            }
            None => {
                let names =
                    |section: &Section<'_>| section.iter().map(|(name, _)| name.raw.clone()).collect();
                let known: Vec<Vec<String>> = vec![
                    names(&self.streams),
                    names(&self.modules),
                    machines
                        .iter()
                        .flat_map(|it| it.properties.keys().cloned())
                        .collect(),
                ];
                let near = names_help(&name.raw, known.iter().flatten().map(String::as_str));
                let message =
                    format!("there is no stream, module, `module.stream` or property of machines {what}");
                self.wrong
                    .push(Diagnostic::wrong("E0174", name.span, message).help_if(near));
            }
        }
    }

    /// What a name stands for, with its dimension: the size of a stream's items, a module's time for an activation, or
    /// with both the items in an activation.
    fn stated_number(&self, name: &Text) -> Option<(StatedNumber, Dimension)> {
        let has = |section: &Section<'_>, name: &str| section.iter().any(|(known, _)| known.raw == name);
        let name = name.raw.as_str();
        if let Some((module, stream)) = name.split_once('.') {
            let is_known = has(&self.modules, module) && has(&self.streams, stream);
            let (module, stream) = (module.to_owned(), stream.to_owned());
            return is_known.then_some((StatedNumber::Items { module, stream }, Dimension::NONE));
        }
        if has(&self.streams, name) {
            let stream = name.to_owned();
            return Some((StatedNumber::Size { stream }, Dimension::BYTES));
        }
        let module = name.to_owned();
        has(&self.modules, name).then_some((StatedNumber::Time { module }, Dimension::TIME))
    }

    /// Conditions must be on what can be measured: of a module with several computations only what they send and take
    /// together.
    pub(super) fn measurable(&mut self, out: &Contract) {
        let points = out.works.iter().flat_map(|work| &work.points);
        for condition in points.flat_map(|point| &point.numbers) {
            let message = match &condition.number {
                StatedNumber::Size { .. } => None,
                StatedNumber::Time { module } => {
                    let mut modules = out.modules.iter().filter(|one| one.name == *module);
                    let is_simple = modules.any(|one| one.computations.len() == 1);
                    let message = || format!("`{module}` has no single computation whose time is measured");
                    (!is_simple).then(message)
                }
                StatedNumber::Items { module, stream } => {
                    let is_sent = out.number(&condition.number).is_some();
                    let message = || format!("`{module}` has no single computation that sends on `{stream}`");
                    (!is_sent).then(message)
                }
            };
            if let Some(message) = message {
                self.push("E0174", condition.span, message);
            }
        }
    }
}
