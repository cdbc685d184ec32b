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
        codes_in(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut used);
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
