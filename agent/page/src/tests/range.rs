//! Chooses a range of the run in a browser: by mouse, by keyboard and by a link.

use std::fs;

use serde_json::{Value, json};
use tuneagent_e2e::browser::Browser;
use tuneagent_e2e::{Outcome, require};

use super::{file, page, session};

const RIGHT: &str = "\u{e014}";
const ESCAPE: &str = "\u{e00c}";
const PLOT: &str = ".plot";

/// The state of the page: the text of the range, the first chart's view box without its height, the number of
/// marks in the range, whether the button for the complete run is visible, and the fragment of the address.
fn shown(browser: &Browser) -> Outcome<Value> {
    browser.run(
        "const marks = document.querySelectorAll('.over-time li:not(.outside)'); \
         return [document.querySelector('.range output').textContent, \
             document.querySelector('svg.data').getAttribute('viewBox').split(' ').slice(0, 3).map(Number), marks.length, \
             document.querySelector('.range button').checkVisibility(), decodeURIComponent(location.hash)]",
    )
}

fn complete(address: &str) -> Value {
    json!(["the complete run", [0, 0, 20], 2, false, address])
}

/// As `shown`, of a range in the middle.
fn part() -> Value {
    json!(["8 s to 14 s", [8, 0, 6], 1, true, "#range=8..14"])
}

#[test]
fn a_range_is_dragged_set_by_keys_linked_and_reset() -> Outcome {
    let _shared = require!(shared: Browser);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("page.html");
    fs::write(&path, file(&page(&session())).map_err(|error| error.to_string())?)?;
    let address = format!("file://{}", path.display());
    let browser = Browser::start()?;
    browser.prefer("light", (1280, 800))?;
    browser.open(&address)?;
    assert_eq!(shown(&browser)?, complete(""));
    is_dragged(&browser)?;
    is_set_by_keys(&browser)?;
    is_linked(&browser, &address)?;
    let errors = browser.errors()?;
    assert!(errors.is_empty(), "{errors:?}");
    Ok(())
}

fn is_dragged(browser: &Browser) -> Outcome {
    let notes = "return Array.from(document.querySelectorAll('section:not([hidden]) .complete'), note => note.checkVisibility())";
    assert_eq!(
        browser
            .run(notes)?
            .as_array()
            .map(|notes| notes.contains(&json!(true))),
        Some(false)
    );

    // The session lasts 20 s; the finding was at 5 s, the change at 10 s.
    browser.drag(PLOT, (0.7, 0.4))?;
    assert_eq!(shown(browser)?, part());
    let visible = browser.run(notes)?;
    assert!(
        visible
            .as_array()
            .is_some_and(|notes| notes.len() > 3 && notes.iter().all(|note| note == true)),
        "{visible}"
    );
    let ticks = browser.run("return Array.from(document.querySelector('.plot').querySelectorAll('.tick'), tick => tick.textContent)")?;
    assert_eq!(
        ticks,
        json!(["8 s", "9 s", "10 s", "11 s", "12 s", "13 s", "14 s"])
    );
    let marked = browser.run("return document.querySelectorAll('.plot')[0].querySelectorAll('.mark:not(.outside)')[0].getAttribute('x')")?;
    let place: f64 = marked
        .as_str()
        .unwrap_or_default()
        .trim_end_matches('%')
        .parse()
        .map_err(|_| "no place")?;
    assert!((place - 100.0 / 3.0).abs() < 0.01, "{marked}");
    // Dragging within a range narrows it; a drag over less than the shortest range has no effect.
    browser.drag(PLOT, (0.0, 0.5))?;
    assert_eq!(shown(browser)?[4], "#range=8..11");
    browser.drag(PLOT, (0.5, 0.51))?;
    assert_eq!(shown(browser)?[4], "#range=8..11");
    browser.double_click(PLOT)?;
    assert_eq!(shown(browser)?, complete(""));
    Ok(())
}

fn is_set_by_keys(browser: &Browser) -> Outcome {
    browser.run("document.querySelector('.range input').focus()")?;
    browser.press(RIGHT)?;
    browser.press(RIGHT)?;
    let by_keys = json!(["200 ms to 20 s", [0.2, 0, 19.8], 2, true, "#range=0.2..20"]);
    assert_eq!(shown(browser)?, by_keys);
    let words = browser.run("return document.activeElement.getAttribute('aria-valuetext')")?;
    assert_eq!(words, "200 ms");
    browser.press(ESCAPE)?;
    assert_eq!(shown(browser)?, complete(""));
    Ok(())
}

fn is_linked(browser: &Browser, address: &str) -> Outcome {
    // A link restores the range, the order, the filter and the colour scheme.
    let link = "#range=8..14&theme=dark&sort.changes=2d&filter.changes=rank+1";
    browser.open("about:blank")?;
    browser.open(&format!("{address}{link}"))?;
    assert_eq!(
        shown(browser)?.as_array().map(|all| &all[..4]),
        part().as_array().map(|all| &all[..4])
    );
    let colour = "return getComputedStyle(document.body).backgroundColor";
    assert_eq!(browser.run(colour)?, "rgb(13, 17, 23)");
    let rows = "return Array.from(document.querySelectorAll('#changes tbody tr'), row => [row.cells[2].textContent, row.hidden])";
    assert_eq!(browser.run(rows)?, json!([["rank 1", false], ["rank 0", true]]));
    browser.run("document.querySelector('.theme').click()")?;
    assert_eq!(browser.run(colour)?, "rgb(255, 255, 255)");
    browser.run("document.querySelector('.range button').click()")?;
    assert_eq!(
        browser.run("return location.hash")?,
        "#theme=light&sort.changes=2d&filter.changes=rank+1"
    );
    for broken in [
        "range=14..8",
        "range=x..y",
        "range=3",
        "range=-5..99",
        "range=2..2.01",
        "theme=pink",
    ] {
        browser.open("about:blank")?;
        browser.open(&format!("{address}#{broken}"))?;
        assert_eq!(shown(browser)?, complete(&format!("#{broken}")), "{broken}");
    }
    Ok(())
}
