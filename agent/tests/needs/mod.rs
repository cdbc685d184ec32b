//! Requirements of tests.

use std::{io::Write, os::unix::fs::MetadataExt};

pub(crate) fn is_root() -> bool {
    needs(std::fs::metadata("/proc/self").unwrap().uid() == 0, "root")
}

/// Whether a test can run. If not, prints a message past the test runner's capture, or fails if all tests are
/// required.
pub(crate) fn needs(is_there: bool, what: &str) -> bool {
    if !is_there {
        assert!(
            std::env::var_os("TUNEAGENT_REQUIRE_ALL").is_none(),
            "this test needs {what}"
        );
        let _ = writeln!(std::io::stderr(), "skipped: needs {what}");
    }
    is_there
}

/// Returns from the test without root.
#[allow(unused_macros, reason = "`sync` takes its turn and root together")]
macro_rules! require_root {
    () => {
        if !$crate::needs::is_root() {
            return;
        }
    };
}
#[allow(unused_imports, reason = "the same")]
pub(crate) use require_root;
