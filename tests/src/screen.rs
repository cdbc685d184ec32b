//! A terminal for a test, by tmux: types commands into a shell, presses keys, and reads the screen.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::lines::succeed;
use crate::problem::Context;
use crate::{Outcome, Problem};

/// Interval for reading the screen, in addition to reads after each output.
const LOOK: Duration = Duration::from_millis(500);

/// A shell on a terminal. It and its processes are ended on drop.
pub struct Screen {
    folder: TempDir,
    /// A message for each output.
    printed: Receiver<()>,
}

impl Screen {
    /// Starts a terminal of this size. The shell ends by itself after ten minutes.
    pub fn start(columns: u16, rows: u16) -> Outcome<Screen> {
        let folder = tempfile::tempdir()?;
        let pipe = folder.path().join("printed");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .context(pipe.display())?;
        let (sender, printed) = mpsc::channel();
        let to_read = pipe.clone();
        // The thread ends with the terminal, or when the receiver is dropped.
        std::thread::spawn(move || {
            let Ok(mut file) = File::open(to_read) else { return };
            let mut bytes = [0; 4096];
            while matches!(file.read(&mut bytes), Ok(1..)) && sender.send(()).is_ok() {}
        });
        let screen = Screen { folder, printed };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let folder = screen.folder.path().display();
        let shell = format!(
            "timeout --foreground 600 env PS1='$ ' LC_ALL=C.UTF-8 XDG_RUNTIME_DIR={folder} XDG_STATE_HOME={folder} \
             TUNEAGENT_STATE_DIR={folder} bash --norc --noprofile"
        );
        screen.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            &shell,
        ])?;
        screen.tmux(&["pipe-pane", &format!("cat > {}", pipe.display())])?;
        screen.wait_for("the shell", |text| text.contains('$'))?;
        Ok(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> Outcome<String> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("tmux"));
        succeed(command.args(arguments).env_remove("TMUX"))
    }

    /// Types a line and Enter.
    pub fn enter(&self, line: &str) -> Outcome {
        self.tmux(&["send-keys", "-l", line])?;
        self.press("Enter")
    }

    /// Presses a key, by its tmux name.
    pub fn press(&self, key: &str) -> Outcome {
        self.tmux(&["send-keys", key]).map(|_| ())
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, columns: u16, rows: u16) -> Outcome {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows])
            .map(|_| ())
    }

    /// Current text of the screen.
    pub fn text(&self) -> Outcome<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// All lines that were scrolled away, and the current text.
    pub fn everything(&self) -> Outcome<String> {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// A property of the terminal, by its tmux name.
    pub fn fact(&self, name: &str) -> Outcome<String> {
        Ok(self
            .tmux(&["display-message", "-p", &format!("#{{{name}}}")])?
            .trim()
            .to_owned())
    }

    /// Waits until `is_there` accepts the screen. Returns the text of the screen.
    pub fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) -> Outcome<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            // Output that arrives from here on causes another read.
            while self.printed.try_recv().is_ok() {}
            let text = self.text()?;
            if is_there(&text) {
                return Ok(text);
            }
            if Instant::now() > deadline {
                return Err(Problem::new(format!(
                    "waited for {what}; on the screen is:\n{text}"
                )));
            }
            // A change of the size produces no output.
            let _ = self.printed.recv_timeout(LOOK);
        }
    }

    /// Waits until the screen contains `part`.
    pub fn see(&self, part: &str) -> Outcome<String> {
        self.wait_for(&format!("'{part}'"), |text| text.contains(part))
    }

    /// Folder of the sockets of sessions on this terminal.
    pub fn runtime_folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The processes on the terminal get SIGHUP.
        let _ = self.tmux(&["kill-server"]);
    }
}
