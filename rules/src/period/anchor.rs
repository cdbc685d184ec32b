//! The begin of an iteration, and its recognition in a stream of calls.

use std::ops::Range;

/// Maximum nesting depth of inner loops whose first call can begin an iteration.
pub(super) const DEPTH: usize = 4;

/// A site. If inner loops repeat it, only its first occurrence begins an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Anchor {
    pub site: u64,
    /// The repetitions of inner loops, innermost first: the hash of the calls of one pass. Reaching the site
    /// again after exactly these calls is a further pass and begins nothing.
    pub repeats: Vec<u64>,
}

/// Base of the hashes: a random odd number.
const BASE: u64 = 0x9e6d_62d0_6f6a_9a9b;

/// A hash of consecutive calls: a polynomial of their sites, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CallHash(u64);

impl CallHash {
    fn push(&mut self, site: u64) {
        // Sites differ in few of their bits.
        let mixed = (site ^ (site >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = self.0.wrapping_mul(BASE).wrapping_add(mixed ^ (mixed >> 32));
    }
}

/// The hashes of all segments of a sequence of calls, each in constant time.
pub(super) struct SegmentHashes {
    /// Of the first calls, none to all.
    firsts: Vec<CallHash>,
    /// Powers of the base.
    powers: Vec<u64>,
}

impl SegmentHashes {
    pub(super) fn new(sites: &[u64]) -> SegmentHashes {
        let (mut hash, mut power) = (CallHash::default(), 1);
        let (mut firsts, mut powers) = (vec![hash], vec![power]);
        for site in sites {
            hash.push(*site);
            firsts.push(hash);
            power = BASE.wrapping_mul(power);
            powers.push(power);
        }
        SegmentHashes { firsts, powers }
    }

    /// The same as that of a follower that takes these calls.
    pub(super) fn of(&self, calls: Range<usize>) -> u64 {
        let (before, all) = (self.firsts[calls.start].0, self.firsts[calls.end].0);
        all.wrapping_sub(before.wrapping_mul(self.powers[calls.len()]))
    }
}

/// Reports the begins of iterations in a stream of calls. It does not know what precedes its first call: the
/// first begin that it reports may be a pass of an inner loop, unless it has been given earlier calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Follower {
    /// The calls since the last begin of each level; `None` before the first.
    rows: [Option<CallHash>; DEPTH],
}

impl Follower {
    /// Handles the next call. True if it begins an iteration.
    pub(super) fn push(&mut self, anchor: &Anchor, site: u64) -> bool {
        let mut begins = site == anchor.site;
        let mut is_known = true;
        for (row, repeat) in self.rows.iter_mut().zip(&anchor.repeats) {
            if begins {
                let before = row.replace(CallHash::default());
                begins = before.is_none_or(|before| before.0 != *repeat);
                is_known &= before.is_some();
            }
            if let Some(row) = row {
                row.push(site);
            }
        }
        begins && is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(sites: &[u64]) -> u64 {
        SegmentHashes::new(sites).of(0..sites.len())
    }

    #[test]
    fn the_first_time_round_of_an_inner_loop_begins_an_iteration_and_no_other() {
        let anchor = Anchor {
            site: 1,
            repeats: vec![hash(&[1, 2])],
        };
        let mut follower = Follower::default();
        let calls = [1, 2, 1, 2, 9, 1, 2, 1, 2, 1, 2, 9, 1, 2];
        let begins: Vec<usize> = (0..calls.len())
            .filter(|index| follower.push(&anchor, calls[*index]))
            .collect();
        assert_eq!(begins, [5, 12]);
    }
}
