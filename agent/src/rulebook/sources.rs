//! Finds, checks and parameterises the rules of a session: the built-in ones and files. Evaluates nothing.
//!
//! A rule may be loaded several times, each time with an instance name after an `@`; `--param gain@left=5%`
//! then applies only to that instance. A bindings file maps the names of a rule to the names of the program.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use profile::format::suggestion;
use rules::{Bindings, CheckedRule, RuleFile};
use session::request::{RuleSource, RuleText, Settings};

use crate::{diagnostics, exit::Failure};

/// Reads and checks the rules in `paths` in addition to the built-in ones. A session without probes uses
/// other built-in rules in place of those that need probes, unless these are named.
pub(crate) fn load(
    paths: &[String],
    settings: Settings<'_>,
    probes: bool,
) -> Result<Vec<CheckedRule>, Failure> {
    let loaded = load_texts(paths, settings, probes)?.into_iter();
    Ok(loaded.map(|(_, rule)| rule).collect())
}

/// The texts of the rules that [`load`] loads, in the same order, to be passed to another machine.
pub(crate) fn given_all(
    paths: &[String],
    settings: Settings<'_>,
    probes: bool,
) -> Result<Vec<RuleSource>, Failure> {
    let loaded = load_texts(paths, settings, probes)?.into_iter();
    let given = |(mut source, _): (RuleText, CheckedRule)| {
        source.uses = Some(used_by(&source));
        // A setting that only other rules have would be an error there.
        let of_rule = |flag: &'static str, set: &[(String, String)]| {
            let mut used = BTreeSet::new();
            let both = Settings {
                parameters: settings.parameters,
                bindings: settings.bindings,
            };
            let _ = check(&source, both, &mut used);
            let is_used = |(name, _): &&(String, String)| used.contains(&(flag, name.as_str()));
            set.iter().filter(is_used).cloned().collect()
        };
        RuleSource {
            parameters: of_rule("--param", settings.parameters),
            bindings: of_rule("--bind", settings.bindings),
            source,
        }
    };
    Ok(loaded.map(given).collect())
}

fn load_texts(
    paths: &[String],
    settings: Settings<'_>,
    probes: bool,
) -> Result<Vec<(RuleText, CheckedRule)>, Failure> {
    let mut loaded: Vec<(RuleText, CheckedRule)> = Vec::new();
    let mut used = BTreeSet::new();
    let is_named = |name: &str| paths.iter().any(|path| instance_of(path).0 == name);
    for source in sources(paths)? {
        if !source.replaces && !rules::is_loaded(&source.name, probes) && !is_named(&source.name) {
            continue;
        }
        let rule = check(&source, settings, &mut used)?;
        // A file may replace a built-in rule of the same name.
        loaded.retain(|(_, known)| known.name() != rule.name() || !source.replaces);
        loaded.push((source, rule));
    }
    let rules: Vec<CheckedRule> = loaded.iter().map(|(_, rule)| rule.clone()).collect();
    all_used(settings, &used, &rules)?;
    Ok(loaded)
}

/// Number of parameters of the loaded rules that are listed if a mistyped one is near to none of them.
const LISTED_MAX: usize = 8;

/// Settings that no rule uses are errors.
fn all_used(
    settings: Settings<'_>,
    used: &BTreeSet<(&'static str, &str)>,
    loaded: &[CheckedRule],
) -> Result<(), Failure> {
    for (flag, what, set) in [
        ("--param", "parameter", settings.parameters),
        ("--bind", "name", settings.bindings),
    ] {
        if let Some((name, _)) = set
            .iter()
            .find(|(name, _)| !used.contains(&(flag, name.as_str())))
        {
            let known = match flag {
                "--param" => known_parameters(loaded, name),
                _ => String::new(),
            };
            return Err(Failure::invalid(format!(
                "{flag} {name}: no loaded rule uses the {what} {name}{known}"
            )));
        }
    }
    Ok(())
}

/// The parameter with the nearest name, or those that there are, as a suffix.
fn known_parameters(loaded: &[CheckedRule], name: &str) -> String {
    let parameters = loaded.iter().flat_map(CheckedRule::parameters);
    let names: BTreeSet<String> = parameters.map(|(name, _)| name.clone()).collect();
    let near = suggestion(names.iter().cloned(), name);
    match (near.is_empty(), names.len()) {
        (false, _) => near,
        (true, 0) => ": none has parameters".to_owned(),
        (true, ..=LISTED_MAX) => {
            format!(": there are {}", Vec::from_iter(names).join(", "))
        }
        (true, _) => " (those of a rule: tuneagent explain RULE)".to_owned(),
    }
}

/// The names of the rules that may act.
pub(super) fn applying(checked: &[CheckedRule], apply: Option<&[String]>) -> Result<Vec<String>, Failure> {
    let loaded: Vec<String> = checked.iter().map(|rule| rule.name().to_owned()).collect();
    match apply {
        None => Ok(Vec::new()),
        Some([]) => Ok(checked
            .iter()
            .filter(|rule| !rule.must_be_named())
            .map(|rule| rule.name().to_owned())
            .collect()),
        Some(named) => match named.iter().find(|name| !loaded.contains(name)) {
            None => Ok(named.to_vec()),
            Some(unknown) => {
                let near = suggestion(loaded.iter().cloned(), unknown);
                Err(Failure::invalid(format!(
                    "--apply={unknown}: no such rule is loaded{near} (a rule of your own is loaded with --rules FILE; loaded are: {})",
                    loaded.join(", ")
                )))
            }
        },
    }
}

/// Checks a rule that was passed to the session. Nothing else is read.
pub(crate) fn checked(given: &RuleSource) -> Result<CheckedRule, Failure> {
    let settings = Settings {
        parameters: &given.parameters,
        bindings: &given.bindings,
    };
    let mut used = BTreeSet::new();
    let rule = check(&given.source, settings, &mut used).map_err(not_added)?;
    all_used(settings, &used, std::slice::from_ref(&rule))?;
    Ok(rule)
}

/// Reads the rule with this name or in this file, to be passed to a session.
pub(crate) fn given(path: &str, settings: Settings<'_>) -> Result<RuleSource, Failure> {
    let found = sources(&["none".to_owned(), path.to_owned()])?;
    let [source] = found.as_slice() else {
        let message = format!(
            "{path}: one rule is added at a time, and there are {}",
            found.len()
        );
        return Err(Failure::invalid(message));
    };
    let mut source = source.clone();
    source.uses = Some(used_by(&source));
    let given = RuleSource {
        source,
        parameters: settings.parameters.to_vec(),
        bindings: settings.bindings.to_vec(),
    };
    checked(&given)?;
    Ok(given)
}

/// The texts of the rules that this one uses, by name.
fn used_by(source: &RuleText) -> BTreeMap<String, String> {
    let uses = RefCell::new(BTreeMap::new());
    let library = |name: &str| {
        let text = beside(&source.name, name)?;
        uses.borrow_mut().insert(name.to_owned(), text.clone());
        Some(text)
    };
    // Errors in it are reported when it is checked.
    drop(RuleFile::parse(&source.text).and_then(|file| file.with_library(&library)));
    uses.into_inner()
}

fn not_added(failure: Failure) -> Failure {
    let text = failure.error.to_string();
    let mistakes = text.trim_start_matches(NOT_STARTED).trim_start();
    Failure::new(failure.code, format!("the rule is not added\n{mistakes}"))
}

/// The consequence of an error in a rule for a session that is about to begin.
const NOT_STARTED: &str = "nothing was started: a rule has mistakes";

/// Checks the rule with those settings that it has, and adds these to `used`.
fn check<'a>(
    source: &RuleText,
    settings: Settings<'a>,
    used: &mut BTreeSet<(&'static str, &'a str)>,
) -> Result<CheckedRule, Failure> {
    let refuse = |wrong: Vec<rules::Diagnostic>| {
        let text = diagnostics::render(&source.name, &source.text, &wrong);
        Failure::invalid(format!("{NOT_STARTED}\n{text}"))
    };
    let library = |name: &str| match &source.uses {
        Some(known) => known.get(name).cloned(),
        None => beside(&source.name, name),
    };
    let file = RuleFile::parse(&source.text).and_then(|file| file.with_library(&library));
    let file = file.and_then(|file| match &source.instance {
        Some(instance) => file.instance(instance),
        None => Ok(file),
    });
    let file = file.map_err(refuse)?;
    let names: Vec<String> = file.names().map(|(name, _)| name.to_owned()).collect();
    let instance = source.instance.as_deref();
    let mut bindings = source.names.clone();
    bindings.extend(chosen("--bind", settings.bindings, &names, instance, used));
    let file = file.bind(&bindings).map_err(refuse)?;
    let plain = file.check(&BTreeMap::new()).map_err(refuse)?;
    let known: Vec<String> = plain.parameters().iter().map(|(name, _)| name.clone()).collect();
    let overrides = chosen("--param", settings.parameters, &known, instance, used);
    if overrides.is_empty() {
        Ok(plain)
    } else {
        file.check(&overrides).map_err(|wrong| {
            let typed = overrides
                .iter()
                .map(|(name, value)| format!("--param {name}={value}"));
            let text = diagnostics::render(&source.name, &source.text, &wrong);
            Failure::invalid(format!(
                "nothing was started: {} does not fit the rule {}. It is for every loaded rule with a parameter \
                 of this name; `--rules none RULE` loads one rule only\n{text}",
                typed.collect::<Vec<_>>().join(" "),
                plain.name(),
            ))
        })
    }
}

/// The settings that a rule has; settings of its instance take precedence.
fn chosen<'a>(
    flag: &'static str,
    settings: &'a [(String, String)],
    known: &[String],
    instance: Option<&str>,
    used: &mut BTreeSet<(&'static str, &'a str)>,
) -> BTreeMap<String, String> {
    let mut mine = BTreeMap::new();
    for of_instance in [false, true] {
        for (name, value) in settings {
            let (plain, resolved) = match name.split_once('@') {
                Some((plain, resolved)) => (plain, Some(resolved)),
                None => (name.as_str(), None),
            };
            let is_selected =
                resolved.is_some() == of_instance && (resolved.is_none() || resolved == instance);
            if is_selected && known.iter().any(|known| known == plain) {
                used.insert((flag, name.as_str()));
                mine.insert(plain.to_owned(), value.clone());
            }
        }
    }
    mine
}

/// The text of a rule that the rule in `place` uses: a file with that name in the same folder, or else a
/// built-in rule.
pub(crate) fn beside(place: &str, name: &str) -> Option<String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let file = Path::new(place).with_file_name(format!("{name}.yaml"));
    let text = if plain {
        fs::read_to_string(file).ok()
    } else {
        None
    };
    text.or_else(|| rules::shipped_text(name).map(str::to_owned))
}

/// The rules to load: the built-in ones, unless `none` is given, and those in `paths`.
fn sources(paths: &[String]) -> Result<Vec<RuleText>, Failure> {
    let mut sources: Vec<RuleText> = Vec::new();
    if !paths.iter().any(|path| path == "none") {
        sources.extend(rules::library().iter().map(|(name, text)| built_in(name, text)));
    }
    let mut bindings = Vec::new();
    for path in paths.iter().filter(|path| *path != "none") {
        let (path, instance) = instance_of(path);
        if let Some(shipped) = shipped(path) {
            let new = RuleText { instance, ..shipped };
            if !sources
                .iter()
                .any(|known| known.name == new.name && known.instance == new.instance)
            {
                sources.push(new);
            }
            continue;
        }
        for file in files(Path::new(path))? {
            let text = fs::read_to_string(&file).map_err(|error| {
                Failure::invalid(format!("{} cannot be read", file.display())).caused_by(&error)
            })?;
            let name = file.display().to_string();
            if Bindings::is_bindings(&text) {
                bindings.push((name, text));
                continue;
            }
            sources.push(RuleText {
                instance: instance.clone(),
                ..from_file(name, text)
            });
        }
    }
    for (name, text) in bindings {
        bind(&mut sources, &name, &text)?;
    }
    Ok(sources)
}

fn built_in(name: &str, text: &str) -> RuleText {
    RuleText {
        replaces: false,
        ..from_file(name.into(), text.into())
    }
}

fn from_file(name: String, text: String) -> RuleText {
    RuleText {
        name,
        text,
        replaces: true,
        ..RuleText::default()
    }
}

fn shipped(name: &str) -> Option<RuleText> {
    rules::shipped_text(name).map(|text| built_in(name, text))
}

/// Splits `barrier-imbalance@left`; the name of an existing file may contain an `@`.
fn instance_of(path: &str) -> (&str, Option<String>) {
    match path.rsplit_once('@') {
        Some((plain, instance)) if !Path::new(path).exists() => (plain, Some(instance.to_owned())),
        _ => (path, None),
    }
}

/// Applies the names of a bindings file to its rule, and loads the rule if necessary.
fn bind(sources: &mut Vec<RuleText>, name: &str, text: &str) -> Result<(), Failure> {
    let refuse = |wrong: Vec<rules::Diagnostic>| {
        let text = diagnostics::render(name, text, &wrong);
        Failure::invalid(format!("{NOT_STARTED}\n{text}"))
    };
    let bindings = Bindings::parse(text).map_err(refuse)?;
    let is_for =
        |source: &RuleText| RuleFile::parse(&source.text).is_ok_and(|file| file.name() == bindings.rule);
    if !sources.iter().any(is_for) {
        let Some(shipped) = shipped(&bindings.rule) else {
            let message = format!("{name} is for the rule {}, which is not loaded", bindings.rule);
            return Err(Failure::invalid(message));
        };
        sources.push(shipped);
    }
    for source in sources.iter_mut().filter(|source| is_for(source)) {
        source.names.extend(bindings.names.clone());
    }
    Ok(())
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let Ok(entries) = fs::read_dir(path) else {
        let typed = path.to_string_lossy();
        let near = suggestion(rules::shipped().map(|(name, _)| name.to_owned()), &typed);
        return Err(Failure::invalid(format!(
            "{typed}: no such file or folder, and no built-in rule of this name{near} (all of them: tuneagent rule list)"
        )));
    };
    let is_rule = |file: &PathBuf| {
        file.extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_rule)
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::invalid(format!(
            "{}: no *.yaml file in this folder",
            path.display()
        )));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    fn loaded(paths: &[&str], parameters: &[(&str, &str)]) -> Vec<CheckedRule> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let parameters = set(parameters);
        let settings = Settings {
            parameters: &parameters,
            bindings: &[],
        };
        load(&paths, settings, true).unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    #[test]
    fn sessions_without_probes_have_rules_of_their_own_in_place_of_others_unless_these_are_named() {
        let settings = Settings {
            parameters: &[],
            bindings: &[],
        };
        for (path, probes, with, without) in [
            (None, true, true, false),
            (None, false, false, true),
            (Some("without"), true, true, true),
            (Some("with"), false, true, true),
            (Some("none"), false, false, false),
        ] {
            for (name, other) in [
                ("openmpi-busy-wait", "openmpi-oversubscribed"),
                ("blas-threads", "blas-oversubscribed"),
                ("openmp-team-size", "openmp-oversubscribed"),
            ] {
                let paths: Vec<String> = path
                    .iter()
                    .map(|path| match *path {
                        "with" => name.to_owned(),
                        "without" => other.to_owned(),
                        path => path.to_owned(),
                    })
                    .collect();
                let rules = load(&paths, settings, probes).unwrap_or_else(|failure| panic!("{failure:?}"));
                let has = |name| rules.iter().any(|rule| rule.name() == name);
                assert_eq!(
                    (has(name), has(other)),
                    (with, without),
                    "{path:?}, probes: {probes}"
                );
            }
        }
    }

    #[test]
    fn a_rule_runs_several_times_with_parameters_of_its_own() {
        let rules = loaded(
            &["none", "optimal-workers@left", "optimal-workers@right"],
            &[("gain", "4%"), ("gain@right", "7%")],
        );
        let gains: Vec<(&str, &str)> = rules
            .iter()
            .map(|rule| (rule.name(), rule.parameters()[1].1.as_str()))
            .collect();
        assert_eq!(
            gains,
            [("optimal-workers@left", "4 %"), ("optimal-workers@right", "7 %")]
        );
    }

    #[test]
    fn a_bindings_file_loads_its_rule_and_a_rule_finds_what_it_uses_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let names = write("names.yaml", "for: optimal-workers\nnames: {nw: cfg.workers}\n");
        let rules = loaded(&["none", &names], &[]);
        let captures = &rules[0].plan().probes[0].captures;
        assert_eq!(captures[1].source.to_string(), "cfg.workers");
        write(
            "base.yaml",
            "rule: base\nabout: b\nwindows:\n  w: {every: 1s}\nmetrics:\n  used: sum(cpu.time) / w.duration\n",
        );
        let user = write(
            "user.yaml",
            "rule: user\nabout: b\nuse: [base]\nmetrics:\n  half: used / 2\n",
        );
        assert_eq!(loaded(&["none", &user], &[])[0].name(), "user");
    }
}
