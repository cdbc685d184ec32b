//! A terminal of the test's own, by tmux: commands are typed into a shell, keys are pressed, and what is seen is read.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::problem::Context;
use crate::{Outcome, Problem};

/// The screen is looked at this often, and whenever something was printed.
const LOOK: Duration = Duration::from_millis(500);

/// A shell on a terminal. Dropping it ends it, with all that it runs.
pub struct Screen {
    folder: TempDir,
    /// Something was printed.
    printed: Receiver<()>,
}

impl Screen {
    /// A terminal of this size. Its shell ends by itself after ten minutes, should nobody end it.
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
        // Ends with the terminal, or with whoever waits.
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
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("tmux"))
            .args(arguments)
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .output()
            .context("cannot start tmux")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => Ok(text),
            false => Err(Problem::new(format!(
                "tmux {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    /// Types a line.
    pub fn enter(&self, line: &str) -> Outcome {
        self.tmux(&["send-keys", "-l", line])?;
        self.press("Enter")
    }

    /// Presses a key, by tmux' name for it.
    pub fn press(&self, key: &str) -> Outcome {
        self.tmux(&["send-keys", key]).map(|_| ())
    }

    /// Gives the terminal another size.
    pub fn resize(&self, columns: u16, rows: u16) -> Outcome {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows])
            .map(|_| ())
    }

    /// What is on it now.
    pub fn text(&self) -> Outcome<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// All that was ever on it and was scrolled away, and what is on it now.
    pub fn everything(&self) -> Outcome<String> {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// A fact about the terminal, by tmux' name for it.
    pub fn fact(&self, name: &str) -> Outcome<String> {
        Ok(self
            .tmux(&["display-message", "-p", &format!("#{{{name}}}")])?
            .trim()
            .to_owned())
    }

    /// Waits until what is seen is as wanted; then it is given back.
    pub fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) -> Outcome<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            // What is printed from here on is looked at again.
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
            // A change of the size prints nothing.
            let _ = self.printed.recv_timeout(LOOK);
        }
    }

    /// The same for a part of the text.
    pub fn see(&self, part: &str) -> Outcome<String> {
        self.wait_for(&format!("'{part}'"), |text| text.contains(part))
    }

    /// Where the sessions of this terminal have their sockets.
    pub fn runtime_folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // What it runs gets SIGHUP.
        let _ = self.tmux(&["kill-server"]);
    }
}
