//! Selects the units that can contain what is searched.
//!
//! Programs with a gigabyte of debug information exist, and most queries are about one name or one address.
//! So no index is built: the sections are searched for the bytes that a matching entry must contain, and only
//! the units that have them are parsed. If entries refer to strings and addresses by number, those tables are
//! searched in the same way.

use std::collections::BTreeSet;

use gimli::{Section, UnitType};
use memchr::memmem;

use super::load::Slice;
use super::search::{Needles, Words};
use super::view::{EntryRef, Found, Part, View, start};

/// Text with more occurrences excludes too few units to be worth the search.
const PLACES_MAX: usize = 4_096;

/// The begin of each unit's part of the address and string tables.
#[derive(Debug, Default)]
pub(super) struct Bases {
    addresses: Vec<(usize, usize)>,
    strings: Vec<(usize, usize)>,
}

impl<'a> View<'a> {
    /// The units that have an entry with one of these addresses or names.
    pub(super) fn units_with(&self, needles: &Needles<'_>) -> Found<Vec<usize>> {
        let mut units = BTreeSet::new();
        let info = self.main.debug_info.reader().slice();
        let mut add = |at: usize| {
            let after = self.heads.partition_point(|head| start(head) <= at);
            units.extend(after.checked_sub(1));
        };
        match needles {
            Needles::Addresses(addresses) => {
                addresses.find_in(info, 8, &mut add);
                let table = self.main.debug_addr.reader().slice();
                let mut places = Vec::new();
                addresses.find_in(table, 8, &mut |at| places.push(at));
                units.extend(owners(&self.bases()?.addresses, &places));
            }
            Needles::Offsets(offsets) => offsets.find_in(info, 4, &mut add),
            Needles::Name(name) => {
                let Some(strings) = self.string_places(name) else {
                    return Ok((0..self.heads.len()).collect());
                };
                let text: Vec<u8> = [name.as_bytes(), b"\0"].concat();
                memmem::find_iter(info, &text).for_each(&mut add);
                strings.find_in(info, 4, &mut add);
                let table = self.main.debug_str_offsets.reader().slice();
                let mut places = Vec::new();
                strings.find_in(table, 4, &mut |at| places.push(at));
                units.extend(owners(&self.bases()?.strings, &places));
                // Names of split units are in separate files.
                units.extend((0..self.heads.len()).filter(|unit| self.is_skeleton(*unit)));
            }
        }
        Ok(units.into_iter().collect())
    }

    /// The section offset of an entry of the main file.
    pub(super) fn offset_of(&self, place: &EntryRef<'a>) -> Option<u64> {
        let offset = place.offset.to_debug_info_offset(&place.unit.unit.header)?;
        (place.unit.part == Part::Main).then_some(offset.0 as u64)
    }

    /// The offsets of the name in the string tables, including ends of longer names; `None` if there are too
    /// many.
    fn string_places(&self, name: &str) -> Option<Words> {
        let text = [name.as_bytes(), b"\0"].concat();
        let mut places: Vec<u64> = Vec::new();
        for dwarf in [Some(&self.main), self.supplementary.as_ref()]
            .into_iter()
            .flatten()
        {
            let strings = dwarf.debug_str.reader().slice();
            let found = memmem::find_iter(strings, &text).take(PLACES_MAX);
            places.extend(found.map(|at| at as u64));
        }
        (places.len() < PLACES_MAX).then(|| Words::new(places))
    }

    fn is_skeleton(&self, number: usize) -> bool {
        self.info.package.is_some()
            || self.heads.get(number).is_some_and(|head| {
                matches!(head.type_(), UnitType::Skeleton(_)) || head.version() < 5 && self.has_split_names()
            })
    }

    fn has_split_names(&self) -> bool {
        // In version 4 only split units need the table of addresses.
        !self.main.debug_addr.reader().is_empty()
    }

    fn bases(&self) -> Found<&Bases> {
        if let Some(bases) = self.bases.get() {
            return Ok(bases);
        }
        let mut bases = Bases::default();
        let has = |section: &Slice<'_>| !section.is_empty();
        let is_needed = has(self.main.debug_addr.reader()) || has(self.main.debug_str_offsets.reader());
        for (number, head) in self.heads.iter().enumerate().filter(|_| is_needed) {
            let unit = self.main.unit(*head)?;
            bases.addresses.push((unit.addr_base.0, number));
            bases.strings.push((unit.str_offsets_base.0, number));
        }
        bases.addresses.sort_unstable();
        bases.strings.sort_unstable();
        Ok(self.bases.get_or_init(|| bases))
    }
}

/// The units whose part of a table contains the places; units that share a part all match.
fn owners(bases: &[(usize, usize)], places: &[usize]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for place in places {
        let after = bases.partition_point(|(base, _)| base <= place);
        let Some((base, _)) = after.checked_sub(1).and_then(|last| bases.get(last)) else {
            continue;
        };
        let same = bases[..after].iter().rev().take_while(|(other, _)| other == base);
        found.extend(same.map(|(_, unit)| *unit));
    }
    found
}
