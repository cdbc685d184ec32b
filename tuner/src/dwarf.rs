//! The types of global variables and of parameters, from the debug information in the module's own file. Only scalars are told
//! apart; separate debug files, fields and array elements are not looked at.
//!
//! A variable is found by its address, not by its name: two static variables of one name are two variables.

use std::borrow::Cow;

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwAte, DwTag, Dwarf, EndianSlice, EntriesTreeNode,
    LittleEndian, Operation, Unit, UnitOffset,
};

use crate::address::LinkAddress;
use crate::image::{Image, ImageError};
use crate::value::ValueType;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// A chain of typedefs and qualifiers longer than this is a loop.
const TYPE_CHAIN_MAX: usize = 64;
/// Namespaces nested deeper than this are not looked into.
const NAMESPACE_DEPTH_MAX: usize = 32;

/// What kind of value a variable holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// true or false.
    Bool,
    /// A signed integer, or a signed character.
    Signed,
    /// An unsigned integer, or an unsigned character.
    Unsigned,
    /// A floating-point number.
    Float,
    /// One of a list of named integers.
    Enum,
    /// An address.
    Pointer,
    /// A struct, an array, or anything else that is no scalar.
    Compound,
}

/// The type of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableType {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes; 0 when the debug information does not say.
    pub size: u64,
}

impl VariableType {
    /// The type of a value that can be written there without saying more; `None` for enums, pointers and
    /// compounds.
    pub fn value_type(self) -> Option<ValueType> {
        let of_kind = |value_type: &&ValueType| self.accepts(**value_type);
        match self.kind {
            Kind::Enum | Kind::Pointer | Kind::Compound => None,
            _ => ValueType::ALL.iter().find(of_kind).copied(),
        }
    }

    /// True when a value of this type may be written there.
    pub fn accepts(self, value_type: ValueType) -> bool {
        use ValueType::{Bool, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let of_kind = match self.kind {
            Kind::Bool => value_type == Bool,
            Kind::Signed => matches!(value_type, I8 | I16 | I32 | I64),
            Kind::Unsigned => matches!(value_type, U8 | U16 | U32 | U64),
            Kind::Float => matches!(value_type, F32 | F64),
            Kind::Enum => !matches!(value_type, Bool | F32 | F64),
            Kind::Pointer | Kind::Compound => false,
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
            Kind::Bool => "a bool",
            Kind::Signed => "a signed integer",
            Kind::Unsigned => "an unsigned integer",
            Kind::Float => "a floating-point number",
            Kind::Enum => "an enum",
            Kind::Pointer => "a pointer",
            Kind::Compound => "a struct or an array",
        };
        write!(f, "{kind} of {} bytes", self.size)
    }
}

/// The type of the variable that the linker placed at `address`; `None` when the file has no debug
/// information on it.
pub fn variable_type(image: &Image, address: LinkAddress) -> Result<Option<VariableType>, ImageError> {
    first_in_units(image, |dwarf, unit, root| variable_in(dwarf, unit, root, address))
}

fn variable_in<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    root: EntriesTreeNode<'_, '_, Slice<'a>>,
    address: LinkAddress,
) -> Result<Option<VariableType>, ImageError> {
    let is_it =
        |entry: &Entry<'a>| Ok(entry.tag() == gimli::DW_TAG_variable && is_at(dwarf, unit, entry, address)?);
    let take = |node: EntriesTreeNode<'_, '_, Slice<'a>>| type_of(unit, node.entry());
    let place = find(root, 0, &is_it, &take)?;
    Ok(place
        .map(|place| resolve(dwarf, unit, place))
        .transpose()?
        .flatten())
}

/// A parameter of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its place among the parameters that are passed like integers: floating-point ones have registers of their own.
    pub register: u8,
    /// Its type.
    pub of: VariableType,
}

/// The parameters of the function that the linker placed at `address`, as far as each is passed like an integer or a
/// floating-point number; those behind a struct are left out, for how that is passed depends on what it holds. `None` when
/// the file has no debug information on the function.
pub fn parameters(image: &Image, address: LinkAddress) -> Result<Option<Vec<Parameter>>, ImageError> {
    first_in_units(image, |dwarf, unit, root| {
        parameters_in(dwarf, unit, root, address)
    })
}

fn parameters_in<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    root: EntriesTreeNode<'_, '_, Slice<'a>>,
    address: LinkAddress,
) -> Result<Option<Vec<Parameter>>, ImageError> {
    let is_it = |entry: &Entry<'a>| {
        let low = entry.attr_value(gimli::DW_AT_low_pc);
        let low = low.map(|low| dwarf.attr_address(unit, low)).transpose()?;
        Ok(entry.tag() == gimli::DW_TAG_subprogram && low.flatten() == Some(address.0))
    };
    let take = |node: EntriesTreeNode<'_, '_, Slice<'a>>| parameter_types(unit, node).map(Some);
    let Some(places) = find(root, 0, &is_it, &take)? else {
        return Ok(None);
    };
    let mut found = Vec::new();
    let mut register = 0;
    for place in places {
        match resolve(dwarf, unit, place)? {
            None
            | Some(VariableType {
                kind: Kind::Compound, ..
            }) => break,
            Some(of) if of.kind == Kind::Float => found.push(Parameter { register: 0, of }),
            Some(of) => {
                found.push(Parameter { register, of });
                register += 1;
            }
        }
    }
    Ok(Some(found))
}

/// What `look` finds in the first unit in which it finds something.
fn first_in_units<T>(
    image: &Image,
    look: impl for<'a> Fn(
        &Dwarf<Slice<'a>>,
        &Unit<Slice<'a>>,
        EntriesTreeNode<'_, '_, Slice<'a>>,
    ) -> Result<Option<T>, ImageError>,
) -> Result<Option<T>, ImageError> {
    let sections = gimli::DwarfSections::load(|id| image.section_bytes(id.name()))?;
    let dwarf: Dwarf<Slice<'_>> =
        sections.borrow(|bytes: &Cow<'_, [u8]>| EndianSlice::new(bytes, LittleEndian));
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut tree = unit.entries_tree(None)?;
        let found = look(&dwarf, &unit, tree.root()?)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What `take` makes of the first entry that is it, among the direct children of the unit and of its namespaces.
fn find<'a, T>(
    node: EntriesTreeNode<'_, '_, Slice<'a>>,
    depth: usize,
    is_it: &impl Fn(&Entry<'a>) -> Result<bool, gimli::Error>,
    take: &impl Fn(EntriesTreeNode<'_, '_, Slice<'a>>) -> Result<Option<T>, gimli::Error>,
) -> Result<Option<T>, gimli::Error> {
    let mut children = node.children();
    while let Some(child) = children.next()? {
        let found = if is_it(child.entry())? {
            take(child)?
        } else if child.entry().tag() == gimli::DW_TAG_namespace && depth < NAMESPACE_DEPTH_MAX {
            find(child, depth + 1, is_it, take)?
        } else {
            None
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The types of a function's parameters; one without a type ends what can be told.
fn parameter_types<'a>(
    unit: &Unit<Slice<'a>>,
    function: EntriesTreeNode<'_, '_, Slice<'a>>,
) -> Result<Vec<AttributeValue<Slice<'a>>>, gimli::Error> {
    let mut places = Vec::new();
    let mut children = function.children();
    while let Some(child) = children.next()? {
        if child.entry().tag() == gimli::DW_TAG_formal_parameter {
            let Some(place) = parameter_type(unit, child.entry())? else {
                break;
            };
            places.push(place);
        }
    }
    Ok(places)
}

/// A function that is inlined elsewhere too has the types of its parameters there (DW_AT_abstract_origin).
fn parameter_type<'a>(
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
) -> Result<Option<AttributeValue<Slice<'a>>>, gimli::Error> {
    if let Some(place) = entry.attr_value(gimli::DW_AT_type) {
        return Ok(Some(place));
    }
    match entry.attr_value(gimli::DW_AT_abstract_origin) {
        Some(AttributeValue::UnitRef(offset)) => Ok(unit.entry(offset)?.attr_value(gimli::DW_AT_type)),
        _ => Ok(None),
    }
}

fn is_at<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
    address: LinkAddress,
) -> Result<bool, gimli::Error> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(false);
    };
    let mut operations = expression.operations(unit.encoding());
    let first = match operations.next()? {
        Some(Operation::Address { address }) => address,
        Some(Operation::AddressIndex { index }) => dwarf.address(unit, index)?,
        _ => return Ok(false),
    };
    Ok(first == address.0 && operations.next()?.is_none())
}

/// A variable declared in a header or a class has its type there (DW_AT_specification).
fn type_of<'a>(
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
) -> Result<Option<AttributeValue<Slice<'a>>>, gimli::Error> {
    if let Some(place) = entry.attr_value(gimli::DW_AT_type) {
        return Ok(Some(place));
    }
    match entry.attr_value(gimli::DW_AT_specification) {
        Some(AttributeValue::UnitRef(offset)) => Ok(unit.entry(offset)?.attr_value(gimli::DW_AT_type)),
        _ => Ok(None),
    }
}

fn resolve<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    place: AttributeValue<Slice<'a>>,
) -> Result<Option<VariableType>, ImageError> {
    match place {
        AttributeValue::UnitRef(offset) => Ok(scalar(unit, offset)?),
        // Link-time optimisation refers from one unit to another.
        AttributeValue::DebugInfoRef(place) => {
            let mut headers = dwarf.units();
            while let Some(header) = headers.next()? {
                if let Some(offset) = place.to_unit_offset(&header) {
                    return Ok(scalar(&dwarf.unit(header)?, offset)?);
                }
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn scalar(unit: &Unit<Slice<'_>>, mut offset: UnitOffset) -> Result<Option<VariableType>, gimli::Error> {
    for _ in 0..TYPE_CHAIN_MAX {
        let entry = unit.entry(offset)?;
        let size = entry
            .attr(gimli::DW_AT_byte_size)
            .and_then(gimli::Attribute::udata_value)
            .unwrap_or_default();
        let kind = match entry.tag() {
            tag if is_only_a_name(tag) => match entry.attr_value(gimli::DW_AT_type) {
                Some(AttributeValue::UnitRef(next)) => {
                    offset = next;
                    continue;
                }
                _ => return Ok(None),
            },
            gimli::DW_TAG_base_type => match entry.attr_value(gimli::DW_AT_encoding) {
                Some(AttributeValue::Encoding(encoding)) => base_kind(encoding),
                _ => Kind::Compound,
            },
            gimli::DW_TAG_enumeration_type => Kind::Enum,
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Kind::Pointer,
            _ => Kind::Compound,
        };
        return Ok(Some(VariableType { kind, size }));
    }
    Ok(None)
}

fn is_only_a_name(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_restrict_type
    )
}

fn base_kind(encoding: DwAte) -> Kind {
    match encoding {
        gimli::DW_ATE_boolean => Kind::Bool,
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => Kind::Signed,
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => Kind::Unsigned,
        gimli::DW_ATE_float => Kind::Float,
        _ => Kind::Compound,
    }
}
