//! `docs/sources.md` has the requirements of five works with their status; this test keeps it complete.
//!
//! Text search, as in `tidy`. It checks that the named tests exist, not that they cover the requirement.

use std::collections::{BTreeMap, BTreeSet};

use tuneagent_e2e::Outcome;

use crate::tidy::read;

/// The works, and the number of requirements of each.
const WORKS: [(&str, usize); 5] = [("S0", 76), ("S1", 64), ("S2", 94), ("S3", 40), ("S4", 32)];

/// Number of rows by status.
type Counts = BTreeMap<&'static str, usize>;

struct Row {
    id: String,
    requirement: String,
    status: Status,
}

enum Status {
    /// Tests of the form `path::name`.
    Test(Vec<(String, String)>),
    /// The part of the product that will do it.
    Later(String),
    Superseded,
}

impl Status {
    fn parse(text: &str) -> Option<Status> {
        let (form, rest) = text.split_once(": ")?;
        match form {
            "test" => {
                let tests = rest.split(", ").map(|test| {
                    let (path, name) = test.split_once("::")?;
                    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
                    (path.ends_with(".rs") && is_name).then(|| (path.to_owned(), name.to_owned()))
                });
                Some(Status::Test(tests.collect::<Option<_>>()?))
            }
            "later" => {
                let part = rest.split_once(" (").map_or(rest, |(part, _)| part);
                Some(Status::Later(part.to_owned()))
            }
            "superseded" => (rest.split_whitespace().count() >= 4).then_some(Status::Superseded),
            _ => None,
        }
    }

    fn form(&self) -> &'static str {
        match self {
            Status::Test(_) => "test",
            Status::Later(_) => "later",
            Status::Superseded => "superseded",
        }
    }
}

fn page() -> Outcome<String> {
    read("docs/sources.md")
}

/// Cells of a table row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(inside.split(" | ").collect())
}

/// All requirements in page order.
fn rows(page: &str) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| S")) {
        let cells = cells(line).unwrap_or_default();
        let [id, requirement, status] = cells[..] else {
            return Err(format!("not three cells: {line}").into());
        };
        let status =
            Status::parse(status).ok_or_else(|| format!("{id}: not test, later or superseded: {status}"))?;
        rows.push(Row {
            id: id.to_owned(),
            requirement: requirement.to_owned(),
            status,
        });
    }
    Ok(rows)
}

/// The product parts in the first table of the page.
fn parts(page: &str) -> BTreeSet<&str> {
    let intro = page.split("\n## S0").next().unwrap_or_default();
    let rows = intro.lines().filter_map(cells);
    let names = rows.filter_map(|cells| cells.first().copied());
    names.filter(|name| *name != "part").collect()
}

fn sentence(counts: &Counts) -> String {
    let of = |form| counts.get(form).copied().unwrap_or_default();
    let (test, later, superseded) = (of("test"), of("later"), of("superseded"));
    let all = test + later + superseded;
    format!("{all} requirements: {test} test, {later} later, {superseded} superseded.")
}

fn count<'a>(rows: impl Iterator<Item = &'a Row>) -> Counts {
    let mut counts = Counts::new();
    rows.for_each(|row| *counts.entry(row.status.form()).or_default() += 1);
    counts
}

/// Whether the text has a function of this name with a test attribute.
fn has_test(text: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let functions = (0..lines.len()).filter(|index| lines[*index].starts_with(&head));
    let mut marks = functions.map(|index| {
        let above = lines[..index].iter().rev();
        above
            .take_while(|line| line.starts_with("#["))
            .any(|line| *line == "#[test]")
    });
    marks.any(|is_marked| is_marked)
}

#[test]
fn every_requirement_of_the_five_works_stands_once_and_in_order() -> Outcome {
    let page = page()?;
    let rows = rows(&page)?;
    let found: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let expected: Vec<String> = WORKS
        .iter()
        .flat_map(|(work, last)| (1..=*last).map(move |number| format!("{work}-{number}")))
        .collect();
    let first_difference = expected.iter().zip(&found).find(|(wanted, is)| wanted != is);
    assert_eq!(first_difference, None, "the order of the works");
    assert_eq!(found.len(), expected.len());
    for row in &rows {
        assert!(row.requirement.len() > 10, "{} says nothing", row.id);
    }
    Ok(())
}

#[test]
fn plans_name_parts_of_the_product_and_every_part_has_one() -> Outcome {
    let page = page()?;
    let mut named = BTreeSet::new();
    let rows = rows(&page)?;
    for row in &rows {
        if let Status::Later(part) = &row.status {
            assert!(
                parts(&page).contains(part.as_str()),
                "{}: the page lists no part `{part}`",
                row.id
            );
            named.insert(part.as_str());
        }
    }
    assert_eq!(named, parts(&page), "a part without a requirement");
    Ok(())
}

#[test]
fn every_test_that_is_named_is_there() -> Outcome {
    let page = page()?;
    for row in rows(&page)? {
        let Status::Test(tests) = &row.status else {
            continue;
        };
        for (path, name) in tests {
            assert!(
                has_test(&read(path)?, name),
                "{}: {path} has no test {name}",
                row.id
            );
        }
    }
    Ok(())
}

/// All texts in `backquotes`.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_page_on_security_names_is_there() -> Outcome {
    let page = read("docs/security.md")?;
    let named: Vec<(&str, &str)> = quoted(&page)
        .filter_map(|word| word.split_once(".rs::"))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let mut missing = Vec::new();
    for (file, name) in named {
        if !read(&format!("{file}.rs")).is_ok_and(|text| has_test(&text, name)) {
            missing.push(format!("{file}.rs::{name}"));
        }
    }
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
    Ok(())
}

#[test]
fn every_promise_names_tests_that_are_there() -> Outcome {
    let page = read("README.md")?;
    let table = page.split("| promise | tests |").nth(1).unwrap_or_default();
    let table = table.split("\n\n").next().unwrap_or_default();
    let promises = read("tests/e2e/promises.rs")?;
    let is_there = |name: &str| match name.ends_with(".rs") {
        true => read(&format!("tests/e2e/{name}")).is_ok_and(|text| text.contains("#[test]")),
        false => promises.contains(&format!("#[test]\nfn {name}")),
    };
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<(&str, &str)> = rows.filter_map(|row| row.rsplit_once(" | ")).collect();
    assert!(rows.len() >= 12, "{rows:?}");
    for (promise, tests) in rows {
        assert!(promise.starts_with("| **"), "{promise}");
        assert!(quoted(tests).count() > 0, "{promise}: no test");
        let missing: Vec<&str> = quoted(tests).filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{promise}: no test {missing:?}");
    }
    Ok(())
}

#[test]
fn the_counts_on_the_page_are_true() -> Outcome {
    let page = page()?;
    let rows = rows(&page)?;
    let all = format!("\nAll five works: {}\n", sentence(&count(rows.iter())));
    assert!(page.contains(&all), "the page does not say:{all}");
    for (work, _) in WORKS {
        let section = page.split("\n## ").find(|section| section.starts_with(work));
        let reported = section.and_then(|section| section.lines().nth(1));
        let of_work = rows.iter().filter(|row| row.id.split('-').next() == Some(work));
        assert_eq!(reported, Some(sentence(&count(of_work)).as_str()), "{work}");
    }
    Ok(())
}

#[test]
fn a_status_of_another_form_and_a_function_that_is_no_test_are_noticed() {
    for wrong in [
        "done",
        "test: somewhere",
        "test: a.rs::b, c",
        "superseded: yes",
        "Later: x",
        "test: a.rs::b (most)",
    ] {
        assert!(Status::parse(wrong).is_none(), "{wrong}");
    }
    let text =
        "#[test]\n#[cfg(unix)]\nfn a() {}\nfn b() {}\n    #[test]\n    fn c(x in 0..3) {}\n// fn d()\n";
    let found: Vec<&str> = ["a", "b", "c", "d"]
        .into_iter()
        .filter(|name| has_test(text, name))
        .collect();
    assert_eq!(found, ["a", "c"]);
}
