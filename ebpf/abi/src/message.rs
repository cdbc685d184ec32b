//! What MPI calls carry, to which rank, and where a process keeps what identifies it. Numbers of arguments
//! count from 0.

/// How the size of an MPI datatype is found from the handle that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SizeLayout {
    /// It is not known: the call's bytes are counted as unknown.
    Unknown = 0,
    /// The handle points to an object that holds the size as a `size_t` at `size_offset` (Open MPI).
    AtPointer = 1,
    /// The handle of a built-in type carries its size in bits 8 to 15, that of any other names its object
    /// (MPICH and its descendants).
    InHandle = 2,
}

impl SizeLayout {
    /// Whether a record says this.
    #[inline(always)]
    pub const fn is(self, in_record: u8) -> bool {
        self as u8 == in_record
    }
}

/// How an amount follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AmountForm {
    /// There is none: 0 bytes.
    None = 0,
    One = 1,
    /// count × size × ranks of the communicator.
    PerRank = 2,
    /// The sum of a count for each rank of the communicator, × size.
    Counts = 3,
    /// The sum of count × size over the ranks of the communicator.
    CountsAndTypes = 4,
    /// Of a count for each rank the caller's own, × size.
    OwnCount = 5,
    /// The size of one element.
    Element = 6,
    /// What the persistent request at the argument was made for.
    Start = 7,
    /// What the persistent requests of an array (the argument of the datatype) were made for.
    Startall = 8,
    /// None, and the request at the argument is no more.
    Free = 9,
    Unstated = 10,
}

impl AmountForm {
    /// Whether a record says this.
    #[inline(always)]
    pub const fn is(self, in_record: u8) -> bool {
        self as u8 == in_record
    }
}

/// How much a call carries one way, and the rank at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Amount {
    /// A [`AmountForm`].
    pub form: u8,
    /// Which argument is the count, or the array of counts.
    pub count: u8,
    /// Which argument is the datatype, or the array of them.
    pub datatype: u8,
    /// Which argument is the rank; [`NO_ARGUMENT`] without one.
    pub peer: u8,
}

/// Stands where no argument does.
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

/// Between whom a call carries what it does, point to point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// No pair of ranks.
    None = 0,
    /// The amount goes to its peer.
    Sent = 1,
    /// The amount comes from its peer.
    Received = 2,
    /// The amount goes to its peer, the other amount comes from its own.
    Both = 3,
}

impl Flow {
    /// Whether a record says this.
    #[inline(always)]
    pub const fn is(self, in_record: u8) -> bool {
        self as u8 == in_record
    }
}

/// What a call carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct MessageRule {
    /// A [`SizeLayout`].
    pub layout: u8,
    /// Width of counts in bytes: 4, or 8 for the large-count functions.
    pub count_width: u8,
    /// Where the size stands in the datatype's object, in bytes, for [`SizeLayout::AtPointer`].
    pub size_offset: u16,
    /// What the call's bytes are.
    pub amount: Amount,
    /// The other half of a [`Flow::Both`]; else what the bytes are when `buffer` says MPI_IN_PLACE.
    pub other: Amount,
    /// A [`Flow`].
    pub flow: u8,
    /// Which argument is the buffer that may be MPI_IN_PLACE; [`NO_ARGUMENT`] when that changes nothing.
    pub buffer: u8,
    /// Which argument is the communicator.
    pub comm: u8,
    /// Which argument points to the status that says from whom a message came.
    pub status: u8,
    /// Which argument points to what the call makes for a later one: a persistent request, whose start
    /// carries what it was made for, or a message that was found, whose receiving carries it.
    pub template: u8,
    /// Which argument points to the message that an earlier call found.
    pub found: u8,
    /// Its row in the sizes of a process; [`MessageRule::NO_ROW`] without one.
    pub row: u16,
}

impl MessageRule {
    /// No sizes are kept.
    pub const NO_ROW: u16 = u16::MAX;
    /// The address that means "in place" with [`SizeLayout::AtPointer`] (Open MPI).
    pub const IN_PLACE_AT_POINTER: u64 = 1;
    /// The address that means "in place" with [`SizeLayout::InHandle`] (MPICH and its descendants).
    pub const IN_PLACE_IN_HANDLE: u64 = u64::MAX;
}

/// Nothing is carried, and no argument named: a rule of zeros would name the first one everywhere.
impl Default for MessageRule {
    fn default() -> MessageRule {
        MessageRule {
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
            row: MessageRule::NO_ROW,
        }
    }
}

/// Objects that handles of one kind stand for, where those are integers. All zeros: it is not known where
/// they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Objects {
    /// Where the first of them lie, side by side.
    pub direct: u64,
    /// Where the address of the table of blocks stands, in which all others lie.
    pub blocks: u64,
    /// How many the first are.
    pub direct_count: u32,
    /// Bytes from one to the next; 0 when it is not known where they lie.
    pub step: u32,
}

/// Whom the ranks of a communicator mean, as MPICH's device ch4 keeps it in the communicator until 4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct RankMap {
    /// One of the constants; the one above an even constant means the same within the table of the world.
    pub mode: u32,
    /// The table that the numbers are of: 0 has the world's processes, in the order of their ranks.
    pub table: u32,
    pub size: u32,
    pub offset: u32,
    /// From one rank, or from one block, to the next.
    pub stride: u32,
    /// Ranks in a block.
    pub block: u32,
    /// The object that has the list.
    pub owner: u64,
    /// The list of numbers.
    pub list: u64,
}

impl RankMap {
    /// Each rank is its number.
    pub const DIRECT: u32 = 0;
    pub const OFFSET: u32 = 2;
    /// With an offset and a stride.
    pub const STRIDE: u32 = 4;
    /// The same for blocks of ranks.
    pub const BLOCKS: u32 = 6;
    /// There is a list of numbers.
    pub const LIST: u32 = 8;
    /// There is a list of tables and numbers.
    pub const LIST_OF_BOTH: u32 = 10;
    pub const NONE: u32 = 11;
    /// Set where all are of the world's table.
    pub const OF_WORLD: u32 = 1;
}

/// A process in its MPI world: what is needed to translate a rank of another communicator to the world's. All
/// zeros: nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct World {
    /// The handle of MPI_COMM_WORLD.
    pub comm: u64,
    /// The handle of MPI_COMM_SELF where its structures are not read; else 0.
    pub own: u64,
    pub rank: u32,
    /// Ranks of the world; 0 when that is not known.
    pub size: u32,
    /// The job that the world's processes belong to, as their records name it.
    pub job: u32,
    pub proc_null: i32,
    pub any_source: i32,
    /// Where a status has the source, in bytes.
    pub status_source: u16,
    /// 1 when handles are integers of four bytes.
    pub handles: u16,
    /// Where a communicator has the group of its other ends; 0 when structures are not read.
    pub comm_group: u16,
    /// Where a group has its size.
    pub group_size: u16,
    /// Where it has the caller's rank.
    pub group_rank: u16,
    /// Where it has the address of the records of its processes.
    pub group_procs: u16,
    /// Where such a record names the job.
    pub proc_job: u16,
    /// Where it has the rank in the world.
    pub proc_rank: u16,
    /// An odd address of a record is none, but has the rank above these bits; 0 when that is not so.
    pub sentinel_shift: u16,
    pub zero: u16,
    /// Where the object of a communicator has how many the other ends are.
    pub comm_size: u16,
    /// Where it has the caller's rank.
    pub comm_rank: u16,
    /// Where it has its [`RankMap`].
    pub comm_map: u16,
    /// Where the object of a datatype has its size.
    pub type_size: u16,
    /// The communicators that handles stand for. Last, and its step last of it: what stands before it is
    /// there when this is.
    pub comms: Objects,
    pub types: Objects,
}

/// Messages of one process to or from one rank. Updated with atomic additions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Pair {
    pub messages: u64,
    /// Their bytes, of those whose bytes are known.
    pub bytes: u64,
}

impl Pair {
    /// Set in the low half of a key when the messages come from the rank.
    pub const RECEIVED: u32 = 1 << 31;
    /// The rank if it is unknown.
    pub const UNRESOLVED: u32 = Pair::RECEIVED - 1;

    /// The key: slot of the process, direction, rank.
    pub const fn key(process: u32, is_received: bool, rank: u32) -> u64 {
        let direction = if is_received { Pair::RECEIVED } else { 0 };
        (process as u64) << 32 | (direction | rank) as u64
    }
}

/// What a persistent request was made for, or a message that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Template {
    /// Bytes; [`UNKNOWN_BYTES`] when they are not known.
    pub bytes: u64,
    /// The low half of the key of its [`Pair`].
    pub pair: u32,
    /// 1 when it has a pair: not when the other end is MPI_PROC_NULL.
    pub has_pair: u32,
}

/// Bytes that are unknown.
pub const UNKNOWN_BYTES: u64 = u64::MAX;

/// What is still to be learned of a call when it returns; of the outermost call of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Pending {
    /// [`Pending::NOTHING`], [`Pending::SOURCE`] or [`Pending::REQUEST`].
    pub what: u64,
    /// Where the request, or the message that was found, will stand.
    pub place: u64,
    /// The status that will say from whom it came; 0 without one.
    pub status: u64,
    pub comm: u64,
    pub template: Template,
}

impl Pending {
    pub const NOTHING: u64 = 0;
    /// From whom the message came.
    pub const SOURCE: u64 = 1;
    /// Which persistent request was made, or which message was found.
    pub const REQUEST: u64 = 2;
}

const _: () = assert!(size_of::<Amount>() == 4);
const _: () = assert!(size_of::<MessageRule>() == 20);
const _: () = assert!(size_of::<Objects>() == 24);
const _: () = assert!(size_of::<RankMap>() == 40);
const _: () = assert!(size_of::<World>() == 112);
const _: () = assert!(size_of::<Pair>() == 16);
const _: () = assert!(size_of::<Template>() == 16);
const _: () = assert!(size_of::<Pending>() == 48);
