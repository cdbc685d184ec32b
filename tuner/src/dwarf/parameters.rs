//! The parameters of a function: their registers, and the places of fields that they point to.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use gimli::{AttributeValue, Operation};
use thiserror::Error;

use super::file::DebugFile;
use super::view::{Entry, EntryRef, Found, Loaded, View};
use super::walk::{self, Leaf};
use super::{StepError, ValueKind, VariableType, leaf_type, lines, units_with};
use crate::address::LinkAddress;
use crate::elf::ImageError;
use crate::path::PathStep;

/// Parameters that are listed in a message.
const WRITTEN_MAX: usize = 8;
/// Functions of one file in the cache, which is cleared when full.
const REMEMBERED_MAX: usize = 1_024;
/// Number of registers for integer arguments.
const INTEGER_REGISTERS: u8 = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the source.
    pub name: Option<String>,
    /// Its index among the integer parameters; floating-point ones have registers of their own.
    pub register: u8,
    /// Its type. A parameter passed by reference, as all of Fortran's are, has a pointer type.
    pub of: VariableType,
}

/// Selects a parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentName {
    Number(u8),
    /// By its name in the source.
    Name(String),
}

impl std::fmt::Display for ArgumentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ArgumentName::Number(number) => write!(f, "arg({number})"),
            ArgumentName::Name(name) => write!(f, "arg({name})"),
        }
    }
}

/// How a probe at a function's entry reads a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentValue {
    /// Index of the integer register to begin with.
    pub register: u8,
    /// Empty: the register is the value. Otherwise the register has an address, to which the first offset is
    /// added. At every sum but the last the next address is read, and at the last sum the value.
    pub reads: Vec<u64>,
    /// The type of the value.
    pub leaf: Leaf,
}

/// Why an argument is not available.
#[derive(Debug, Error)]
pub enum ArgumentError {
    /// The function has no such parameter, or it is unknown.
    #[error("the function has no {argument}; {known}")]
    NoSuch { argument: ArgumentName, known: String },
    #[error("there is no debug information on the function")]
    Unknown,
    /// It is passed in a register that a probe cannot read, or on the stack.
    #[error("{argument} is {why}: a probe cannot read it")]
    NotInRegister {
        argument: ArgumentName,
        /// How it is passed.
        why: &'static str,
    },
    #[error(transparent)]
    Step(#[from] StepError),
}

/// Cache of the functions of one file: a repeated action need not read the debug information again.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    parameters: Remembered<Option<Vec<Parameter>>>,
    counts: Remembered<Option<ParameterCount>>,
    returns: Remembered<Option<Option<VariableType>>>,
}

/// Results by the address of a function.
#[derive(Debug)]
struct Remembered<T>(Mutex<HashMap<LinkAddress, T>>);

impl<T> Default for Remembered<T> {
    fn default() -> Remembered<T> {
        Remembered(Mutex::default())
    }
}

impl<T: Clone> Remembered<T> {
    fn get(
        &self,
        address: LinkAddress,
        find: impl FnOnce() -> Result<T, ImageError>,
    ) -> Result<T, ImageError> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = known().get(&address) {
            return Ok(answer.clone());
        }
        let answer = find()?;
        let mut known = known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(address, answer.clone());
        Ok(answer)
    }
}

/// A parameter with its DWARF entry, from which its type can be followed.
struct LocatedParameter<'a> {
    parameter: Parameter,
    place: EntryRef<'a>,
    by_reference: bool,
}

/// The parameters of the function that the linker placed at `address`, up to the first that is not passed
/// like an integer or a floating-point number: how a struct is passed depends on its content. `None` if there
/// is no debug information on the function.
pub fn parameters(image: &DebugFile, address: LinkAddress) -> Result<Option<Vec<Parameter>>, ImageError> {
    image.signatures.parameters.get(address, || {
        with_parameters(image, address, |_, known| {
            Ok(known.into_iter().map(|known| known.parameter).collect())
        })
    })
}

/// How many arguments a function takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParameterCount {
    /// Number of declared parameters.
    pub named: usize,
    /// It is variadic, as printf.
    pub(crate) takes_more: bool,
}

/// How many arguments the function at `address` takes. `None` if there is no debug information on it.
pub(crate) fn parameter_count(
    image: &DebugFile,
    address: LinkAddress,
) -> Result<Option<ParameterCount>, ImageError> {
    image.signatures.counts.get(address, || {
        with_function(image, address, |_, function| {
            let mut count = ParameterCount {
                named: parameter_entries(function)?.len(),
                takes_more: false,
            };
            each_child(function, |entry| {
                count.takes_more |= entry.tag() == gimli::DW_TAG_unspecified_parameters;
            })?;
            Ok(count)
        })
    })
}

/// The return type of the function at `address`, or `Some(None)` if it returns nothing. `None` if there is no
/// debug information on the function or its type.
pub fn return_type(
    image: &DebugFile,
    address: LinkAddress,
) -> Result<Option<Option<VariableType>>, ImageError> {
    image.signatures.returns.get(address, || {
        let found = with_function(image, address, |view, function| {
            let entry = function.entry()?;
            match view.type_of(&function.unit, &entry)? {
                None => Ok(Some(None)),
                Some(place) => Ok(leaf_type(view, &place)?.map(Some)),
            }
        })?;
        Ok(found.flatten())
    })
}

/// How a probe at the entry of the function at `address` reads an argument, or what the steps lead to from
/// it: `arg(0)->count`, `arg(self).limits[2]`. Pure: the result is the same for every process that has loaded
/// the file.
pub fn argument(
    image: &DebugFile,
    address: LinkAddress,
    argument: &ArgumentName,
    steps: &[PathStep],
) -> Result<ArgumentValue, ArgumentError> {
    let found = with_parameters(image, address, |view, known| {
        Ok(of_known(view, &known, argument, steps))
    });
    match found {
        Ok(Some(value)) => value,
        Ok(None) => Err(ArgumentError::Unknown),
        Err(error) => Err(StepError::from(error).into()),
    }
}

fn of_known<'a>(
    view: &View<'a>,
    known: &[LocatedParameter<'a>],
    argument: &ArgumentName,
    steps: &[PathStep],
) -> Result<ArgumentValue, ArgumentError> {
    let found = match argument {
        ArgumentName::Number(number) => known.get(usize::from(*number)),
        ArgumentName::Name(name) => known.iter().find(|known| known.is_called(name)),
    };
    let Some(found) = found else {
        let names = known.iter().filter_map(|known| known.parameter.name.as_deref());
        let names: Vec<&str> = names.collect();
        return Err(ArgumentError::NoSuch {
            argument: argument.clone(),
            known: match names.is_empty() {
                true => "it has none that is passed in a register".to_owned(),
                false => format!("it has {}", names.join(", ")),
            },
        });
    };
    let refuse = |why| {
        let argument = argument.clone();
        Err(ArgumentError::NotInRegister { argument, why })
    };
    if found.parameter.of.kind == ValueKind::Float {
        return refuse("a floating-point number");
    }
    if found.parameter.register >= INTEGER_REGISTERS {
        return refuse("on the stack");
    }
    let trail = walk::walk(view, found.place.clone(), found.by_reference, steps).map_err(StepError::from)?;
    let reads = match trail.hops.split_first() {
        None if trail.offset > 0 => return refuse("a part of a register"),
        None => Vec::new(),
        // The register itself is the first address: the first hop has offset 0 and is dropped.
        Some((_, rest)) => rest.iter().copied().chain([trail.offset]).collect(),
    };
    Ok(ArgumentValue {
        register: found.parameter.register,
        reads,
        leaf: trail.leaf,
    })
}

impl LocatedParameter<'_> {
    fn is_called(&self, name: &str) -> bool {
        let own = self.parameter.name.as_deref();
        own.is_some_and(|own| own == name || self.place.unit.is_fortran && own.eq_ignore_ascii_case(name))
    }
}

fn with_parameters<T>(
    image: &DebugFile,
    address: LinkAddress,
    take: impl for<'a> FnOnce(&View<'a>, Vec<LocatedParameter<'a>>) -> Result<T, ImageError>,
) -> Result<Option<T>, ImageError> {
    with_function(image, address, |view, function| {
        take(view, known(view, function)?)
    })
}

fn with_function<T>(
    image: &DebugFile,
    address: LinkAddress,
    take: impl for<'a> FnOnce(&View<'a>, &EntryRef<'a>) -> Result<T, ImageError>,
) -> Result<Option<T>, ImageError> {
    let Some(info) = image.debug_info()? else {
        return Ok(None);
    };
    let view = View::new(image, &info)?;
    let mut found = function_in(&view, &units_with(&view, &[address])?, address)?;
    if found.is_none() {
        // The entry of a function in several pieces does not have the address itself.
        let around = lines::units_around(&view, &[address])?;
        let around: Vec<usize> = around.into_iter().map(|(unit, _)| unit).collect();
        found = function_in(&view, &around, address)?;
    }
    found.map(|function| take(&view, &function)).transpose()
}

fn function_in<'a>(view: &View<'a>, units: &[usize], address: LinkAddress) -> Found<Option<EntryRef<'a>>> {
    view.search(units, |unit, entry, _| {
        let is_it = entry.tag() == gimli::DW_TAG_subprogram && entry_address(unit, entry)? == Some(address.0);
        Ok(is_it.then(|| EntryRef::of(unit, entry)))
    })
}

/// Where a function begins. If it has several pieces, the first one listed is called.
pub(super) fn entry_address<'a>(unit: &Loaded<'a>, entry: &Entry<'a>) -> Found<Option<u64>> {
    if let Some(low) = entry.attr_value(gimli::DW_AT_low_pc) {
        return unit.dwarf.attr_address(&unit.unit, low);
    }
    if !entry.has_attr(gimli::DW_AT_ranges) {
        return Ok(None);
    }
    let first = unit.dwarf.die_ranges(&unit.unit, entry)?.next()?;
    Ok(first.map(|range| range.begin))
}

fn parameter_entries<'a>(function: &EntryRef<'a>) -> Found<Vec<Entry<'a>>> {
    let mut found = Vec::new();
    each_child(function, |entry| {
        if entry.tag() == gimli::DW_TAG_formal_parameter {
            found.push(entry.clone());
        }
    })?;
    Ok(found)
}

fn each_child<'a>(function: &EntryRef<'a>, mut see: impl FnMut(&Entry<'a>)) -> Found<()> {
    let mut tree = function.unit.unit.entries_tree(Some(function.offset))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        see(child.entry());
    }
    Ok(())
}

/// The known parameters: the list ends at a parameter without a type, or passed in an unknown way.
fn known<'a>(view: &View<'a>, function: &EntryRef<'a>) -> Found<Vec<LocatedParameter<'a>>> {
    let unit = &function.unit;
    let mut found = Vec::new();
    let mut register = 0;
    for entry in parameter_entries(function)? {
        let Some(place) = view.type_of(unit, &entry)? else {
            break;
        };
        let by_reference = unit.is_fortran && is_by_reference(unit, &entry)?;
        let of = match by_reference {
            true => Some(VariableType {
                kind: ValueKind::Pointer,
                size: 8,
            }),
            false => leaf_type(view, &place)?,
        };
        let Some(of) = of.filter(|of| of.kind != ValueKind::Compound) else {
            break;
        };
        let is_float = of.kind == ValueKind::Float;
        found.push(LocatedParameter {
            parameter: Parameter {
                name: view.text(unit, &entry, gimli::DW_AT_name)?,
                register: if is_float { 0 } else { register },
                of,
            },
            place,
            by_reference,
        });
        register += u8::from(!is_float);
    }
    Ok(found)
}

/// Fortran passes addresses, except for parameters marked VALUE: the location expression of these does not
/// dereference their stack slot. In optimised code the location is a list, which is not read; the parameter
/// is then taken for an address.
fn is_by_reference<'a>(unit: &Loaded<'a>, entry: &Entry<'a>) -> Found<bool> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(true);
    };
    let mut operations = expression.operations(unit.unit.encoding());
    let mut last = None;
    while let Some(operation) = operations.next()? {
        last = Some(operation);
    }
    Ok(!matches!(
        last,
        Some(Operation::FrameOffset { .. } | Operation::Register { .. })
    ))
}

/// The signature of a function in the syntax of its language.
pub(super) fn signature<'a>(view: &View<'a>, unit: &Rc<Loaded<'a>>, entry: &Entry<'a>) -> Found<String> {
    let function = EntryRef::of(unit, entry);
    let returned = view.type_text(view.type_of(unit, entry)?.as_ref())?;
    let entries = parameter_entries(&function)?;
    let mut taken = Vec::new();
    for entry in entries.iter().take(WRITTEN_MAX) {
        taken.push(view.type_text(view.type_of(unit, entry)?.as_ref())?);
    }
    if entries.len() > WRITTEN_MAX {
        taken.push("…".to_owned());
    }
    Ok(format!("{returned} ({})", taken.join(", ")))
}
