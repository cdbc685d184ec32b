//! Which rules a session loads: the built-in ones and files, checked, with their parameters set. Evaluates nothing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rules::{CheckedRule, RuleFile};

use crate::{diagnostics, exit::Failure};

/// Reads and checks the rules that `paths` name beside the built-in ones.
pub(super) fn load(paths: &[String], parameters: &[(String, String)]) -> Result<Vec<CheckedRule>, Failure> {
    let mut checked: Vec<CheckedRule> = Vec::new();
    let mut used = vec![false; parameters.len()];
    for source in sources(paths)? {
        let rule = source.check(parameters, &mut used)?;
        // A file may replace a built-in rule of the same name.
        checked.retain(|known| known.name() != rule.name() || !source.replaces);
        checked.push(rule);
    }
    if let Some(((name, _), _)) = parameters.iter().zip(used).find(|(_, used)| !used) {
        return Err(Failure::not_there(format!(
            "--param {name}: no loaded rule has a parameter of this name"
        )));
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
    fn check(&self, parameters: &[(String, String)], used: &mut [bool]) -> Result<CheckedRule, Failure> {
        let refuse = |wrong: Vec<rules::Diagnostic>| {
            Failure::not_there(format!(
                "nothing was attached\n{}",
                diagnostics::render(&self.name, &self.text, &wrong)
            ))
        };
        let file = RuleFile::parse(&self.text).map_err(refuse)?;
        let plain = file.check(&BTreeMap::new()).map_err(refuse)?;
        let mut overrides = BTreeMap::new();
        for ((name, value), used) in parameters.iter().zip(used) {
            if plain.parameters().iter().any(|(known, _)| known == name) {
                overrides.insert(name.clone(), value.clone());
                *used = true;
            }
        }
        if overrides.is_empty() {
            Ok(plain)
        } else {
            file.check(&overrides).map_err(refuse)
        }
    }
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
