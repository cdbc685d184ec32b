//! Names in the source: standard terms, and one name for one type. A comment must add information to the
//! name.

use std::collections::{BTreeMap, BTreeSet};

use tuneagent_e2e::Outcome;

use super::BANNED;
use crate::tidy::{assert_none, code, product_and, read};

/// Keywords before the name of a type.
const TYPES: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

/// Types of different modules may have the same name if it is no word of the glossary: maximum number.
const PRIVATE_NAMESAKES_MAX: usize = 2;

/// Maximum number of words in a comment that is considered empty.
const EMPTY_WORDS_MAX: usize = 3;

/// Words that are banned in names but allowed in sentences.
const BANNED_IN_NAMES: [(&str, &str); 4] = [
    ("ask", "request, send"),
    ("asks", "requests, sends"),
    ("spoiled", "incomplete"),
    ("stretches", "epochs"),
];

/// Last words of names that do not say what a folder, a file, a type or a function contains.
const BANNED_AS_LAST_WORD: [&str; 8] = [
    "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils",
];

/// Keywords before the names of items.
const ITEMS: [&str; 7] = ["struct ", "enum ", "trait ", "type ", "union ", "mod ", "fn "];

/// Words of a name in lower case: `KeyedIntake` and `keyed_intake` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// The declaration in a line, without its visibility.
fn item(line: &str) -> Option<&str> {
    let line = line.trim_start();
    match line.strip_prefix("pub(") {
        Some(rest) => Some(rest.split_once(") ")?.1),
        None => Some(line.strip_prefix("pub ").unwrap_or(line)),
    }
}

/// The constant declared in a line.
fn constant(line: &str) -> Option<&str> {
    let item = item(line)?;
    let rest = item.strip_prefix("const ").or(item.strip_prefix("static "))?;
    Some(rest.split_once(':')?.0)
}

/// Whether the name of a bound differs from the spellings `X_MAX` and `X_MIN`.
fn is_misspelt(constant: &str) -> bool {
    let others = ["MOST", "LEAST", "LONGEST", "SHORTEST", "FEWEST"];
    let leads = ["MAX_", "MIN_"].iter().any(|head| constant.starts_with(head));
    leads || constant.split('_').any(|word| others.contains(&word))
}

/// The name declared in a line after one of these keywords.
fn declared<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let item = item(line)?;
    let qualifiers = ["const ", "async ", "unsafe ", "extern \"C\" "];
    let item = qualifiers.iter().fold(item, |item, qualifier| {
        item.strip_prefix(qualifier).unwrap_or(item)
    });
    let name = keywords.iter().find_map(|keyword| item.strip_prefix(keyword))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The first banned word of a name, as a line of the test's message.
fn banned(place: &str, name: &str) -> Option<String> {
    let words = words(name);
    let (word, better) = BANNED
        .iter()
        .chain(&BANNED_IN_NAMES)
        .find(|(word, _)| words.iter().any(|of| of == word))?;
    Some(format!("{place}: {name} has {word}; better: {better}"))
}

/// A name that may contain anything, as a line of the test's message.
fn vague(place: &str, name: &str) -> Option<String> {
    let last = words(name).pop()?;
    let is_banned = BANNED_AS_LAST_WORD.contains(&last.as_str());
    is_banned.then(|| format!("{place}: {name}; better: what it contains"))
}

/// Names in a line of code: types, functions, fields, variants and variables, without string literals.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('"').step_by(2);
    let words = code.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.contains(|c: char| c.is_alphabetic()))
}

#[test]
fn no_file_and_no_name_has_a_banned_word() -> Outcome {
    let mut found = Vec::new();
    for source in product_and(&[])? {
        found.extend(banned(&source.name, &source.name));
        for (line, text) in code(&source.product) {
            let place = format!("{}:{line}", source.name);
            found.extend(names(text).filter_map(|name| banned(&place, name)));
        }
    }
    assert_none(&found, "names have words that must be decoded");
    Ok(())
}

#[test]
fn names_of_files_and_items_say_what_they_contain() -> Outcome {
    let others = [
        "agent/benches",
        "agent/tests",
        "rules/benches",
        "rules/fuzz",
        "tests",
        "tuner/benches",
        "tuner/tests",
        "xtask/src",
    ];
    let mut found = Vec::new();
    for source in product_and(&others)? {
        let parts = source.name.trim_end_matches(".rs").split('/');
        found.extend(parts.filter_map(|part| vague(&source.name, part)));
        for (line, text) in code(&source.product) {
            let place = format!("{}:{line}", source.name);
            found.extend(declared(text, &ITEMS).and_then(|name| vague(&place, name)));
        }
    }
    assert_none(&found, "names may stand for anything");
    Ok(())
}

#[test]
fn bounds_have_one_spelling() -> Outcome {
    let mut found = Vec::new();
    for source in product_and(&["xtask/src"])? {
        for (line, text) in code(&source.product) {
            let name = constant(text).filter(|name| is_misspelt(name));
            found.extend(name.map(|name| format!("{}:{line}: {name}", source.name)));
        }
    }
    assert_none(&found, "a bound is called X_MAX or X_MIN");
    Ok(())
}

/// Types with a name; types within others, such as `Iterator::Item`, are not counted.
#[derive(Default)]
struct Namesakes {
    places: Vec<String>,
    public: usize,
}

/// A word of the glossary and the name of a public type stand for one type, another name for two at most.
#[test]
fn a_name_stands_for_one_type() -> Outcome {
    let mut types: BTreeMap<String, Namesakes> = BTreeMap::new();
    for source in product_and(&[])? {
        for (line, text) in code(&source.product).filter(|(_, text)| !text.starts_with(' ')) {
            if let Some(name) = declared(text, &TYPES) {
                let namesakes = types.entry(name.to_owned()).or_default();
                namesakes.places.push(format!("{}:{line}", source.name));
                namesakes.public += usize::from(text.starts_with("pub "));
            }
        }
    }
    let glossary = glossary()?;
    types.retain(|name, namesakes| {
        let bound = if glossary.contains(name) {
            1
        } else {
            PRIVATE_NAMESAKES_MAX
        };
        namesakes.public > 1 || namesakes.places.len() > bound
    });
    let found: Vec<String> = types
        .into_iter()
        .map(|(name, namesakes)| format!("{name}: {}", namesakes.places.join(", ")))
        .collect();
    assert_none(&found, "a name stands for several types");
    Ok(())
}

/// The words of the glossary in ARCHITECTURE.md as names of types.
fn glossary() -> Outcome<BTreeSet<String>> {
    let page = read("ARCHITECTURE.md")?;
    let (_, table) = page.split_once("## Glossary").ok_or("no glossary")?;
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let words = rows.skip(1).filter_map(|row| row.split_once(" |"));
    Ok(words.map(|(word, _)| type_name(word)).collect())
}

/// `sync point` is `SyncPoint` as a type.
fn type_name(words: &str) -> String {
    let capitalised = words.split([' ', '-']).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    capitalised.collect()
}

/// Lines of doc comments with few words, and neither code nor a link.
fn empty_comments(text: &str) -> Vec<usize> {
    let comment = |line: &str| {
        let line = line.trim_start();
        ["///", "//!"]
            .iter()
            .find_map(|head| line.strip_prefix(head))
            .map(str::to_owned)
    };
    let lines: Vec<&str> = text.lines().collect();
    let blocks = lines.chunk_by(|one, next| comment(one).is_some() == comment(next).is_some());
    let mut at = 1;
    let mut found = Vec::new();
    for block in blocks {
        let words: Option<String> = block.iter().map(|line| comment(line)).collect();
        let is_empty = words.is_some_and(|words| {
            words.split_whitespace().count() <= EMPTY_WORDS_MAX && !words.contains(['`', '['])
        });
        if is_empty {
            found.push(at);
        }
        at += block.len();
    }
    found
}

#[test]
fn every_doc_comment_says_more_than_the_name() -> Outcome {
    let mut found = Vec::new();
    // Help texts that clap prints are for users.
    for source in product_and(&[])?
        .iter()
        .filter(|source| !source.product.contains("clap"))
    {
        let lines = empty_comments(&source.product);
        found.extend(lines.iter().map(|line| format!("{}:{line}", source.name)));
    }
    assert_none(
        &found,
        "doc comments of three words say nothing; delete them, or say what the name does not",
    );
    Ok(())
}

#[test]
fn names_are_found_with_their_words() {
    assert_eq!(words("KeyedIntake"), ["keyed", "intake"]);
    assert_eq!(words("is_told"), ["is", "told"]);
    assert_eq!(
        declared("    pub(super) const fn is_told(&self) {", &["fn "]),
        Some("is_told")
    );
    assert_eq!(declared("pub struct Scout<'a> {", &TYPES), Some("Scout"));
    assert_eq!(declared("// struct Scout", &TYPES), None);
    assert_eq!(type_name("warm-up"), "WarmUp");
    let found: Vec<&str> = names("    told: Whole { of: \"a text\" }").collect();
    assert_eq!(found, ["told", "Whole", "of"]);
    assert_eq!(
        constant("    pub(crate) const HITS_MAX: usize = 3;"),
        Some("HITS_MAX")
    );
    let misspelt = ["HITS_MAX", "MAX_HITS", "MOST_HITS", "GAP_LEAST_NS", "ALMOST"].map(is_misspelt);
    assert_eq!(misspelt, [false, true, true, true, false]);
    let found = banned("a.rs:1", "is_told");
    assert_eq!(
        found.as_deref(),
        Some("a.rs:1: is_told has told; better: reported, shown, estimated")
    );
    assert_eq!(banned("a.rs:1", "is_untold"), None);
    let is_vague = |name| vague("a.rs", name).is_some();
    assert!(is_vague("LinkManager") && is_vague("common") && !is_vague("common_key"));
    assert_eq!(
        empty_comments("/// The name.\nname: u8,\n/// As `a`.\n/// Three words and\n/// one more.\n"),
        [1]
    );
}
