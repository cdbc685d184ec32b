//! What the kernel side adds up of hits of which nobody asks for one: what is told it, and what it keeps.

use crate::MAX_TALLIED;

/// A whole number at a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct TallyValue {
    /// Which capture of the spec, [`TallyValue::DURATION`], or [`TallyValue::NOTHING`], which is 0, and as a key the number of the stretch:
    /// how often a hit that parts tallies ([`crate::SpecFlags::PARTS`]) was sent of the process.
    pub place: u8,
    /// How many of the upper bits of what was captured have no meaning.
    pub shift: u8,
    /// 1 when the uppermost of the others is a sign.
    pub is_signed: u8,
    /// Zero.
    pub zero: u8,
}

impl TallyValue {
    /// How long the call took.
    pub const DURATION: u8 = 0xfe;
    /// No value of the hit.
    pub const NOTHING: u8 = 0xff;

    /// What is in a place, all bits of it and without a sign.
    pub const fn plain(place: u8) -> TallyValue {
        TallyValue {
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
pub struct TallyRule {
    /// Which of the cells of a process, counted from 1; 0 adds nothing up.
    pub number: u16,
    /// How many of `of` have a meaning.
    pub values: u16,
    /// Hits with the same one go together.
    pub key: TallyValue,
    /// What is added up.
    pub of: [TallyValue; MAX_TALLIED],
}

impl TallyRule {
    /// What calls took, of each stretch; without a number.
    pub const DURATIONS: TallyRule = {
        let mut of = [TallyValue::plain(TallyValue::NOTHING); MAX_TALLIED];
        of[0] = TallyValue::plain(TallyValue::DURATION);
        TallyRule {
            number: 0,
            values: 1,
            key: TallyValue::plain(TallyValue::NOTHING),
            of,
        }
    };
}

/// What came of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct TallySums {
    /// The lower half of the sum, a number of 128 bits with a sign.
    pub sum_low: u64,
    /// The upper half.
    pub sum_high: u64,
    /// The lower half of the sum of the squares.
    pub squares_low: u64,
    /// The upper half.
    pub squares_high: u64,
    /// The least value.
    pub least: i64,
    /// The greatest value.
    pub greatest: i64,
}

/// What came of hits of one probe in one process with the same key. A process has two such cells for each probe, for odd keys and
/// for even ones, so that one is read while the other fills. When another key needs a cell, what is in it is sent as it is: of another
/// size than a [`crate::Hit`], by which it is told from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Tally {
    /// Odd while it is being written; another one afterwards.
    pub version: u64,
    /// How many keys have had the cell.
    pub generation: u64,
    /// The key, a number with a sign.
    pub key: u64,
    /// How many hits.
    pub count: u64,
    /// When the first was added.
    pub first_ns: u64,
    /// When the last was added.
    pub last_ns: u64,
    /// Index of their [`crate::ProbeSpec`].
    pub probe: u32,
    /// The process's slot.
    pub process: u32,
    /// [`TallyRule::number`] by which it was added up.
    pub number: u64,
    /// Of each value.
    pub sums: [TallySums; MAX_TALLIED],
}

const _: () = assert!(size_of::<TallyRule>() == 8 + MAX_TALLIED * size_of::<TallyValue>());
const _: () = assert!(size_of::<Tally>() == 64 + MAX_TALLIED * size_of::<TallySums>());
const _: () =
    assert!(size_of::<Tally>() != size_of::<crate::Hit>() && size_of::<Tally>() != crate::Hit::SHORT_BYTES);
const _: () = assert!(size_of::<Tally>() != size_of::<crate::Text>());
