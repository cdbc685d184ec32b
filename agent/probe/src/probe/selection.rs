//! Selects the functions of a process that a name, a pattern or a set matches. Attaches nothing.

use std::collections::{BTreeMap, BTreeSet};

use job::{Job, Member};
use profile::format;
use profile::probe::blas_function;
use tuner::{Function, MatchQuality, Module, SymbolKind, demangle};

use super::ProbeSelector;

/// A pattern that matches more functions than this is refused: it is probably a mistake.
pub(crate) const PATTERN_MAX: usize = 256;

/// Bodies of parallel regions beyond this number are not probed. LightGBM has 423, XGBoost 3 019.
pub(crate) const BODIES_MAX: usize = 1_024;

/// Whether a process of the job starts teams.
pub fn has_regions(job: &Job) -> bool {
    let mut seen = FileSelections::default();
    let modules = job.members.iter().flat_map(|member| &member.space.modules);
    modules
        .into_iter()
        .any(|module| !seen.functions(module, &ProbeSelector::OpenmpRegion).is_empty())
}

/// Caches the selected functions of each file (device, inode): the ranks of a job share their files.
#[derive(Clone, Debug, Default)]
pub struct FileSelections(BTreeMap<(String, u64, ProbeSelector), Vec<ResolvedFunction>>);

/// A function that a selector matches.
#[derive(Clone, Debug)]
pub struct ResolvedFunction {
    /// The name that is shown.
    pub name: String,
    pub symbol: String,
    pub offset: u64,
    /// How well it matches a name; the best ones are used. `None` for patterns and sets, which use all.
    pub fit: Option<MatchQuality>,
}

impl FileSelections {
    /// The functions of a module that the selector matches, each once.
    pub fn functions(&mut self, module: &Module, selector: &ProbeSelector) -> &[ResolvedFunction] {
        let key = (format!("{:?}", module.device), module.inode, selector.clone());
        self.0.entry(key).or_insert_with(|| functions(module, selector))
    }
}

fn functions(module: &Module, selector: &ProbeSelector) -> Vec<ResolvedFunction> {
    // A mark is not a function.
    if let ProbeSelector::Mark(_) = selector {
        return Vec::new();
    }
    if let ProbeSelector::Function(name) = selector {
        let Ok(Some((fit, functions))) = module.image.functions_spelled(name) else {
            return Vec::new();
        };
        return resolved(functions, |_| name.clone(), Some(fit));
    }
    // Sets use linker names.
    let is_set = matches!(
        selector,
        ProbeSelector::OpenmpRegion
            | ProbeSelector::OpenmpSize
            | ProbeSelector::OpenmpBody
            | ProbeSelector::BlasCall
            | ProbeSelector::Gpu(_)
    );
    // MKL has its own number of threads. Libraries that contain it have names of BLAS for it.
    let is_mkl = |symbol: String| symbol.starts_with("mkl_serv_");
    if *selector == ProbeSelector::BlasCall && symbols(module).any(is_mkl) {
        return Vec::new();
    }
    let is_selected = |symbol: &String| match is_set {
        true => selector.means(symbol, false),
        false => selector.means(&shown(symbol), false),
    };
    let symbols: BTreeSet<String> = symbols(module).filter(is_selected).collect();
    let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
    let found = module.image.functions(&symbols).unwrap_or_default();
    let name = |symbol: &str| match selector {
        // A run-time calls its driver within the same call: only the outer one of nested calls is timed.
        ProbeSelector::Gpu(call) => call.name().to_owned(),
        _ if is_set => blas_function(symbol).unwrap_or_else(|| symbol.to_owned()),
        _ => shown(symbol),
    };
    resolved(found, name, None)
}

fn resolved(
    functions: Vec<Function>,
    name: impl Fn(&str) -> String,
    fit: Option<MatchQuality>,
) -> Vec<ResolvedFunction> {
    // The resolver of an indirect function is not called by its callers.
    let functions = functions.into_iter().filter(|function| !function.indirect);
    let resolved = functions.filter_map(|function| {
        // Of several symbols for the same bytes, the first match is shown.
        let symbol = function.names.into_iter().next()?;
        Some(ResolvedFunction {
            name: name(&symbol),
            symbol,
            offset: function.offset.0,
            fit,
        })
    });
    resolved.collect()
}

/// The name of a function for patterns and for display: as in the source, without parameters.
fn shown(symbol: &str) -> String {
    let name = demangle(symbol);
    let parameters = name.match_indices('(').find(|(at, _)| {
        let (before, from) = name.split_at(*at);
        !from.starts_with("(anonymous") && !before.ends_with("operator")
    });
    match parameters {
        Some((at, _)) if name != symbol => name[..at].to_owned(),
        _ => name,
    }
}

/// The names of all functions that a module defines.
fn symbols(module: &Module) -> impl Iterator<Item = String> + '_ {
    let tables = [module.image.dynamic_symbols(), module.image.static_symbols()];
    let is_code = |kind| matches!(kind, SymbolKind::Function | SymbolKind::IndirectFunction);
    tables.into_iter().flatten().flat_map(move |table| {
        let symbols = table
            .iter()
            .filter(move |symbol| symbol.defined && is_code(symbol.kind));
        symbols.map(|symbol| symbol.name).collect::<Vec<_>>()
    })
}

/// The function of the process with the most similar name.
pub(super) fn nearest(member: &Member, name: &str) -> Option<String> {
    format::nearest(name, member.space.modules.iter().flat_map(symbols))
}

/// The mark of the process with the most similar name.
pub(super) fn nearest_mark(member: &Member, name: &str) -> Option<String> {
    let marks = member
        .space
        .modules
        .iter()
        .flat_map(|module| module.image.marks().unwrap_or_default());
    format::nearest(name, marks.map(|mark| mark.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_see_names_as_the_source_has_them() {
        for (symbol, name) in [
            ("solve_fast", "solve_fast"),
            ("_ZN6Solver4stepEi", "Solver::step"),
            ("_ZN12_GLOBAL__N_14pickEi", "(anonymous namespace)::pick"),
            ("_ZN6SolverclEi", "Solver::operator()"),
        ] {
            assert_eq!(shown(symbol), name);
        }
    }
}
