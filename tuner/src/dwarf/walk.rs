//! From a value to a part of it: resolves the steps of a path by types. Reads no memory.

use thiserror::Error;

use super::types::{Array, Shape};
use super::view::{CHAIN_MAX, EntryRef, Found, View};
use super::{ValueKind, VariableType};
use crate::path::PathStep;

/// Fields that a message lists.
const LISTED_MAX: usize = 12;

/// Why steps cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WalkError {
    #[error("{of} has no field `{field}`; it has {known}")]
    NoField {
        field: String,
        of: String,
        known: String,
    },
    #[error("{of} is not a struct and has no field `{field}`")]
    NoStruct { field: String, of: String },
    #[error("{of} is not an array and has no element `[{index}]`")]
    NoArray { index: i64, of: String },
    #[error("element {index} is outside of {of}, which has {lower} to {upper}")]
    OutOfBounds {
        index: i64,
        of: String,
        lower: i64,
        upper: i128,
    },
    /// Fewer indices than dimensions, in a language whose rows are not contiguous.
    #[error("{of} needs an index for each of its {dimensions} dimensions")]
    TooFewIndices { of: String, dimensions: usize },
    #[error("{of} is not a pointer and cannot be followed")]
    NoPointer { of: String },
    /// A part of a byte has no address.
    #[error("the field `{field}` is {bits} bits of a word: only complete bytes can be read and written")]
    BitField { field: String, bits: u64 },
    /// Only the running program knows where the elements are.
    #[error(
        "{of} is laid out by the running program (an allocatable or a pointer array, or a slice): its elements have no fixed place"
    )]
    Dynamic { of: String },
    /// The debug information does not have its type.
    #[error("the debug information does not have the type of {of}")]
    Unknown { of: String },
    /// The part is beyond the end of the variable according to the symbol table.
    #[error("the steps lead out of the variable, which takes {size} bytes")]
    Outside {
        /// Bytes of the variable.
        size: u64,
    },
    #[error("the steps lead out of the address space")]
    TooFar,
}

/// The type at the end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub of: VariableType,
    /// It is one character, or bytes of a string.
    pub is_char: bool,
    /// Bytes of the string, if it is an array of characters.
    pub text_bytes: Option<u64>,
    /// Its type, in the syntax of the language.
    pub type_name: String,
    /// Its first fields, if it is a struct.
    pub fields: Vec<String>,
}

/// The result of following steps, relative to the address of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trail {
    /// Pointers on the way: each is read at this offset from the target of the one before.
    pub hops: Vec<u64>,
    /// Offset of the part from the target of the last pointer.
    pub offset: u64,
    pub leaf: Leaf,
}

impl Trail {
    /// True if no pointer is on the way: the place is as fixed as that of the value itself.
    pub fn is_fixed(&self) -> bool {
        self.hops.is_empty()
    }
}

/// The two reasons for which a walk ends early.
pub(super) enum WalkEnd {
    Walk(WalkError),
    Damaged(gimli::Error),
}

impl From<gimli::Error> for WalkEnd {
    fn from(error: gimli::Error) -> WalkEnd {
        WalkEnd::Damaged(error)
    }
}

impl From<WalkError> for WalkEnd {
    fn from(error: WalkError) -> WalkEnd {
        WalkEnd::Walk(error)
    }
}

/// The state of a walk.
struct Walk<'v, 'a> {
    view: &'v View<'a>,
    at: EntryRef<'a>,
    hops: Vec<u64>,
    offset: u64,
}

/// Follows the steps from a value of this type, or from its address if it is passed by reference.
pub(super) fn walk<'a>(
    view: &View<'a>,
    from: EntryRef<'a>,
    by_reference: bool,
    steps: &[PathStep],
) -> Result<Trail, WalkEnd> {
    let mut walk = Walk {
        view,
        at: from,
        hops: if by_reference { vec![0] } else { Vec::new() },
        offset: 0,
    };
    let mut steps = steps;
    while let [step, rest @ ..] = steps {
        walk.follow_references()?;
        match step {
            PathStep::Field(name) => walk.field(name)?,
            PathStep::Deref => walk.deref()?,
            PathStep::Index(first) => {
                let further = rest.iter().map_while(|step| match step {
                    PathStep::Index(index) => Some(*index),
                    _ => None,
                });
                let indices: Vec<i64> = std::iter::once(*first).chain(further).collect();
                let taken = walk.index(&indices)?;
                steps = steps.get(taken..).unwrap_or_default();
                continue;
            }
        }
        steps = rest;
    }
    walk.follow_references()?;
    let leaf = walk.leaf()?;
    Ok(Trail {
        hops: walk.hops,
        offset: walk.offset,
        leaf,
    })
}

impl<'a> Walk<'_, 'a> {
    fn text(&self) -> Found<String> {
        self.view.type_text(Some(&self.at))
    }

    fn shape(&self) -> Result<Shape<'a>, WalkEnd> {
        match self.view.shape(&self.at)? {
            Some(shape) => Ok(shape),
            None => Err(WalkError::Unknown { of: self.text()? }.into()),
        }
    }

    fn advance(&mut self, by: u64, to: EntryRef<'a>) -> Result<(), WalkEnd> {
        self.offset = self.offset.checked_add(by).ok_or(WalkError::TooFar)?;
        self.at = to;
        Ok(())
    }

    fn hop(&mut self, to: Option<EntryRef<'a>>) -> Result<(), WalkEnd> {
        let Some(to) = to else {
            return Err(WalkError::NoPointer { of: self.text()? }.into());
        };
        self.hops.push(std::mem::take(&mut self.offset));
        self.at = to;
        Ok(())
    }

    /// A reference is replaced by its target.
    fn follow_references(&mut self) -> Result<(), WalkEnd> {
        for _ in 0..CHAIN_MAX {
            match self.view.shape(&self.at)? {
                Some(Shape::Reference { to, .. }) => self.hop(to)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn deref(&mut self) -> Result<(), WalkEnd> {
        match self.shape()? {
            Shape::Pointer { to, .. } => self.hop(to),
            // As in C, an array decays to its first element.
            Shape::Array(Array {
                element: Some(element),
                is_dynamic: false,
                dimensions,
                ..
            }) if dimensions.len() == 1 => self.advance(0, element),
            _ => Err(WalkError::NoPointer { of: self.text()? }.into()),
        }
    }

    fn field(&mut self, name: &str) -> Result<(), WalkEnd> {
        // C writes `->` through a pointer; debuggers, and users of several languages, write a dot.
        if let Shape::Pointer { to: to @ Some(_), .. } = self.shape()? {
            self.hop(to)?;
            self.follow_references()?;
        }
        let Shape::Struct { place, .. } = self.shape()? else {
            let (field, of) = (name.to_owned(), self.text()?);
            return Err(WalkError::NoStruct { field, of }.into());
        };
        let Some(field) = self.view.field(&place, name)? else {
            return Err(self.no_field(&place, name)?.into());
        };
        if let Some(bits) = field.bits {
            let field = name.to_owned();
            return Err(WalkError::BitField { field, bits }.into());
        }
        self.advance(field.offset, field.of)
    }

    fn no_field(&self, place: &EntryRef<'a>, name: &str) -> Found<WalkError> {
        let names = self.view.field_names(place)?;
        let mut known = names
            .iter()
            .take(LISTED_MAX)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if names.len() > LISTED_MAX {
            known.push_str(&format!(" and {} more", names.len() - LISTED_MAX));
        }
        if names.is_empty() {
            known = "none in the debug information of this file".to_owned();
        }
        Ok(WalkError::NoField {
            field: name.to_owned(),
            of: self.text()?,
            known,
        })
    }

    /// Consumes as many indices as the array has dimensions, and returns their number.
    fn index(&mut self, indices: &[i64]) -> Result<usize, WalkEnd> {
        let [first, ..] = indices else { return Ok(0) };
        let array = match self.shape()? {
            Shape::Array(array) => array,
            Shape::Pointer { to: Some(to), .. } => {
                let size = self.size_of(&to)?;
                let Ok(index) = u64::try_from(*first) else {
                    return Err(WalkError::TooFar.into());
                };
                self.hop(Some(to.clone()))?;
                self.advance(index.checked_mul(size).ok_or(WalkError::TooFar)?, to)?;
                return Ok(1);
            }
            _ => {
                let (index, of) = (*first, self.text()?);
                return Err(WalkError::NoArray { index, of }.into());
            }
        };
        let (Some(element), false) = (array.element.clone(), array.is_dynamic) else {
            return Err(WalkError::Dynamic { of: self.text()? }.into());
        };
        let dimensions = array.dimensions.len();
        if dimensions == 0 || indices.len() < dimensions {
            let of = self.text()?;
            return Err(WalkError::TooFewIndices { of, dimensions }.into());
        }
        let number = self.element_number(&array, indices)?;
        let offset = number.checked_mul(self.size_of(&element)?);
        self.advance(offset.ok_or(WalkError::TooFar)?, element)?;
        Ok(dimensions)
    }

    fn element_number(&self, array: &Array<'a>, indices: &[i64]) -> Result<u64, WalkEnd> {
        let mut pairs: Vec<_> = array.dimensions.iter().zip(indices).collect();
        if array.column_major {
            pairs.reverse();
        }
        let mut number: u64 = 0;
        for (dimension, index) in pairs {
            let into = index
                .checked_sub(dimension.lower)
                .and_then(|into| u64::try_from(into).ok());
            let is_inside = |into: &u64| dimension.count.is_none_or(|count| *into < count);
            let Some(into) = into.filter(is_inside) else {
                return Err(WalkError::OutOfBounds {
                    index: *index,
                    of: self.text()?,
                    lower: dimension.lower,
                    upper: i128::from(dimension.lower) + i128::from(dimension.count.unwrap_or_default()) - 1,
                }
                .into());
            };
            let before = number.checked_mul(dimension.count.unwrap_or(1));
            number = before
                .and_then(|before| before.checked_add(into))
                .ok_or(WalkError::TooFar)?;
        }
        Ok(number)
    }

    fn size_of(&self, place: &EntryRef<'a>) -> Result<u64, WalkEnd> {
        let shape = self.view.shape(place)?;
        let size = shape.map(|shape| self.view.size(&shape)).transpose()?.flatten();
        match size {
            Some(size) => Ok(size),
            None => Err(WalkError::Unknown {
                of: self.view.type_text(Some(place))?,
            }
            .into()),
        }
    }

    fn leaf(&self) -> Result<Leaf, WalkEnd> {
        let shape = self.shape()?;
        let size = self.view.size(&shape)?;
        let type_name = self.text()?;
        let of = VariableType {
            size: size.unwrap_or_default(),
            ..shape.variable_type()
        };
        let (is_char, text_bytes) = match &shape {
            Shape::Scalar { is_char, .. } => (*is_char && of.size == 1, None),
            Shape::Array(array) => {
                let is_text = match &array.element {
                    None => true,
                    Some(element) => matches!(
                        self.view.shape(element)?,
                        Some(Shape::Scalar {
                            is_char: true,
                            size: 1,
                            ..
                        })
                    ),
                };
                (is_text, size.filter(|_| is_text))
            }
            _ => (false, None),
        };
        let mut fields = match &shape {
            Shape::Struct { place, .. } => self.view.field_names(place)?,
            _ => Vec::new(),
        };
        fields.truncate(LISTED_MAX);
        let kind = if of.kind == ValueKind::Pointer && of.size == 0 {
            ValueKind::Compound
        } else {
            of.kind
        };
        Ok(Leaf {
            of: VariableType { kind, ..of },
            is_char,
            text_bytes,
            type_name,
            fields,
        })
    }
}
