//! Words in texts for users (pages, rules, dashboards, help, messages) and in comments: standard terms, and
//! one word for one thing.

mod names;

use tuneagent_e2e::Outcome;

use crate::arrows::{members, metadata};
use crate::tidy::{assert_none, product_and, read, texts};

/// Words that a reader must decode, with replacements.
const BANNED: [(&str, &str); 38] = [
    ("ahead", "early, before"),
    ("asked", "requested, required"),
    ("asking", "requesting"),
    ("belonging", "of"),
    ("border", "boundary"),
    ("borders", "boundaries"),
    ("dear", "expensive"),
    ("dearer", "more expensive"),
    ("deed", "action"),
    ("deeds", "actions"),
    ("desk", "the name of the part"),
    ("doable", "supported"),
    ("evidence", "measurements"),
    ("foresaw", "expected"),
    ("foreseen", "expected"),
    ("gauged", "measured"),
    ("hands", "passes"),
    ("heard", "observed"),
    ("hearing", "observing"),
    ("hears", "observes"),
    ("homes", "places"),
    ("meant", "the subject of the sentence"),
    ("nobody", "no process, no user, no rule"),
    ("practise", "warm up"),
    ("practised", "warmed up"),
    ("rehearsal", "warm-up"),
    ("rehearse", "warm up"),
    ("rehearsed", "warmed up"),
    ("scout", "discovery"),
    ("sought", "matched"),
    ("spoil", "mark incomplete"),
    ("stretch", "epoch"),
    ("tallies", "sums, counts"),
    ("tally", "sum, count"),
    ("tells", "shows, reports"),
    ("told", "reported, shown, estimated"),
    ("whoever", "the user, the process"),
    ("whole", "complete, all of"),
];

/// Banned words of a text, with their lines. Paths, names with underscores and flags are not words.
fn banned(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Words with braces are names in format strings.
        for word in line.split_whitespace().filter(|word| !word.contains('{')) {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            if let Some((banned, better)) = BANNED.iter().find(|(banned, _)| *banned == word) {
                found.push(format!("{name}:{}: {banned}; better: {better}", number + 1));
            }
        }
    }
    found
}

#[test]
fn pages_rules_and_dashboards_have_no_banned_word() -> Outcome {
    let pages = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "rules/LANGUAGE.md",
        "Cargo.toml",
        "clippy.toml",
        "deny.toml",
    ];
    let metadata = metadata()?;
    let manifests = members(&metadata).filter_map(|package| package["manifest_path"].as_str());
    let endings = ["md", "yaml", "yml", "json", "h"];
    let mut all = texts(&["docs", "rules/library", "dashboards", "include"], &endings)?;
    for name in pages.into_iter().chain(manifests) {
        all.push((name.to_owned(), read(name)?));
    }
    let mut found = Vec::new();
    for (name, text) in all {
        found.extend(banned(&name, &text));
    }
    assert_none(&found, "texts for users have words that must be decoded");
    Ok(())
}

/// Texts of a source that users may read: string literals and, in the command line's sources, doc comments.
fn shown(name: &str, text: &str) -> String {
    let is_help = name.starts_with("agent/src/cli");
    words_of(text, true, |comment| is_help && comment.starts_with("// "))
}

/// Comments of a source.
fn comments(text: &str) -> String {
    words_of(text, false, |_| true)
}

/// String literals and some comments of a source, at their lines.
fn words_of(text: &str, has_literals: bool, is_read: impl Fn(&str) -> bool) -> String {
    let mut shown = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\n' => shown.push('\n'),
            '/' if characters.peek() == Some(&'/') => {
                let mut comment = String::new();
                while let Some(c) = characters.next_if(|c| *c != '\n') {
                    comment.push(c);
                }
                if is_read(&comment) {
                    shown.push_str(&comment);
                }
            }
            // A character literal or a lifetime; a quotation mark in a character literal does not begin a
            // string.
            '\'' => {
                let is_escape = characters.next_if_eq(&'\\').is_some();
                let is_quote = characters.next_if_eq(&'"').is_some();
                if is_escape && !is_quote {
                    characters.next();
                }
            }
            '"' => {
                let mut literal = String::new();
                while let Some(c) = characters.next_if(|c| *c != '"') {
                    // A continued line is kept on its line; escapes such as `\n` separate words.
                    match c {
                        '\\' => literal.push(if characters.next() == Some('\n') {
                            '\n'
                        } else {
                            ' '
                        }),
                        c => literal.push(c),
                    }
                }
                characters.next();
                // A literal of one word is a key or a name.
                match has_literals && literal.contains(' ') {
                    true => shown.push_str(&format!(" {literal} ")),
                    false => shown.extend(literal.chars().filter(|c| *c == '\n')),
                }
            }
            _ => {}
        }
    }
    shown
}

/// `whole` is allowed in comments.
#[test]
fn comments_have_no_banned_word() -> Outcome {
    let mut found = Vec::new();
    for source in product_and(&[])? {
        found.extend(banned(&source.name, &comments(&source.product)));
    }
    found.retain(|line| !line.contains(": whole;"));
    assert_none(&found, "comments have words that must be decoded");
    Ok(())
}

#[test]
fn help_and_messages_have_no_banned_word() -> Outcome {
    let mut found = Vec::new();
    for source in product_and(&[])? {
        found.extend(banned(&source.name, &shown(&source.name, &source.product)));
    }
    assert_none(&found, "help and messages have words that must be decoded");
    Ok(())
}

#[test]
fn a_banned_word_is_found_in_a_message_and_not_in_a_name() {
    let source = "/// It was told.\nlet told = '\"';\nlet key = \"told\"; let text = \"no hit \\\n is told, {reported}\";\n// heard\n";
    assert_eq!(
        banned("a.rs", &shown("a.rs", source)),
        ["a.rs:4: told; better: reported, shown, estimated"]
    );
    assert_eq!(
        banned("a.rs", &comments(source)),
        [
            "a.rs:1: told; better: reported, shown, estimated",
            "a.rs:5: heard; better: observed"
        ]
    );
    let help = shown("agent/src/cli.rs", "/// What a session hears.\n// told\n");
    assert_eq!(banned("cli", &help), ["cli:1: hears; better: observes"]);
    assert_eq!(
        banned("page", "`deeds.rs`, a_deed, un-told"),
        Vec::<String>::new()
    );
}
