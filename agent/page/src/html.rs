//! The page as HTML. Whatever comes from a program is text, never markup: `maud` escapes all of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::chart::{self, ChartError};
use crate::heat;
use crate::model::{Cell, Efficiency, FindingBlock, PageModel, Table, Tile, Timeline};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("a chart cannot be drawn: {0}")]
    Chart(#[from] ChartError),
    #[error("the picture of ranks over time cannot be made: {0}")]
    Picture(#[from] png::EncodingError),
    #[error("the numbers cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The file. It holds the page's data, too: `document.getElementById("data")`.
pub fn html(page: &PageModel) -> Result<String, PageError> {
    let timeline = timeline(&page.timeline)?;
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (page.program) ": " (page.elapsed) " watched by tuneagent" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (head(page))
                main {
                    ul .tiles { @for tile in &page.tiles { (self::tile(tile)) } }
                    (findings(page))
                    (timeline)
                    (efficiencies(&page.efficiencies))
                    @for table in &page.tables { (self::table(table)) }
                    (quality(page))
                }
                footer .soft { p { "made by tuneagent " (page.tuneagent) } }
                script type="application/json" id="data" { (PreEscaped(embedded(page)?)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(markup.into_string())
}

/// Nothing is loaded; the style and the script are those that stand in the file.
fn policy() -> String {
    let sum = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        sum(SCRIPT),
        sum(STYLE)
    )
}

/// As JSON that no name can end: `<` and the line ends of JavaScript are escaped.
fn embedded(page: &PageModel) -> Result<String, PageError> {
    let text = serde_json::to_string(page)?;
    Ok(text
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

fn head(page: &PageModel) -> Markup {
    html! {
        header {
            h1 { (page.title) }
            p .soft {
                "watched for " (page.elapsed) " "
                @if let Some(at) = &page.taken_at { "until " (at) " " }
                span .badge { @if page.has_written { "changed the program" } @else { "only watched" } }
            }
            pre { @for line in &page.summary { (line) "\n" } }
        }
    }
}

fn tile(tile: &Tile) -> Markup {
    html! {
        li {
            (tile.name)
            b { @if let Some(before) = &tile.before { (before) " → " } (tile.value) }
            small { (tile.note) }
        }
    }
}

fn findings(page: &PageModel) -> Markup {
    html! {
        section aria-labelledby="findings" {
            h2 id="findings" { "Findings" }
            @for line in &page.without_findings { p { (line) } }
            @for finding in &page.findings { (self::finding(finding)) }
        }
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

fn timeline(timeline: &Timeline) -> Result<Markup, PageError> {
    let pace = chart::pace(timeline)?;
    let shares = chart::shares(timeline)?;
    let ranks = match timeline.ranks.is_empty() {
        true => None,
        false => Some(heat::picture(&timeline.ranks)?),
    };
    if pace.is_none() && shares.is_none() {
        return Ok(html! {});
    }
    Ok(html! {
        section aria-labelledby="timeline" {
            h2 id="timeline" { "Timeline" }
            @if let Some(svg) = &pace {
                figure { figcaption { "time of one iteration; hatched: not measured" } (PreEscaped(svg)) }
            }
            @if let Some(svg) = &shares {
                figure {
                    figcaption .legend {
                        "time of the processes" i .cpu {} "on a CPU" i .wait {} "waiting for a CPU" i .rest {} "asleep"
                    }
                    (PreEscaped(svg))
                }
            }
            @if let Some(picture) = &ranks { (self::ranks(timeline, picture)) }
            @if !timeline.marks.is_empty() {
                ol { @for mark in &timeline.marks { li value=(mark.number) { "after " (chart::time(mark.at_s)) ": " (mark.text) } } }
            }
        }
    })
}

/// Each row is high enough to be seen apart from the next one.
fn ranks(timeline: &Timeline, picture: &str) -> Markup {
    let rows = timeline.ranks.len();
    let height = (rows * 12).clamp(24, 360);
    let name = |row: Option<&crate::model::RankRow>| row.map_or("", |row| row.name.as_str()).to_owned();
    let (first, last) = (name(timeline.ranks.first()), name(timeline.ranks.last()));
    let text = format!(
        "{} of each process over the session, {first} to {last}; the table of processes has the means",
        timeline.quantity
    );
    html! {
        figure {
            figcaption .legend { (timeline.quantity) ", by process" i .scale {} "0 % to 100 %; hatched: not measured" }
            div .heat {
                span { (first) @if rows > 1 { br; (last) } }
                img alt=(text) width="1000" height=(height) src=(picture);
            }
            @if timeline.ranks_omitted > 0 { p .soft { "and " (timeline.ranks_omitted) " more" } }
        }
    }
}

fn efficiencies(all: &[Efficiency]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="efficiencies" {
            h2 id="efficiencies" { "Efficiencies" }
            div .wide {
                table aria-label="Efficiencies" {
                    caption { "each is the product of those below it" }
                    thead { tr { th scope="col" { "factor" } th .n scope="col" { "value" } th scope="col" { "definition" } } }
                    tbody {
                        @for one in all {
                            tr {
                                th scope="row" { @for _ in 0..one.depth { "– " } (one.name) }
                                td .n { meter min="0" max="1" value=(one.value) { } (format!("{:.2}", one.value)) }
                                td { (one.definition) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        section aria-labelledby=(table.id) {
            h2 id=(table.id) { (table.title) }
            div .wide {
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
}

fn class(is_number: bool) -> &'static str {
    if is_number { "n" } else { "" }
}

fn cell(cell: &Cell, is_number: bool) -> Markup {
    html! {
        td class=(class(is_number)) data-n=[cell.number] {
            @if let Some(bar) = cell.bar { meter min="0" max="1" value=(bar) { } }
            (cell.text)
        }
    }
}

fn quality(page: &PageModel) -> Markup {
    html! {
        section aria-labelledby="quality" {
            h2 id="quality" { "Data quality" }
            @if page.incomplete.is_empty() { p { "Nothing was lost and nothing is missing. ~ marks what is estimated from sampling windows." } }
            ul { @for line in &page.incomplete { li { (line) } } }
        }
    }
}
