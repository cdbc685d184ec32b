//! The structure of a type (a scalar, a pointer, a struct with fields, an array with bounds), and its text.
//! Reads one type at a time: referenced types and parts are read on demand, or recursive types would never
//! end.

use gimli::{AttributeValue, DwAte, DwTag};

use super::view::{CHAIN_MAX, Entry, EntryRef, Found, View};
use super::{ValueKind, VariableType};

/// More dimensions than any language has.
const DIMENSIONS_MAX: usize = 32;
/// Bound on the nesting of unnamed fields and of base classes.
const NESTED_MAX: usize = 16;
/// Characters at which the text of a type is cut.
const TEXT_CHARS_MAX: usize = 200;
/// Bound on the nesting in the text of a type.
const TEXT_DEPTH_MAX: usize = 12;

/// The structure of a type without its names.
#[derive(Debug, Clone)]
pub(super) enum Shape<'a> {
    Scalar {
        kind: ValueKind,
        size: u64,
        is_char: bool,
    },
    Pointer {
        to: Option<EntryRef<'a>>,
        size: u64,
    },
    /// Followed implicitly; its text is that of the referenced type.
    Reference {
        to: Option<EntryRef<'a>>,
        size: u64,
    },
    /// A struct, class or union.
    Struct {
        place: EntryRef<'a>,
        size: u64,
    },
    Array(Array<'a>),
    /// Complex numbers, functions, vectors of an unsupported language …
    Other {
        size: u64,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Array<'a> {
    pub(super) element: Option<EntryRef<'a>>,
    pub(super) dimensions: Vec<Dimension>,
    /// The elements are not contiguous, or stored elsewhere (Fortran's allocatable and pointer arrays).
    pub(super) is_dynamic: bool,
    /// The first index varies fastest.
    pub(super) column_major: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dimension {
    pub(super) lower: i64,
    /// `None` if the debug information does not state it.
    pub(super) count: Option<u64>,
}

/// A field, with its offset and type.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) offset: u64,
    pub(super) of: EntryRef<'a>,
    pub(super) bits: Option<u64>,
}

impl Shape<'_> {
    /// The type of a value that fits into a word.
    pub(super) fn variable_type(&self) -> VariableType {
        let (kind, size) = match self {
            Shape::Scalar { kind, size, .. } => (*kind, *size),
            Shape::Pointer { size, .. } | Shape::Reference { size, .. } => (ValueKind::Pointer, *size),
            Shape::Struct { size, .. } | Shape::Other { size } => (ValueKind::Compound, *size),
            Shape::Array(_) => (ValueKind::Compound, 0),
        };
        VariableType { kind, size }
    }
}

impl<'a> View<'a> {
    /// The structure of a type, behind its typedefs and qualifiers.
    pub(super) fn shape(&self, place: &EntryRef<'a>) -> Found<Option<Shape<'a>>> {
        let Some(place) = self.behind_names(place.clone())? else {
            return Ok(None);
        };
        let entry = place.entry()?;
        let size = number(&entry, gimli::DW_AT_byte_size);
        let to = || self.type_of(&place.unit, &entry);
        Ok(Some(match entry.tag() {
            gimli::DW_TAG_base_type => {
                let encoding = match entry.attr_value(gimli::DW_AT_encoding) {
                    Some(AttributeValue::Encoding(encoding)) => encoding,
                    _ => DwAte(0),
                };
                Shape::Scalar {
                    kind: base_kind(encoding),
                    size: size.unwrap_or_default(),
                    is_char: is_char(encoding),
                }
            }
            gimli::DW_TAG_enumeration_type => Shape::Scalar {
                kind: ValueKind::Enum,
                size: size.unwrap_or_default(),
                is_char: false,
            },
            gimli::DW_TAG_pointer_type => Shape::Pointer {
                to: to()?,
                size: size.unwrap_or(8),
            },
            gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => Shape::Reference {
                to: to()?,
                size: size.unwrap_or(8),
            },
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                self.structure(place, &entry)?
            }
            gimli::DW_TAG_array_type => Shape::Array(self.array(&place, &entry)?),
            gimli::DW_TAG_string_type => Shape::Array(Array {
                element: None,
                dimensions: vec![Dimension {
                    lower: 1,
                    count: size,
                }],
                is_dynamic: size.is_none(),
                column_major: false,
            }),
            _ => Shape::Other {
                size: size.unwrap_or_default(),
            },
        }))
    }

    /// The type that typedefs and qualifiers lead to.
    fn behind_names(&self, mut place: EntryRef<'a>) -> Found<Option<EntryRef<'a>>> {
        for _ in 0..CHAIN_MAX {
            let entry = place.entry()?;
            if !is_only_a_name(entry.tag()) {
                return Ok(Some(place));
            }
            match self.type_of(&place.unit, &entry)? {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A struct. If it is only declared here, it is searched by its signature in a type unit.
    fn structure(&self, place: EntryRef<'a>, entry: &Entry<'a>) -> Found<Shape<'a>> {
        let elsewhere = entry.attr_value(gimli::DW_AT_signature);
        let elsewhere = elsewhere
            .map(|signature| self.follow(&place.unit, signature))
            .transpose()?;
        let place = elsewhere.flatten().unwrap_or(place);
        let size = number(&place.entry()?, gimli::DW_AT_byte_size).unwrap_or_default();
        Ok(Shape::Struct { place, size })
    }

    fn array(&self, place: &EntryRef<'a>, entry: &Entry<'a>) -> Found<Array<'a>> {
        let dynamic = [
            gimli::DW_AT_data_location,
            gimli::DW_AT_byte_stride,
            gimli::DW_AT_bit_stride,
        ];
        let mut array = Array {
            element: self.type_of(&place.unit, entry)?,
            dimensions: Vec::new(),
            is_dynamic: dynamic.iter().any(|name| entry.has_attr(*name)),
            column_major: place.unit.is_fortran,
        };
        let base = if place.unit.is_fortran { 1 } else { 0 };
        let mut tree = place.unit.unit.entries_tree(Some(place.offset))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let child = child.entry();
            if !matches!(
                child.tag(),
                gimli::DW_TAG_subrange_type | gimli::DW_TAG_enumeration_type
            ) {
                continue;
            }
            let is_computed = |name| matches!(child.attr_value(name), Some(AttributeValue::Exprloc(_)));
            array.is_dynamic |=
                is_computed(gimli::DW_AT_lower_bound) || child.has_attr(gimli::DW_AT_byte_stride);
            let lower = signed(child, gimli::DW_AT_lower_bound).unwrap_or(base);
            let upper = signed(child, gimli::DW_AT_upper_bound);
            let count = number(child, gimli::DW_AT_count).or_else(|| {
                let count = upper?.checked_sub(lower)?.checked_add(1)?;
                u64::try_from(count).ok()
            });
            array.dimensions.push(Dimension { lower, count });
            if array.dimensions.len() > DIMENSIONS_MAX {
                break;
            }
        }
        Ok(array)
    }

    /// Size of a value in bytes; `None` if the debug information does not state it.
    pub(super) fn size(&self, shape: &Shape<'a>) -> Found<Option<u64>> {
        let mut times: u64 = 1;
        let mut shape = shape.clone();
        for _ in 0..CHAIN_MAX {
            let Shape::Array(array) = &shape else {
                let size = shape.variable_type().size;
                return Ok((size > 0).then(|| times.checked_mul(size)).flatten());
            };
            for dimension in &array.dimensions {
                let count = dimension.count.and_then(|count| times.checked_mul(count));
                match count.filter(|_| !array.is_dynamic) {
                    Some(count) => times = count,
                    None => return Ok(None),
                }
            }
            // A Fortran string: its elements are characters.
            let Some(element) = &array.element else {
                return Ok(Some(times));
            };
            match self.shape(element)? {
                Some(next) => shape = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The field of this name, including those of unnamed fields and of base classes.
    pub(super) fn field(&self, of: &EntryRef<'a>, name: &str) -> Found<Option<Field<'a>>> {
        self.field_in(of, name, NESTED_MAX)
    }

    fn field_in(&self, of: &EntryRef<'a>, name: &str, depth: usize) -> Found<Option<Field<'a>>> {
        let mut nested = Vec::new();
        let mut found = None;
        self.each_member(of, |member| {
            let is_it = match &member.name {
                Some(own) if of.unit.is_fortran => own.eq_ignore_ascii_case(name),
                Some(own) => own == name,
                None => false,
            };
            if is_it && found.is_none() {
                found = Some(member);
            } else if member.is_transparent {
                nested.push(member);
            }
        })?;
        if let Some(member) = found {
            return Ok(member.field());
        }
        for outer in nested
            .into_iter()
            .filter(|_| depth > 0)
            .filter_map(|member| member.field())
        {
            if let Some(Shape::Struct { place, .. }) = self.shape(&outer.of)?
                && let Some(inner) = self.field_in(&place, name, depth - 1)?
            {
                let offset = inner.offset.checked_add(outer.offset);
                return Ok(offset.map(|offset| Field { offset, ..inner }));
            }
        }
        Ok(None)
    }

    /// The names of the fields, for a message.
    pub(super) fn field_names(&self, of: &EntryRef<'a>) -> Found<Vec<String>> {
        let mut names = Vec::new();
        self.each_member(of, |member| names.extend(member.name))?;
        Ok(names)
    }

    fn each_member(&self, of: &EntryRef<'a>, mut take: impl FnMut(StructMember<'a>)) -> Found<()> {
        let mut tree = of.unit.unit.entries_tree(Some(of.offset))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_base = entry.tag() == gimli::DW_TAG_inheritance;
            if entry.tag() != gimli::DW_TAG_member && !is_base {
                continue;
            }
            // A static member is a separate variable.
            if entry.has_attr(gimli::DW_AT_external) || entry.has_attr(gimli::DW_AT_const_value) {
                continue;
            }
            let name = self.text(&of.unit, entry, gimli::DW_AT_name)?;
            let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
                None => Some(0),
                Some(AttributeValue::Exprloc(_)) => None,
                Some(value) => value.udata_value(),
            };
            take(StructMember {
                is_transparent: is_base || name.is_none(),
                name,
                offset,
                of: self.type_of(&of.unit, entry)?,
                bits: number(entry, gimli::DW_AT_bit_size),
            });
        }
        Ok(())
    }

    /// A type in the syntax of the language.
    pub(super) fn type_text(&self, place: Option<&EntryRef<'a>>) -> Found<String> {
        let text = self.text_of(place, TEXT_DEPTH_MAX)?;
        Ok(match text.char_indices().nth(TEXT_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        })
    }

    fn text_of(&self, place: Option<&EntryRef<'a>>, depth: usize) -> Found<String> {
        let Some(place) = place else {
            return Ok("void".to_owned());
        };
        let entry = place.entry()?;
        if depth == 0 {
            return Ok("…".to_owned());
        }
        let inner = || self.text_of(self.type_of(&place.unit, &entry)?.as_ref(), depth - 1);
        let name = self.text(&place.unit, &entry, gimli::DW_AT_name)?;
        Ok(match (entry.tag(), name) {
            (gimli::DW_TAG_const_type, _) => qualified("const", inner()?),
            (gimli::DW_TAG_volatile_type, _) => qualified("volatile", inner()?),
            (gimli::DW_TAG_atomic_type, _) => qualified("_Atomic", inner()?),
            (gimli::DW_TAG_restrict_type, _) => inner()?,
            (gimli::DW_TAG_pointer_type, _) => {
                let inner = inner()?;
                let blank = if inner.ends_with('*') { "" } else { " " };
                format!("{inner}{blank}*")
            }
            (gimli::DW_TAG_reference_type, _) => format!("{} &", inner()?),
            (gimli::DW_TAG_rvalue_reference_type, _) => format!("{} &&", inner()?),
            (gimli::DW_TAG_array_type, _) => {
                let bounds = self.array(place, &entry)?.dimensions.into_iter().map(bounds_text);
                format!("{}{}", inner()?, bounds.collect::<String>())
            }
            (gimli::DW_TAG_string_type, _) => match number(&entry, gimli::DW_AT_byte_size) {
                Some(size) => format!("character({size})"),
                None => "character".to_owned(),
            },
            (gimli::DW_TAG_subroutine_type, _) => format!("{} (…)", inner()?),
            (gimli::DW_TAG_structure_type, Some(name)) if !place.unit.is_fortran => format!("struct {name}"),
            (gimli::DW_TAG_union_type, Some(name)) => format!("union {name}"),
            (gimli::DW_TAG_enumeration_type, Some(name)) => format!("enum {name}"),
            (_, Some(name)) => name,
            (gimli::DW_TAG_enumeration_type, None) => "enum".to_owned(),
            (gimli::DW_TAG_union_type, None) => "union".to_owned(),
            (gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type, None) => "struct".to_owned(),
            _ => "?".to_owned(),
        })
    }
}

struct StructMember<'a> {
    name: Option<String>,
    /// Its fields count as fields of the enclosing struct.
    is_transparent: bool,
    /// `None` if it must be computed, as for a virtual base class.
    offset: Option<u64>,
    of: Option<EntryRef<'a>>,
    bits: Option<u64>,
}

impl<'a> StructMember<'a> {
    fn field(self) -> Option<Field<'a>> {
        Some(Field {
            offset: self.offset?,
            of: self.of?,
            bits: self.bits,
        })
    }
}

/// A pointer's qualifier follows its star.
fn qualified(qualifier: &str, inner: String) -> String {
    match inner.ends_with('*') {
        true => format!("{inner}{qualifier}"),
        // A constant array of constant elements has it twice.
        false if inner.starts_with(&format!("{qualifier} ")) => inner,
        false => format!("{qualifier} {inner}"),
    }
}

fn bounds_text(dimension: Dimension) -> String {
    match dimension.count {
        None => "[]".to_owned(),
        Some(count) if dimension.lower == 0 => format!("[{count}]"),
        Some(count) => {
            let last = i128::from(dimension.lower) + i128::from(count) - 1;
            format!("[{}:{last}]", dimension.lower)
        }
    }
}

pub(super) fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr(name).and_then(gimli::Attribute::udata_value)
}

fn signed(entry: &Entry<'_>, name: gimli::DwAt) -> Option<i64> {
    let attribute = entry.attr(name)?;
    // GCC writes small bounds as unsigned: 255 in a byte is 255.
    let unsigned = attribute
        .udata_value()
        .and_then(|value| i64::try_from(value).ok());
    unsigned.or_else(|| attribute.sdata_value())
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

fn base_kind(encoding: DwAte) -> ValueKind {
    match encoding {
        gimli::DW_ATE_boolean => ValueKind::Bool,
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => ValueKind::Signed,
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => ValueKind::Unsigned,
        gimli::DW_ATE_float => ValueKind::Float,
        _ => ValueKind::Compound,
    }
}

fn is_char(encoding: DwAte) -> bool {
    matches!(
        encoding,
        gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF
    )
}
