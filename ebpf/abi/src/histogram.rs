//! Histograms by powers of two, of message sizes and of call durations: buckets and stored rows.

use crate::SharedWord;

/// A row of counts of a process. A histogram has one or several adjacent rows. Updated with atomic additions.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "bpf"), derive(Clone, Copy, PartialEq, Eq))]
#[repr(C)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Row {
    pub counts: [SharedWord; Row::BUCKETS],
}

impl Row {
    /// A power of two: the kernel side masks the bucket with it.
    pub const BUCKETS: usize = 32;
}

/// Histogram of the sizes of the messages that a process passed to one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes;

impl Sizes {
    pub const ROWS: u32 = 1;

    /// Bucket 0 counts 0 bytes, bucket n more than 2^(n-2) up to 2^(n-1) bytes, the last one the rest.
    pub const BUCKETS: usize = Sizes::ROWS as usize * Row::BUCKETS;

    /// The greatest size that a bucket counts, in bytes; `None` for the last bucket.
    pub const fn greatest(bucket: usize) -> Option<u64> {
        match bucket {
            0 => Some(0),
            bucket if bucket + 1 < Sizes::BUCKETS => Some(1 << (bucket - 1)),
            _ => None,
        }
    }

    pub const fn bucket(bytes: u64) -> usize {
        if bytes < 2 {
            return bytes as usize;
        }
        // Branch-free: the kernel's verifier would follow each branch.
        let bits = (u64::BITS - (bytes - 1).leading_zeros()) as usize;
        let bucket = bits + 1;
        if bucket < Sizes::BUCKETS {
            bucket
        } else {
            Sizes::BUCKETS - 1
        }
    }
}

/// Histogram of the durations of a process's calls of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations;

impl Durations {
    pub const ROWS: u32 = 2;

    /// Bucket 0 counts 0 and 1 ns, bucket n from 2^n to less than 2^(n+1) ns.
    pub const BUCKETS: usize = Durations::ROWS as usize * Row::BUCKETS;

    /// The least duration that a bucket counts, in nanoseconds.
    pub const fn least_ns(bucket: usize) -> u64 {
        if bucket == 0 { 0 } else { 1 << bucket }
    }

    pub const fn bucket(duration_ns: u64) -> usize {
        (u64::BITS - 1 - (duration_ns | 1).leading_zeros()) as usize
    }
}

const _: () = assert!(size_of::<Row>() == 8 * Row::BUCKETS);
const _: () = assert!(Row::BUCKETS.is_power_of_two());
const _: () =
    assert!(Sizes::bucket(0) == 0 && Sizes::bucket(1) == 1 && Sizes::bucket(2) == 2 && Sizes::bucket(3) == 3);
const _: () = assert!(
    Sizes::bucket(4) == 3
        && Sizes::bucket(5) == 4
        && Sizes::bucket(1 << 29) == 30
        && Sizes::bucket(u64::MAX) == 31
);
const _: () = assert!(Durations::bucket(0) == 0 && Durations::bucket(1) == 0 && Durations::bucket(2) == 1);
const _: () = assert!(
    Durations::bucket(1023) == 9
        && Durations::bucket(1024) == 10
        && Durations::bucket(u64::MAX) == Durations::BUCKETS - 1
);
