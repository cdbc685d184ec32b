//! The terminal while the view uses it: in raw mode, on its alternate screen, and restored however we end. A
//! process that was killed (SIGKILL) cannot restore it: `reset` does.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal, Stdout, Write},
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
    time::Instant,
};

use crossterm::{
    cursor::Show,
    event::{self, Event, KeyEvent},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use profile::Snapshot;
use ratatui::{Terminal, backend::CrosstermBackend};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{Interval, interval},
};

use super::{
    bars::Glyphs,
    log::Log,
    page,
    state::{State, Tab, UserRequest},
};
use crate::{
    console::{self, is_active, write_printable},
    view::terminal::write,
};

/// Maximum number of diagnostics that wait for the next drawing.
const WAITING_MAX: usize = 100;

/// Maximum number of unread keys.
const KEYS_MAX: usize = 64;

/// How often the terminal is checked for a hangup.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time that a key stays in crossterm's queue: drawing after a resize requests the cursor's position, and
/// a key that arrives before the answer is queued without a wake-up.
const KEY_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// The view is using the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

static WAITING: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Whether there is a terminal that can show a view and read keys, and that we may use.
pub(in crate::view) fn can_be_taken() -> bool {
    let knows_cursor = std::env::var("TERM").is_ok_and(|term| term != "dumb");
    // In the background a change of the terminal's mode would stop us.
    let in_front =
        rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
    knows_cursor && in_front && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether the terminal has hung up: its window was closed, or its connection broke. In that case reading
/// keys or the size through the libraries below does not fail but never returns.
fn is_gone() -> bool {
    poll_input(&Timespec::default()).is_ok_and(has_hung_up)
}

fn has_hung_up(events: PollFlags) -> bool {
    events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Whether the terminal has input or has hung up, at the latest after this time.
fn poll_input(within: &Timespec) -> io::Result<PollFlags> {
    let input = io::stdin();
    let mut input = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut input, Some(within)) {
        // The signal of a resize may be delivered to this thread.
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        polled => Ok(polled.map(|_| input[0].revents())?),
    }
}

/// Restores the terminal, once.
pub fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// The view on a terminal. Dropping it restores the terminal and prints the messages that were issued
/// meanwhile.
pub(in crate::view) struct Live {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    state: State,
    shown: Snapshot,
    shown_at: Instant,
    log: Log,
}

impl Live {
    /// Takes over the terminal.
    pub(in crate::view) fn begin(snapshot: Snapshot) -> io::Result<Live> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // Before anything else, so that the message is visible.
                give_back();
                before(panic);
            }));
        });
        IS_TAKEN.store(true, Ordering::SeqCst);
        let entered = enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen));
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        let terminal = terminal.inspect_err(|_| give_back())?;
        let mut live = Live {
            terminal,
            state: State::default(),
            shown: Snapshot::default(),
            shown_at: Instant::now(),
            log: Log::default(),
        };
        live.show(snapshot);
        Ok(live)
    }

    /// Whether the terminal was restored by a thread that panicked.
    pub(in crate::view) fn is_over(&self) -> bool {
        !IS_TAKEN.load(Ordering::SeqCst)
    }

    pub(in crate::view) fn show(&mut self, snapshot: Snapshot) {
        self.state.look(&snapshot);
        self.shown = snapshot;
        self.shown_at = Instant::now();
        self.draw();
    }

    fn draw(&mut self) {
        if self.is_over() || is_gone() {
            return;
        }
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting: Vec<String> = waiting.drain(..).collect();
        waiting.into_iter().for_each(|line| self.say(line));
        let (shown, state, log) = (&self.shown, &mut self.state, &self.log);
        let glyphs = Glyphs::of_locale();
        let _ = self.terminal.draw(|frame| {
            page::draw(frame, shown, state, log, glyphs);
            let cells = frame.buffer_mut().content.iter_mut();
            for cell in cells.filter(|cell| cell.symbol().contains(is_active)) {
                cell.set_symbol("?");
            }
        });
    }

    pub(in crate::view) fn say(&mut self, line: String) {
        self.log.say(self.shown.elapsed + self.shown_at.elapsed(), line);
    }

    /// Whether call sites are shown. Naming them reads the program's files, so it is done only then.
    pub(in crate::view) fn wants_call_sites(&self) -> bool {
        let is_of_function = self.state.tab == Tab::Functions && self.state.detail.is_some();
        self.state.tab == Tab::CallSites || is_of_function
    }

    /// Shows the session's answer to a request, until the next key.
    pub(in crate::view) fn answer(&mut self, answer: String) {
        self.state.answer = Some(answer);
        self.draw();
    }

    /// Handles input; returns the resulting request. A hangup of the terminal ends the session, as SIGHUP
    /// does.
    pub(in crate::view) fn take(&mut self, input: Input) -> Option<UserRequest> {
        let wish = match input {
            Input::Key(key) => self.state.press(key, &self.shown),
            Input::Resized => None,
            Input::Gone => return Some(UserRequest::End("the terminal has gone away")),
        };
        self.draw();
        wish
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        give_back();
        let mut out = io::stdout().lock();
        self.log
            .all()
            .for_each(|(_, line)| console::note(write(&mut out, &line)));
    }
}

/// Input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Key(KeyEvent),
    Resized,
    /// The terminal has hung up.
    Gone,
}

/// Reads input from the terminal in a separate thread: if the terminal hangs up during a read, only that
/// thread is blocked, not the session.
pub struct Keys {
    read: mpsc::Receiver<Input>,
    resized: Signal,
    look: Interval,
}

impl Keys {
    /// Starts reading. Must be called inside the tokio runtime.
    pub fn new() -> io::Result<Keys> {
        let (to, read) = mpsc::channel(KEYS_MAX);
        let resized = signal(SignalKind::window_change())?;
        // Not joined: a read of a terminal that has hung up may never return.
        let reader = thread::Builder::new().name("keys".to_owned());
        reader.spawn(move || {
            while IS_TAKEN.load(Ordering::SeqCst) {
                if read_input(&to).is_none() {
                    break;
                }
            }
        })?;
        Ok(Keys {
            read,
            resized,
            look: interval(POLL_INTERVAL),
        })
    }

    /// The next input; `None` when nothing can be read any more.
    pub async fn next(&mut self) -> Option<Input> {
        loop {
            tokio::select! {
                input = self.read.recv() => return input,
                _ = self.resized.recv() => return Some(Input::Resized),
                _ = self.look.tick() => if is_gone() {
                    return Some(Input::Gone);
                },
            }
        }
    }
}

/// Waits for input and passes all of it on; `None` at its end.
fn read_input(to: &mpsc::Sender<Input>) -> Option<()> {
    if has_hung_up(poll_input(&KEY_WAIT).ok()?) {
        return to.blocking_send(Input::Gone).ok();
    }
    // With a time of zero crossterm does not look at the terminal.
    while IS_TAKEN.load(Ordering::SeqCst) && event::poll(Duration::from_millis(1)).ok()? {
        let input = match event::read().ok()? {
            Event::Resize(..) => Some(Input::Resized),
            event => event.as_key_event().map(Input::Key),
        };
        input.map_or(Some(()), |input| to.blocking_send(input).ok())?;
    }
    Some(())
}

/// The writer of diagnostics for developers: to standard error, or to the log of the view while it uses the
/// terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Diagnostics;

impl Write for Diagnostics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !IS_TAKEN.load(Ordering::SeqCst) || !io::stderr().is_terminal() {
            return write_printable(&mut io::stderr(), bytes);
        }
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(bytes);
        waiting.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        let more = waiting.len().saturating_sub(WAITING_MAX);
        waiting.drain(..more);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "TUNEAGENT_TEST_PANICS_ON_THE_SCREEN";
    const NAME: &str =
        "view::live::terminal::tests::a_panic_gives_the_terminal_back_before_it_says_what_happened";

    const LEFT: &str = "TUNEAGENT_TEST_ITS_TERMINAL_GOES_AWAY";
    const NAME_OF_LEFT: &str =
        "view::live::terminal::tests::a_terminal_that_has_gone_away_ends_the_session_at_once";

    /// The test starts itself on a separate terminal, which it then kills. SIGHUP is ignored, so that the
    /// hangup must be detected without a signal.
    #[test]
    fn a_terminal_that_has_gone_away_ends_the_session_at_once() {
        if let Some(way) = std::env::var_os(LEFT) {
            let mut way = std::fs::OpenOptions::new()
                .write(true)
                .open(way)
                .expect("it is there");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let mut live = Live::begin(Snapshot::default()).expect("there is a terminal");
            runtime.expect("a runtime").block_on(async {
                let mut keys = Keys::new().expect("a thread");
                way.write_all(b"shown\n").expect("somebody reads");
                while let Some(input) = keys.next().await
                    && live.take(input).is_none()
                {}
            });
            way.write_all(b"ended\n").expect("somebody reads");
            std::process::exit(0);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let way = folder.path().join("way");
        let made = Command::new("mkfifo").arg(&way).status();
        assert!(made.expect("mkfifo is part of every Debian").success());
        let this = std::env::current_exe().expect("a test has a file");
        let command = format!(
            "stty sane rows 24 columns 80; trap '' HUP; env {LEFT}={} timeout --foreground 60 {} --exact {NAME_OF_LEFT} --nocapture",
            way.display(),
            this.display()
        );
        let mut terminal = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("script is part of every Debian");
        let mut said = io::BufReader::new(std::fs::File::open(&way).expect("it is there"));
        let mut line = String::new();
        io::BufRead::read_line(&mut said, &mut line).expect("it says so");
        assert_eq!(line, "shown\n");
        terminal.kill().expect("it runs");
        terminal.wait().expect("it has ended");
        line.clear();
        // A child that is stuck is ended by `timeout`, and prints nothing then.
        io::BufRead::read_line(&mut said, &mut line).expect("it says so");
        assert_eq!(line, "ended\n");
    }

    /// The test starts itself on a separate terminal (`script`), where it panics while the view is shown.
    #[test]
    fn a_panic_gives_the_terminal_back_before_it_says_what_happened() {
        if std::env::var_os(CHILD).is_some() {
            let _live = Live::begin(Snapshot::default()).expect("there is a terminal");
            panic!("this is the panic");
        }
        let this = std::env::current_exe().expect("a test has a file");
        let command = format!(
            "stty sane rows 24 columns 80; env {CHILD}=1 {} --exact {NAME} --nocapture; echo; stty -a",
            this.display()
        );
        let run = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .output()
            .expect("script is part of every Debian");
        let text = String::from_utf8_lossy(&run.stdout);
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part:?} is not in {text:?}"))
        };
        let (taken, given_back) = (at("\x1b[?1049h"), at("\x1b[?1049l"));
        let (shown, said) = (at("1 Overview"), at("this is the panic"));
        assert!(
            taken < shown && shown < given_back && given_back < said,
            "{text:?}"
        );
        assert!(
            text[given_back..].contains("\x1b[?25h"),
            "the cursor is back: {text:?}"
        );
        let modes = &text[said..];
        assert!(
            modes.contains(" icanon") && !modes.contains("-icanon"),
            "{text:?}"
        );
        assert!(modes.contains(" echo ") && !modes.contains("-echo "), "{text:?}");
    }
}
