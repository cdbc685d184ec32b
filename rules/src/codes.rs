//! The page of every diagnostic code: error, reason and remedy. Displayed by `tuneagent explain`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Such as `E0107`.
    pub code: &'static str,
    /// The error in a few words.
    pub title: &'static str,
    pub text: &'static str,
}

/// The page of `code`, ignoring case.
pub fn explain(code: &str) -> Option<Page> {
    pages().find(|page| page.code.eq_ignore_ascii_case(code))
}

/// Every page, in the order of the codes.
pub(crate) fn pages() -> impl Iterator<Item = Page> {
    let mut rest = include_str!("codes.md");
    std::iter::from_fn(move || {
        let page = rest.strip_prefix("# ")?;
        let page = page.split_once("\n\n# ").map_or(page, |(page, _)| page);
        rest = rest.get(page.len() + 4..).unwrap_or_default();
        let (head, text) = page.split_once('\n')?;
        let (code, title) = head.split_once(' ')?;
        Some(Page {
            code,
            title,
            text: text.trim_end(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::CheckedRule;

    /// A rule whose sections the examples of the pages replace.
    const FRAME: [&str; 8] = [
        "rule: example",
        "about: a frame for the examples of the pages",
        "parameters: {gain: 3%}",
        "roles: {master: rank == 0, worker: rank > 0}",
        "probes: {send: {role: master, span: send_task}, step: {role: worker, entry: do_step}}",
        "capture: {send.to: arg(1)}",
        "windows: {pulse: {every: 500ms}}",
        "metrics: {waiting: sum(runqueue.time)}",
    ];

    /// The frame with the sections of an example in place of its own.
    fn with_sections(example: &str) -> String {
        let key = |line: &str| line.split_once(':').map(|(key, _)| key.to_owned());
        let replaced: Vec<_> = example.lines().filter_map(key).collect();
        let kept = FRAME
            .iter()
            .filter(|line| key(line).is_some_and(|key| !replaced.contains(&key)));
        let kept: Vec<&str> = kept.copied().collect();
        format!("{example}\n{}\n", kept.join("\n"))
    }

    /// The codes of what is wrong with a rule, or of its warnings, and whether it can be used.
    fn checked(source: &str) -> (Vec<&'static str>, bool) {
        let codes = |of: &[crate::Diagnostic]| of.iter().map(|one| one.code).collect();
        match CheckedRule::from_source(source) {
            Ok(rule) => (codes(rule.warnings()), true),
            Err(wrong) => (codes(&wrong), false),
        }
    }

    /// The example of a page without the lines that have the other label: `wrong` or `right`.
    fn example(page: &Page, other: &str) -> String {
        let lines = page.text.lines().filter_map(|line| line.strip_prefix("    "));
        let lines: Vec<&str> = lines.filter(|line| !line.contains(other)).collect();
        lines.join("\n")
    }

    /// Pages of what only a program shows: their examples cannot be checked alone.
    fn needs_a_program(code: &str) -> bool {
        ("E0160"..="E0168").contains(&code) || code == "E0182"
    }

    /// Pages of contracts, whose examples are files of the reference's tests.
    fn is_of_contracts(code: &str) -> bool {
        ("E0170"..="E0181").contains(&code)
    }

    #[test]
    fn the_example_of_every_page_is_wrong_as_the_page_says_and_right_when_corrected() {
        let mut mistakes = Vec::new();
        for page in pages().filter(|page| !is_of_contracts(page.code)) {
            let (wrong, right) = (example(&page, "# right"), example(&page, "# wrong"));
            assert!(!wrong.is_empty(), "{} has no example", page.code);
            if needs_a_program(page.code) {
                continue;
            }
            let (codes, _) = checked(&with_sections(&wrong));
            if !codes.contains(&page.code) {
                mistakes.push(format!("{} is not shown by {wrong}: {codes:?}", page.code));
            }
            let (codes, is_usable) = checked(&with_sections(&right));
            if !is_usable || codes.contains(&page.code) {
                mistakes.push(format!("{}: not right: {right}: {codes:?}", page.code));
            }
        }
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    }

    #[expect(clippy::disallowed_methods, reason = "a test may look at the sources")]
    fn codes_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                codes_in(&path, found);
            } else if !["codes.rs", "tests.rs"].contains(&path.file_name().unwrap().to_str().unwrap()) {
                let text = std::fs::read_to_string(&path).unwrap();
                let quoted = text
                    .split('"')
                    .filter(|part| part.len() == 5 && part.starts_with("E0"));
                found.extend(quoted.map(String::from));
            }
        }
    }

    #[test]
    fn every_code_in_use_has_a_page_and_every_page_a_use() {
        let mut used = BTreeSet::new();
        for folder in ["src", "contract/src", "syntax/src"] {
            codes_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut used);
        }
        let documented: BTreeSet<String> = pages().map(|page| page.code.to_string()).collect();
        assert_eq!(used, documented);
        assert!(pages().is_sorted_by_key(|page| page.code));
    }

    #[test]
    fn a_page_is_found_in_either_case() {
        assert_eq!(explain("e0107").map(|page| page.code), Some("E0107"));
        assert!(explain("E9999").is_none());
    }
}
