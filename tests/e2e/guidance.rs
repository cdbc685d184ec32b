//! The pages for contributors: files named in CONTRIBUTING, ARCHITECTURE and the decision records exist, and
//! the pages are short.

use std::fs;

use tuneagent_e2e::Outcome;
use tuneagent_e2e::problem::Context;

use crate::tidy::{read, root};

/// Texts in `backquotes` that look like paths of the checkout.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let ends = [".rs", ".md", ".toml", ".h", ".yaml", "/"];
        let is_path = word.contains('/') || *word == "Cargo.toml";
        let is_plain = word.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
        is_path && is_plain && ends.iter().any(|end| word.ends_with(end))
    })
}

#[test]
fn every_row_of_where_do_i_names_files_that_exist() -> Outcome {
    let page = read("CONTRIBUTING.md")?;
    let table = page.split("## Where do I ...?").nth(1).unwrap_or_default();
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() >= 12, "{} rows", rows.len());
    for row in rows {
        assert!(paths(row).next().is_some(), "no file is named: {row}");
    }
    Ok(())
}

#[test]
fn every_file_that_a_page_for_contributors_names_exists() -> Outcome {
    let mut pages = vec!["CONTRIBUTING.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for entry in fs::read_dir(root().join("docs/decisions"))? {
        pages.push(format!("docs/decisions/{}", entry?.file_name().to_string_lossy()));
    }
    let mut missing = Vec::new();
    for name in pages {
        let page = read(&name)?;
        let absent = paths(&page).filter(|path| !root().join(path).exists());
        missing.extend(absent.map(|path| format!("{name}: {path}")));
    }
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
    Ok(())
}

/// Target of each `[text](target)` that is a file.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.filter_map(|target| target.split('#').next())
}

#[test]
fn every_link_between_pages_leads_to_a_file() -> Outcome {
    let mut missing = Vec::new();
    for folder in ["", "docs", "docs/decisions", "docs/rules", "rules"] {
        for entry in fs::read_dir(root().join(folder))? {
            let path = entry?.path();
            if path.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            let page = fs::read_to_string(&path).context(path.display())?;
            let absent = links(&page).filter(|link| !root().join(folder).join(link).exists());
            missing.extend(absent.map(|link| format!("{}: {link}", path.display())));
        }
    }
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
    Ok(())
}

#[test]
fn pages_stay_short() -> Outcome {
    for (page, most) in [("README.md", 200), ("ARCHITECTURE.md", 250)] {
        let lines = read(page)?.lines().count();
        assert!(lines <= most, "{page} has {lines} lines, {most} are enough");
    }
    let page = read("ARCHITECTURE.md")?;
    let glossary = page.split("## Glossary").nth(1).unwrap_or_default();
    let words = glossary.lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert!(words <= 60, "{words} words in the glossary");
    let index = read("docs/decisions/README.md")?;
    for entry in fs::read_dir(root().join("docs/decisions"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let page = read(&format!("docs/decisions/{name}"))?;
        assert!(page.lines().count() <= 60, "docs/decisions/{name}");
        assert!(
            name == "README.md" || index.contains(&format!("]({name})")),
            "{name} has no row"
        );
        for part in ["Context", "Decision", "Consequences", "Rejected"] {
            let has_part = page.contains(&format!("\n## {part}\n"));
            assert!(name == "README.md" || has_part, "{name}: {part}");
        }
    }
    Ok(())
}
