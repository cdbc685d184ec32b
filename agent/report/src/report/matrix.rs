//! The parts of the report about messages: amounts by pair of ranks, and sizes.

use profile::{MatrixView, Messages, PairView};
use serde_json::{Value, json};

pub(super) fn matrix(view: &MatrixView) -> Value {
    json!({
        "sent": view.sent.iter().map(pair).collect::<Value>(),
        "received": view.received.iter().map(pair).collect::<Value>(),
        "pairs_cut": view.cut,
        "unresolved_sent": amount(view.unresolved_sent),
        "unresolved_received": amount(view.unresolved_received),
    })
}

fn pair(view: &PairView) -> Value {
    json!({"from": view.from, "to": view.to, "messages": view.of.count, "bytes": view.of.bytes})
}

fn amount(of: Messages) -> Value {
    json!({"messages": of.count, "bytes": of.bytes})
}

pub(super) fn sizes(counts: &[u64]) -> Option<Value> {
    let occurred = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let size = |(bucket, count): (usize, &u64)| json!({"up_to_bytes": abi::Sizes::greatest(bucket), "messages": count});
    (!counts.is_empty()).then(|| occurred.map(size).collect())
}
