//! The shipped rules as text: built in, so that no files are read.

use std::collections::BTreeMap;

use syntax::diag::Diagnostic;

use crate::file::RuleFile;
use crate::rule::CheckedRule;

/// Rules of the library with their texts. A row: the folder, then the names of its rules.
macro_rules! of {
    ($($folder:literal: $($name:literal)+;)+) => {
        &[$($(($name, include_str!(concat!("../library/", $folder, "/", $name, ".yaml")))),+),+]
    };
}

/// Name and text of every shipped rule.
const LIBRARY: &[(&str, &str)] = of! {
    "runtime": "openmpi-busy-wait" "blas-threads" "mkl-threads" "openmp-team-size"
        "openmp-stated-team-size" "pytorch-threads" "xgboost-threads" "ggml-threads" "onnx-threads" "memory-given-back"
        "memory-kept" "shared-core" "mpich-busy-wait" "openmpi-oversubscribed" "blas-oversubscribed"
        "openmp-oversubscribed" "load-imbalance" "waiting-for-messages" "waiting-in-collectives" "small-messages"
        "gpu-host-bound" "lost-threads";
};

pub fn library() -> &'static [(&'static str, &'static str)] {
    LIBRARY
}

/// Whether a rule is one of them, which sessions load by default.
pub fn is_built_in(name: &str) -> bool {
    LIBRARY.iter().any(|(known, _)| *known == name)
}

/// Rules for sessions without the right to probe, each with the rule that it replaces: it derives from /proc
/// what the other observes in calls.
const WITHOUT_PROBES: &[(&str, &str)] = &[
    ("openmpi-oversubscribed", "openmpi-busy-wait"),
    ("blas-oversubscribed", "blas-threads"),
    ("openmp-oversubscribed", "openmp-team-size"),
    ("openmp-oversubscribed", "openmp-stated-team-size"),
    ("openmp-oversubscribed", "pytorch-threads"),
    ("openmp-oversubscribed", "xgboost-threads"),
];

/// Whether a session with or without probes loads a shipped rule by default.
pub fn is_loaded(name: &str, probes: bool) -> bool {
    let left_out = |(without, with): &(&str, &str)| name == if probes { *without } else { *with };
    !WITHOUT_PROBES.iter().any(left_out)
}

/// Rules that contain a published model or metric: a program must be prepared for them, or use a framework
/// that is.
const MODELS: &[(&str, &str)] = of! {
    "models": "optimal-workers" "adjusting-factoring" "balanced-workers" "cpu-shares" "factoring" "halo-width" "iteration-time" "network"
        "scaling" "speedup" "threads" "workers-by-index";
    "metrics": "barrier-imbalance" "communication-share" "efficiencies" "loop-counter"
        "mean-iteration-time" "send-volume";
};

/// Name and text of every shipped model. Models are only for programs with the names that they use.
pub fn models() -> &'static [(&'static str, &'static str)] {
    MODELS
}

/// Name and text of every built-in rule.
pub fn shipped() -> impl Iterator<Item = (&'static str, &'static str)> {
    LIBRARY.iter().chain(MODELS).copied()
}

/// The text of a built-in rule.
pub fn shipped_text(name: &str) -> Option<&'static str> {
    shipped().find(|(known, _)| *known == name).map(|(_, text)| text)
}

impl CheckedRule {
    /// Parses and checks the text of a rule file with its own parameter values; it may use the shipped rules.
    ///
    /// # Errors
    /// As [`RuleFile::parse`] and [`RuleFile::check`].
    pub fn from_source(source: &str) -> Result<CheckedRule, Vec<Diagnostic>> {
        let shipped = |name: &str| {
            let mut shipped = library().iter().chain(models());
            let found = shipped.find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_string())
        };
        RuleFile::parse(source)?
            .with_library(&shipped)?
            .check(&BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::CheckedRule;
    use syntax::diag::render;

    #[test]
    fn every_shipped_rule_checks_clean_and_is_called_what_it_says() {
        for (name, text) in library().iter().chain(models()) {
            let rule = CheckedRule::from_source(text)
                .unwrap_or_else(|wrong| panic!("{}", render(name, text, &wrong)));
            assert_eq!(rule.name(), *name);
            assert_eq!(rule.warnings(), []);
        }
    }

    /// The load of other programs may be another one at the next start.
    #[test]
    fn advice_for_the_next_start_that_depends_on_other_programs_states_what_they_leave() {
        let depends = |line: &&str| line.contains("next_start: ") && line.contains("{size}");
        let rules = library().iter().filter(|(_, text)| text.contains("cpus.free"));
        let mut advice = rules
            .flat_map(|(_, text)| text.lines().filter(depends))
            .peekable();
        assert!(advice.peek().is_some());
        for line in advice {
            assert!(
                line.contains("as long as other programs leave no more CPUs than {free}"),
                "{line}"
            );
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test may look at the sources")]
    fn every_rule_of_the_folder_is_shipped() {
        let mut files = Vec::new();
        for folder in ["runtime", "models", "metrics"] {
            let folder = format!("{}/library/{folder}", env!("CARGO_MANIFEST_DIR"));
            for entry in std::fs::read_dir(folder).unwrap() {
                files.push(entry.unwrap().file_name().into_string().unwrap());
            }
        }
        files.sort();
        let shipped = library()
            .iter()
            .chain(models())
            .map(|(name, _)| format!("{name}.yaml"));
        let mut shipped: Vec<String> = shipped.collect();
        shipped.sort();
        assert_eq!(files, shipped);
    }
}
