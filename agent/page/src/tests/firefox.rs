//! Opens the file in Firefox. Browsers differ in nested SVG drawings, sliders and policies.

use std::fs;

use serde_json::json;
use tuneagent_e2e::firefox::Firefox;
use tuneagent_e2e::{Outcome, require};

use super::{file, page, session};

#[test]
fn the_file_shows_the_same_in_firefox() -> Outcome {
    let _shared = require!(shared: Firefox);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("page.html");
    fs::write(&path, file(&page(&session())).map_err(|error| error.to_string())?)?;
    let firefox = Firefox::start()?;
    let link = "#range=8..14&theme=dark&sort.changes=2d";
    firefox.open(&format!("file://{}{link}", path.display()))?;
    let shown = firefox.run(
        "return [document.querySelector('.range output').textContent, \
             document.querySelector('svg.data').getAttribute('viewBox').split(' ').slice(0, 3).map(Number), \
             Array.from(document.querySelectorAll('#changes tbody tr'), row => row.cells[2].textContent), \
             getComputedStyle(document.body).backgroundColor, document.querySelector('#functions').hidden]",
    )?;
    let colour = "rgb(13, 17, 23)";
    assert_eq!(
        shown,
        json!(["8 s to 14 s", [8, 0, 6], ["rank 1", "rank 0"], colour, true])
    );
    // The data fill the plot, and the mark at 10 s is at a third of the range from 8 s to 14 s.
    let places = firefox.run(
        "const box = of => document.querySelector(of).getBoundingClientRect(); \
         const [plot, data, mark] = [box('.plot'), box('.data'), box('.plot .mark:not(.outside) line')]; \
         return [data.width / plot.width, (mark.left - plot.left) / plot.width, plot.width > 400]",
    )?;
    let part = |at: usize| places[at].as_f64().unwrap_or(0.0);
    assert!(
        (part(0) - 1.0).abs() < 0.01 && (part(1) - 1.0 / 3.0).abs() < 0.01 && places[2] == true,
        "{places}"
    );
    firefox.drag(".plot", (0.1, 0.6))?;
    let range = firefox.run("return new URLSearchParams(location.hash.slice(1)).get('range')")?;
    assert_eq!(range, "8.6..11.6");
    let errors = firefox.errors(&path.to_string_lossy())?;
    assert!(errors.is_empty(), "{errors:?}");
    let broken = folder.path().join("broken.html");
    fs::write(&broken, "<script>absent()</script>")?;
    firefox.open(&format!("file://{}", broken.display()))?;
    let errors = firefox.errors(&broken.to_string_lossy())?;
    assert!(errors.iter().any(|error| error.contains("absent")), "{errors:?}");
    Ok(())
}
