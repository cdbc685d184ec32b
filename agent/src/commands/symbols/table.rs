//! Formats rows as lines of a given width. Long types are cut. Names never are, because they are copied: a
//! name that does not fit has its own line.

use profile::format::count;
use report::view::columns;

use super::{INLINED, SymbolRow};

/// The width if standard output is no terminal.
const WIDTH: usize = 80;
/// Minimum width of the layout.
const WIDTH_MIN: usize = 60;
/// A name gets at most this fraction of the width: one part in three.
const NAME_SHARE: usize = 3;
/// Longer section names move the next column, which is rare.
const SECTION_MAX: usize = 8;
/// The longest usual text: `set NAME.member`.
const CAN: usize = 16;

/// Columns of the terminal; 80 if there is none.
pub(super) fn width() -> usize {
    columns(std::io::stdout()).map_or(WIDTH, |columns| columns.max(WIDTH_MIN))
}

/// The lines, with a heading. The last column depends on the options.
pub(super) fn lines(rows: &[SymbolRow], width: usize) -> Vec<String> {
    let has_sites = rows.iter().any(|row| row.site.is_some());
    let heading = if has_sites { "probed at" } else { "can" };
    let longest = |text: &dyn Fn(&SymbolRow) -> usize, most: usize| {
        rows.iter()
            .map(text)
            .filter(|length| *length <= most)
            .max()
            .unwrap_or_default()
    };
    let most = width / NAME_SHARE;
    let name = longest(&|row| shown(row).chars().count(), most).max(4);
    let section = longest(
        &|row| row.section.as_deref().unwrap_or_default().len(),
        SECTION_MAX,
    )
    .max(7);
    let size = longest(&|row| size_of(row).len(), usize::MAX).max(4);
    let can = match has_sites {
        true => longest(&|row| last(row).chars().count(), usize::MAX),
        false => CAN,
    };
    let fixed = name + size + section + can + 10;
    let type_width =
        longest(&|row| type_of(row).chars().count(), usize::MAX).clamp(4, width.saturating_sub(fixed).max(8));
    let mut lines = vec![format!(
        "  {:<name$}  {:<type_width$}  {:>size$}  {:<section$}  {heading}",
        "name", "type", "size", "section"
    )];
    for row in rows {
        let mut head = shown(row);
        if head.chars().count() > name {
            lines.push(format!("  {head}"));
            head = String::new();
        }
        if row.kind == INLINED {
            lines.push(format!("  {head:<name$}  {}", row.can));
            continue;
        }
        lines.push(format!(
            "  {head:<name$}  {:<type_width$}  {:>size$}  {:<section$}  {}",
            cut(type_of(row), type_width),
            size_of(row),
            row.section.as_deref().unwrap_or("-"),
            last(row)
        ));
    }
    lines
}

fn last(row: &SymbolRow) -> String {
    match &row.site {
        Some(site) => site.to_string(),
        None => row.can.clone(),
    }
}

/// A private name with its source file, which distinguishes it from others.
fn shown(row: &SymbolRow) -> String {
    let unit = row.unit.as_deref().filter(|_| row.kind == "variable");
    let unit = unit.and_then(|unit| unit.rsplit('/').next());
    match unit {
        Some(unit) => format!("{unit}:{}", row.name),
        None => row.name.clone(),
    }
}

fn type_of(row: &SymbolRow) -> &str {
    row.type_name.as_deref().unwrap_or("?")
}

/// Symbols of the linker have no size.
fn size_of(row: &SymbolRow) -> String {
    match row.size {
        0 => "-".to_owned(),
        size => count(size as f64),
    }
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::symbols::sites::SiteRow;

    fn row(name: &str, type_name: Option<&str>, size: u64, can: &str) -> SymbolRow {
        SymbolRow {
            name: name.into(),
            symbol: name.into(),
            kind: "variable",
            type_name: type_name.map(str::to_owned),
            size,
            section: type_name.map(|_| ".data".into()),
            unit: None,
            can: can.into(),
            site: None,
        }
    }

    #[test]
    fn the_places_of_probes_stand_where_else_what_can_be_done_is_said() {
        let site = |bytes, instruction: &str, cost: &str, because: Option<&str>| {
            Some(SiteRow {
                bytes,
                instruction: instruction.into(),
                cost: cost.into(),
                because: because.map(str::to_owned),
            })
        };
        let rows = [
            SymbolRow {
                site: site(7, "push", "emulated", None),
                ..row("PMPI_Waitall", None, 215, "probe")
            },
            SymbolRow {
                site: site(0, "sub", "single-stepped", Some("then the stack moves")),
                ..row("PMPI_Wtime", Some("double ()"), 52, "probe")
            },
            row("memcpy", None, 300, "probe (ifunc)"),
        ];
        insta::assert_snapshot!(lines(&rows, 80).join("\n"));
    }

    #[test]
    fn rows_fit_into_80_columns_and_names_are_never_cut() {
        let long = "app::detail::Scheduler::granularity_of_the_very_last_block";
        let rows = [
            row("chunk", Some("int"), 4, "set"),
            row("cfg", Some("struct config"), 1_048_576, "set NAME.member"),
            row(
                long,
                Some("std::map<std::string, std::vector<double>, std::less<std::string>>"),
                48,
                "set NAME.member",
            ),
            SymbolRow {
                kind: INLINED,
                ..row("half", None, 0, "inlined into step at paths.c:30: probe that")
            },
            row("__TMC_END__", None, 0, "read (constant)"),
            SymbolRow {
                unit: Some("src/solver.c".into()),
                ..row("limit", Some("int"), 4, "set")
            },
        ];
        let lines = lines(&rows, 80);
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() <= 80 || line.contains(long))
        );
        insta::assert_snapshot!(lines.join("\n"));
    }
}
