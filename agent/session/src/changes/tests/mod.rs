//! Tables of events and effects; the words of which they are made are in `vocabulary`.

mod decisions;
mod ends;
mod judgements;
mod random;
mod vocabulary;

/// Files of the state machine, tests apart.
const SOURCES: [&str; 9] = [
    include_str!("../mod.rs"),
    include_str!("../event.rs"),
    include_str!("../findings.rs"),
    include_str!("../judging.rs"),
    include_str!("../last_words.rs"),
    include_str!("../made.rs"),
    include_str!("../outcome.rs"),
    include_str!("../retry.rs"),
    include_str!("../undoing.rs"),
];

#[test]
fn nothing_here_reads_a_clock_asks_a_kernel_or_waits() {
    let banned = [
        "tokio",
        "libc",
        "rustix",
        "procfs",
        "std::fs",
        "std::io",
        "Instant::",
        "monotonic_ns",
        "is_alive",
        "tracing::",
        "super::Session",
    ];
    for (source, word) in SOURCES
        .iter()
        .flat_map(|source| banned.map(|word| (source, word)))
    {
        assert!(
            !source.contains(word),
            "{word} in {}",
            source.lines().next().unwrap_or_default()
        );
    }
}
