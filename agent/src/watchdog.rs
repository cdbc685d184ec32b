//! Ends a session whose loop hangs. If it hangs in a system call (a file of a dead network file system, a
//! pipe without a writer), it handles no signal and ignores its duration, while its changes stay in force.
//! When the watchdog ends it, the actuator reverts them.
//!
//! The watchdog counts its own ticks, which stop while the process is stopped or the machine sleeps.

use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use report::console;

use crate::exit::Code;

/// The interval of checks.
const TICK: Duration = Duration::from_secs(1);

/// Maximum duration of one step of the loop, in ticks. The longest wait within a step takes a fraction of
/// this.
pub(crate) const TICKS_MAX: u32 = 60;

/// Maximum wait for the message to be written, because the terminal or pipe may be blocked.
const MESSAGE_WAIT: Duration = Duration::from_secs(2);

plan::words! {
    /// The step that the loop is in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum LoopStep {
        /// Waiting for the next event, or for something with a separate time limit.
        Waiting = "waiting",
        ReadHits = "reading hits",
        ReadCalls = "reading calls",
        ReadCounters = "reading counters and evaluating",
        WriteSnapshot = "writing a snapshot",
        AttachToProcesses = "looking into processes of the command",
        EndProcess = "taking leave of a process",
        AttachProbes = "attaching probes",
        AnswerRequest = "answering a request",
        AnswerKey = "answering a key",
        TakeReceipt = "taking a receipt of the actuator",
        Leave = "ending the session",
        WriteReport = "writing the report",
    }
}

/// The number of steps that the loop has begun, and in the lowest byte the current one.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoopProgress(Arc<AtomicU64>);

impl LoopProgress {
    /// The loop begins this step.
    pub(crate) fn begin(&self, step: LoopStep) {
        let count = self.0.load(Ordering::Relaxed) >> 8;
        self.0.store((count + 1) << 8 | step as u64, Ordering::Relaxed);
    }

    fn look(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The step and its name, from the value of [`LoopProgress`].
fn step_of(shown: u64) -> (LoopStep, &'static str) {
    let place = usize::from(shown as u8).min(LoopStep::ALL.len() - 1);
    (LoopStep::ALL[place], LoopStep::ALL[place].name())
}

/// How long the loop has been in one step, in ticks.
#[derive(Debug, Default)]
struct StepAge {
    shown: u64,
    ticks: u32,
}

impl StepAge {
    /// Counts a tick. Returns the step in which the loop hangs, once it has been in it for `most` ticks. With
    /// `may_wait` the loop may be blocked by its output: a session that writes nothing into the program may
    /// wait for a reader indefinitely.
    fn tick(&mut self, shown: u64, may_wait: bool, most: u32) -> Option<&'static str> {
        let (step, name) = step_of(shown);
        let stands = shown == self.shown && step != LoopStep::Waiting && !may_wait;
        self.ticks = if stands { self.ticks + 1 } else { 0 };
        self.shown = shown;
        (self.ticks >= most).then_some(name)
    }
}

/// Starts watching a loop. `actuator` is a stream to the actuator, if the session has one; `give_back`
/// restores the terminal before a message. If no thread can be started, the loop is not watched.
pub(crate) fn start(progress: &LoopProgress, actuator: Option<UnixStream>, give_back: fn()) {
    let started = watch(progress, actuator, give_back, TICK, TICKS_MAX);
    if let Err(error) = started {
        tracing::warn!(%error, "no watchdog ends this session if it hangs");
    }
}

fn watch(
    progress: &LoopProgress,
    actuator: Option<UnixStream>,
    give_back: fn(),
    tick: Duration,
    ticks_max: u32,
) -> io::Result<()> {
    let progress = progress.clone();
    let watch = move || {
        let mut count = StepAge::default();
        loop {
            std::thread::sleep(tick);
            let may_wait = actuator.is_none() && console::is_printing();
            if let Some(step) = count.tick(progress.look(), may_wait, ticks_max) {
                end(step, actuator.as_ref(), give_back, tick * ticks_max);
            }
        }
    };
    let thread = std::thread::Builder::new().name("watchdog".to_owned());
    thread.spawn(watch).map(drop)
}

/// The loop may never leave its system call, and this process cannot end before it does. So the stream to the
/// actuator is shut down first.
fn end(step: &str, actuator: Option<&UnixStream>, give_back: fn(), after: Duration) -> ! {
    // If the stream was shut down already, this fails, which is fine.
    let _ = actuator.map(|stream| stream.shutdown(Shutdown::Both));
    let back = match actuator {
        Some(_) => "the actuator reverts what was changed (see tuneagent journal)",
        None => "nothing was written",
    };
    let text = format!(
        "tuneagent: the session has hung for {} s while {step}, and was ended: there is no report; {back}",
        after.as_secs()
    );
    let (said, observed) = mpsc::channel();
    let say = move || {
        give_back();
        // If standard error cannot be written, there is no way to report it.
        console::error_line(format_args!("{text}"));
        // The receiver may have stopped waiting.
        let _ = said.send(());
    };
    let is_saying = std::thread::Builder::new().spawn(say).is_ok();
    if is_saying {
        // A timeout is no error: standard error may be blocked.
        let _ = observed.recv_timeout(MESSAGE_WAIT);
    }
    std::process::exit(i32::from(Code::HUNG))
}

#[cfg(test)]
mod tests {
    use std::{io::Read, process::Command};

    use super::*;

    #[test]
    fn every_step_has_its_name_at_its_place() {
        for (place, step) in LoopStep::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, place, "{step}");
        }
    }

    #[test]
    fn a_loop_hangs_once_it_has_been_in_one_step_for_so_many_ticks() {
        let progress = LoopProgress::default();
        let mut count = StepAge::default();
        let mut tick = |progress: &LoopProgress| count.tick(progress.look(), false, 3);
        // Waiting is not hanging.
        assert!((0..10).all(|_| tick(&progress).is_none()));
        progress.begin(LoopStep::ReadHits);
        assert_eq!([(); 3].map(|()| tick(&progress)), [None; 3]);
        // The same step, begun again.
        progress.begin(LoopStep::ReadHits);
        assert_eq!([(); 3].map(|()| tick(&progress)), [None; 3]);
        assert_eq!(tick(&progress), Some("reading hits"));
        progress.begin(LoopStep::Waiting);
        assert!((0..10).all(|_| tick(&progress).is_none()));
    }

    #[test]
    fn a_process_that_writes_nothing_may_wait_for_its_reader() {
        let progress = LoopProgress::default();
        progress.begin(LoopStep::ReadCounters);
        let mut count = StepAge::default();
        assert!((0..10).all(|_| count.tick(progress.look(), true, 3).is_none()));
        assert!((0..10).any(|_| count.tick(progress.look(), false, 3).is_some()));
    }

    const CHILD: &str = "TUNEAGENT_TEST_HANGS";

    /// The test starts itself: that process hangs in reading a pipe without input.
    #[test]
    fn a_process_that_hangs_lets_the_actuator_go_says_where_and_ends() {
        const NAME: &str = "watchdog::tests::a_process_that_hangs_lets_the_actuator_go_says_where_and_ends";
        if std::env::var_os(CHILD).is_some() {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let actuator = std::thread::spawn(move || {
                let _ = theirs.read(&mut [0]);
                eprintln!("the actuator's stream has ended");
            });
            let progress = LoopProgress::default();
            progress.begin(LoopStep::AttachProbes);
            watch(&progress, Some(ours), || {}, Duration::from_millis(1), 3).unwrap();
            let (mut reader, _writer) = io::pipe().unwrap();
            let _ = reader.read(&mut [0]);
            let _ = actuator.join();
            return;
        }
        let this = std::env::current_exe().unwrap();
        let mut child = Command::new(this);
        let child = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1");
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("while attaching probes, and was ended"), "{said}");
        assert_eq!(output.status.code(), Some(i32::from(Code::HUNG)));
    }
}
