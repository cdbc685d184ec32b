//! Controls Debian's Chromium, without a window, through `chromedriver` and WebDriver (W3C).

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::problem::Context;
use crate::wait::wait_for;
use crate::{Outcome, Problem, each, family, wheels};

/// Limit for the start of the browser, and for a condition on a page.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one window, which is closed on drop.
pub struct Browser {
    driver: Child,
    http: ureq::Agent,
    /// Address of its session in the driver.
    session: String,
}

impl Browser {
    pub fn start() -> Outcome<Browser> {
        // Ranks that spin on all CPUs would make each step of the browser wait.
        let mut driver = Command::new("nice")
            .args(["-n", "-10", "setpriv", "--pdeathsig", "KILL", "--"])
            .args(["chromedriver", "--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start chromedriver")?;
        let lines = Lines::default();
        lines.follow(driver.stdout.take().ok_or("no output")?);
        let started = lines
            .wait_for_line("started successfully on port", PATIENCE)?
            .text;
        let port: String = started.chars().filter(char::is_ascii_digit).collect();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .build();
        let mut browser = Browser {
            driver,
            http: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
        };
        let options = json!({"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]});
        let wanted = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        });
        let session = browser.post("", &json!({"capabilities": {"alwaysMatch": wanted}}))?;
        let id = session["sessionId"]
            .as_str()
            .ok_or("the driver gave no session")?;
        browser.session = format!("{}/{id}", browser.session);
        Ok(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Outcome<Value> {
        let address = format!("{}{path}", self.session);
        let answer = self.http.post(&address).send_json(body);
        let mut answer = answer.map_err(|error| Problem::new(format!("{address}: {error}")))?;
        let read = answer.body_mut().read_json::<Value>();
        let mut value = read.map_err(|error| Problem::new(format!("{address}: {error}")))?;
        Ok(value["value"].take())
    }

    pub fn open(&self, address: &str) -> Outcome {
        self.post("/url", &json!({"url": address})).map(drop)
    }

    /// Runs a script and returns its result.
    pub fn run(&self, script: &str) -> Outcome<Value> {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Displayed text of the element with this selector.
    pub fn text(&self, selector: &str) -> Outcome<String> {
        let script = format!("return document.querySelector({selector:?})?.innerText ?? ''");
        let text = self.run(&script)?;
        text.as_str().map(str::to_owned).ok_or_else(|| "no text".into())
    }

    /// Waits until `is_so` accepts the text of an element, and returns it.
    pub fn wait_for_text(&self, selector: &str, is_so: impl Fn(&str) -> bool) -> Outcome<String> {
        let text = || Ok(Some(self.text(selector)?).filter(|text| is_so(text)));
        wait_for(&format!("the text of {selector}"), PATIENCE, text).or_else(|problem| {
            let page = self.text("body")?;
            Err(Problem::new(format!("{problem}; the page:\n{page}")))
        })
    }

    /// Sends a command of the browser's own protocol (CDP) and returns its answer.
    fn command(&self, command: &str, parameters: &Value) -> Outcome<Value> {
        let body = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", &body)
    }

    /// Takes a picture of the page as PNG, from its top and with a height of at most `height_max` pixels.
    pub fn picture(&self, height_max: u32) -> Outcome<Vec<u8>> {
        let script = "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]";
        let size = self.run(script)?;
        let height = size[1].as_u64().unwrap_or(0).min(u64::from(height_max));
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": height, "scale": 1});
        let parameters = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
        let answer = self.command("Page.captureScreenshot", &parameters)?;
        let data = answer["data"].as_str().ok_or("no picture")?;
        STANDARD.decode(data).context("a picture")
    }

    /// Sets the preferred colour scheme (light or dark) and the size of the window.
    pub fn prefer(&self, scheme: &str, (width, height): (u32, u32)) -> Outcome {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", &json!({"features": features}))?;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", &size)
            .map(drop)
    }

    /// Disables JavaScript from the next page on.
    pub fn disable_scripts(&self) -> Outcome {
        self.command("Emulation.setScriptExecutionDisabled", &json!({"value": true}))
            .map(drop)
    }

    /// Presses a key on the focused element.
    pub fn press(&self, key: &str) -> Outcome {
        let keys = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]});
        self.post("/actions", &body).map(drop)
    }

    /// Drags over an element, between two parts of its width.
    pub fn drag(&self, selector: &str, way: (f64, f64)) -> Outcome {
        let actions = dragging(|script| self.run(script), selector, way)?;
        self.post("/actions", &json!({"actions": actions})).map(drop)
    }

    pub fn double_click(&self, selector: &str) -> Outcome {
        let click = [pointer("pointerDown"), pointer("pointerUp")];
        let mut actions = vec![moved(|script| self.run(script), selector, 0.5)?];
        actions.extend(click.iter().chain(&click).cloned());
        self.post("/actions", &json!({"actions": [mouse(&actions)]}))
            .map(drop)
    }

    /// Messages on the browser's console since the last call: errors, policy violations.
    pub fn errors(&self) -> Outcome<Vec<String>> {
        let log = self.post("/se/log", &json!({"type": "browser"}))?;
        Ok(each(&log).map(|entry| entry["message"].to_string()).collect())
    }

    /// Addresses requested since the last call.
    pub fn requests(&self) -> Outcome<Vec<String>> {
        let log = self.post("/se/log", &json!({"type": "performance"}))?;
        let mut found = Vec::new();
        for entry in each(&log) {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap_or("{}"))?;
            let message = &message["message"];
            if message["method"] == "Network.requestWillBeSent" {
                let address = message["params"]["request"]["url"].as_str();
                found.push(address.unwrap_or_default().to_owned());
            }
        }
        Ok(found)
    }

    /// Violations of WCAG 2.2, levels A and AA, that axe-core finds on the page.
    pub fn violations(&self) -> Outcome<Vec<String>> {
        let file = wheels::AXE
            .file()
            .ok_or("axe-core is not there: cargo xtask setup")?;
        let axe = std::fs::read_to_string(&file).context(file.display())?;
        // The script is passed as text, because the page's policy forbids loading one.
        let script = format!(
            "{axe}\nreturn axe.run({{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}}).then(found => \
             found.violations.flatMap(one => one.nodes.map(node => one.id + ': ' + node.html + ': ' + node.failureSummary)))"
        );
        let found = self.run(&script)?;
        Ok(each(&found).map(Value::to_string).collect())
    }
}

/// WebDriver actions that press the mouse button at one part of an element's width, move to another part, and
/// release it.
pub(crate) fn dragging(
    run: impl Fn(&str) -> Outcome<Value>,
    selector: &str,
    (from, to): (f64, f64),
) -> Outcome<Value> {
    let mut actions = vec![moved(&run, selector, from)?, pointer("pointerDown")];
    // Moves in steps, because a browser may report no movement for a single jump.
    for step in 1..=4 {
        actions.push(moved(&run, selector, from + (to - from) * f64::from(step) / 4.0)?);
    }
    actions.push(pointer("pointerUp"));
    Ok(json!([mouse(&actions)]))
}

fn mouse(actions: &[Value]) -> Value {
    let parameters = json!({"pointerType": "mouse"});
    json!({"type": "pointer", "id": "mouse", "parameters": parameters, "actions": actions})
}

fn pointer(action: &str) -> Value {
    json!({"type": action, "button": 0})
}

/// A WebDriver action that moves the mouse to a part of an element's width.
fn moved(run: impl Fn(&str) -> Outcome<Value>, selector: &str, part: f64) -> Outcome<Value> {
    let script = format!(
        "const of = document.querySelector({selector:?}); of.scrollIntoView({{block: 'center'}}); \
         const box = of.getBoundingClientRect(); return [box.left + {part} * box.width, box.top + box.height / 2]"
    );
    let place = run(&script)?;
    let pixel = |at: &Value| at.as_f64().map(|at| at.round() as i64);
    let (x, y) = (pixel(&place[0]), pixel(&place[1]));
    Ok(json!({"type": "pointerMove", "x": x, "y": y, "origin": "viewport", "duration": 0}))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser when its session is deleted.
        let _ = self.http.delete(&self.session).call();
        family::end(&mut self.driver, PATIENCE);
    }
}
