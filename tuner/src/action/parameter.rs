//! An argument of a function that is changed before its body runs.

use plan::{Expression, FunctionName, ValueType};

use super::bytes::{Plan, Prepared, TRAMPOLINE_BYTES, wrap};
use super::function::{Context, Found, refuse_indirect};
use super::words::image_error;
use crate::arch::x86_64::{
    assemble::{FLOATS_MAX, INTEGERS_MAX},
    trampoline::Parameter,
};
use crate::dwarf::{self, ValueKind};
use crate::error::ActionError;

/// Has a function take another value than is passed.
pub(super) fn set(
    context: &Context<'_>,
    function: &FunctionName,
    index: usize,
    stated: Option<ValueType>,
    value: &Expression,
) -> Result<Plan, ActionError> {
    const DONE: &str = "changed to take another argument";
    let found = context.find(function)?;
    refuse_indirect(&found, DONE)?;
    let parameter = place_of(&found, index, stated)?;
    value.check(parameter.value_type)?;
    let symbol = format!("argument {index} of {} = {value}", found.name);
    let mut plan = Plan::new(symbol, &[]);
    let bytes = TRAMPOLINE_BYTES * 4;
    wrap(context, &mut plan, &found, bytes, DONE, |_, _| {
        Ok(Prepared::Argument(parameter, value.clone()))
    })?;
    Ok(plan)
}

/// Where a parameter is passed.
fn place_of(found: &Found, index: usize, stated: Option<ValueType>) -> Result<Parameter, ActionError> {
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
                .ok_or_else(|| error(format!("it has {} known arguments, counted from 0", known.len())))?;
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
