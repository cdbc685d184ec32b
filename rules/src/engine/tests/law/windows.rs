//! The windows of generated rules: from probe to probe, nested, and timed.

use proptest::prelude::*;
use proptest::sample::select;

/// A window of a generated rule.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) within: Option<&'static str>,
    /// Its metrics also cover the workers.
    pub(super) works: bool,
}

impl Drawn {
    pub(super) fn is_timed(&self) -> bool {
        self.name == "pulse"
    }
}

fn in_braces(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    format!("{{{}}}", parts.join(", "))
}

/// A window with one boundary for all processes, or with one in each worker.
fn probed(name: &'static str) -> impl Strategy<Value = Drawn> {
    let keys = select(vec![
        "",
        "key: number",
        "key: number",
        "key: number",
        "key: number",
        "key: number",
        "key: number",
        "key: {begin: number, end: number, compute: number}",
        "key: {begin: number, end: number, send: number}",
        "key: {begin: number, end: number, chunk: send.number}",
    ]);
    let shared = (select(vec!["from: begin, to: end", "from: begin"]), keys);
    let of_each = prop_oneof![
        4 => shared.prop_map(|(boundaries, key)| (boundaries, key)),
        1 => Just(("from: enter, to: leave", "key: number")),
    ];
    let more = select(vec![
        "",
        "",
        "skip: 1",
        "straddle: drop",
        "straddle: begin",
        "straddle: begin",
        "straddle: split",
        "straddle: split",
        "discard: any(send.bytes > 4KB)",
        "discard: max(compute.duration) > 350ms",
        "discard: n_NAME % 3 == 1",
        "discard: sum(busy_NAME) < 200ms",
        "complete: {worker: count(compute) % 2 == 0}",
        "complete: {worker: n_NAME != 1}",
        "complete: {worker: n_NAME != 1}",
    ]);
    (of_each, more).prop_map(move |((boundaries, key), more)| Drawn {
        name,
        text: in_braces(&[boundaries, key, &more.replace("NAME", name)]),
        within: None,
        works: true,
    })
}

/// A window within `one`.
fn inner() -> impl Strategy<Value = Drawn> {
    let text = select(vec![
        "from: batch",
        "from: batch, until: count(compute) >= 2",
        "from: batch, until: count(compute over one) >= 3",
        "from: batch, to: reply",
        "from: send, to: reply",
        "from: batch, until: count(chunk) == batch.chunks, key: {batch: id, chunk: send.batch}",
        "from: batch, until: count(send) == batch.chunks, key: {batch: id, send: batch}",
        "from: [one, inner], until: count(send) >= 3",
        "from: [one, inner], until: count(compute) >= 2",
        "from: [one, inner], until: sum(send.tasks over one) >= 300",
        "from: [one, inner], to: reply",
        "from: enter, to: leave, key: number",
    ]);
    let more = select(vec![
        "",
        "straddle: begin",
        "straddle: begin",
        "straddle: split",
        "straddle: split",
        "straddle: drop",
        "skip: 1",
        "discard: n_inner % 2 == 1",
    ]);
    (text, more, any::<bool>()).prop_map(|(text, more, works)| Drawn {
        name: "inner",
        text: in_braces(&["within: one", text, more]),
        within: Some("one"),
        works: works && !text.contains("(compute over"),
    })
}

/// A window within `inner`.
fn deep() -> impl Strategy<Value = Drawn> {
    let text = select(vec![
        "from: [inner, deep], until: count(send) >= 1",
        "from: send, until: count(compute) >= 1",
        "from: send",
    ]);
    (text, any::<bool>()).prop_map(|(text, works)| Drawn {
        name: "deep",
        text: in_braces(&["within: inner", text]),
        within: Some("inner"),
        works,
    })
}

fn timed() -> impl Strategy<Value = Drawn> {
    let text = select(vec!["every: 250ms", "every: 500ms", "every: 600ms"]);
    text.prop_map(|text| Drawn {
        name: "pulse",
        text: in_braces(&[text]),
        within: None,
        works: true,
    })
}

/// The windows of a rule, always including `one`.
pub(super) fn any_windows() -> impl Strategy<Value = Vec<Drawn>> {
    let nested = prop::option::weighted(0.46, (inner(), prop::option::weighted(0.4, deep())));
    let two = prop::option::weighted(0.15, probed("two"));
    let pulse = prop::option::weighted(0.55, timed());
    (probed("one"), nested, two, pulse).prop_map(|(one, nested, two, pulse)| {
        let (inner, deep) = nested.map_or((None, None), |(inner, deep)| (Some(inner), deep));
        [Some(one), inner, deep, two, pulse]
            .into_iter()
            .flatten()
            .collect()
    })
}

/// One window whose hits carry its key: none of them needs an order.
pub(super) fn folded_by_nodes() -> impl Strategy<Value = Vec<Drawn>> {
    Just(vec![Drawn {
        name: "one",
        text: "{from: begin, to: end, key: number}".to_string(),
        within: None,
        works: true,
    }])
}
