//! Where a function was inlined: it has no code of its own there, so only the enclosing function can be
//! probed.

use std::rc::Rc;

use super::file::DebugFile;
use super::search::{Needles, Words};
use super::types::number;
use super::view::{Entry, EntryRef, Found, Loaded, Scopes, View};
use crate::elf::ImageError;
use crate::printable::printable_bytes;
use crate::spelling::{self, Spelling};

/// Bound on the places that are shown.
const SHOWN_MAX: usize = 64;

/// One place where a function was inlined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inlined {
    /// The inlined function, as named in the source.
    pub name: String,
    /// The function whose code contains it, which can be probed.
    pub into: String,
    /// The source file of the call.
    pub file: String,
    pub line: u64,
}

/// Where functions of this name were inlined: at most 64 places, and the number of all.
pub fn inlined(image: &DebugFile, name: &str) -> Result<(Vec<Inlined>, usize), ImageError> {
    let Some(info) = image.debug_info()? else {
        return Ok((Vec::new(), 0));
    };
    let view = View::new(image, &info)?;
    let units = view.units_with(&Needles::Name(&spelling::plain(name)))?;
    let (mut units, originals) = originals(&view, units, name)?;
    if originals.is_empty() {
        return Ok((Vec::new(), 0));
    }
    // Link-time optimisation inlines from one unit into another.
    let offsets = originals.iter().filter_map(|(place, _)| view.offset_of(place));
    units.extend(view.units_with(&Needles::Offsets(Words::new(offsets)))?);
    units.sort_unstable();
    units.dedup();
    let mut found = Vec::new();
    view.search(&units, |unit, entry, scopes| {
        found.extend(call(&view, unit, entry, scopes, &originals)?);
        Ok(None::<()>)
    })?;
    found.sort();
    found.dedup();
    let count = found.len();
    found.truncate(SHOWN_MAX);
    Ok((found, count))
}

type Original<'a> = (EntryRef<'a>, String);

/// The functions of this name that were inlined somewhere, and the units that have them.
fn originals<'a>(view: &View<'a>, units: Vec<usize>, name: &str) -> Found<(Vec<usize>, Vec<Original<'a>>)> {
    let wanted = Spelling::new(name);
    let mut found: Vec<(EntryRef<'a>, String)> = Vec::new();
    let mut having = Vec::new();
    for unit in units {
        let before = found.len();
        view.search(&[unit], |unit, entry, _| {
            if entry.tag() == gimli::DW_TAG_subprogram && entry.has_attr(gimli::DW_AT_inline) {
                let own = view.text(unit, entry, gimli::DW_AT_name)?;
                let linked = view.text(unit, entry, gimli::DW_AT_linkage_name)?;
                let fits = |text: &Option<String>| {
                    text.as_ref()
                        .is_some_and(|text| wanted.fit(text.as_bytes()).is_some())
                };
                if fits(&own) || fits(&linked) {
                    let shown = linked.or(own).map(|text| spelling::demangle(&text));
                    found.push((EntryRef::of(unit, entry), shown.unwrap_or_default()));
                }
            }
            Ok(None::<()>)
        })?;
        if found.len() > before {
            having.push(unit);
        }
    }
    Ok((having, found))
}

/// The call in this entry, if it is an inlined instance of one of the originals.
fn call<'a>(
    view: &View<'a>,
    unit: &Rc<Loaded<'a>>,
    entry: &Entry<'a>,
    scopes: &Scopes<'a>,
    originals: &[Original<'a>],
) -> Found<Option<Inlined>> {
    let has_code = entry.has_attr(gimli::DW_AT_low_pc) || entry.has_attr(gimli::DW_AT_ranges);
    let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
    let Some(origin) = origin.filter(|_| entry.tag() == gimli::DW_TAG_inlined_subroutine && has_code) else {
        return Ok(None);
    };
    let Some(origin) = view.follow(unit, origin)? else {
        return Ok(None);
    };
    let Some((_, name)) = originals.iter().find(|(place, _)| place.is(&origin)) else {
        return Ok(None);
    };
    let around = scopes
        .inner_first()
        .find(|scope| scope.tag() == gimli::DW_TAG_subprogram);
    let Some(around) = around else { return Ok(None) };
    let linked = view.text(unit, around, gimli::DW_AT_linkage_name)?;
    let into = match linked {
        Some(linked) => Some(spelling::demangle(&linked)),
        None => view.text(unit, around, gimli::DW_AT_name)?,
    };
    Ok(Some(Inlined {
        name: name.clone(),
        into: into.unwrap_or_else(|| "?".to_owned()),
        file: file(unit, entry)?,
        line: number(entry, gimli::DW_AT_call_line).unwrap_or_default(),
    }))
}

fn file(unit: &Loaded<'_>, entry: &Entry<'_>) -> Found<String> {
    let number = match entry.attr_value(gimli::DW_AT_call_file) {
        Some(gimli::AttributeValue::FileIndex(number)) => Some(number),
        Some(value) => value.udata_value(),
        None => None,
    };
    let program = unit.unit.line_program.as_ref();
    let known = number
        .zip(program)
        .and_then(|(number, program)| program.header().file(number));
    Ok(match known {
        Some(known) => {
            let name = unit.dwarf.attr_string(&unit.unit, known.path_name())?;
            printable_bytes(name.slice())
        }
        // A split unit has its line table elsewhere.
        None => unit.name.clone(),
    })
}
