//! Controls Debian's Firefox, without a window, through its own protocol Marionette, because Debian has no
//! WebDriver for it.

use std::cell::RefCell;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::problem::Context;
use crate::wait;
use crate::{Outcome, Problem, browser, each, family};

/// Limit for the start of the browser, and for a condition on a page.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one window, which is closed on drop.
pub struct Firefox {
    child: Child,
    connection: RefCell<BufReader<TcpStream>>,
    _profile: tempfile::TempDir,
}

impl Firefox {
    pub fn start() -> Outcome<Firefox> {
        let profile = tempfile::tempdir()?;
        std::fs::write(
            profile.path().join("user.js"),
            "user_pref('marionette.port', 0);\n",
        )?;
        let mut child = Command::new("setpriv")
            .args("--pdeathsig KILL -- firefox-esr --headless --marionette".split(' '))
            .args(["--remote-allow-system-access", "--no-remote", "--profile"])
            .arg(profile.path())
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start firefox-esr")?;
        let connection = match connected(profile.path()) {
            Ok(connection) => connection,
            Err(error) => {
                family::end(&mut child, PATIENCE);
                return Err(error);
            }
        };
        let firefox = Firefox {
            child,
            connection: RefCell::new(connection),
            _profile: profile,
        };
        // The browser sends a greeting first.
        firefox.message()?;
        firefox.command("WebDriver:NewSession", &json!({}))?;
        Ok(firefox)
    }

    /// Reads a message: its length, a colon, and JSON.
    fn message(&self) -> Outcome<Value> {
        let mut connection = self.connection.borrow_mut();
        let mut length = 0;
        loop {
            let mut byte = [0];
            connection.read_exact(&mut byte)?;
            match byte[0] {
                b':' => break,
                digit => length = 10 * length + usize::from(digit.wrapping_sub(b'0')),
            }
        }
        let mut text = vec![0; length];
        connection.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn command(&self, name: &str, parameters: &Value) -> Outcome<Value> {
        let text = json!([0, 1, name, parameters]).to_string();
        write!(self.connection.borrow_mut().get_mut(), "{}:{text}", text.len())?;
        let mut answer = self.message()?;
        match answer[2].take() {
            Value::Null => Ok(answer[3].take()),
            error => Err(Problem::new(format!("{name}: {error}"))),
        }
    }

    pub fn open(&self, address: &str) -> Outcome {
        self.command("WebDriver:Navigate", &json!({"url": address}))
            .map(drop)
    }

    /// Runs a script and returns its result.
    pub fn run(&self, script: &str) -> Outcome<Value> {
        let parameters = json!({"script": script, "args": []});
        let mut answer = self.command("WebDriver:ExecuteScript", &parameters)?;
        Ok(answer["value"].take())
    }

    /// Waits until a script returns true.
    pub fn wait_until(&self, script: &str) -> Outcome {
        wait::wait_until(script, PATIENCE, || Ok(self.run(script)? == true)).or_else(|problem| {
            let page = self.run("return document.body.innerText")?;
            Err(Problem::new(format!("{problem}; the page:\n{page}")))
        })
    }

    /// Drags over an element, between two parts of its width.
    pub fn drag(&self, selector: &str, way: (f64, f64)) -> Outcome {
        let actions = browser::dragging(|script| self.run(script), selector, way)?;
        let parameters = json!({"actions": actions});
        self.command("WebDriver:PerformActions", &parameters).map(drop)
    }

    /// Errors of scripts, styles and policies, on the browser's console, in pages at this address.
    pub fn errors(&self, address: &str) -> Outcome<Vec<String>> {
        self.command("Marionette:SetContext", &json!({"value": "chrome"}))?;
        let found = self.run(&format!(
            "return Services.console.getMessageArray().map(String).filter(text => text.includes({address:?}))"
        ))?;
        self.command("Marionette:SetContext", &json!({"value": "content"}))?;
        Ok(each(&found).map(Value::to_string).collect())
    }
}

/// Connects to the browser, which writes its port to a file in its profile.
fn connected(profile: &std::path::Path) -> Outcome<BufReader<TcpStream>> {
    let file = profile.join("MarionetteActivePort");
    let port = wait::wait_for("Firefox to start", PATIENCE, || {
        let port = std::fs::read_to_string(&file).unwrap_or_default();
        Ok(port.trim().parse::<u16>().ok())
    })?;
    let connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(connection))
}

impl Drop for Firefox {
    fn drop(&mut self) {
        family::end(&mut self.child, PATIENCE);
    }
}
