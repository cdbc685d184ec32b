//! `symbols --sites`: at which instruction each function is probed, and what the kernel does there.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use tuner::catalog::CatalogEntry;
use tuner::{Emulation, EntrySite, EntrySites, FileOffset, Image, SymbolKind};

use profile::format::{count, plural};

/// Where one function is probed.
#[derive(Debug, Serialize)]
pub(super) struct SiteRow {
    /// Bytes from its begin.
    pub(super) bytes: u64,
    /// By its name; empty where it is not known.
    pub(super) instruction: String,
    /// What the kernel does with it.
    pub(super) cost: String,
    /// Why it is the first one although that is not cheap.
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

/// How many functions there are of each cost.
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

/// The sites of these, in their order; none for a function that only picks another, which callers then call.
/// Functions of several names are counted once.
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
