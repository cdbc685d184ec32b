//! Tables of events and effects; the words of which they are made are in `vocabulary`.

mod attached;
mod command;
mod random;
mod vocabulary;

/// Files of the state machine, tests apart.
const SOURCES: [&str; 5] = [
    include_str!("../mod.rs"),
    include_str!("../attached.rs"),
    include_str!("../command.rs"),
    include_str!("../event.rs"),
    include_str!("../missing.rs"),
];

#[test]
fn nothing_here_reads_a_clock_asks_a_kernel_or_waits() {
    let banned = [
        "tokio",
        "aya",
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
        // A path is no code.
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            assert!(!line.contains(word), "{word} in {line}");
        }
    }
}
