//! Aggregates of hits that need not be sent individually: the rule for the kernel side, and its cells.

use crate::{SUMMED_MAX, SharedWord};

/// An integer value of a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SumValue {
    /// The index of a capture of the spec, [`SumValue::DURATION`], or [`SumValue::NOTHING`]. The latter is 0
    /// as a value; as a key it is the number of the epoch: how many hits with [`crate::SpecFlags::PARTS`]
    /// were sent of the process.
    pub place: u8,
    /// Number of upper bits of the captured word to discard.
    pub shift: u8,
    /// 1 if the highest remaining bit is a sign.
    pub is_signed: u8,
    pub zero: u8,
}

impl SumValue {
    /// The duration of the call.
    pub const DURATION: u8 = 0xfe;
    /// No value of the hit.
    pub const NOTHING: u8 = 0xff;

    /// A value with all its bits, unsigned.
    pub const fn plain(place: u8) -> SumValue {
        SumValue {
            place,
            shift: 0,
            is_signed: 0,
            zero: 0,
        }
    }
}

/// What is aggregated of a probe's hits instead of sending each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SumSpec {
    /// Number of the cell within a process, counted from 1; 0 disables aggregation.
    pub number: u16,
    /// How many elements of `of` are used.
    pub values: u16,
    /// Hits with the same key are aggregated together.
    pub key: SumValue,
    /// The values to aggregate.
    pub of: [SumValue; SUMMED_MAX],
}

impl SumSpec {
    /// Aggregates durations of calls for each epoch; without a number.
    pub const DURATIONS: SumSpec = {
        let mut of = [SumValue::plain(SumValue::NOTHING); SUMMED_MAX];
        of[0] = SumValue::plain(SumValue::DURATION);
        SumSpec {
            number: 0,
            values: 1,
            key: SumValue::plain(SumValue::NOTHING),
            of,
        }
    };
}

/// The aggregate of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ValueSums {
    /// The lower half of the sum, a signed number of 128 bits.
    pub sum_low: u64,
    pub sum_high: u64,
    /// The lower half of the sum of squares.
    pub squares_low: u64,
    pub squares_high: u64,
    pub least: i64,
    pub greatest: i64,
}

/// The aggregate of the hits of one probe in one process with the same key. A process has two such cells for
/// each probe, for odd and for even keys, so one can be read while the other fills. When another key needs a
/// cell, the cell is sent as it is: its size distinguishes it from a [`crate::HitRecord`].
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct SumCell {
    /// Odd while the cell is being written. Every write changes it.
    pub version: SharedWord,
    /// How many keys have used the cell.
    pub generation: u64,
    pub key: u64,
    pub count: u64,
    /// Time of the first hit.
    pub first_ns: u64,
    /// Time of the last hit.
    pub last_ns: u64,
    /// Index of the hits' [`crate::ProbeSpec`].
    pub probe: u32,
    pub process: u32,
    /// The [`SumSpec::number`] of the spec that applied.
    pub number: u64,
    pub sums: [ValueSums; SUMMED_MAX],
}

const _: () = assert!(size_of::<SumSpec>() == 8 + SUMMED_MAX * size_of::<SumValue>());
const _: () = assert!(size_of::<SumCell>() == 64 + SUMMED_MAX * size_of::<ValueSums>());
const _: () = assert!(
    size_of::<SumCell>() != size_of::<crate::HitRecord>()
        && size_of::<SumCell>() != crate::HitRecord::SHORT_BYTES
);
const _: () = assert!(size_of::<SumCell>() != size_of::<crate::TextRecord>());
