//! What MPI calls carry and to which rank, and where a process keeps the structures that identify ranks.
//! Arguments count from 0.

use crate::SharedWord;

/// How the size of an MPI datatype is derived from its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SizeLayout {
    /// Unknown: the call's bytes are counted as unknown.
    Unknown = 0,
    /// The handle points to an object that stores the size as a `size_t` at `size_offset` (Open MPI).
    AtPointer = 1,
    /// The handle of a built-in type contains its size in bits 8 to 15; any other handle identifies an object
    /// (MPICH and its descendants).
    InHandle = 2,
}

impl SizeLayout {
    /// Whether the byte of a record has this value.
    #[inline(always)]
    pub const fn is(self, in_record: u8) -> bool {
        self as u8 == in_record
    }
}

/// How an amount of bytes follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AmountForm {
    /// No amount: 0 bytes.
    None = 0,
    One = 1,
    /// count × size × ranks of the communicator.
    PerRank = 2,
    /// (Sum of the counts, one for each rank of the communicator) × size.
    Counts = 3,
    /// Sum of count × size over the ranks of the communicator.
    CountsAndTypes = 4,
    /// (The caller's own entry in an array with a count for each rank) × size.
    OwnCount = 5,
    /// The size of one element.
    Element = 6,
    /// The amount of the persistent request at the argument.
    Start = 7,
    /// The amounts of the persistent requests in an array (the datatype argument).
    Startall = 8,
    /// No amount; the request at the argument is freed.
    Free = 9,
    Unstated = 10,
}

impl AmountForm {
    /// Whether the byte of a record has this value.
    #[inline(always)]
    pub const fn is(self, in_record: u8) -> bool {
        self as u8 == in_record
    }
}

/// How much a call carries in one direction, and the rank at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Amount {
    /// An [`AmountForm`].
    pub form: u8,
    /// Argument index of the count, or of the array of counts.
    pub count: u8,
    /// Argument index of the datatype, or of the array of datatypes.
    pub datatype: u8,
    /// Argument index of the rank; [`NO_ARGUMENT`] if there is none.
    pub peer: u8,
}

/// Placeholder for an absent argument.
pub const NO_ARGUMENT: u8 = u8::MAX;

impl Amount {
    pub const NONE: Amount = Amount {
        form: AmountForm::None as u8,
        count: NO_ARGUMENT,
        datatype: NO_ARGUMENT,
        peer: NO_ARGUMENT,
    };
}

impl Default for Amount {
    fn default() -> Amount {
        Amount::NONE
    }
}

/// Direction of a point-to-point call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// Not between a pair of ranks.
    None = 0,
    /// The amount goes to its peer.
    Sent = 1,
    /// The amount comes from its peer.
    Received = 2,
    /// The amount goes to its peer, the other amount comes from the other peer.
    Both = 3,
}

impl Flow {
    /// Whether the byte of a record has this value.
    #[inline(always)]
    pub const fn is(self, in_record: u8) -> bool {
        self as u8 == in_record
    }
}

/// How to read what a call carries from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct MessageSpec {
    /// A [`SizeLayout`].
    pub layout: u8,
    /// Width of counts in bytes: 4, or 8 for the large-count functions.
    pub count_width: u8,
    /// Offset of the size in the datatype's object, in bytes, for [`SizeLayout::AtPointer`].
    pub size_offset: u16,
    /// The amount that counts as the call's bytes.
    pub amount: Amount,
    /// For [`Flow::Both`] the receiving half; otherwise the amount if `buffer` is MPI_IN_PLACE.
    pub other: Amount,
    /// A [`Flow`].
    pub flow: u8,
    /// Argument index of the buffer that may be MPI_IN_PLACE; [`NO_ARGUMENT`] if that makes no difference.
    pub buffer: u8,
    /// Argument index of the communicator.
    pub comm: u8,
    /// Argument index of the pointer to the status that contains the source of a message.
    pub status: u8,
    /// Argument index of the pointer to the result that a later call uses: a persistent request, which
    /// carries its amount at each start, or a matched message, which carries it when it is received.
    pub template: u8,
    /// Argument index of the pointer to a message that an earlier call matched.
    pub found: u8,
    /// Its row in the size histograms of a process; [`MessageSpec::NO_ROW`] if there is none.
    pub row: u16,
}

impl MessageSpec {
    /// No sizes are counted.
    pub const NO_ROW: u16 = u16::MAX;
    /// The address of MPI_IN_PLACE with [`SizeLayout::AtPointer`] (Open MPI).
    pub const IN_PLACE_AT_POINTER: u64 = 1;
    /// The address of MPI_IN_PLACE with [`SizeLayout::InHandle`] (MPICH and its descendants).
    pub const IN_PLACE_IN_HANDLE: u64 = u64::MAX;
}

/// Carries nothing and reads no argument. All zeros would refer to the first argument everywhere.
impl Default for MessageSpec {
    fn default() -> MessageSpec {
        MessageSpec {
            layout: SizeLayout::Unknown as u8,
            count_width: 4,
            size_offset: 0,
            amount: Amount::NONE,
            other: Amount::NONE,
            flow: Flow::None as u8,
            buffer: NO_ARGUMENT,
            comm: NO_ARGUMENT,
            status: NO_ARGUMENT,
            template: NO_ARGUMENT,
            found: NO_ARGUMENT,
            row: MessageSpec::NO_ROW,
        }
    }
}

/// Objects of one kind to which integer handles refer. All zeros if their location is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Objects {
    /// Address of the array of the first objects.
    pub direct: u64,
    /// Address of the pointer to the table of blocks that contain all other objects.
    pub blocks: u64,
    /// Number of objects in the first array.
    pub direct_count: u32,
    /// Distance between objects in bytes; 0 if their location is unknown.
    pub step: u32,
}

/// Maps the ranks of a communicator to processes, as in communicators of MPICH's device ch4 until 4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct RankMap {
    /// One of the constants below. An even constant plus 1 is the same mode within the table of the world.
    pub mode: u32,
    /// The table that the numbers index: table 0 contains the world's processes in the order of their ranks.
    pub table: u32,
    pub size: u32,
    pub offset: u32,
    /// Distance from one rank, or one block, to the next.
    pub stride: u32,
    /// Ranks in a block.
    pub block: u32,
    /// The object that owns the list.
    pub owner: u64,
    /// Address of the list of numbers.
    pub list: u64,
}

impl RankMap {
    /// The rank is the number.
    pub const DIRECT: u32 = 0;
    pub const OFFSET: u32 = 2;
    /// Words of one entry: offset and stride.
    pub const STRIDE: u32 = 4;
    /// Offset and stride of blocks of ranks.
    pub const BLOCKS: u32 = 6;
    /// A list of numbers.
    pub const LIST: u32 = 8;
    /// A list of tables and numbers.
    pub const LIST_OF_BOTH: u32 = 10;
    pub const NONE: u32 = 11;
    /// Set if all numbers index the world's table.
    pub const OF_WORLD: u32 = 1;
}

/// A process in its MPI world: the data that translates a rank of another communicator to a world rank. All
/// zeros if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct World {
    /// The handle of MPI_COMM_WORLD.
    pub comm: u64,
    /// The handle of MPI_COMM_SELF if communicators are not read; else 0.
    pub own: u64,
    pub rank: u32,
    /// Ranks of the world; 0 if unknown.
    pub size: u32,
    /// The job of the world's processes, as it appears in their records.
    pub job: u32,
    pub proc_null: i32,
    pub any_source: i32,
    /// Offset of the source in a status, in bytes. The offsets below are in bytes, too.
    pub status_source: u16,
    /// 1 if handles are 4-byte integers.
    pub handles: u16,
    /// Offset of the group of the other ends in a communicator; 0 if structures are not read.
    pub comm_group: u16,
    /// Offset of the size in a group.
    pub group_size: u16,
    /// Offset of the caller's rank in a group.
    pub group_rank: u16,
    /// Offset of the pointer to the process records in a group.
    pub group_procs: u16,
    /// Offset of the job in a process record.
    pub proc_job: u16,
    /// Offset of the world rank in a process record.
    pub proc_rank: u16,
    /// An odd record address is a sentinel, with the rank above this number of bits; 0 if there are none.
    pub sentinel_shift: u16,
    pub zero: u16,
    /// Offset of the number of other ends in a communicator's object.
    pub comm_size: u16,
    /// Offset of the caller's rank in a communicator's object.
    pub comm_rank: u16,
    /// Offset of the [`RankMap`] in a communicator's object.
    pub comm_map: u16,
    /// Offset of the size in a datatype's object.
    pub type_size: u16,
    /// The communicators that handles refer to. Words are written in order: if `comms.step` is set, so are
    /// all words before it.
    pub comms: Objects,
    pub types: Objects,
}

/// Messages between a process and one rank, in one direction. Updated with atomic additions.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Pair {
    pub messages: SharedWord,
    /// Bytes of the messages whose size is known.
    pub bytes: SharedWord,
}

impl Pair {
    /// Set in the low half of a key if the messages come from the rank.
    pub const RECEIVED: u32 = 1 << 31;
    /// Stands for an unknown rank.
    pub const UNRESOLVED: u32 = Pair::RECEIVED - 1;

    /// The key: slot of the process, direction, rank.
    pub const fn key(process: u32, is_received: bool, rank: u32) -> u64 {
        let direction = if is_received { Pair::RECEIVED } else { 0 };
        (process as u64) << 32 | (direction | rank) as u64
    }
}

/// What a persistent request, or a matched message, carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Template {
    /// Bytes; [`UNKNOWN_BYTES`] if unknown.
    pub bytes: u64,
    /// The low half of the key of its [`Pair`].
    pub pair: u32,
    /// 1 if it has a pair; 0 if the other end is MPI_PROC_NULL.
    pub has_pair: u32,
}

pub const UNKNOWN_BYTES: u64 = u64::MAX;

/// What remains to be read when a thread's outermost call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Pending {
    /// [`Pending::NOTHING`], [`Pending::SOURCE`] or [`Pending::REQUEST`].
    pub what: u64,
    /// Address at which the request, or the matched message, will be stored.
    pub place: u64,
    /// Address of the status that will contain the source; 0 if there is none.
    pub status: u64,
    pub comm: u64,
    pub template: Template,
}

impl Pending {
    pub const NOTHING: u64 = 0;
    /// Read the source of the message.
    pub const SOURCE: u64 = 1;
    /// Read the handle of the persistent request or of the matched message.
    pub const REQUEST: u64 = 2;
}

const _: () = assert!(size_of::<Amount>() == 4);
const _: () = assert!(size_of::<MessageSpec>() == 20);
const _: () = assert!(size_of::<Objects>() == 24);
const _: () = assert!(size_of::<RankMap>() == 40);
const _: () = assert!(size_of::<World>() == 112);
const _: () = assert!(size_of::<Pair>() == 16);
const _: () = assert!(size_of::<Template>() == 16);
const _: () = assert!(size_of::<Pending>() == 48);
