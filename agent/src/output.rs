//! Standard output, and what became of it. A reader that went away (`| head`) is no reason to fail; a disk that is full is one.

use std::{
    fmt,
    io::{self, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The first failure.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// A session waits until somebody reads what it prints.
static IS_PRINTING: AtomicBool = AtomicBool::new(false);

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    note(writeln!(io::stdout(), "{text}"));
}

/// Does something that prints, which may take as long as a reader likes.
pub(crate) fn printing<T>(print: impl FnOnce() -> T) -> T {
    IS_PRINTING.store(true, Ordering::Relaxed);
    let printed = print();
    IS_PRINTING.store(false, Ordering::Relaxed);
    printed
}

/// Whether something is being printed by [`printing`].
pub(crate) fn is_printing() -> bool {
    IS_PRINTING.load(Ordering::Relaxed)
}

/// Keeps a failure to write, so that the command ends with it.
pub(crate) fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // The first one says why.
        let _ = FAILED.set(error);
    }
}

/// Why not all of what was printed is there. To be asked at the end of a command.
pub fn failure() -> Option<&'static io::Error> {
    note(io::stdout().flush());
    FAILED.get()
}
