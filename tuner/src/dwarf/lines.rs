//! From an address in code to its source line.

use super::file::DebugFile;
use super::view::{Found, Loaded, View};
use crate::address::LinkAddress;
use crate::elf::ImageError;
use crate::printable::printable_bytes;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The last part of the file's name, as it was passed to the compiler.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

/// The source lines of the instructions at these addresses, in the same order; `None` without debug
/// information on the address. One pass over the units for all addresses.
pub fn lines(image: &DebugFile, addresses: &[LinkAddress]) -> Result<Vec<Option<Line>>, ImageError> {
    let mut found = vec![None; addresses.len()];
    let Some(info) = image.debug_info()? else {
        return Ok(found);
    };
    let view = View::new(image, &info)?;
    for (unit, wanted) in units_around(&view, addresses)? {
        let Some(unit) = view.skeleton(unit)? else {
            continue;
        };
        for place in wanted {
            if found[place].is_none() {
                found[place] = line_in(&unit, addresses[place].0)?;
            }
        }
    }
    Ok(found)
}

/// The units whose ranges include one of the addresses, each with the indices of these addresses.
pub(super) fn units_around(view: &View<'_>, addresses: &[LinkAddress]) -> Found<Vec<(usize, Vec<usize>)>> {
    let mut units = Vec::new();
    for (number, head) in view.heads.iter().enumerate() {
        let unit = view.main.unit(*head)?;
        let mut ranges = view.main.unit_ranges(&unit)?;
        let mut wanted = Vec::new();
        while let Some(range) = ranges.next()? {
            let within = (0..).zip(addresses);
            let within = within.filter(|(_, address)| range.begin <= address.0 && address.0 < range.end);
            wanted.extend(within.map(|(place, _)| place));
        }
        if !wanted.is_empty() {
            units.push((number, wanted));
        }
    }
    Ok(units)
}

/// The last row of the unit's table that is not behind the address, in the sequence that contains the
/// address.
fn line_in(unit: &Loaded<'_>, address: u64) -> Found<Option<Line>> {
    let Some(program) = unit.unit.line_program.clone() else {
        return Ok(None);
    };
    let mut rows = program.rows();
    let mut before: Option<(u64, Option<Line>)> = None;
    while let Some((header, row)) = rows.next_row()? {
        if let Some((begin, line)) = before.take()
            && begin <= address
            && address < row.address()
        {
            return Ok(line);
        }
        // The table has 0 for an unknown line.
        let line = row.line().zip(row.file(header)).map(|(line, file)| {
            let name = unit.dwarf.attr_string(&unit.unit, file.path_name())?;
            let name = printable_bytes(name.slice());
            let file = name.rsplit('/').next().unwrap_or(&name).to_owned();
            Found::Ok(Line {
                file,
                line: line.get(),
            })
        });
        before = if row.end_sequence() {
            None
        } else {
            Some((row.address(), line.transpose()?))
        };
    }
    Ok(None)
}
