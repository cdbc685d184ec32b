//! Reads the partial sums of hits that the kernel side aggregates while it continues: returns the change
//! since the last read. This module does not interpret them.

use std::collections::BTreeMap;

use abi::SumCell;

use super::object::Kernel;

/// Attempts to read a cell that is being written: a write takes a fraction of a microsecond, unless its
/// thread is interrupted.
const LOOKS: usize = 50;

/// Identifies a cell of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SumId {
    /// Slot of the process.
    pub(super) slot: u32,
    /// Number of the aggregate.
    pub(super) number: u16,
    /// The cell for odd keys, or the one for even keys.
    pub(super) is_odd: bool,
}

/// The state of the reader of partial sums.
#[derive(Debug, Default)]
pub struct SumReadings {
    /// The version of each cell when it was read, by index.
    versions: Vec<u64>,
    /// What was taken for each key that had a cell, until the cell is handed over.
    taken: BTreeMap<(SumId, u64), SumCell>,
}

impl SumReadings {
    /// Passes on the cells that changed since they were last read; each is given by the slot of a process and
    /// the number of its aggregate. False if a cell is being written: the cells after it are not read. Later
    /// hits in cells that were read have no time before `now_ns`.
    pub fn read(
        &mut self,
        kernel: &Kernel,
        now_ns: u64,
        cells: impl IntoIterator<Item = (u32, u16)>,
        mut hear: impl FnMut(SumCell),
    ) -> bool {
        kernel.note_look(now_ns);
        let mut cells = cells.into_iter();
        cells.all(|(slot, number)| self.read_both(kernel, slot, number, &mut hear))
    }

    fn read_both(&mut self, kernel: &Kernel, slot: u32, number: u16, hear: &mut impl FnMut(SumCell)) -> bool {
        for is_odd in [false, true] {
            // Hits without a cell are sent.
            let Some((place, version)) = kernel.sum_cell(SumId { slot, number, is_odd }) else {
                continue;
            };
            if self.versions.len() <= place {
                self.versions.resize(place + 1, 0);
            }
            if version == self.versions[place] {
                continue;
            }
            let look = |_| {
                std::hint::spin_loop();
                kernel.partial_sum(place)
            };
            let Some(partial_sum) = (0..LOOKS).find_map(look) else {
                return false;
            };
            self.versions[place] = partial_sum.version;
            self.more(partial_sum).into_iter().for_each(&mut *hear);
        }
        true
    }

    /// The final change of a cell that the kernel side sent because another key needed it.
    pub fn hand_over(&mut self, partial_sum: SumCell) -> Option<SumCell> {
        let (more, cell) = (self.more(partial_sum), cell(&partial_sum));
        // Earlier generations were handed over too, or lost.
        let over = self.taken.range((cell, 0)..=(cell, partial_sum.generation));
        let over: Vec<(SumId, u64)> = over.map(|(of, _)| *of).collect();
        over.iter().for_each(|of| {
            self.taken.remove(of);
        });
        more
    }

    /// The change since the last read; `None` if there is none.
    fn more(&mut self, partial_sum: SumCell) -> Option<SumCell> {
        let before = self
            .taken
            .insert((cell(&partial_sum), partial_sum.generation), partial_sum);
        let more = before.map_or(partial_sum, |before| since(partial_sum, &before));
        (more.count > 0).then_some(more)
    }
}

fn cell(partial_sum: &SumCell) -> SumId {
    SumId {
        slot: partial_sum.process,
        number: partial_sum.number as u16,
        is_odd: partial_sum.key & 1 == 1,
    }
}

/// The change of a cell. Its extremes and its first hit are those of the complete cell.
fn since(mut partial_sum: SumCell, before: &SumCell) -> SumCell {
    partial_sum.count = partial_sum.count.saturating_sub(before.count);
    for (sums, before) in partial_sum.sums.iter_mut().zip(&before.sums) {
        (sums.sum_low, sums.sum_high) =
            difference((sums.sum_low, sums.sum_high), (before.sum_low, before.sum_high));
        (sums.squares_low, sums.squares_high) = difference(
            (sums.squares_low, sums.squares_high),
            (before.squares_low, before.squares_high),
        );
    }
    partial_sum
}

fn difference(of: (u64, u64), less: (u64, u64)) -> (u64, u64) {
    let joined = |(low, high): (u64, u64)| u128::from(high) << 64 | u128::from(low);
    let left = joined(of).wrapping_sub(joined(less));
    (left as u64, (left >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial_sum(generation: u64, count: u64, sum: u64) -> SumCell {
        let mut partial_sum = SumCell {
            generation,
            count,
            key: 6,
            process: 3,
            number: 1,
            ..SumCell::default()
        };
        partial_sum.sums[0].sum_low = sum;
        partial_sum.sums[0].sum_high = if sum > u64::MAX / 2 { u64::MAX } else { 0 };
        partial_sum
    }

    #[test]
    fn each_hit_is_taken_once_whether_its_cell_is_read_or_handed_over() {
        let mut partial_sums = SumReadings::default();
        let taken = |more: Option<SumCell>| more.map(|more| (more.count, more.sums[0].sum_low));
        assert_eq!(taken(partial_sums.more(partial_sum(1, 4, 40))), Some((4, 40)));
        assert_eq!(taken(partial_sums.more(partial_sum(1, 4, 40))), None);
        // The next key already has the cell when the first one is handed over.
        assert_eq!(taken(partial_sums.more(partial_sum(2, 1, 7))), Some((1, 7)));
        assert_eq!(
            taken(partial_sums.hand_over(partial_sum(1, 6, 50))),
            Some((2, 10))
        );
        assert_eq!(taken(partial_sums.hand_over(partial_sum(2, 1, 7))), None);
        assert_eq!(taken(partial_sums.hand_over(partial_sum(3, 2, 9))), Some((2, 9)));
        assert!(partial_sums.taken.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn signed_and_unsigned_sums_are_distinguished() {
        let negative = (-5i64) as u64;
        let more = since(partial_sum(1, 3, negative), &partial_sum(1, 1, 2));
        assert_eq!(
            (more.sums[0].sum_low as i64, more.sums[0].sum_high),
            (-7, u64::MAX)
        );
    }
}
