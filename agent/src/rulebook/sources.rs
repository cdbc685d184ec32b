//! Which rules a session loads: the built-in ones and files, checked, with their parameters set. Evaluates nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use rules::{CheckedRule, RuleFile};

use crate::{diagnostics, exit::Failure};

/// What the command line sets in rules: values of parameters, and names of the program.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// `--param NAME=VALUE`
    pub parameters: &'a [(String, String)],
    /// `--bind NAME=PROGRAM_NAME`
    pub bindings: &'a [(String, String)],
}

/// Reads and checks the rules that `paths` name beside the built-in ones.
pub(super) fn load(paths: &[String], settings: Settings<'_>) -> Result<Vec<CheckedRule>, Failure> {
    let mut checked: Vec<CheckedRule> = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources(paths)? {
        let rule = source.check(settings, &mut used)?;
        // A file may replace a built-in rule of the same name.
        checked.retain(|known| known.name() != rule.name() || !source.replaces);
        checked.push(rule);
    }
    for (flag, what, set) in [
        ("--param", "parameter", settings.parameters),
        ("--bind", "name", settings.bindings),
    ] {
        if let Some((name, _)) = set
            .iter()
            .find(|(name, _)| !used.contains(&(flag, name.as_str())))
        {
            return Err(Failure::not_there(format!(
                "{flag} {name}: no loaded rule has a {what} of this name"
            )));
        }
    }
    Ok(checked)
}

/// The names of the rules that may act.
pub(super) fn applying(checked: &[CheckedRule], apply: Option<&[String]>) -> Result<Vec<String>, Failure> {
    let loaded: Vec<String> = checked.iter().map(|rule| rule.name().to_owned()).collect();
    match apply {
        None => Ok(Vec::new()),
        Some([]) => Ok(loaded),
        Some(named) => match named.iter().find(|name| !loaded.contains(name)) {
            None => Ok(named.to_vec()),
            Some(unknown) => Err(Failure::not_there(format!(
                "--apply={unknown}: no such rule is loaded; loaded are: {}",
                loaded.join(", ")
            ))),
        },
    }
}

/// The text of a rule and where it is from.
struct Source {
    name: String,
    text: String,
    replaces: bool,
}

impl Source {
    /// Checks the rule with those settings that it knows, and notes which these are.
    fn check<'a>(
        &self,
        settings: Settings<'a>,
        used: &mut BTreeSet<(&'static str, &'a str)>,
    ) -> Result<CheckedRule, Failure> {
        let refuse = |wrong: Vec<rules::Diagnostic>| {
            let text = diagnostics::render(&self.name, &self.text, &wrong);
            Failure::not_there(format!("nothing was attached\n{text}"))
        };
        let file = RuleFile::parse(&self.text).map_err(refuse)?;
        let names: Vec<String> = file.names().map(|(name, _)| name.to_owned()).collect();
        let bindings = chosen("--bind", settings.bindings, &names, used);
        let file = file.bind(&bindings).map_err(refuse)?;
        let plain = file.check(&BTreeMap::new()).map_err(refuse)?;
        let known: Vec<String> = plain.parameters().iter().map(|(name, _)| name.clone()).collect();
        let overrides = chosen("--param", settings.parameters, &known, used);
        if overrides.is_empty() {
            Ok(plain)
        } else {
            file.check(&overrides).map_err(refuse)
        }
    }
}

/// Those of the settings that a rule knows.
fn chosen<'a>(
    flag: &'static str,
    settings: &'a [(String, String)],
    known: &[String],
    used: &mut BTreeSet<(&'static str, &'a str)>,
) -> BTreeMap<String, String> {
    let mine = settings.iter().filter(|(name, _)| known.contains(name));
    mine.map(|(name, value)| {
        used.insert((flag, name.as_str()));
        (name.clone(), value.clone())
    })
    .collect()
}

/// The rules to load: the built-in ones unless `none` is said, then what `paths` name.
fn sources(paths: &[String]) -> Result<Vec<Source>, Failure> {
    let built_in = |name: &str, text: &str| Source {
        name: name.into(),
        text: text.into(),
        replaces: false,
    };
    let mut sources: Vec<Source> = Vec::new();
    if !paths.iter().any(|path| path == "none") {
        sources.extend(rules::library().iter().map(|(name, text)| built_in(name, text)));
    }
    for path in paths.iter().filter(|path| *path != "none") {
        if let Some((name, text)) = rules::library()
            .iter()
            .chain(rules::models())
            .find(|(name, _)| name == path)
        {
            if !sources.iter().any(|source| source.name == *name) {
                sources.push(built_in(name, text));
            }
            continue;
        }
        for file in files(Path::new(path))? {
            let text = fs::read_to_string(&file)
                .map_err(|error| Failure::not_there(format!("{} cannot be read: {error}", file.display())))?;
            sources.push(Source {
                name: file.display().to_string(),
                text,
                replaces: true,
            });
        }
    }
    Ok(sources)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let Ok(entries) = fs::read_dir(path) else {
        let shipped = rules::library().iter().chain(rules::models());
        let known: Vec<&str> = shipped.map(|(name, _)| *name).collect();
        return Err(Failure::not_there(format!(
            "--rules {}: no such file or folder, and no built-in rule of this name (there are: {})",
            path.display(),
            known.join(", "),
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
        return Err(Failure::not_there(format!(
            "--rules {}: no *.yaml file in this folder",
            path.display()
        )));
    }
    Ok(files)
}
