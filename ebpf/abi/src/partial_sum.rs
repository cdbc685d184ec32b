//! Aggregates of hits that are not needed one by one: the rule for the kernel side, and what it keeps.

use crate::SUMMED_MAX;

/// An integer at a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SumValue {
    /// Which capture of the spec, [`SumValue::DURATION`], or [`SumValue::NOTHING`], which is 0, and as a key
    /// the number of the epoch: how often a hit that parts aggregates ([`crate::SpecFlags::PARTS`]) was sent
    /// of the process.
    pub place: u8,
    /// How many of the upper bits of what was captured have no meaning.
    pub shift: u8,
    /// 1 when the uppermost of the others is a sign.
    pub is_signed: u8,
    pub zero: u8,
}

impl SumValue {
    /// How long the call took.
    pub const DURATION: u8 = 0xfe;
    /// No value of the hit.
    pub const NOTHING: u8 = 0xff;

    /// What is in a place, all bits of it and without a sign.
    pub const fn plain(place: u8) -> SumValue {
        SumValue {
            place,
            shift: 0,
            is_signed: 0,
            zero: 0,
        }
    }
}

/// What is added up of a probe's hits instead of sending each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SumRule {
    /// Which of the cells of a process, counted from 1; 0 adds nothing up.
    pub number: u16,
    /// How many of `of` have a meaning.
    pub values: u16,
    /// Hits with the same one go together.
    pub key: SumValue,
    /// What is added up.
    pub of: [SumValue; SUMMED_MAX],
}

impl SumRule {
    /// Durations of calls, for each epoch; without a number.
    pub const DURATIONS: SumRule = {
        let mut of = [SumValue::plain(SumValue::NOTHING); SUMMED_MAX];
        of[0] = SumValue::plain(SumValue::DURATION);
        SumRule {
            number: 0,
            values: 1,
            key: SumValue::plain(SumValue::NOTHING),
            of,
        }
    };
}

/// What came of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ValueSums {
    /// The lower half of the sum, a number of 128 bits with a sign.
    pub sum_low: u64,
    pub sum_high: u64,
    /// The lower half of the sum of the squares.
    pub squares_low: u64,
    pub squares_high: u64,
    pub least: i64,
    pub greatest: i64,
}

/// The aggregate of hits of one probe in one process with the same key. A process has two such cells for each
/// probe, for odd keys and for even ones, so that one is read while the other fills. When another key needs a
/// cell, its content is sent as it is: its size distinguishes it from a [`crate::HitRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SumCell {
    /// Odd while it is being written; another one afterwards.
    pub version: u64,
    /// How many keys have had the cell.
    pub generation: u64,
    /// The key, a number with a sign.
    pub key: u64,
    pub count: u64,
    /// When the first was added.
    pub first_ns: u64,
    /// When the last was added.
    pub last_ns: u64,
    /// Index of their [`crate::ProbeSpec`].
    pub probe: u32,
    pub process: u32,
    /// [`SumRule::number`] by which it was added up.
    pub number: u64,
    pub sums: [ValueSums; SUMMED_MAX],
}

const _: () = assert!(size_of::<SumRule>() == 8 + SUMMED_MAX * size_of::<SumValue>());
const _: () = assert!(size_of::<SumCell>() == 64 + SUMMED_MAX * size_of::<ValueSums>());
const _: () = assert!(
    size_of::<SumCell>() != size_of::<crate::HitRecord>()
        && size_of::<SumCell>() != crate::HitRecord::SHORT_BYTES
);
const _: () = assert!(size_of::<SumCell>() != size_of::<crate::TextRecord>());
