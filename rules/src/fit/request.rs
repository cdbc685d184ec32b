//! Collects the names of a program that a rule uses.

use plan::{Action, PatchRequest, SyncPoint, ValueType};

use super::FitRequest;
use crate::read::Base;
use crate::rule::CheckedRule;
use crate::target::Target;

impl CheckedRule {
    /// The names of a program that the rule uses.
    pub fn request(&self) -> FitRequest {
        let mut request = FitRequest::default();
        for probe in &self.plan.probes {
            if let Target::Mark(mark) = &probe.target {
                request.marks.insert(mark.clone());
                let globals = probe
                    .captures
                    .iter()
                    .filter_map(|capture| capture.source.global_name());
                request.variables.extend(globals.map(str::to_string));
            }
            // The functions of a pattern or a set are determined when they are probed.
            let Some(function) = probe.target.function() else {
                continue;
            };
            request.functions.insert(function.to_string());
            let to = probe.to.as_ref().and_then(Target::function);
            request.functions.extend(to.map(str::to_string));
            for capture in &probe.captures {
                match (&capture.source.base, capture.source.steps.as_slice()) {
                    (Base::Argument(number), []) => {
                        request.parameters.insert((function.to_string(), *number));
                    }
                    (Base::Global(name), []) => {
                        request.variables.insert(name.clone());
                    }
                    _ => {}
                }
            }
        }
        for variable in &self.plan.variables {
            request.written.insert(variable.name.clone(), variable.value_type);
        }
        for (_, function, number, _) in self.arguments() {
            request.functions.insert(function.to_owned());
            request.parameters.insert((function.to_owned(), number));
        }
        let points = self.tunes.iter().filter_map(|tune| tune.at.as_ref());
        request.functions.extend(points.map(SyncPoint::name));
        request
    }

    /// The arguments that its tunes set: index of the tune, function, index of the argument, and the type if
    /// the rule states it.
    pub(super) fn arguments(&self) -> impl Iterator<Item = (usize, &str, u8, Option<ValueType>)> {
        self.tunes.iter().enumerate().filter_map(|(number, tune)| {
            let Action::Patch(PatchRequest::SetArgument {
                function,
                index,
                value_type,
                ..
            }) = &tune.action.as_ref()?.action
            else {
                return None;
            };
            Some((
                number,
                function.name.as_str(),
                u8::try_from(*index).ok()?,
                *value_type,
            ))
        })
    }
}
