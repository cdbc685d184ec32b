//! Where unsafe code may be, how long its blocks are, and that each says what makes it sound.

use tuneagent_e2e::Outcome;

use super::{assert_none, code, product_and, read};

/// Maximum number of lines in an unsafe block; safe code belongs outside.
const UNSAFE_LINES_MAX: usize = 5;

/// Each file in the list of ARCHITECTURE.md exists, and each file with unsafe code is in it.
#[test]
fn unsafe_code_is_where_the_architecture_says() -> Outcome {
    let page = read("ARCHITECTURE.md")?;
    let (_, list) = page
        .split_once("**Unsafe code** is in these modules only")
        .ok_or("no list")?;
    let (list, _) = list.split_once("**No probe").ok_or("no end of the list")?;
    let starts = [
        "unsafe {",
        "unsafe impl ",
        "unsafe fn ",
        "unsafe extern ",
        "#[unsafe(",
    ];
    let is_unsafe = |line: &str| starts.iter().any(|start| line.contains(start));
    let sources = product_and(&["xtask/src"])?;
    let files = sources.iter().filter(|source| {
        !source.name.starts_with("ebpf/") && code(&source.product).any(|(_, line)| is_unsafe(line))
    });
    let files: Vec<&str> = files.map(|source| source.name.as_str()).collect();
    let is_named = |file: &str| list.contains(&format!("{}`", file.rsplit('/').next().unwrap_or(file)));
    let missing: Vec<&&str> = files.iter().filter(|file| !is_named(file)).collect();
    assert!(missing.is_empty(), "not in ARCHITECTURE: {missing:?}");
    assert_eq!(files.len(), list.matches(".rs`").count(), "{files:?}\n{list}");
    Ok(())
}

#[test]
fn no_unsafe_block_is_longer_than_what_is_unsafe() -> Outcome {
    let mut found = Vec::new();
    for source in product_and(&[])? {
        let lines: Vec<&str> = source.product.lines().collect();
        for (number, line) in code(&source.product).filter(|(_, line)| line.trim_end().ends_with("unsafe {"))
        {
            let indent = |line: &str| line.len() - line.trim_start().len();
            let inside = lines.iter().skip(number);
            let inside = inside.take_while(|below| indent(below) > indent(line) || below.is_empty());
            if inside.count() > UNSAFE_LINES_MAX {
                found.push(format!("{}:{number}", source.name));
            }
        }
    }
    assert_none(
        &found,
        &format!("more than {UNSAFE_LINES_MAX} lines in an unsafe block"),
    );
    Ok(())
}

/// Clippy requires these comments in the workspace. The kernel side is outside of it, and clippy accepts any text.
#[test]
fn each_unsafe_block_says_what_makes_it_sound() -> Outcome {
    let mut found = Vec::new();
    let mut blocks = 0;
    for source in product_and(&["xtask/src"])? {
        let lines: Vec<&str> = source.product.lines().collect();
        let starts = ["unsafe {", "unsafe impl "];
        let is_unsafe = |line: &str| starts.iter().any(|start| line.contains(start));
        for (number, _) in code(&source.product).filter(|(_, line)| is_unsafe(line)) {
            blocks += 1;
            if !states_a_fact(&safety_comment(&lines[..number - 1])) {
                found.push(format!("{}:{number}", source.name));
            }
        }
    }
    assert!(blocks > 100, "only {blocks} unsafe blocks were found");
    assert_none(
        &found,
        "no SAFETY comment above an unsafe block, or one that refers to another",
    );
    Ok(())
}

/// The comment above the statement that these lines end in.
fn safety_comment(above: &[&str]) -> String {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let is_end = |line: &str| line.is_empty() || line.ends_with([';', '{', '}']);
    let above = above.iter().rev();
    let comment = above.skip_while(|line| !is_comment(line) && !is_end(line));
    let mut comment: Vec<&str> = comment.copied().take_while(|line| is_comment(line)).collect();
    comment.reverse();
    comment.join("\n")
}

fn states_a_fact(comment: &str) -> bool {
    let fact = comment.split_once("SAFETY: ").map(|(_, fact)| fact);
    fact.is_some_and(|fact| !["as ", "see "].iter().any(|start| fact.starts_with(start)))
}

#[test]
fn a_safety_comment_is_found_above_its_statement_only() {
    let cases = [
        ("    // SAFETY: it is ours.", true),
        (
            "    // SAFETY: it is ours,\n    // and aligned.\n    let (a, b) =",
            true,
        ),
        ("    // SAFETY: as above.", false),
        ("    // SAFETY: see `read`.", false),
        ("    // It is ours.", false),
        ("    // SAFETY: it is ours.\n    one();", false),
        ("", false),
    ];
    for (above, expected) in cases {
        let lines: Vec<&str> = above.lines().collect();
        assert_eq!(states_a_fact(&safety_comment(&lines)), expected, "{above}");
    }
}
