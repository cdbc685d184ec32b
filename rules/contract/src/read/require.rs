//! Requirements and adaptations of a contract file.

use num_traits::{CheckedDiv, CheckedSub};
use syntax::ast::{Comparison, ExprNode};
use syntax::diag::{Diagnostic, Span, did_you_mean};
use syntax::fields::{Fields, text, wrong_shape};
use syntax::parser::parse;
use syntax::text::Text;
use syntax::unit::Dimension;
use syntax::yaml::{Tree, YamlNode};

use super::super::exact::{Exact, constant};
use super::super::keys;
use super::super::model::{Adaptation, Contract, Requirement};
use super::super::system::System;
use super::{ContractReader, RATE, section};

impl Contract {
    /// Replaces what is required of a feature, or adds a requirement: `film >= 2/s`.
    ///
    /// # Errors
    /// If it is no requirement, or names what the contract does not have.
    pub fn require(&mut self, written: &str) -> Result<(), Diagnostic> {
        let requirement = requirement(&Text::elsewhere(written, self.span), &|_| None)?;
        let system = System::of(self);
        system.resolve(self, &requirement.feature, requirement.span)?;
        self.requirements.retain(|one| one.feature != requirement.feature);
        self.requirements.push(requirement);
        Ok(())
    }
}

type ParameterValues<'a> = &'a dyn Fn(&str) -> Option<super::Constant>;

/// `feature >= rate`, or `rate <= feature`.
fn requirement(written: &Text, parameter: ParameterValues<'_>) -> Result<Requirement, Diagnostic> {
    let expr = parse(written)?;
    let form = |span: Span| {
        Diagnostic::wrong("E0175", span, "a requirement is a least rate: `feature >= rate`")
            .help("for example `film >= 1 / 12s`; completion and response times have keys of their own")
    };
    let ExprNode::Compare { first, rest } = &expr.node else {
        return Err(form(expr.span));
    };
    let (feature, least) = match rest.as_slice() {
        [(Comparison::GreaterOrEqual, least)] => (first, least),
        [(Comparison::LessOrEqual, feature)] => (&Box::new(feature.clone()), &**first),
        _ => return Err(form(expr.span)),
    };
    let ExprNode::Name(name) = &feature.node else {
        return Err(form(expr.span));
    };
    let rate = constant(least, parameter)?;
    if rate.dimension != RATE {
        let message = format!("a least rate is {RATE}, this is {}", rate.dimension);
        let help = "`film >= 2/s`, `film >= 1 / 12s`; links have bandwidths";
        return Err(Diagnostic::wrong("E0173", least.span, message).help(help));
    }
    if rate.value <= Exact::from_integer(0) {
        return Err(Diagnostic::wrong("E0175", least.span, "a least rate is positive"));
    }
    Ok(Requirement {
        feature: name.clone(),
        least: rate.value,
        span: feature.span,
        conversion: None,
    })
}

impl ContractReader<'_, '_> {
    pub(super) fn requirements(&mut self, fields: &Fields<'_>, out: &mut Contract) {
        let Some(tree) = fields.get("require") else {
            return;
        };
        let YamlNode::Sequence(items) = &tree.node else {
            wrong_shape(tree, "`require`", "a list (`- film >= 1/s`)", self.wrong);
            return;
        };
        if items.len() > super::ENTRIES_MAX {
            self.push("E0123", tree.span, "too many requirements");
            return;
        }
        for item in items {
            let read = match &item.node {
                YamlNode::Mapping(_) => self.converted(item),
                _ => text(item, self.wrong).and_then(|written| {
                    let parameter = |name: &str| self.parameters.get(name).copied();
                    requirement(&written, &parameter)
                        .map_err(|wrong| self.wrong.push(wrong))
                        .ok()
                }),
            };
            out.requirements.extend(read);
        }
    }

    /// A completion time or a response time as a rate.
    fn converted(&mut self, tree: &Tree) -> Option<Requirement> {
        let fields = Fields::of(tree, &keys::CONVERTED, self.wrong)?;
        let feature = fields.required_text("feature", tree.span, self.wrong)?;
        let number = |it: &mut Self, key: &str, dimension| {
            let value = fields.get(key)?;
            it.exact(value, dimension, &format!("`{key}`"))
        };
        let items = number(self, "items", Dimension::NONE);
        let within = number(self, "within", Dimension::TIME);
        let transient = number(self, "transient", Dimension::TIME).unwrap_or_default();
        let response = number(self, "response", Dimension::TIME);
        let in_flight = number(self, "in_flight", Dimension::NONE);
        let (items, time, conversion) = match (items, within, response, in_flight) {
            (Some(items), Some(within), None, None) => {
                let conversion = format!(
                    "{items} items within {within} s, the first after {transient} s: (items - 1) / (time - transient)"
                );
                let items = items.checked_sub(&Exact::from_integer(1));
                (items, within.checked_sub(&transient), conversion)
            }
            (None, None, Some(response), Some(items)) => {
                let conversion = format!(
                    "a response within {response} s with {items} items in flight: items / time (Little's law)"
                );
                (Some(items), Some(response), conversion)
            }
            _ => {
                let message = "a requirement has `items` and `within`, or `response` and `in_flight`";
                self.push("E0175", tree.span, message);
                return None;
            }
        };
        let zero = Exact::from_integer(0);
        let positive = |value: &Exact| *value > zero;
        let (items, time) = (items.filter(positive), time.filter(positive));
        let least = items.zip(time).and_then(|(items, time)| items.checked_div(&time));
        let Some(least) = least else {
            self.push("E0175", tree.span, "this leaves no time, or requires no item");
            return None;
        };
        Some(Requirement {
            feature: feature.raw.clone(),
            least,
            span: feature.span,
            conversion: Some(conversion),
        })
    }

    /// Every requirement names a feature.
    pub(super) fn required_features(&mut self, out: &Contract, system: &System) {
        for requirement in &out.requirements {
            if let Err(wrong) = system.resolve(out, &requirement.feature, requirement.span) {
                self.wrong.push(wrong);
            }
        }
    }

    pub(super) fn adaptations(&mut self, fields: &Fields<'_>, out: &mut Contract) {
        for (name, tree) in section(fields, "adapt", self.wrong) {
            let Some(adaptation) = self.adaptation(name, tree, out) else {
                continue;
            };
            out.adaptations.push(adaptation);
        }
    }

    fn adaptation(&mut self, name: &Text, tree: &Tree, out: &Contract) -> Option<Adaptation> {
        let fields = Fields::of(tree, &keys::ADAPT, self.wrong)?;
        let module = self.module(name)?;
        let set = fields.required_text("set", name.span, self.wrong)?;
        let range = fields.required_text("range", name.span, self.wrong)?;
        let bounds = range.raw.split_once("..").and_then(|(least, most)| {
            let number = |text: &str| text.trim().parse::<u32>().ok();
            number(least).zip(number(most))
        });
        let Some((least, most)) = bounds.filter(|(least, most)| 1 <= *least && least <= most) else {
            self.push("E0145", range.span, "a range is two positive integers: `1..16`");
            return None;
        };
        let workers = out.modules.get(module).and_then(|module| module.workers.as_ref());
        let variable = workers.and_then(|workers| workers.name.as_ref());
        if let Some(known) = variable.filter(|known| **known != set.raw) {
            let near = did_you_mean(&set.raw, [known.as_str()]);
            let message = format!(
                "the workers of `{}` are set by `{known}`, not `{}`",
                name.raw, set.raw
            );
            self.wrong
                .push(Diagnostic::wrong("E0174", set.span, message).help_if(near));
            return None;
        }
        let at = fields.get("at").and_then(|at| text(at, self.wrong));
        Some(Adaptation {
            module,
            variable: set.raw,
            at: at.map(|at| at.raw),
            least,
            most,
        })
    }
}
