//! The rules we ship, as text: reading files is not done here, and the program needs none to be useful.

/// Name and text of every shipped rule.
const LIBRARY: &[(&str, &str)] = &[(
    "openmpi-busy-wait",
    include_str!("../library/runtime/openmpi-busy-wait.yaml"),
)];

/// Name and text of every shipped rule.
pub fn library() -> &'static [(&'static str, &'static str)] {
    LIBRARY
}

/// Rules that hold a performance model: a program must be prepared for them, or be built on a framework that is.
const MODELS: &[(&str, &str)] = &[(
    "optimal-workers",
    include_str!("../library/models/optimal-workers.yaml"),
)];

/// Name and text of every shipped model: for programs that have what it names, never for any program.
pub fn models() -> &'static [(&'static str, &'static str)] {
    MODELS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::render;
    use crate::rule::CheckedRule;

    #[test]
    fn every_shipped_rule_checks_clean_and_is_called_what_it_says() {
        for (name, text) in library().iter().chain(models()) {
            let rule = CheckedRule::from_source(text)
                .unwrap_or_else(|wrong| panic!("{}", render(name, text, &wrong)));
            assert_eq!(rule.name(), *name);
            assert_eq!(rule.warnings(), []);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test may look at the sources")]
    fn every_rule_of_the_folder_is_shipped() {
        for (folder, shipped) in [("runtime", library()), ("models", models())] {
            let folder = format!("{}/library/{folder}", env!("CARGO_MANIFEST_DIR"));
            let files = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut files: Vec<String> = files.collect();
            files.sort();
            let shipped: Vec<String> = shipped.iter().map(|(name, _)| format!("{name}.yaml")).collect();
            assert_eq!(files, shipped);
        }
    }
}
