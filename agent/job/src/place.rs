//! The function and source line of a return address.

use std::collections::BTreeMap;

use profile::SourcePlace;
use tuner::{Address, LinkAddress, Module, SymbolKind, demangle, dwarf};

/// Names places, and caches the names: the ranks of a job run the same files.
#[derive(Debug, Default)]
pub struct Namer {
    known: BTreeMap<(FileKey, LinkAddress), SourcePlace>,
    functions: BTreeMap<FileKey, Vec<(u64, u64, String)>>,
}

type FileKey = (u64, String);

impl Namer {
    /// The places of these return addresses; default values for unknown ones.
    pub fn places(&mut self, modules: &[Module], addresses: &[u64]) -> Vec<SourcePlace> {
        let mut places = vec![SourcePlace::default(); addresses.len()];
        for module in modules {
            // The call precedes its return address, which may already be in another function.
            let calls: Vec<(usize, LinkAddress)> = addresses
                .iter()
                .map(|address| Address(address.saturating_sub(1)))
                .enumerate()
                .filter(|(_, address)| module.contains(*address))
                .map(|(index, address)| (index, module.link(address)))
                .collect();
            let file = (module.inode, module.path.clone());
            let is_new = |link: &LinkAddress| !self.known.contains_key(&(file.clone(), *link));
            let new: Vec<LinkAddress> = calls.iter().map(|(_, link)| *link).filter(is_new).collect();
            self.learn(module, &file, &new);
            for (index, link) in calls {
                let known = self.known.get(&(file.clone(), link));
                places[index] = known.cloned().unwrap_or_default();
            }
        }
        places
    }

    fn learn(&mut self, module: &Module, file: &FileKey, new: &[LinkAddress]) {
        if new.is_empty() {
            return;
        }
        let functions = self
            .functions
            .entry(file.clone())
            .or_insert_with(|| functions(module));
        // Without debug information, or if it is damaged, only the function is named.
        let lines = dwarf::lines(&module.image, new).unwrap_or_default();
        let lines = lines.into_iter().chain(std::iter::repeat(None));
        for (link, line) in new.iter().zip(lines) {
            let place = SourcePlace {
                module: Some(module.file_name().to_owned()),
                function: Some(caller(module.file_name(), functions, *link)),
                file: line.as_ref().map(|line| line.file.clone()),
                line: line.map(|line| line.line),
            };
            self.known.insert((file.clone(), *link), place);
        }
    }
}

/// The function around an address; without a name for it, the file and the address, so that the call sites of
/// a stripped program differ.
fn caller(module: &str, functions: &[(u64, u64, String)], address: LinkAddress) -> String {
    function_at(functions, address).unwrap_or_else(|| format!("{module}+{:#x}", address.0))
}

/// Start, size and name, sorted by start.
fn functions(module: &Module) -> Vec<(u64, u64, String)> {
    let symbols = module.image.defined_symbols().unwrap_or_default();
    let mut functions: Vec<(u64, u64, String)> = symbols
        .into_iter()
        .filter(|symbol| symbol.kind == SymbolKind::Function)
        .map(|symbol| (symbol.address.0, symbol.size, symbol.name))
        .collect();
    functions.sort_unstable();
    functions
}

fn function_at(functions: &[(u64, u64, String)], address: LinkAddress) -> Option<String> {
    let behind = functions.partition_point(|(begin, _, _)| *begin <= address.0);
    let (begin, size, name) = functions.get(behind.checked_sub(1)?)?;
    (address.0 - begin < *size).then(|| demangle(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_site_outside_of_all_known_functions_is_its_address_in_the_file() {
        let functions = [(0x1000, 0x20, "step".to_owned())];
        let named = |address| caller("heat", &functions, LinkAddress(address));
        assert_eq!(named(0x101f), "step");
        assert_eq!(named(0x1020), "heat+0x1020");
        assert_eq!(caller("heat", &[], LinkAddress(0x13b1)), "heat+0x13b1");
    }
}
