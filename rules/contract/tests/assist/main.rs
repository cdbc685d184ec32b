//! S3, performance contracts of ASSIST programs: the numbers of the source, from contract files through the
//! product.

#[macro_use]
#[path = "../../../tests/reference/near.rs"]
mod near;

mod capacity;
mod detailed;
mod files;
mod laws;
mod mapping;
mod points;
mod remedy;
mod solving;

use contract::{Assessment, Contract};

/// Parses a contract, or fails with its rendered diagnostics.
fn contract(source: &str) -> Contract {
    Contract::parse(source)
        .unwrap_or_else(|wrong| panic!("{}", syntax::diag::render("contract.yaml", source, &wrong)))
}

fn assessed(source: &str) -> Assessment {
    let assessed = contract(source).assess();
    assessed.unwrap_or_else(|wrong| panic!("{}", syntax::diag::render("contract.yaml", source, &wrong)))
}

/// The diagnostics of a contract that cannot be read or assessed.
fn refused(source: &str) -> String {
    let wrong = match Contract::parse(source) {
        Ok(contract) => contract.assess().map(drop).expect_err("it can be assessed"),
        Err(wrong) => wrong,
    };
    syntax::diag::render("contract.yaml", source, &wrong)
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

/// Checks a table of mistakes. A row has what is replaced in the file, by what, the code, the underlined text, and a
/// part of the message or the help; `more` changes the file further.
fn has_mistakes(file: &str, rows: &str, more: impl Fn(&str, String) -> String) {
    for row in rows.lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [replaced, by, code, underlined, text] = cells[..] else {
            panic!("{row}")
        };
        let source = more(by, file.replacen(replaced, by, 1));
        assert_ne!(source, file, "{replaced}");
        let wrong = Contract::parse(&source).expect_err(by);
        let rendered = syntax::diag::render("contract.yaml", &source, &wrong);
        let found = wrong.iter().find(|one| one.code == code);
        let found = found.unwrap_or_else(|| panic!("no {code} for `{by}`:\n{rendered}"));
        let (span, _) = found.labels[0];
        assert_eq!(&source[span.start..span.end], underlined, "{rendered}");
        has(&rendered, &[text]);
    }
}
