//! Number of instructions that the kernel's verifier processes for each of our BPF programs. It rejects a
//! program above one million; older kernels process more than newer ones, and every attach waits for it.
//! Needs root; otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use probe::kernel::{FamilyRoot, Holds, Kernel, LinkChoice, LinkKind, LoadOptions};
use tuneagent_e2e::require_or_return;

/// A tenth of the verifier's limit.
const FOLLOWED_MAX: u64 = 100_000;

const OPTIONS: LoadOptions = LoadOptions {
    probes: 100,
    processes: 100,
    rows: 100,
    partial_sums: 100,
    links: LinkChoice::Best,
};

fn assert_small(programs: Vec<(&'static str, Option<u64>)>) {
    assert!(!programs.is_empty());
    for (program, followed) in programs {
        let followed = followed.expect("kernels since 5.16 tell, and we ask for 5.17");
        println!("{program}: {followed}");
        assert!(
            (1..FOLLOWED_MAX).contains(&followed),
            "the verifier followed {followed} instructions of `{program}`: structure it so that {FOLLOWED_MAX} suffice (functions that are \
             exported and take numbers and records of numbers are looked at once)"
        );
    }
}

#[test]
fn the_verifier_has_little_to_follow_in_any_program() {
    require_or_return!(Root);
    for links in LinkChoice::ALL {
        let options = LoadOptions { links, ..OPTIONS };
        assert_small(Kernel::load(options).unwrap().verified());
        assert_small(Holds::load(0, links).unwrap().verified());
    }
}

#[test]
fn nor_where_a_command_is_watched_from_its_start() {
    require_or_return!(Root);
    if Kernel::load(OPTIONS).unwrap().link_kind() == LinkKind::Tracefs {
        // With these links there are no families.
        return;
    }
    let root = FamilyRoot {
        pid: std::process::id(),
        user: 0,
        rights: 0,
    };
    let programs = Kernel::load_for(OPTIONS, root).unwrap().verified();
    assert!(programs.iter().any(|(program, _)| *program == "family_execs"));
    assert_small(programs);
}
