//! `symbols --sites`: the instruction at which each function is probed, and how the kernel executes it.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use tuner::catalog::CatalogEntry;
use tuner::{Emulation, EntrySite, EntrySites, FileOffset, Image, SymbolKind};

use profile::format::{count, plural};

/// The probe site of a function.
#[derive(Debug, Serialize)]
pub(super) struct SiteRow {
    /// Offset from the begin of the function, in bytes.
    pub(super) bytes: u64,
    /// The mnemonic; empty if unknown.
    pub(super) instruction: String,
    /// How the kernel executes it.
    pub(super) cost: String,
    /// Why the first instruction is used although it is expensive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
}

impl SiteRow {
    fn new(function: FileOffset, site: EntrySite) -> SiteRow {
        SiteRow {
            bytes: site.offset.0 - function.0,
            instruction: site.instruction,
            cost: site.cost.to_string(),
            because: site.obstacle.map(|obstacle| obstacle.to_string()),
        }
    }
}

impl fmt::Display for SiteRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{} {}: {}", self.bytes, self.instruction, self.cost)?;
        match &self.because {
            Some(because) => write!(f, ", {because}"),
            None => Ok(()),
        }
    }
}

/// Number of functions by cost.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct CostCounts(BTreeMap<String, usize>);

impl fmt::Display for CostCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.values().sum();
        write!(f, "{}", plural(total, "function"))?;
        for (place, (cost, number)) in self.0.iter().enumerate() {
            let mark = if place == 0 { ":" } else { "," };
            write!(f, "{mark} {} {cost}", count(*number as f64))?;
        }
        Ok(())
    }
}

/// The sites of the entries, in their order; `None` for a resolver that only selects another function.
/// Functions with several names are counted once.
pub(super) fn of(
    image: &Image,
    entries: &[CatalogEntry],
    emulation: Emulation,
) -> (Vec<Option<SiteRow>>, CostCounts) {
    let sites = EntrySites::new(emulation);
    let mut known = BTreeMap::new();
    let site = |entry: &CatalogEntry| {
        let offset = image.file_offset(entry.address)?;
        if entry.kind != SymbolKind::Function {
            return None;
        }
        let site = sites.of(image, offset, entry.size);
        known.insert(offset, site.cost.to_string());
        Some(SiteRow::new(offset, site))
    };
    let rows = entries.iter().map(site).collect();
    let mut cost_counts = CostCounts::default();
    for cost in known.into_values() {
        *cost_counts.0.entry(cost).or_default() += 1;
    }
    (rows, cost_counts)
}
