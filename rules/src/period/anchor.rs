//! The begin of an iteration, and its recognition in a stream of calls.

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

/// An incremental hash of consecutive calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallHash(u64);

impl Default for CallHash {
    fn default() -> CallHash {
        CallHash(0xcbf2_9ce4_8422_2325)
    }
}

impl CallHash {
    pub(super) fn push(&mut self, site: u64) {
        self.0 = (self.0 ^ site)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    pub(super) fn hash(self) -> u64 {
        self.0
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
                begins = before.is_none_or(|before| before.hash() != *repeat);
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
        let mut row = CallHash::default();
        sites.iter().for_each(|site| row.push(*site));
        row.hash()
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
            .filter(|place| follower.push(&anchor, calls[*place]))
            .collect();
        assert_eq!(begins, [5, 12]);
    }
}
