//! The parts of the report that tell of messages: who sends how much to whom, and how large messages are.

use profile::snapshot::{MatrixView, Messages, PairView};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Matrix {
    sent: Vec<Pair>,
    received: Vec<Pair>,
    pairs_cut: usize,
    unresolved_sent: Amount,
    unresolved_received: Amount,
}

#[derive(Serialize)]
struct Pair {
    from: u32,
    to: u32,
    messages: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Amount {
    messages: u64,
    bytes: u64,
}

#[derive(Serialize)]
pub(super) struct Size {
    up_to_bytes: Option<u64>,
    messages: u64,
}

pub(super) fn matrix(view: &MatrixView) -> Matrix {
    Matrix {
        sent: view.sent.iter().map(pair).collect(),
        received: view.received.iter().map(pair).collect(),
        pairs_cut: view.cut,
        unresolved_sent: amount(view.unresolved_sent),
        unresolved_received: amount(view.unresolved_received),
    }
}

fn pair(view: &PairView) -> Pair {
    Pair {
        from: view.from,
        to: view.to,
        messages: view.of.count,
        bytes: view.of.bytes,
    }
}

fn amount(of: Messages) -> Amount {
    Amount {
        messages: of.count,
        bytes: of.bytes,
    }
}

pub(super) fn sizes(counts: &[u64]) -> Option<Vec<Size>> {
    let occurred = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let size = |(bucket, count): (usize, &u64)| Size {
        up_to_bytes: abi::Sizes::greatest(bucket),
        messages: *count,
    };
    (!counts.is_empty()).then(|| occurred.map(size).collect())
}
