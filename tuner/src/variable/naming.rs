//! Resolves the user's spelling to linker names: which symbols match, in which module or source file, and the
//! steps that follow.

use super::{VariableError, VariableName};
use crate::dwarf;
use crate::image::ImageError;
use crate::module::Module;
use crate::path::{Path, PathStep};
use crate::space::AddressSpace;
use crate::spelling::{MatchQuality, Spelling};
use crate::symbol::{Symbol, SymbolKind};

#[derive(Debug)]
pub(super) struct NamedVariable {
    /// The names of the symbols; several if C++ or Fortran has several equally good matches.
    pub(super) symbols: Vec<String>,
    /// Restricts to what code of this module sees.
    pub(super) module: Option<String>,
    /// Restricts to definitions of this source file.
    pub(super) unit: Option<String>,
    /// From the variable to the selected part of it.
    pub(super) steps: Vec<PathStep>,
}

impl AddressSpace {
    pub(super) fn resolved(&self, wanted: &VariableName) -> Result<NamedVariable, VariableError> {
        let path = self.path(&wanted.name)?;
        let mut within: Vec<String> = wanted.module.iter().cloned().chain(path.within).collect();
        let is_loaded = |name: &String| self.modules_called(name).next().is_some();
        let module = within.first().is_some_and(is_loaded).then(|| within.remove(0));
        let mut resolved = NamedVariable {
            symbols: self.symbols_spelled(&path.name)?,
            module,
            unit: (!within.is_empty()).then(|| within.remove(0)),
            steps: path.steps,
        };
        if !within.is_empty() {
            let (pid, module) = (self.process.pid, resolved.unit.unwrap_or_default());
            return Err(VariableError::NoSuchModule { pid, module });
        }
        // Fortran: a variable in a common block has no symbol of its own.
        if resolved.symbols.is_empty()
            && let Some((block, member)) = path.name.split_once("::")
            && !member.contains(':')
        {
            resolved.symbols = self.symbols_spelled(block)?;
            resolved.steps.insert(0, PathStep::Field(member.to_owned()));
        }
        if resolved.symbols.is_empty() {
            // The errors for a name without a variable use this name.
            resolved.symbols.push(path.name);
        }
        Ok(resolved)
    }

    /// A text that is exactly a symbol is not parsed as a path.
    fn path(&self, text: &str) -> Result<Path, VariableError> {
        match text.parse::<Path>() {
            Ok(path) if path.steps.is_empty() => Ok(path),
            parsed => match self.has_variable(text)? {
                true => Ok(Path {
                    within: Vec::new(),
                    name: text.to_owned(),
                    steps: Vec::new(),
                }),
                false => Ok(parsed?),
            },
        }
    }

    fn has_variable(&self, name: &str) -> Result<bool, VariableError> {
        for module in &self.modules {
            let tables = [module.image.dynamic_symbols(), module.image.static_symbols()];
            for table in tables {
                let table = table.map_err(|source| image_error(module, source))?;
                if table
                    .named(name)
                    .any(|symbol| symbol.kind == SymbolKind::Variable)
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn symbols_spelled(&self, name: &str) -> Result<Vec<String>, VariableError> {
        let spelling = Spelling::new(name);
        let mut best: Option<MatchQuality> = None;
        let mut found: Vec<String> = Vec::new();
        for module in &self.modules {
            let tables = [module.image.dynamic_symbols(), module.image.static_symbols()];
            for table in tables {
                let table = table.map_err(|source| image_error(module, source))?;
                for (fit, symbol) in table.spelled(&spelling, |kind| kind == SymbolKind::Variable) {
                    if best < Some(fit) {
                        best = Some(fit);
                        found.clear();
                    }
                    if best == Some(fit) && !found.contains(&symbol.name) {
                        found.push(symbol.name);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The source file of a symbol: by the debug information, else as it was passed to the link editor.
pub(super) fn unit_of(module: &Module, symbol: &Symbol) -> Option<String> {
    let described = dwarf::describe(&module.image, &[symbol.address]).ok();
    let described = described.and_then(|mut known| known.remove(&symbol.address));
    let unit = described.map(|known| known.unit).filter(|unit| !unit.is_empty());
    unit.or_else(|| symbol.source.as_deref().map(str::to_owned))
}

/// True if a symbol belongs to the source file `wanted`: one of the two paths ends with the other.
pub(super) fn is_of_unit(module: &Module, symbol: &Symbol, wanted: &str) -> bool {
    // The symbol table has only the file name, but needs no debug information.
    let may_be = |source: &str| source.rsplit('/').next() == wanted.rsplit('/').next();
    if symbol.source.as_deref().is_some_and(|source| !may_be(source)) {
        return false;
    }
    unit_of(module, symbol).is_some_and(|unit| ends_alike(&unit, wanted))
}

fn ends_alike(one: &str, other: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        parts.map(str::to_owned).collect()
    };
    let (one, other) = (parts(one), parts(other));
    !one.is_empty() && !other.is_empty() && one.iter().rev().zip(other.iter().rev()).all(|(a, b)| a == b)
}

pub(super) fn image_error(module: &Module, error: ImageError) -> VariableError {
    VariableError::Image {
        path: module.path.clone(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_is_named_by_the_end_of_its_path() {
        for (unit, wanted, expected) in [
            ("/home/ana/src/solver.c", "solver.c", true),
            ("/home/ana/src/solver.c", "src/solver.c", true),
            ("./solver.c", "src/solver.c", true),
            ("/home/ana/src/solver.c", "old/solver.c", false),
            ("/home/ana/src/my_solver.c", "solver.c", false),
            ("", "solver.c", false),
        ] {
            assert_eq!(ends_alike(unit, wanted), expected, "{unit} {wanted}");
        }
    }
}
