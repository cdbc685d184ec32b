//! Changes an argument of a function before its body runs.

use plan::{Expression, FunctionName, PatchRequest, TEAM_SIZE_ARGUMENT, TEAM_SIZES, ValueType};

use super::bytes::{CodePlan, Prepared, TRAMPOLINE_BYTES, wrap};
use super::function::{FoundFunction, PlanContext, refuse_indirect};
use super::words::{image_error, words_of};
use crate::arch::x86_64::{
    assemble::{FLOATS_MAX, INTEGERS_MAX},
    trampoline::Parameter,
};
use crate::dwarf::{self, ValueKind};
use crate::error::ActionError;

const DONE: &str = "changed to take another argument";

/// Replaces the value that is passed to a function.
pub(super) fn set(
    context: &PlanContext<'_>,
    function: &FunctionName,
    index: usize,
    stated: Option<ValueType>,
    value: &Expression,
) -> Result<CodePlan, ActionError> {
    let found = context.find(function)?;
    refuse_indirect(&found, DONE)?;
    change(context, &[(found, stated)], index, value)
}

/// Replaces the team size that the program requests from its OpenMP libraries, in all functions that take one.
/// Functions that no file calls are not changed. A process may have several copies of a library.
pub(super) fn set_team_size(context: &PlanContext<'_>, value: &Expression) -> Result<CodePlan, ActionError> {
    let mut called = Vec::new();
    for (name, of) in TEAM_SIZES {
        for (module, _) in context.space.functions(&[*name])? {
            let mut found = context.find(&FunctionName {
                name: (*name).to_owned(),
                module: Some(module.path.clone()),
            })?;
            // One name for all copies.
            found.name = (*name).to_owned();
            if is_called(context, &found)? {
                called.push((found, Some(*of)));
            }
        }
    }
    if called.is_empty() {
        return Err(ActionError::Refused {
            function: PatchRequest::TEAM_SIZE.to_owned(),
            done: DONE,
            why: "the program calls no function to which the size of a team is stated".into(),
        });
    }
    change(context, &called, usize::from(TEAM_SIZE_ARGUMENT), value)
}

/// Whether a file calls it through its table of imports.
fn is_called(context: &PlanContext<'_>, found: &FoundFunction) -> Result<bool, ActionError> {
    for module in &context.space.modules {
        if !words_of(context, module, found)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Changes the same argument of several functions, each with its stated type.
fn change(
    context: &PlanContext<'_>,
    functions: &[(FoundFunction, Option<ValueType>)],
    index: usize,
    value: &Expression,
) -> Result<CodePlan, ActionError> {
    let mut names: Vec<&str> = functions.iter().map(|(found, _)| found.name.as_str()).collect();
    names.dedup();
    let mut plan = CodePlan::new(format!("argument {index} of {} = {value}", names.join(", ")), &[]);
    let bytes = TRAMPOLINE_BYTES * 4 * functions.len();
    for (found, stated) in functions {
        let parameter = place_of(found, index, *stated)?;
        value.check(parameter.value_type)?;
        wrap(context, &mut plan, found, bytes, DONE, |_, _| {
            Ok(Prepared::Argument(parameter, value.clone()))
        })?;
    }
    Ok(plan)
}

/// The register in which a parameter is passed.
fn place_of(
    found: &FoundFunction,
    index: usize,
    stated: Option<ValueType>,
) -> Result<Parameter, ActionError> {
    let error = |why: String| ActionError::Arguments {
        function: found.name.clone(),
        why,
    };
    let is_float = |of: ValueType| matches!(of, ValueType::F32 | ValueType::F64);
    let known = dwarf::parameters(&found.module.image, found.function.address);
    let known = known.map_err(|source| image_error(&found.module, source))?;
    let (register, value_type) = match known {
        None => {
            let of = stated.ok_or_else(|| {
                error("its file has no debug information: state the argument's type".to_owned())
            })?;
            (index, of)
        }
        Some(known) => {
            let of = known
                .get(index)
                .map(|parameter| parameter.of)
                .ok_or_else(|| error(number_of_arguments(known.len())))?;
            if let Some(stated) =
                stated.filter(|stated| of.value_type().is_some_and(|known| known != *stated))
            {
                return Err(error(format!("argument {index} is {of}, not {stated}")));
            }
            let by_size = || match (of.kind, of.size) {
                (ValueKind::Pointer, _) => Some(ValueType::U64),
                (ValueKind::Enum, 4) => Some(ValueType::I32),
                _ => None,
            };
            let value_type = of.value_type().or(stated).or_else(by_size);
            let value_type =
                value_type.ok_or_else(|| error(format!("argument {index} is {of}, which cannot be set")))?;
            let same = known[..index]
                .iter()
                .filter(|other| (other.of.kind == ValueKind::Float) == is_float(value_type));
            (same.count(), value_type)
        }
    };
    let most = if is_float(value_type) {
        FLOATS_MAX
    } else {
        INTEGERS_MAX
    };
    match register < most {
        true => Ok(Parameter { register, value_type }),
        false => Err(error(format!(
            "argument {index} is passed on the stack, which cannot be changed"
        ))),
    }
}

/// Which arguments a function has, for one that asks for another.
fn number_of_arguments(known: usize) -> String {
    match known {
        0 => "it has no arguments".to_owned(),
        1 => "it has one argument, number 0".to_owned(),
        known => format!("it has {known} arguments, numbers 0 to {}", known - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::number_of_arguments;

    #[test]
    fn the_arguments_that_a_function_has_are_numbered_from_0() {
        for (known, words) in [
            (0, "it has no arguments"),
            (1, "it has one argument, number 0"),
            (3, "it has 3 arguments, numbers 0 to 2"),
        ] {
            assert_eq!(number_of_arguments(known), words);
        }
    }
}
