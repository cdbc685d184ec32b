//! Suggestions for mistyped names of variables and functions of a program.

use plan::FunctionName;
use profile::format::nearest;
use tuner::{AddressSpace, ImageError, SymbolKind, VariableError, VariableName};

/// A suggestion for a variable name that does not exist, or how to list those that do; `None` if it exists.
pub(crate) fn of_variable(space: &AddressSpace, variable: &str) -> Option<String> {
    let wanted = VariableName::from(variable);
    let Err(VariableError::NotFound { .. }) = space.variable(&wanted) else {
        return None;
    };
    let program = space.executable()?;
    let names = || -> Result<Vec<String>, ImageError> {
        let symbols = program.image.defined_symbols()?.into_iter();
        let variables = symbols.filter(|symbol| symbol.kind == SymbolKind::Variable);
        Ok(variables.map(|symbol| symbol.name).collect())
    };
    if let Some(name) = corrected(&names().unwrap_or_default(), variable) {
        return Some(format!("did you mean `{name}`?"));
    }
    Some(match program.image.is_stripped() {
        true => format!(
            "{} is stripped: of its variables only those have names that it exports (strip -g would leave them)",
            program.path
        ),
        false => format!(
            "its variables: tuneagent symbols {} --variables",
            space.process.pid
        ),
    })
}

/// The path to a variable with the nearest existing name in place of the mistyped one: of the part before its
/// first member, element or target, or of all of it.
fn corrected(names: &[String], typed: &str) -> Option<String> {
    let path = typed.trim_start_matches('*');
    let stars = &typed[..typed.len() - path.len()];
    let ends = [path.find(['.', '[', '-']), Some(path.len())];
    ends.into_iter().flatten().find_map(|end| {
        let near = nearest(&path[..end], names.iter().cloned())?;
        Some(format!("{stars}{near}{}", &path[end..]))
    })
}

/// A suggestion for the name of a function that does not exist, or how to list those that do; `None` if it exists.
pub(crate) fn of_function(space: &AddressSpace, function: &FunctionName) -> Option<String> {
    if space.every_function(function).is_ok() {
        return None;
    }
    // A similar name of a library is not the one that was removed.
    if let Some(program) = space.executable()
        && program.image.is_stripped()
    {
        return Some(format!(
            "{} is stripped: of its functions only those have names that it exports (strip -g would leave them)",
            program.path
        ));
    }
    let symbols = space.modules.iter();
    let symbols = symbols.flat_map(|module| module.image.defined_symbols().unwrap_or_default());
    let is_code = |kind| matches!(kind, SymbolKind::Function | SymbolKind::IndirectFunction);
    let functions = symbols.filter(|symbol| is_code(symbol.kind));
    Some(
        match nearest(&function.name, functions.map(|symbol| symbol.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "its functions: tuneagent symbols {} --functions",
                space.process.pid
            ),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_corrected_with_the_path_that_follows() {
        let names = ["limits", "cfg", "current"].map(str::to_owned);
        for (typed, wanted) in [
            ("limit", Some("limits")),
            ("limit[2]", Some("limits[2]")),
            ("cgf.solver.chunk", Some("cfg.solver.chunk")),
            ("curent->level", Some("current->level")),
            ("*curent", Some("*current")),
            ("nothing.like", None),
            ("x", None),
        ] {
            assert_eq!(corrected(&names, typed).as_deref(), wanted, "{typed}");
        }
    }
}
