//! The contract that a job is watched against.

use profile::Snapshot;

/// Its rates beside those that it requires, what each module does, and which one has to act; after an empty line.
pub(super) fn lines(snapshot: &Snapshot) -> Vec<String> {
    let Some(contract) = &snapshot.contract else {
        return Vec::new();
    };
    let seen = contract.summary.lines();
    let seen = seen.into_iter().filter(|_| contract.window.is_some());
    let not = contract.not_judged.iter();
    let not = not.map(|why| format!("the contract {} is not judged: {why}", contract.summary.contract));
    let lines = seen.chain(not).map(|line| format!(" {line}"));
    std::iter::once(String::new()).chain(lines).collect()
}
