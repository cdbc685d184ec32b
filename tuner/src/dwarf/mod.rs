//! Types of global variables and of parameters, places of fields and elements, and where functions were
//! inlined, from debug information: in the module's own file, in a separate file, split by the compiler,
//! compressed or shared (`files`). Independent of processes.
//!
//! A variable is found by its address, not by its name: two static variables of one name are two variables.

mod file;
mod files;
mod inlined;
mod lines;
mod load;
mod parameters;
mod search;
mod types;
mod units;
mod view;
mod walk;

use std::collections::BTreeMap;
use std::rc::Rc;

use plan::ValueType;
use thiserror::Error;

use crate::address::LinkAddress;
use crate::elf::ImageError;
use crate::path::PathStep;
use search::{Needles, Words};
use types::Shape;
use view::{Entry, EntryRef, Found, Loaded, Scopes, View, fixed_address};
use walk::WalkEnd;

pub use file::DebugFile;
pub use files::Origin;
pub use inlined::{Inlined, inlined};
pub use lines::{Line, lines};
pub(crate) use parameters::parameter_count;
pub use parameters::{
    ArgumentError, ArgumentName, ArgumentValue, Parameter, ParameterCount, argument, parameters, return_type,
};
pub use walk::{Leaf, Trail, WalkError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Bool,
    /// A signed integer, or a signed character.
    Signed,
    /// An unsigned integer, or an unsigned character.
    Unsigned,
    Float,
    Enum,
    Pointer,
    /// A struct, an array, or any other type that is not scalar.
    Compound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableType {
    pub kind: ValueKind,
    /// Size in bytes; 0 if the debug information does not state it.
    pub size: u64,
}

impl VariableType {
    /// The value type that may be written without being stated; `None` for enums, pointers and compounds.
    pub fn value_type(self) -> Option<ValueType> {
        let of_kind = |value_type: &&ValueType| self.accepts(**value_type);
        match self.kind {
            ValueKind::Enum | ValueKind::Pointer | ValueKind::Compound => None,
            _ => ValueType::ALL.iter().find(of_kind).copied(),
        }
    }

    /// True if a value of this type may be written there.
    pub fn accepts(self, value_type: ValueType) -> bool {
        use ValueType::{Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let of_kind = match self.kind {
            ValueKind::Bool => value_type == Bool,
            ValueKind::Signed => matches!(value_type, I8 | I16 | I32 | I64),
            ValueKind::Unsigned => matches!(value_type, U8 | U16 | U32 | U64),
            ValueKind::Float => matches!(value_type, F32 | F64),
            ValueKind::Enum => !matches!(value_type, Bool | F32 | F64),
            ValueKind::Pointer | ValueKind::Compound => false,
        };
        of_kind && value_type.size() as u64 == self.size
    }
}

impl std::fmt::Display for VariableType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(value_type) = self.value_type() {
            return value_type.fmt(f);
        }
        let kind = match self.kind {
            ValueKind::Bool => "a bool",
            ValueKind::Signed => "a signed integer",
            ValueKind::Unsigned => "an unsigned integer",
            ValueKind::Float => "a floating-point number",
            ValueKind::Enum => "an enum",
            ValueKind::Pointer => "a pointer",
            ValueKind::Compound => "a struct or an array",
        };
        write!(f, "{kind} of {} bytes", self.size)
    }
}

/// Why the steps from a variable cannot be followed.
#[derive(Debug, Error)]
pub enum StepError {
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl From<WalkEnd> for StepError {
    fn from(stop: WalkEnd) -> StepError {
        match stop {
            WalkEnd::Walk(error) => error.into(),
            WalkEnd::Damaged(error) => StepError::Image(error.into()),
        }
    }
}

/// The debug information of a variable or a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// A variable's type; `None` for a function.
    pub of: Option<VariableType>,
    /// The type in the syntax of the language; for a function its return type and parameters.
    pub type_name: String,
    /// The source file of its compilation unit, as it was passed to the compiler.
    pub unit: String,
    /// The function, if it is a static variable of one.
    pub function: Option<String>,
}

/// The type of the variable that the linker placed at `address`; `None` if there is no debug information on
/// it.
pub fn variable_type(image: &DebugFile, address: LinkAddress) -> Result<Option<VariableType>, ImageError> {
    let described = describe(image, &[address])?.remove(&address);
    Ok(described.and_then(|described| described.of))
}

/// Describes the variables and functions at these addresses, in one pass over the debug information.
pub fn describe(
    image: &DebugFile,
    addresses: &[LinkAddress],
) -> Result<BTreeMap<LinkAddress, Description>, ImageError> {
    let mut found = BTreeMap::new();
    let Some(info) = image.debug_info()? else {
        return Ok(found);
    };
    let view = View::new(image, &info)?;
    let units = units_with(&view, addresses)?;
    view.search(&units, |unit, entry, scopes| {
        let address = match entry.tag() {
            gimli::DW_TAG_variable => fixed_address(unit, entry)?,
            gimli::DW_TAG_subprogram => parameters::entry_address(unit, entry)?,
            _ => None,
        };
        let address = address
            .map(LinkAddress)
            .filter(|address| addresses.contains(address));
        if let Some(address) = address.filter(|address| !found.contains_key(address)) {
            found.extend(description(&view, unit, entry, scopes)?.map(|known| (address, known)));
        }
        Ok((found.len() == addresses.len()).then_some(()))
    })?;
    Ok(found)
}

fn units_with(view: &View<'_>, addresses: &[LinkAddress]) -> Found<Vec<usize>> {
    view.units_with(&Needles::Addresses(Words::new(
        addresses.iter().map(|address| address.0),
    )))
}

fn is_in_common_block(scopes: &Scopes<'_>) -> bool {
    let inner = scopes.inner_first().next();
    inner.is_some_and(|scope| scope.tag() == gimli::DW_TAG_common_block)
}

/// `None` for a declaration.
fn description<'a>(
    view: &View<'a>,
    unit: &Rc<Loaded<'a>>,
    entry: &Entry<'a>,
    scopes: &Scopes<'a>,
) -> Found<Option<Description>> {
    let (of, type_name) = match entry.tag() {
        gimli::DW_TAG_subprogram => (None, parameters::signature(view, unit, entry)?),
        // A common block has the address of its first variable.
        _ if is_in_common_block(scopes) => {
            let kind = ValueKind::Compound;
            (Some(VariableType { kind, size: 0 }), "common block".to_owned())
        }
        _ => {
            let Some(place) = view.type_of(unit, entry)? else {
                return Ok(None);
            };
            (leaf_type(view, &place)?, view.type_text(Some(&place))?)
        }
    };
    let is_function = |scope: &&Entry<'a>| scope.tag() == gimli::DW_TAG_subprogram;
    let function = match scopes.inner_first().find(is_function) {
        Some(function) => view.text(unit, function, gimli::DW_AT_name)?,
        None => None,
    };
    Ok(Some(Description {
        of,
        type_name,
        unit: unit.name.clone(),
        function,
    }))
}

fn leaf_type<'a>(view: &View<'a>, place: &EntryRef<'a>) -> Found<Option<VariableType>> {
    let Some(shape) = view.shape(place)? else {
        return Ok(None);
    };
    let of = shape.variable_type();
    let size = match &shape {
        Shape::Array(_) => view.size(&shape)?.unwrap_or_default(),
        _ => of.size,
    };
    Ok(Some(VariableType { size, ..of }))
}

/// The trail from the variable that the linker placed at `address`; `None` if there is no debug information
/// on it. In a Fortran common block the first step names the variable.
pub fn trail(
    image: &DebugFile,
    address: LinkAddress,
    steps: &[PathStep],
) -> Result<Option<Trail>, StepError> {
    let Some(info) = image.debug_info()? else {
        return Ok(None);
    };
    let view = View::new(image, &info)?;
    let units = units_with(&view, &[address]).map_err(ImageError::from)?;
    let mut start = Start {
        address,
        member: match steps {
            [PathStep::Field(name), ..] => Some(name),
            _ => None,
        },
        others: Vec::new(),
        block: None,
    };
    let found = view.search(&units, |unit, entry, scopes| {
        start.is_here(&view, unit, entry, scopes)
    });
    let Some((place, offset)) = found.map_err(ImageError::from)? else {
        return start.nothing();
    };
    let steps = match offset {
        Some(_) => steps.get(1..).unwrap_or_default(),
        None => steps,
    };
    let mut trail = walk::walk(&view, place, false, steps)?;
    let first = trail.hops.first_mut().unwrap_or(&mut trail.offset);
    *first = first
        .checked_add(offset.unwrap_or_default())
        .ok_or(WalkError::TooFar)?;
    Ok(Some(trail))
}

/// The variable at which a path starts, which may be in a common block.
struct Start<'s> {
    address: LinkAddress,
    /// The name of the variable in the common block.
    member: Option<&'s str>,
    /// The names of the other variables in the common block.
    others: Vec<String>,
    /// The last common block found: unit, offset, and address, which is that of its first variable.
    block: Option<(usize, gimli::UnitOffset, u64)>,
}

impl Start<'_> {
    /// The type of the wanted variable if this entry is it; for one in a common block also its offset in the
    /// block.
    fn is_here<'a>(
        &mut self,
        view: &View<'a>,
        unit: &Rc<Loaded<'a>>,
        entry: &Entry<'a>,
        scopes: &Scopes<'a>,
    ) -> Found<Option<(EntryRef<'a>, Option<u64>)>> {
        if entry.tag() != gimli::DW_TAG_variable {
            return Ok(None);
        }
        let Some(address) = fixed_address(unit, entry)? else {
            return Ok(None);
        };
        let Some(block) = scopes.inner_first().next().filter(|_| is_in_common_block(scopes)) else {
            let place = view.type_of(unit, entry)?.filter(|_| address == self.address.0);
            return Ok(place.map(|place| (place, None)));
        };
        let place = (view::start(&unit.unit.header), block.offset());
        let start = match self.block {
            Some((unit, offset, start)) if (unit, offset) == place => start,
            _ => address,
        };
        self.block = Some((place.0, place.1, start));
        if start != self.address.0 {
            return Ok(None);
        }
        let name = view.text(unit, entry, gimli::DW_AT_name)?.unwrap_or_default();
        if self
            .member
            .is_some_and(|member| member.eq_ignore_ascii_case(&name))
        {
            let offset = address.checked_sub(self.address.0);
            return Ok(view
                .type_of(unit, entry)?
                .zip(offset)
                .map(|(place, offset)| (place, Some(offset))));
        }
        if !self.others.contains(&name) {
            self.others.push(name);
        }
        Ok(None)
    }

    fn nothing<T>(self) -> Result<Option<T>, StepError> {
        match self.member.filter(|_| !self.others.is_empty()) {
            None => Ok(None),
            Some(field) => Err(WalkError::NoField {
                field: field.to_owned(),
                of: "the common block".to_owned(),
                known: self.others.join(", "),
            }
            .into()),
        }
    }
}
