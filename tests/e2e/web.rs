//! The HTML page in a real browser: live during a session, and as a file afterwards.

use std::fs;

use serde_json::Value;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::browser::Browser;
use tuneagent_e2e::job::Waiting;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::{Outcome, each, lammps, require};

use crate::expected::SOON;

/// Tiles of a page: name and bold text.
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

/// Asserts that the console is empty, that no other address than `ours` was requested, and that the page
/// meets WCAG in light and dark mode.
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
    let errors = browser.errors()?;
    assert!(errors.is_empty(), "{errors:?}");
    let requests = browser.requests()?;
    let is_ours = |address: &String| address.starts_with(ours) || address.starts_with("data:");
    assert!(requests.iter().all(is_ours), "{requests:?}");
    Ok(())
}

/// Moves the focus forward until the script returns true.
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
fn a_repair_is_watched_in_a_browser_and_the_file_shows_the_same_as_root() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi, Lammps, Browser);
    let job = lammps::start_printing((Waiting::Spinning, 6), 1_000_000_000, 50)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.html");
    let page = file.to_string_lossy().into_owned();
    let flags = [
        "--apply=openmpi-busy-wait",
        "--web",
        "127.0.0.1:0",
        "--html",
        &page,
    ];
    let mut agent = Agent::attach(job.pid(), &flags)?;
    let line = agent.lines.wait_for_line("page: http://", SOON)?.text;
    let address = line.split_whitespace().last().ok_or("no address")?;
    let browser = Browser::start()?;
    browser.open(address)?;
    browser.wait_for_text("#connection", |text| text == "live")?;
    let place = browser.run("return location.href")?;
    assert!(
        !place.to_string().contains("t="),
        "the token is in the address still: {place}"
    );

    agent.lines.wait_for_line("  guard    ", 2 * SOON)?;
    browser.wait_for_text("#timeline ol", |marks| {
        marks.contains("yield_when_idle") && marks.contains("kept")
    })?;
    browser.wait_for_text("#findings", |text| text.contains("repaired"))?;
    let before = inside_mpi(&agent.snapshot()?);
    let shown = tile(&tiles(&browser)?, "inside MPI")?;
    let after = inside_mpi(&agent.snapshot()?);
    let value: f64 = shown.trim_end_matches(" %").parse().context("a share")?;
    // The page may be two seconds old, and its numbers are rounded.
    let (least, most) = (before.min(after) - 10.0, before.max(after) + 10.0);
    assert!(
        (least..=most).contains(&value),
        "{shown} on the page, {before} to {after} %"
    );
    assert_clean(&browser, address.split_once("?").ok_or("no token")?.0)?;
    let report = agent.stop()?;
    browser.wait_for_text("#connection", |text| text.contains("the session ended at"))?;
    browser.wait_for_text("#connection a", |text| text == "save as one file")?;
    drop(job);

    let live = tiles(&browser)?;
    let is_kept = |change: &&Value| change["guard"]["verdict"] == "kept";
    let kept = each(&report["changes"]).find(is_kept).ok_or("nothing was kept")?;
    let gain: f64 = tile(&live, "gain of the change")?
        .trim_end_matches(" times")
        .parse()
        .context("a gain")?;
    let ratio = kept["guard"]["ratio"].as_f64().ok_or("no ratio")?;
    assert!(
        (gain / ratio - 1.0).abs() < 0.06,
        "{gain} on the page, {ratio} in the report"
    );
    browser.open(&format!("file://{page}"))?;
    assert_eq!(tiles(&browser)?, live, "the file, and the page at its end");
    reach(&browser, "a button that copies", "at.className === 'copy'")?;
    reach(
        &browser,
        "a column's heading",
        "at.closest('#functions th') !== null",
    )?;
    const ENTER: &str = "\u{e007}";
    browser.press(ENTER)?;
    let sorted =
        browser.run("return location.hash + document.querySelectorAll('#functions [aria-sort]').length")?;
    assert_eq!(sorted, "#sort.functions=0d1");
    browser.errors()?;
    browser.requests()?;
    assert_clean(&browser, "file://")?;
    assert_without_scripts(&browser, &page, &fs::read_to_string(&file)?)
}

/// The file shows its charts and tables without JavaScript, too.
fn assert_without_scripts(browser: &Browser, page: &str, text: &str) -> Outcome {
    let pictures = browser.run("return document.querySelectorAll('svg.chart, .heat img').length")?;
    assert_eq!(pictures, 3);
    browser.disable_scripts()?;
    browser.open(&format!("file://{page}"))?;
    // The driver's scripts run, although those of the page are disabled.
    let buttons = browser.run("return document.querySelectorAll('button').length")?;
    assert_eq!(buttons, 0, "scripts ran");
    let rows = browser.run("return document.querySelectorAll('#functions tbody tr').length")?;
    assert!(rows.as_u64() > Some(3) && text.contains("MPI_Wait"), "{rows}");
    Ok(())
}
