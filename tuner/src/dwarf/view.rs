//! Reads debug information: units, their entries, references between entries. Does not know what is searched.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::file::DebugFile;
use super::load::{DebugInfo, Slice, slice};
use super::units::Bases;
use crate::elf::ImageError;
use crate::printable::printable_bytes;
use gimli::{
    AttributeValue, DebugInfoOffset, DebugTypeSignature, DebuggingInformationEntry, Dwarf, DwarfPackage,
    Operation, Unit, UnitHeader, UnitOffset, UnitType,
};

pub(super) type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;
pub(super) type Attribute<'a> = AttributeValue<Slice<'a>>;
pub(super) type Found<T> = Result<T, gimli::Error>;

/// Longer chains of references are loops.
pub(super) const CHAIN_MAX: usize = 64;
/// The file that contains a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Main,
    Supplementary,
    /// The split unit of this skeleton.
    Split(usize),
    /// A type unit, in the split file of this skeleton or in the main file.
    Types(Option<usize>),
}

/// A unit that was read.
#[derive(Debug)]
pub(super) struct Loaded<'a> {
    pub(super) part: Part,
    pub(super) dwarf: Rc<Dwarf<Slice<'a>>>,
    pub(super) unit: Unit<Slice<'a>>,
    pub(super) name: String,
    pub(super) is_fortran: bool,
}

/// An entry, by its place.
#[derive(Debug, Clone)]
pub(super) struct EntryRef<'a> {
    pub(super) unit: Rc<Loaded<'a>>,
    pub(super) offset: UnitOffset,
}

impl<'a> EntryRef<'a> {
    pub(super) fn of(unit: &Rc<Loaded<'a>>, entry: &Entry<'a>) -> EntryRef<'a> {
        EntryRef {
            unit: Rc::clone(unit),
            offset: entry.offset(),
        }
    }

    pub(super) fn entry(&self) -> Found<Entry<'a>> {
        self.unit.unit.entry(self.offset)
    }

    fn key(&self) -> (Part, usize, usize) {
        (self.unit.part, start(&self.unit.unit.header), self.offset.0)
    }

    pub(super) fn is(&self, other: &EntryRef<'_>) -> bool {
        self.key() == other.key()
    }
}

/// The debug information of a file, for one query or several consecutive ones.
pub(super) struct View<'a> {
    image: &'a DebugFile,
    pub(super) info: &'a DebugInfo,
    pub(super) main: Rc<Dwarf<Slice<'a>>>,
    pub(super) supplementary: Option<Rc<Dwarf<Slice<'a>>>>,
    package: Option<DwarfPackage<Slice<'a>>>,
    pub(super) heads: Vec<UnitHeader<Slice<'a>>>,
    supplementary_heads: OnceCell<Vec<UnitHeader<Slice<'a>>>>,
    known: RefCell<HashMap<(Part, usize), Rc<Loaded<'a>>>>,
    type_units: RefCell<HashMap<Option<usize>, Rc<TypeUnits<'a>>>>,
    pub(super) bases: OnceCell<Bases>,
}

/// A type unit that was not read yet.
type TypeUnit<'a> = (Rc<Dwarf<Slice<'a>>>, UnitHeader<Slice<'a>>);
type TypeUnits<'a> = HashMap<u64, TypeUnit<'a>>;

pub(super) fn start(header: &UnitHeader<Slice<'_>>) -> usize {
    header.offset().0
}

impl<'a> View<'a> {
    pub(super) fn new(image: &'a DebugFile, info: &'a DebugInfo) -> Result<View<'a>, ImageError> {
        let supplementary = info
            .supplementary
            .as_ref()
            .map(|sections| sections.borrow(|bytes| slice(bytes)));
        let main = info
            .main
            .borrow_with_sup(info.supplementary.as_ref(), |bytes| slice(bytes));
        let package = info.package.as_ref();
        let package = package
            .map(|sections| sections.borrow(|bytes| slice(bytes), Slice::new(&[], gimli::LittleEndian)));
        Ok(View {
            image,
            info,
            heads: headers(&main)?,
            main: Rc::new(main),
            supplementary: supplementary.map(Rc::new),
            package: package.transpose()?,
            supplementary_heads: OnceCell::new(),
            known: RefCell::default(),
            type_units: RefCell::default(),
            bases: OnceCell::new(),
        })
    }

    /// The unit of this number in the main file, which has the line tables; a skeleton is not resolved.
    pub(super) fn skeleton(&self, number: usize) -> Found<Option<Rc<Loaded<'a>>>> {
        let head = self.heads.get(number);
        head.map(|head| self.load(Part::Main, &self.main, *head, None))
            .transpose()
    }

    /// The unit of this number; for a skeleton, the split unit.
    pub(super) fn unit(&self, number: usize) -> Found<Option<Rc<Loaded<'a>>>> {
        let Some(head) = self.heads.get(number) else {
            return Ok(None);
        };
        let skeleton = self.load(Part::Main, &self.main, *head, None)?;
        let Some(name) = skeleton.unit.dwo_name()? else {
            return Ok(Some(skeleton));
        };
        let part = Part::Split(number);
        if let Some(known) = self.known.borrow().get(&(part, 0)) {
            return Ok(Some(Rc::clone(known)));
        }
        let name = self.main.attr_string(&skeleton.unit, name)?.to_string_lossy();
        let Some(dwarf) = self.split(number, &skeleton.unit, &name)? else {
            return Ok(None);
        };
        for head in headers(&dwarf)? {
            let is_it = match head.type_() {
                UnitType::SplitCompilation(id) => skeleton.unit.dwo_id == Some(id),
                UnitType::Compilation => true,
                _ => false,
            };
            if is_it {
                let unit = self.load(part, &dwarf, head, Some(&skeleton.unit))?;
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    fn split(
        &self,
        number: usize,
        skeleton: &Unit<Slice<'a>>,
        name: &str,
    ) -> Found<Option<Rc<Dwarf<Slice<'a>>>>> {
        if let (Some(package), Some(id)) = (&self.package, skeleton.dwo_id)
            && let Some(found) = package.find_cu(id, &self.main)?
        {
            return Ok(Some(Rc::new(found)));
        }
        let folder = skeleton
            .comp_dir
            .map(|folder| folder.to_string_lossy())
            .unwrap_or_default();
        Ok(self
            .info
            .split(self.image, number, &folder, name)
            .map(|sections| {
                let mut dwarf = sections.borrow(|bytes| slice(bytes));
                dwarf.make_dwo(&self.main);
                Rc::new(dwarf)
            }))
    }

    fn load(
        &self,
        part: Part,
        dwarf: &Rc<Dwarf<Slice<'a>>>,
        head: UnitHeader<Slice<'a>>,
        skeleton: Option<&Unit<Slice<'a>>>,
    ) -> Found<Rc<Loaded<'a>>> {
        let key = (part, if skeleton.is_some() { 0 } else { start(&head) });
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let mut unit = dwarf.unit(head)?;
        if let Some(skeleton) = skeleton {
            unit.copy_relocated_attributes(skeleton);
        }
        let language = match unit
            .entry(unit.header.root_offset())?
            .attr_value(gimli::DW_AT_language)
        {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        };
        let loaded = Rc::new(Loaded {
            part,
            dwarf: Rc::clone(dwarf),
            name: unit
                .name
                .map(|name| printable_bytes(name.slice()))
                .unwrap_or_default(),
            is_fortran: language.is_some_and(is_fortran),
            unit,
        });
        self.known.borrow_mut().insert(key, Rc::clone(&loaded));
        Ok(loaded)
    }

    /// The entry that an attribute refers to.
    pub(super) fn follow(
        &self,
        from: &Rc<Loaded<'a>>,
        reference: Attribute<'a>,
    ) -> Found<Option<EntryRef<'a>>> {
        let here = |offset| EntryRef {
            unit: Rc::clone(from),
            offset,
        };
        match reference {
            AttributeValue::UnitRef(offset) => Ok(Some(here(offset))),
            // A split file has one unit.
            AttributeValue::DebugInfoRef(offset) => match from.part {
                Part::Split(_) => Ok(offset.to_unit_offset(&from.unit.header).map(here)),
                Part::Supplementary => self.in_supplementary(offset),
                Part::Main | Part::Types(_) => self.at(Part::Main, &self.main, &self.heads, offset),
            },
            AttributeValue::DebugInfoRefSup(offset) => self.in_supplementary(offset),
            AttributeValue::DebugTypesRef(signature) => self.type_unit(from, signature),
            _ => Ok(None),
        }
    }

    fn in_supplementary(&self, offset: DebugInfoOffset) -> Found<Option<EntryRef<'a>>> {
        let Some(dwarf) = &self.supplementary else {
            return Ok(None);
        };
        let heads = match self.supplementary_heads.get() {
            Some(heads) => heads,
            None => {
                let heads = headers(dwarf)?;
                self.supplementary_heads.get_or_init(|| heads)
            }
        };
        self.at(Part::Supplementary, dwarf, heads, offset)
    }

    fn at(
        &self,
        part: Part,
        dwarf: &Rc<Dwarf<Slice<'a>>>,
        heads: &[UnitHeader<Slice<'a>>],
        offset: DebugInfoOffset,
    ) -> Found<Option<EntryRef<'a>>> {
        let after = heads.partition_point(|head| start(head) <= offset.0);
        let Some(head) = after.checked_sub(1).and_then(|number| heads.get(number)) else {
            return Ok(None);
        };
        let Some(offset) = offset.to_unit_offset(head) else {
            return Ok(None);
        };
        let unit = self.load(part, dwarf, *head, None)?;
        Ok(Some(EntryRef { unit, offset }))
    }

    fn type_unit(&self, from: &Rc<Loaded<'a>>, signature: DebugTypeSignature) -> Found<Option<EntryRef<'a>>> {
        let part = match from.part {
            Part::Split(number) | Part::Types(Some(number)) => Some(number),
            _ => None,
        };
        let known = self.type_units.borrow().get(&part).cloned();
        let known = match known {
            Some(known) => known,
            None => {
                let known = Rc::new(self.all_type_units(from)?);
                self.type_units.borrow_mut().insert(part, Rc::clone(&known));
                known
            }
        };
        let (dwarf, head) = match known.get(&signature.0) {
            Some((dwarf, head)) => (Rc::clone(dwarf), *head),
            None => match self.packaged_type(signature)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        // The one type that the unit describes.
        let (UnitType::Type { type_offset, .. } | UnitType::SplitType { type_offset, .. }) = head.type_()
        else {
            return Ok(None);
        };
        let mut unit = dwarf.unit(head)?;
        if part.is_some() {
            unit.copy_relocated_attributes(&from.unit);
        }
        let unit = Loaded {
            part: Part::Types(part),
            dwarf,
            name: String::new(),
            is_fortran: false,
            unit,
        };
        Ok(Some(EntryRef {
            unit: Rc::new(unit),
            offset: type_offset,
        }))
    }

    fn packaged_type(&self, signature: DebugTypeSignature) -> Found<Option<TypeUnit<'a>>> {
        let Some(package) = &self.package else {
            return Ok(None);
        };
        let Some(dwarf) = package.find_tu(signature, &self.main)? else {
            return Ok(None);
        };
        let dwarf = Rc::new(dwarf);
        let found = type_headers(&dwarf)?;
        Ok(found
            .into_iter()
            .find(|(id, _)| *id == signature.0)
            .map(|(_, head)| (dwarf, head)))
    }

    fn all_type_units(&self, from: &Rc<Loaded<'a>>) -> Found<TypeUnits<'a>> {
        let dwarf = &from.dwarf;
        let found = type_headers(dwarf)?;
        Ok(found
            .into_iter()
            .map(|(id, head)| (id, (Rc::clone(dwarf), head)))
            .collect())
    }

    /// Calls `look` with the entries of the units in order and their enclosing scopes, until it returns a
    /// result.
    pub(super) fn search<T>(
        &self,
        units: &[usize],
        mut look: impl FnMut(&Rc<Loaded<'a>>, &Entry<'a>, &Scopes<'a>) -> Found<Option<T>>,
    ) -> Found<Option<T>> {
        for number in units {
            let Some(unit) = self.unit(*number)? else { continue };
            let mut scopes = Scopes::default();
            let mut entries = unit.unit.entries();
            while let Some(entry) = entries.next_dfs()? {
                scopes.leave_to(entry.depth());
                let found = look(&unit, entry, &scopes)?;
                if found.is_some() {
                    return Ok(found);
                }
                if entry.has_children() {
                    scopes.enter(entry);
                }
            }
        }
        Ok(None)
    }

    /// An attribute of an entry, or of the declaration that it completes, with the unit that contains it.
    pub(super) fn attribute(
        &self,
        unit: &Rc<Loaded<'a>>,
        entry: &Entry<'a>,
        name: gimli::DwAt,
    ) -> Found<Option<(Rc<Loaded<'a>>, Attribute<'a>)>> {
        let mut place = (Rc::clone(unit), entry.clone());
        for _ in 0..CHAIN_MAX {
            if let Some(value) = place.1.attr_value(name) {
                return Ok(Some((place.0, value)));
            }
            let origin = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
            let Some(origin) = origin.iter().find_map(|at| place.1.attr_value(*at)) else {
                return Ok(None);
            };
            let Some(next) = self.follow(&place.0, origin)? else {
                return Ok(None);
            };
            let entry = next.entry()?;
            place = (next.unit, entry);
        }
        Ok(None)
    }

    /// The text of an attribute of an entry or of the declaration that it completes.
    pub(super) fn text(
        &self,
        unit: &Rc<Loaded<'a>>,
        entry: &Entry<'a>,
        name: gimli::DwAt,
    ) -> Found<Option<String>> {
        let Some((unit, value)) = self.attribute(unit, entry, name)? else {
            return Ok(None);
        };
        let text = unit.dwarf.attr_string(&unit.unit, value)?;
        Ok(Some(printable_bytes(text.slice())))
    }

    /// The type of an entry, or of the declaration that it completes.
    pub(super) fn type_of(&self, unit: &Rc<Loaded<'a>>, entry: &Entry<'a>) -> Found<Option<EntryRef<'a>>> {
        match self.attribute(unit, entry, gimli::DW_AT_type)? {
            Some((unit, value)) => self.follow(&unit, value),
            None => Ok(None),
        }
    }
}

/// The entries that enclose an entry, outermost first.
#[derive(Debug, Default)]
pub(super) struct Scopes<'a>(Vec<(isize, Entry<'a>)>);

impl<'a> Scopes<'a> {
    fn leave_to(&mut self, depth: isize) {
        while self.0.last().is_some_and(|(known, _)| *known >= depth) {
            self.0.pop();
        }
    }

    fn enter(&mut self, entry: &Entry<'a>) {
        self.0.push((entry.depth(), entry.clone()));
    }

    pub(super) fn inner_first(&self) -> impl Iterator<Item = &Entry<'a>> {
        self.0.iter().rev().map(|(_, entry)| entry)
    }
}

/// The address of an entry whose location is fixed.
pub(super) fn fixed_address<'a>(unit: &Loaded<'a>, entry: &Entry<'a>) -> Found<Option<u64>> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(None);
    };
    let mut operations = expression.operations(unit.unit.encoding());
    let base = match operations.next()? {
        Some(Operation::Address { address }) => address,
        Some(Operation::AddressIndex { index }) => unit.dwarf.address(&unit.unit, index)?,
        _ => return Ok(None),
    };
    Ok(match operations.next()? {
        None => Some(base),
        Some(Operation::PlusConstant { value }) if operations.next()?.is_none() => base.checked_add(value),
        Some(_) => None,
    })
}

fn headers<'a>(dwarf: &Dwarf<Slice<'a>>) -> Found<Vec<UnitHeader<Slice<'a>>>> {
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        found.push(header);
    }
    Ok(found)
}

fn type_headers<'a>(dwarf: &Dwarf<Slice<'a>>) -> Found<Vec<(u64, UnitHeader<Slice<'a>>)>> {
    let mut found = headers(dwarf)?;
    let mut headers = dwarf.type_units();
    while let Some(header) = headers.next()? {
        found.push(header);
    }
    let signature = |head: UnitHeader<Slice<'a>>| match head.type_() {
        UnitType::Type { type_signature, .. } | UnitType::SplitType { type_signature, .. } => {
            Some((type_signature.0, head))
        }
        _ => None,
    };
    Ok(found.into_iter().filter_map(signature).collect())
}

fn is_fortran(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_Fortran77
            | gimli::DW_LANG_Fortran90
            | gimli::DW_LANG_Fortran95
            | gimli::DW_LANG_Fortran03
            | gimli::DW_LANG_Fortran08
            | gimli::DW_LANG_Fortran18
    )
}
