//! What the kernel side adds up of hits instead of sending each, read while it goes on. What it means is not known here.

use std::collections::BTreeMap;

use abi::Tally;

use super::object::Kernel;

/// How often a cell is looked at that is being written: a write takes a fraction of a microsecond, unless its thread is interrupted.
const LOOKS: usize = 200;

/// A cell: the slot of a process, the number of what is added up, and 0 or 1.
type Cell = (u32, u16, u8);

/// What was read of what the kernel side adds up.
#[derive(Debug, Default)]
pub struct Tallies {
    /// The version of each cell when it was read, by its place.
    versions: Vec<u64>,
    /// What was taken of each key that had a cell, until it is all.
    taken: BTreeMap<(Cell, u64), Tally>,
}

impl Tallies {
    /// What has come to the cells of a process since they were read; none where one is being written.
    pub fn read(&mut self, kernel: &Kernel, slot: u32, number: u16) -> Option<Vec<Tally>> {
        let mut out = Vec::new();
        for odd in 0..2 {
            let cell = (slot, number, odd);
            let Some(place) = kernel.tally_place(cell) else {
                continue;
            };
            if self.versions.len() <= place {
                self.versions.resize(place + 1, 0);
            }
            if kernel.tally_version(place) == Some(self.versions[place]) {
                continue;
            }
            let tally = (0..LOOKS).find_map(|_| {
                std::hint::spin_loop();
                kernel.tally(place)
            })?;
            self.versions[place] = tally.version;
            out.extend(self.more(cell, tally));
        }
        Some(out)
    }

    /// What has come to a cell that the kernel side hands over for good.
    pub fn hand_over(&mut self, tally: Tally, number: u16) -> Option<Tally> {
        let cell = (tally.process, number, (tally.key & 1) as u8);
        let more = self.more(cell, tally);
        // Those before it were handed over too, or lost.
        let over = (cell, 0)..=(cell, tally.generation);
        let over: Vec<(Cell, u64)> = self.taken.range(over).map(|(of, _)| *of).collect();
        over.iter().for_each(|of| {
            self.taken.remove(of);
        });
        more
    }

    /// What has come since it was taken last, if anything has.
    fn more(&mut self, cell: Cell, tally: Tally) -> Option<Tally> {
        let before = self.taken.insert((cell, tally.generation), tally);
        let more = before.map_or(tally, |before| since(tally, &before));
        (more.count > 0).then_some(more)
    }
}

/// What was added to a cell. Its extremes and its first hit are those of all it has.
fn since(mut tally: Tally, before: &Tally) -> Tally {
    tally.count = tally.count.saturating_sub(before.count);
    for (sums, before) in tally.sums.iter_mut().zip(&before.sums) {
        (sums.sum_low, sums.sum_high) =
            difference((sums.sum_low, sums.sum_high), (before.sum_low, before.sum_high));
        (sums.squares_low, sums.squares_high) = difference(
            (sums.squares_low, sums.squares_high),
            (before.squares_low, before.squares_high),
        );
    }
    tally
}

fn difference(of: (u64, u64), less: (u64, u64)) -> (u64, u64) {
    let whole = |(low, high): (u64, u64)| u128::from(high) << 64 | u128::from(low);
    let left = whole(of).wrapping_sub(whole(less));
    (left as u64, (left >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(generation: u64, count: u64, sum: u64) -> Tally {
        let mut tally = Tally {
            generation,
            count,
            key: 6,
            process: 3,
            ..Tally::default()
        };
        tally.sums[0].sum_low = sum;
        tally.sums[0].sum_high = if sum > u64::MAX / 2 { u64::MAX } else { 0 };
        tally
    }

    #[test]
    fn each_hit_is_taken_once_whether_its_cell_is_read_or_handed_over() {
        let mut tallies = Tallies::default();
        let cell = (3, 1, 0);
        let taken = |more: Option<Tally>| more.map(|more| (more.count, more.sums[0].sum_low));
        assert_eq!(taken(tallies.more(cell, tally(1, 4, 40))), Some((4, 40)));
        assert_eq!(taken(tallies.more(cell, tally(1, 4, 40))), None);
        // The next key has the cell already when the first is handed over.
        assert_eq!(taken(tallies.more(cell, tally(2, 1, 7))), Some((1, 7)));
        assert_eq!(taken(tallies.hand_over(tally(1, 6, 50), 1)), Some((2, 10)));
        assert_eq!(taken(tallies.hand_over(tally(2, 1, 7), 1)), None);
        assert_eq!(taken(tallies.hand_over(tally(3, 2, 9), 1)), Some((2, 9)));
        assert!(tallies.taken.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn sums_with_a_sign_are_told_apart() {
        let negative = (-5i64) as u64;
        let more = since(tally(1, 3, negative), &tally(1, 1, 2));
        assert_eq!(
            (more.sums[0].sum_low as i64, more.sums[0].sum_high),
            (-7, u64::MAX)
        );
    }
}
