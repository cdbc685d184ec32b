//! S3, performance contracts of ASSIST programs: the numbers of the source, from contract files through the
//! product.

mod capacity;
mod detailed;
mod files;
mod laws;
mod mapping;
mod points;
mod rates;
mod remedy;
mod solving;

use rules::contract::{Assessment, Contract};

/// Parses a contract, or fails with its rendered diagnostics.
fn contract(source: &str) -> Contract {
    Contract::parse(source)
        .unwrap_or_else(|wrong| panic!("{}", rules::render("contract.yaml", source, &wrong)))
}

fn assessed(source: &str) -> Assessment {
    let assessed = contract(source).assess();
    assessed.unwrap_or_else(|wrong| panic!("{}", rules::render("contract.yaml", source, &wrong)))
}

/// The diagnostics of a contract that cannot be read or assessed.
fn refused(source: &str) -> String {
    let wrong = match Contract::parse(source) {
        Ok(contract) => contract.assess().map(drop).expect_err("it can be assessed"),
        Err(wrong) => wrong,
    };
    rules::render("contract.yaml", source, &wrong)
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}
