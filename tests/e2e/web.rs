//! The HTML page in a real browser: live during a session, and as a file afterwards.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::browser::Browser;
use tuneagent_e2e::firefox::Firefox;
use tuneagent_e2e::job::Waiting;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::wait::{wait_for, wait_until};
use tuneagent_e2e::{Outcome, each, lammps, programs, require};

use crate::expected::{SOON, start_workers};
use crate::iterations::{number, wait_for_report};
use crate::openmp;

/// Tiles of a page: their names and bold texts.
fn tiles(browser: &Browser) -> Outcome<Vec<(String, String)>> {
    let script = "return Array.from(document.querySelectorAll('.tiles li'), \
        tile => [tile.firstChild.textContent, tile.querySelector('b').textContent])";
    let found = browser.run(script)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(each(&found)
        .map(|pair| (text(&pair[0]), text(&pair[1])))
        .collect())
}

fn tile(tiles: &[(String, String)], name: &str) -> Outcome<String> {
    let found = tiles.iter().find(|(of, _)| of == name);
    found
        .map(|(_, value)| value.clone())
        .ok_or_else(|| format!("no tile {name}: {tiles:?}").into())
}

/// Mean over the processes of the time inside MPI, in percent.
fn inside_mpi(report: &Value) -> f64 {
    let shares: Vec<f64> = each(&report["processes"])
        .filter_map(|process| Some(process["mpi_time_s"].as_f64()? / process["watched_s"].as_f64()?))
        .collect();
    100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

/// Asserts that the page meets WCAG in light and dark mode, and calls `assert_quiet`.
fn assert_clean(browser: &Browser, ours: &str) -> Outcome {
    for (scheme, size) in [
        ("light", (1280, 900)),
        ("dark", (1280, 900)),
        ("light", (360, 800)),
    ] {
        browser.prefer(scheme, size)?;
        let violations = browser.violations()?;
        assert!(
            violations.is_empty(),
            "{scheme} {size:?}:\n{}",
            violations.join("\n")
        );
        let is_wider = browser.run("return document.documentElement.scrollWidth > innerWidth")?;
        assert_eq!(is_wider, false, "the page is wider than {size:?}");
    }
    assert_quiet(browser, ours)
}

/// Asserts that the console is empty, and that no other address than `ours` was requested since the last call.
fn assert_quiet(browser: &Browser, ours: &str) -> Outcome {
    let errors = browser.errors()?;
    assert!(errors.is_empty(), "{errors:?}");
    let requests = browser.requests()?;
    let is_ours = |address: &String| {
        [ours, "data:", "blob:"]
            .iter()
            .any(|prefix| address.starts_with(prefix))
    };
    assert!(requests.iter().all(is_ours), "{requests:?}");
    Ok(())
}

/// The number in a cell, in base units. `row` is the text of the row's first cell.
fn cell(browser: &Browser, table: &str, row: &str, column: &str) -> Outcome<Option<f64>> {
    let script = format!(
        "const place = Array.from(document.querySelectorAll('#{table} thead th'), head => head.textContent).indexOf('{column}'); \
         const rows = Array.from(document.querySelectorAll('#{table} tbody tr')); \
         const cell = rows.find(row => row.cells[0].textContent === '{row}')?.cells[place]; \
         return cell?.querySelector('meter')?.getAttribute('value') ?? cell?.dataset.n ?? null"
    );
    let found = browser.run(&script)?;
    Ok(found.as_str().and_then(|text| text.parse().ok()))
}

/// Texts of all cells of all tables.
fn all_cells(browser: &Browser) -> Outcome<Value> {
    browser.run("return Array.from(document.querySelectorAll('main td'), cell => cell.textContent)")
}

/// Parses a time of the page; in seconds.
fn seconds(text: &str) -> Outcome<f64> {
    let (value, unit) = text.split_once(' ').ok_or("no unit")?;
    let of_unit = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (_, scale) = of_unit.iter().find(|(name, _)| *name == unit).ok_or("no time")?;
    Ok(value.parse::<f64>().context("a time")? * scale)
}

/// Asserts that the data of a page match docs/page.schema.json.
fn assert_valid(data: &Value) -> Outcome {
    let file = crate::tidy::root().join("docs/page.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(file)?)?;
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("page.json", schema)
        .map_err(|error| error.to_string())?;
    let mut schemas = boon::Schemas::new();
    let index = compiler
        .compile("page.json", &mut schemas)
        .map_err(|error| error.to_string())?;
    let valid = schemas.validate(data, index);
    Ok(valid.map_err(|error| error.to_string())?)
}

/// Name of the file that a session writes.
const FILE: &str = "run.html";

/// A session with a browser that shows its page.
struct Watched {
    agent: Agent,
    browser: Browser,
    /// The printed address, and the address without its token.
    address: String,
    ours: String,
    folder: tempfile::TempDir,
}

impl Watched {
    fn start(pid: u32, flags: &[&str]) -> Outcome<Watched> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join(FILE).to_string_lossy().into_owned();
        let flags = [flags, &["--web", "127.0.0.1:0", "--html", &file]].concat();
        let agent = Agent::attach(pid, &flags)?;
        let line = agent.lines.wait_for_line("page: http://", SOON)?.text;
        let address = line.split_whitespace().last().ok_or("no address")?;
        let (ours, _) = address.split_once('?').ok_or("no token")?;
        let browser = Browser::start()?;
        browser.open(address)?;
        browser.wait_for_text("#connection", |text| text == "live")?;
        Ok(Watched {
            ours: ours.to_owned(),
            address: address.to_owned(),
            agent,
            browser,
            folder,
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// Asserts that the page shows the session's value of a number that only grows.
    fn assert_live(
        &self,
        (table, row, column): (&str, &str, &str),
        of: impl Fn(&Value) -> Option<f64>,
    ) -> Outcome {
        let before = of(&self.agent.snapshot()?).ok_or("it is not in the snapshot")?;
        let shown = wait_for(&format!("{row}: {column} to reach {before}"), SOON, || {
            Ok(cell(&self.browser, table, row, column)?.filter(|shown| *shown >= before))
        })?;
        let after = of(&self.agent.snapshot()?).ok_or("it is not in the snapshot")?;
        assert!(
            shown <= after,
            "{row}: {column} is {shown} on the page, {after} later"
        );
        Ok(())
    }

    /// Asserts that the page shows the session's time of one iteration.
    fn assert_pace(&self) -> Outcome {
        let mean = |report: &Value| number(&report["iteration"]["mean_s"]);
        let before = mean(&self.agent.snapshot()?);
        let shown = seconds(&tile(&tiles(&self.browser)?, "one iteration")?)?;
        let after = mean(&self.agent.snapshot()?);
        // The page can be two seconds old, and shows three digits.
        assert!(
            (0.8 * before.min(after)..=1.2 * before.max(after)).contains(&shown),
            "{shown} s on the page, {before} to {after} s"
        );
        Ok(())
    }

    /// Asserts that the page shows the session's share of the time inside MPI.
    fn assert_inside_mpi(&self) -> Outcome {
        let before = inside_mpi(&self.agent.snapshot()?);
        let shown = tile(&tiles(&self.browser)?, "inside MPI")?;
        let after = inside_mpi(&self.agent.snapshot()?);
        let value: f64 = shown.trim_end_matches(" %").parse().context("a share")?;
        // The page can be two seconds old, and shows rounded numbers.
        let (least, most) = (before.min(after) - 10.0, before.max(after) + 10.0);
        assert!(
            (least..=most).contains(&value),
            "{shown} on the page, {before} to {after} %"
        );
        Ok(())
    }

    /// Ends the session, waits for the page's last values, and opens the file, which must have the same
    /// values. Returns the report.
    fn end(&mut self) -> Outcome<Value> {
        let data = self
            .browser
            .run("return fetch('/api/page').then(answer => answer.json())")?;
        assert_valid(&data)?;
        assert_quiet(&self.browser, &self.ours)?;
        self.agent.signal(Signal::INT)?;
        // A guard may have reverted a change on a busy machine.
        let report = self.agent.finish_with(SOON, &[0, 1])?;
        let is_over = |text: &str| text.contains("the session ended at") && text.contains("save as one file");
        self.browser.wait_for_text(".status", is_over)?;
        let live = (tiles(&self.browser)?, all_cells(&self.browser)?);
        assert_quiet(&self.browser, &self.ours)?;
        self.browser.open(&format!("file://{}", self.file().display()))?;
        let kept = (tiles(&self.browser)?, all_cells(&self.browser)?);
        assert_eq!(kept, live, "the file, and the page at its end");
        let data = self
            .browser
            .run("return JSON.parse(document.getElementById('data').textContent)")?;
        assert_valid(&data)?;
        assert_quiet(&self.browser, "file://")?;
        Ok(report)
    }

    /// Asserts that the page shows this number; the page rounds shares to four digits.
    fn assert_cell(&self, (table, row, column): (&str, &str, &str), is: f64) -> Outcome {
        let shown = cell(&self.browser, table, row, column)?;
        assert!(
            shown.is_some_and(|shown| (shown - is).abs() < 1e-4),
            "{row}: {column} is {shown:?} on the page, {is} in the report"
        );
        Ok(())
    }
}

/// Sum of the calls of a function over all processes.
fn calls(report: &Value, name: &str) -> Option<f64> {
    let all = each(&report["processes"]).flat_map(|process| each(&process["functions"]));
    let of = all.filter(|function| function["name"] == name);
    of.map(|function| function["calls"].as_f64()).sum()
}

/// Asserts that a range stays chosen while the live page replaces its charts.
fn assert_range_stays(browser: &Browser) -> Outcome {
    browser.run("location.hash = 'range=0.5..1'")?;
    browser.wait_for_text("#connection", |text| text == "live")?;
    let shown = |text: &str| text == "500 ms to 1 s";
    browser.wait_for_text(".range output", shown)?;
    let head = browser.text("#session p")?;
    browser.wait_for_text("#session p", |text| text != head)?;
    browser.run("window.before = document.querySelector('.over-time')")?;
    wait_until("new charts", SOON, || {
        Ok(browser.run("return window.before.isConnected")? == false)
    })?;
    browser.wait_for_text(".range output", shown)?;
    browser.press("\u{e00c}")?;
    browser.wait_for_text(".range output", |text| text == "the complete run")?;
    Ok(())
}

#[test]
fn an_openmp_program_without_mpi_has_the_numbers_of_the_session_on_its_page() -> Outcome {
    let _shared = require!(shared: Root, Cc, Browser, Firefox);
    let mut job = openmp::start(&programs::openmp("uneven")?, "20 20 60 20")?;
    let mut watched = Watched::start(job.pid(), &["--rules", "none"])?;
    wait_for_report(&watched.agent, |now| {
        now["iteration"]["count"].as_u64() > Some(12)
    })?;
    let process = format!("process {}", job.pid());
    watched.assert_live(("regions", &process, "regions"), |now| {
        now["processes"][0]["openmp"]["regions"].as_f64()
    })?;
    watched.assert_pace()?;
    assert_range_stays(&watched.browser)?;
    let firefox = Firefox::start()?;
    firefox.open(&watched.address)?;
    firefox.wait_until("return document.getElementById('connection').textContent === 'live'")?;
    firefox.run("window.before = document.querySelector('#session p')")?;
    firefox.wait_until("return !window.before.isConnected")?;
    let report = watched.end()?;
    firefox
        .wait_until("return document.querySelector('.status').textContent.includes('save as one file')")?;
    let errors = firefox.errors(&watched.ours)?;
    assert!(errors.is_empty(), "{errors:?}");
    job.end(SOON)?;
    let of = &report["processes"][0]["openmp"];
    watched.assert_cell(("regions", &process, "regions"), number(&of["regions"]))?;
    watched.assert_cell(("regions", &process, "threads"), 2.0)?;
    for (column, share) in [
        ("time inside", &of["inside_share"]),
        ("working", &of["teams"]["working_share"]),
        ("load balance", &of["teams"]["load_balance"]),
    ] {
        watched.assert_cell(("regions", &process, column), number(share))?;
    }
    Ok(())
}

#[test]
fn a_model_on_mpich_has_the_numbers_of_the_session_on_its_page() -> Outcome {
    let _machine = require!(machine: Root, Mpich, Browser);
    let job = start_workers(9, ["100000", "4000", "2"])?;
    let flags = ["--rules", "none", "optimal-workers", "--apply"];
    let mut watched = Watched::start(job.pid(), &flags)?;
    watched.agent.lines.wait_for_line("guard", 2 * SOON)?;
    watched
        .browser
        .wait_for_text("#changes", |text| text.contains("NOptWorkers"))?;
    watched.assert_live(("functions", "MPI_Send", "calls"), |now| calls(now, "MPI_Send"))?;
    watched.assert_inside_mpi()?;
    let report = watched.end()?;
    let sent = calls(&report, "MPI_Send").ok_or("MPI_Send is not in the report")?;
    watched.assert_cell(("functions", "MPI_Send", "calls"), sent)?;
    let change = &report["changes"][0];
    let text = watched.browser.text("#changes")?;
    for part in [&change["old"], &change["new"], &change["guard"]["text"]] {
        let part = part.as_str().ok_or("not in the report")?;
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    Ok(())
}

/// Moves the focus forward until `is_reached` returns true.
fn reach(browser: &Browser, what: &str, is_reached: &str) -> Outcome {
    const TAB: &str = "\u{e004}";
    let script = format!("const at = document.activeElement; return {is_reached}");
    for _ in 0..200 {
        browser.press(TAB)?;
        if browser.run(&script)? == true {
            return Ok(());
        }
    }
    Err(format!("{what} is not reached by the keyboard").into())
}

#[test]
fn a_repair_is_watched_in_a_browser_and_the_file_shows_the_same() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi, Lammps, Browser);
    let job = lammps::start_printing((Waiting::Spinning, 6), 1_000_000_000, 50)?;
    let mut watched = Watched::start(job.pid(), &["--apply=openmpi-busy-wait"])?;
    let place = watched.browser.run("return location.href")?;
    assert!(
        !place.to_string().contains("t="),
        "the token is in the address still: {place}"
    );

    watched.agent.lines.wait_for_line("  guard    ", 2 * SOON)?;
    watched.browser.wait_for_text("#timeline ol", |marks| {
        marks.contains("yield_when_idle") && marks.contains("kept")
    })?;
    let is_repaired = |text: &str| text.contains("repaired");
    watched.browser.wait_for_text("#findings", is_repaired)?;
    watched.assert_inside_mpi()?;
    assert_clean(&watched.browser, &watched.ours)?;
    let report = watched.end()?;
    drop(job);

    let is_kept = |change: &&Value| change["guard"]["verdict"] == "kept";
    let kept = each(&report["changes"]).rfind(is_kept);
    let kept = kept.ok_or("nothing was kept")?;
    let gain = tile(&tiles(&watched.browser)?, "gain of the change");
    let gain = gain.context(&kept["guard"])?;
    let gain: f64 = gain.trim_end_matches(" times").parse().context("a gain")?;
    let ratio = number(&kept["guard"]["ratio"]);
    assert!(
        (gain / ratio - 1.0).abs() < 0.06,
        "{gain} on the page, {ratio} in the report"
    );
    assert_keyboard(&watched.browser)?;
    assert_clean(&watched.browser, "file://")?;
    assert_without_scripts(&watched)
}

/// Asserts that copying and sorting work by keyboard.
fn assert_keyboard(browser: &Browser) -> Outcome {
    reach(browser, "a button that copies", "at.className === 'copy'")?;
    reach(
        browser,
        "a column's heading",
        "at.closest('#functions th') !== null",
    )?;
    const ENTER: &str = "\u{e007}";
    browser.press(ENTER)?;
    let sorted =
        browser.run("return location.hash + document.querySelectorAll('#functions [aria-sort]').length")?;
    assert_eq!(sorted, "#sort.functions=0d1");
    Ok(())
}

/// Asserts that the file shows its charts and tables without JavaScript.
fn assert_without_scripts(watched: &Watched) -> Outcome {
    let browser = &watched.browser;
    let pictures = browser.run("return document.querySelectorAll('svg.plot').length")?;
    assert_eq!(pictures, 3);
    browser.disable_scripts()?;
    let file = watched.file();
    browser.open(&format!("file://{}", file.display()))?;
    // The driver's scripts run, although those of the page are disabled.
    let buttons = browser.run("return document.querySelectorAll('button').length")?;
    assert_eq!(buttons, 0, "scripts ran");
    let rows = browser.run("return document.querySelectorAll('#functions tbody tr').length")?;
    let text = fs::read_to_string(file)?;
    assert!(rows.as_u64() > Some(3) && text.contains("MPI_Wait"), "{rows}");
    Ok(())
}
