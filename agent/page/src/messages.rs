//! Messages between ranks: the matrix of bytes, the table of pairs, and the sizes.

use std::collections::BTreeMap;

use profile::format::{bytes, count, percent, plural};
use profile::{MatrixView, Messages, PairView, Snapshot};
use report::view;

use crate::cells::{number, share, table, text};
use crate::model::{Cell, MatrixCell, MessageMatrix, Table};

/// Maximum number of rows and columns of the picture. In larger jobs a cell stands for a block of ranks.
pub(crate) const SIDE_MAX: u32 = 256;

/// The bytes that each rank sent to each other rank; `None` if no message was seen.
pub(crate) fn matrix(snapshot: &Snapshot) -> Option<MessageMatrix> {
    let view = snapshot.matrix.as_ref()?;
    let last = view.sent.iter().map(|pair| pair.from.max(pair.to)).max()?;
    let ranks = u32::try_from(snapshot.job.size.unwrap_or(0))
        .unwrap_or(u32::MAX)
        .max(last + 1);
    let ranks_per_cell = ranks.div_ceil(SIDE_MAX);
    let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for pair in &view.sent {
        *sums
            .entry((pair.from / ranks_per_cell, pair.to / ranks_per_cell))
            .or_default() += pair.of.bytes;
    }
    let most = sums.values().copied().max().unwrap_or(0);
    let cell = |((from, to), bytes)| MatrixCell { from, to, bytes };
    Some(MessageMatrix {
        side: ranks.div_ceil(ranks_per_cell),
        ranks_per_cell,
        most_bytes: most,
        most: bytes(most as f64),
        cells: sums.into_iter().map(cell).collect(),
        notes: notes(view),
    })
}

/// Notes on messages that the picture does not contain.
fn notes(view: &MatrixView) -> Vec<String> {
    let mut notes = Vec::new();
    if view.cut > 0 {
        notes.push(format!(
            "without {} that sent the least",
            plural(view.cut, "pair")
        ));
    }
    let unknown = view.unresolved_sent;
    if unknown.count > 0 {
        notes.push(format!(
            "without {} ({}) to unknown ranks: their communicator is not known",
            plural(usize::try_from(unknown.count).unwrap_or(usize::MAX), "message"),
            bytes(unknown.bytes as f64)
        ));
    }
    notes
}

pub(crate) fn pairs(snapshot: &Snapshot) -> Table {
    let matrix = snapshot.matrix.as_ref();
    let pairs = matrix.map_or(&[][..], |matrix| &matrix.sent);
    let all = matrix.map_or_else(Messages::default, MatrixView::sent_to_all);
    let row = |pair: &PairView| {
        vec![
            number(Some(f64::from(pair.from)), |rank| rank.to_string()),
            number(Some(f64::from(pair.to)), |rank| rank.to_string()),
            number(Some(pair.of.count as f64), count),
            number(Some(pair.of.bytes as f64), bytes),
            share((all.bytes > 0).then(|| pair.of.bytes as f64 / all.bytes as f64)),
        ]
    };
    table(
        "pairs",
        "Pairs of ranks",
        "#from rank | #to rank | #messages | #bytes | #share of the bytes",
        pairs.iter().map(row),
    )
}

pub(crate) fn sizes(snapshot: &Snapshot) -> Table {
    let sizes = view::message_sizes(snapshot);
    let all: u64 = sizes.iter().map(|(_, messages)| messages).sum();
    let row = |(name, messages): &(String, u64)| -> Vec<Cell> {
        vec![
            text(name),
            number(Some(*messages as f64), count),
            share(Some(*messages as f64 / all.max(1) as f64)),
        ]
    };
    table(
        "sizes",
        "Sizes of messages sent",
        "size | #messages that were counted | #share",
        sizes.iter().map(row),
    )
}

/// Describes the picture for screen readers: the pair of ranks with most bytes.
pub(crate) fn alternative(matrix: &MessageMatrix) -> String {
    let most = matrix.cells.iter().max_by_key(|cell| cell.bytes);
    let of = if matrix.ranks_per_cell == 1 {
        "rank"
    } else {
        "block"
    };
    most.map_or_else(String::new, |most| {
        format!(
            "Bytes sent by each {of} (row) to each other one (column); the most, {}, from {of} {} to {of} {}; \
             {} of all cells are empty. The table of pairs has the numbers",
            matrix.most,
            most.from,
            most.to,
            percent(1.0 - matrix.cells.len() as f64 / f64::from(matrix.side * matrix.side).max(1.0)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(u32, u32, u64)]) -> Snapshot {
        let pair = |(from, to, bytes): &(u32, u32, u64)| PairView {
            from: *from,
            to: *to,
            of: Messages {
                bytes: *bytes,
                count: 1,
            },
        };
        Snapshot {
            matrix: Some(MatrixView {
                sent: pairs.iter().map(pair).collect(),
                ..MatrixView::default()
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_cell_is_a_pair_of_ranks_or_of_blocks_of_them_and_no_byte_is_lost() {
        let small = matrix(&sent(&[(0, 1, 5), (1, 0, 7)])).unwrap();
        assert_eq!((small.side, small.ranks_per_cell, small.most_bytes), (2, 1, 7));
        let large = matrix(&sent(&[(0, 1, 5), (1, 3, 7), (1023, 0, 4)])).unwrap();
        assert_eq!((large.side, large.ranks_per_cell), (256, 4));
        let cells: Vec<_> = large
            .cells
            .iter()
            .map(|cell| (cell.from, cell.to, cell.bytes))
            .collect();
        assert_eq!(cells, [(0, 0, 12), (255, 0, 4)]);
        assert_eq!(matrix(&sent(&[])), None);
        assert!(alternative(&small).contains("7 B, from rank 1 to rank 0"));
    }
}
