//! The page as HTML. Names and values of the program cannot become markup, because `maud` escapes every text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use report::view;
use sha2::{Digest, Sha256};

use crate::chart::{self, Chart, Steps};
use crate::model::{Cell, Efficiency, FindingBlock, MessageMatrix, PageModel, Table, Tile, Timeline};
use crate::{heat, messages};

/// The style sheet, with a light and a dark scheme.
pub const STYLE: &str = include_str!("page.css");
/// All scripts as one module. Each comes after those that it uses.
pub const SCRIPT: &str = concat!(
    include_str!("script/address.js"),
    include_str!("script/table.js"),
    include_str!("script/copy.js"),
    include_str!("script/range.js"),
    include_str!("script/theme.js"),
    include_str!("script/live.js"),
    include_str!("script/main.js"),
);

/// The reason why a page cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the picture of ranks over time cannot be made: {0}")]
    Picture(png::EncodingError),
    #[error("the numbers cannot be written as JSON: {0}")]
    Json(serde_json::Error),
}

/// A part of the page. The live page replaces a section when it has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSection {
    /// The HTML id, by which the live page finds the section to replace.
    pub id: &'static str,
    pub html: String,
}

/// The sections in their order. A section without content is hidden rather than absent, so that the live page
/// can replace it later.
pub fn sections(page: &PageModel) -> Result<Vec<PageSection>, PageError> {
    let section = |id, is_shown: bool, title, body: Markup| PageSection {
        id,
        html: section(id, is_shown, title, &body).into_string(),
    };
    let mut all = vec![
        section("session", true, None, head(page)),
        section("numbers", !page.tiles.is_empty(), None, tiles(&page.tiles)),
        section("findings", true, Some("Findings"), findings(page)),
    ];
    let body = timeline(&page.timeline)?;
    all.push(section(
        "timeline",
        body.is_some(),
        Some("Timeline"),
        body.unwrap_or_default(),
    ));
    let lines = html! { pre { @for line in &page.summary { (line) "\n" } } };
    all.push(section(
        "summary",
        !page.summary.is_empty(),
        Some("In words"),
        lines,
    ));
    let body = efficiencies(&page.efficiencies);
    all.push(section(
        "efficiencies",
        !page.efficiencies.is_empty(),
        Some("Efficiencies"),
        body,
    ));
    let body = page.matrix.as_ref().map(matrix).transpose()?;
    all.push(section(
        "matrix",
        body.is_some(),
        Some("Messages between ranks"),
        body.unwrap_or_default(),
    ));
    for table in &page.tables {
        let is_shown = !table.rows.is_empty();
        all.push(section(table.id, is_shown, Some(table.title), self::table(table)));
    }
    all.push(section("quality", true, Some("Data quality"), quality(page)));
    Ok(all)
}

fn section(id: &str, is_shown: bool, title: Option<&str>, body: &Markup) -> Markup {
    let heading = format!("{id}-heading");
    html! {
        section id=(id) hidden[!is_shown] aria-labelledby=[title.map(|_| &heading)] {
            @if let Some(title) = title { h2 id=(heading) { (title) (of_the_complete_run(id)) } }
            (body)
        }
    }
}

/// A note in headings, visible while the charts show a range of the run. Most sections have only sums over
/// the complete run, so the range does not affect their numbers.
fn of_the_complete_run(id: &str) -> Markup {
    let is_of_a_time = ["findings", "timeline", "rules", "changes", "quality"].contains(&id);
    html! { @if !is_of_a_time { span .complete { " of the complete run" } } }
}

/// The page as one file that needs no network. It also contains the page's data:
/// `document.getElementById("data")`.
pub fn file(page: &PageModel) -> Result<String, PageError> {
    let head = html! {
        meta http-equiv="Content-Security-Policy" content=(policy());
        meta name="referrer" content="no-referrer";
        style { (PreEscaped(STYLE)) }
    };
    let end = html! {
        script type="application/json" id="data" { (PreEscaped(embedded(page)?)) }
        script type="module" { (PreEscaped(SCRIPT)) }
    };
    Ok(document(page, &head, &html! {}, &sections(page)?, &end).into_string())
}

/// The live page in the state of drawing `newest`. It loads style, scripts and later updates from the same
/// server.
pub fn live(page: &PageModel, sections: &[PageSection], newest: &str) -> String {
    let head = html! {
        link rel="icon" href="data:,";
        link rel="stylesheet" href="/page.css";
    };
    let status = html! {
        p .status {
            span id="connection" role="status" data-since=(newest) { "live, with JavaScript" } " "
            span id="newest" aria-live="polite" {}
        }
    };
    let end = html! { script type="module" src="/page.js" {} };
    document(page, &head, &status, sections, &end).into_string()
}

fn document(
    page: &PageModel,
    head: &Markup,
    first: &Markup,
    sections: &[PageSection],
    end: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.program) ": " (page.elapsed) " watched by tuneagent" }
                (head)
            }
            body {
                (first)
                main { @for section in sections { (PreEscaped(&section.html)) } }
                footer .soft { p { "made by tuneagent " (page.tuneagent) } }
                (end)
            }
        }
    }
}

/// The file's policy forbids loading anything, and permits only the style sheet and the script in the file,
/// by their checksums.
fn policy() -> String {
    let sum = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        sum(SCRIPT),
        sum(STYLE)
    )
}

/// JSON in which no name can close the script element: `<` and the line separators of JavaScript are escaped.
fn embedded(page: &PageModel) -> Result<String, PageError> {
    let text = serde_json::to_string(page).map_err(PageError::Json)?;
    Ok(text
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

fn head(page: &PageModel) -> Markup {
    html! {
        h1 { (page.title) }
        p .soft {
            "watched for " (page.elapsed) " "
            @if let Some(at) = &page.taken_at { "until " (at) " " }
            span .badge { (page.access) }
        }
    }
}

fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        (of_the_complete_run("numbers"))
        ul .tiles {
            @for tile in tiles {
                li {
                    (tile.name)
                    b { @if let Some(before) = &tile.before { (before) " → " } (tile.value) }
                    small { (tile.note) }
                }
            }
        }
    }
}

fn findings(page: &PageModel) -> Markup {
    html! {
        @for line in &page.without_findings { p { (line) } }
        @for finding in &page.findings { (self::finding(finding)) }
    }
}

fn finding(finding: &FindingBlock) -> Markup {
    html! {
        article class=(if finding.is_repaired { "finding repaired" } else { "finding" }) {
            strong { (finding.rule) } " " span .soft { "(" (finding.state) ")" }
            @for line in &finding.text { p { (line) } }
            dl {
                @for (word, advice) in [("now", &finding.now), ("next start", &finding.next_start)] {
                    @if let Some(advice) = advice { dt { (word) } dd { pre .command { (advice) } } }
                }
            }
        }
    }
}

/// Draws the charts; `None` if neither iterations nor the time of the processes were measured.
fn timeline(timeline: &Timeline) -> Result<Option<Markup>, PageError> {
    let pace = chart::pace(timeline);
    let time = chart::time_parts(timeline);
    let ranks = match timeline.ranks.is_empty() {
        true => None,
        false => Some(ranks(timeline)?),
    };
    if pace.is_none() && time.is_none() {
        return Ok(None);
    }
    let steps = Steps::of(timeline);
    Ok(Some(html! {
        // An SVG pattern hatches the gaps: the Content-Security-Policy forbids style attributes, but not SVG
        // attributes and patterns.
        svg .patterns aria-hidden="true" width="0" height="0" {
            pattern #gap width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" { rect width="2" height="6" {} }
        }
        div .over-time data-step=(steps.step_s) data-end=(steps.end_s) data-times=(steps.texts()) {
            @if let Some(pace) = &pace {
                figure { figcaption { "mean time of one iteration, and the shortest and longest; hatched: not measured" } (chart::drawn(timeline, pace)) }
            }
            @if let Some(time) = &time {
                figure {
                    figcaption .legend {
                        "where the time of the processes went; hatched: not measured"
                        @for band in &timeline.time.bands { span { i class={ (band.state) " " (band.place) } {} (band.name) } }
                    }
                    (chart::drawn(timeline, time))
                }
            }
            @if let Some(ranks) = &ranks {
                figure {
                    figcaption .legend { (timeline.quantity) ", by process" span { i .scale {} "0 % to 100 %; hatched: not measured" } }
                    (chart::drawn(timeline, ranks))
                    @if timeline.ranks_omitted > 0 { p .soft { "and " (timeline.ranks_omitted) " more" } }
                }
            }
            @if !timeline.marks.is_empty() {
                ol {
                    @for mark in &timeline.marks {
                        li value=(mark.number) data-at=(mark.at_s) { "after " (chart::time(mark.at_s)) ": " (mark.text) }
                    }
                }
            }
        }
    }))
}

/// The heat map of ranks over time. The height per rank is 12 pixels, as far as the bound on the total height
/// permits.
fn ranks(timeline: &Timeline) -> Result<Chart, PageError> {
    let rows = timeline.ranks.len();
    let height = (rows * 12).clamp(24, 360) as f64;
    let name = |row: Option<&crate::model::RankRow>| row.map_or("", |row| row.name.as_str()).to_owned();
    let (first, last) = (name(timeline.ranks.first()), name(timeline.ranks.last()));
    let text = format!(
        "{} of each process over the session, {first} to {last}; the table of processes has the means",
        timeline.quantity
    );
    let picture = heat::picture(&timeline.ranks).map_err(PageError::Picture)?;
    let mut labels = vec![(6.0, first)];
    if rows > 1 {
        labels.push((height - 6.0, last));
    }
    Ok(Chart {
        text,
        height,
        labels,
        data: html! { image href=(picture) width=(timeline.end_s) height=(height) preserveAspectRatio="none" {} },
    })
}

fn matrix(matrix: &MessageMatrix) -> Result<Markup, PageError> {
    let picture = heat::matrix(matrix).map_err(PageError::Picture)?;
    let last = matrix.side.saturating_sub(1) * matrix.ranks_per_cell;
    let of = match matrix.ranks_per_cell {
        1 => "a rank".to_owned(),
        several => format!("{several} ranks"),
    };
    Ok(html! {
        figure {
            figcaption .legend {
                span { "bytes sent; a row is " (of) " that sends, a column " (of) " that receives, from 0 to " (last) }
                span { i .scale {} "0 B to " (matrix.most) "; hatched: nothing" }
            }
            div .matrix { img alt=(messages::alternative(matrix)) width="400" height="400" src=(picture); }
            @for note in &matrix.notes { p .soft { (note) } }
        }
    })
}

fn efficiencies(all: &[Efficiency]) -> Markup {
    html! {
        div .wide tabindex="0" role="region" aria-label="factors of the efficiency" {
            table aria-label="Efficiencies" {
                caption { "each is the product of those below it" }
                thead { tr { th scope="col" { "factor" } th .n scope="col" { "value" } th scope="col" { "definition" } } }
                tbody {
                    @for one in all {
                        tr {
                            th scope="row" { @for _ in 0..one.depth { "– " } (one.name) }
                            td .n { meter min="0" max="1" value=(one.value) { } (view::efficiency(one.value)) }
                            td { (one.definition) }
                        }
                    }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div .wide tabindex="0" role="region" aria-label=(format!("table of {}", table.title.to_lowercase())) {
            table .sorted aria-label=(table.title) {
                thead {
                    tr { @for column in &table.columns { th scope="col" class=(class(column.is_number)) { (column.title) } } }
                }
                tbody {
                    @for row in &table.rows {
                        tr { @for (cell, column) in row.iter().zip(&table.columns) { (self::cell(cell, column.is_number)) } }
                    }
                }
            }
        }
        @if table.omitted > 0 { p .soft { "and " (table.omitted) " more rows" } }
    }
}

fn class(is_number: bool) -> &'static str {
    if is_number { "n" } else { "" }
}

fn cell(cell: &Cell, is_number: bool) -> Markup {
    // Shares with all their digits would be most of the data that a live page sends.
    let rounded = |share: f64| (share * 1e4).round() / 1e4;
    // The script sorts by the bar, if there is one.
    let number = cell.number.filter(|_| cell.bar.is_none());
    html! {
        td class=(class(is_number)) data-n=[number] {
            // From 0 to 1.
            @if let Some(bar) = cell.bar { meter value=(rounded(bar)) { } }
            (cell.text)
        }
    }
}

fn quality(page: &PageModel) -> Markup {
    html! {
        @if page.incomplete.is_empty() { p { "Nothing was lost and nothing is missing. ~ marks what is estimated from sampling windows." } }
        ul { @for line in &page.incomplete { li { (line) } } }
    }
}
