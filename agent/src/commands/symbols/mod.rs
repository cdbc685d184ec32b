//! `tuneagent symbols`: lists the functions and variables of a program or a file, and what can be done with
//! each.
//!
//! Among symbols of the same name it does not show which one a rule would use; `get` and `rule check` do.

mod sites;
mod table;

use std::{collections::BTreeMap, error::Error, path::Path, sync::Arc};

use job::{Discovery, Member};
use probe::kernel;
use profile::format::{count, nearest, plural};
use profile::matches_glob;
use report::console;
use serde::Serialize;
use tuner::catalog::{self, CatalogEntry, SymbolUse};
use tuner::dwarf::{self, Description, Inlined, Origin};
use tuner::{Emulation, Image, Spelling, foreign};

use self::sites::{CostCounts, SiteRow};
use super::target;
use crate::{
    cli::SymbolsArgs,
    exit::{Code, CommandResult, Failure},
};

/// Maximum number of rows shown; a pattern selects fewer.
const ROWS_MAX: usize = 200;

/// Why a program lacks names.
const STRIPPED: &str = "was stripped: of its functions and variables only those that it exports have names (strip -g would leave them)";

/// Maximum number of rows written as JSON.
const JSON_ROWS_MAX: usize = 100_000;

struct Listed {
    path: String,
    image: Arc<Image>,
}

/// A function or variable for display.
#[derive(Debug, Serialize, Default)]
struct SymbolRow {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    symbol: String,
    kind: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    /// The source file of a symbol that is private to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    can: String,
    /// The probe site of a function, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<SiteRow>,
}

/// The symbols of a file.
#[derive(Debug, Serialize)]
struct FileSymbols {
    file: String,
    symbols: Vec<SymbolRow>,
    omitted: usize,
    /// Symbols of the compiler and the C library that a list without a pattern leaves out.
    #[serde(skip)]
    of_toolchain: usize,
    /// Numbers of functions by the cost of a hit, including functions that are not shown; if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<CostCounts>,
}

struct Wanted<'a> {
    glob: Option<&'a str>,
    /// A name without wildcards, in the user's spelling.
    spelling: Option<(&'a str, Spelling)>,
    functions: bool,
    variables: bool,
    /// Only the program's own symbols, not those of the compiler and the C library.
    is_own: bool,
    /// Show probe sites, for a kernel that emulates these instructions.
    sites: Option<Emulation>,
}

impl<'a> Wanted<'a> {
    fn new(args: &'a SymbolsArgs) -> Wanted<'a> {
        let pattern = args.pattern.as_deref();
        let glob = pattern.filter(|pattern| pattern.contains(['*', '?']));
        Wanted {
            spelling: pattern
                .filter(|_| glob.is_none())
                .map(|name| (name, Spelling::new(name))),
            glob,
            is_own: pattern.is_none() && !args.json,
            functions: !args.variables,
            variables: !(args.functions || args.sites),
            sites: args.sites.then(kernel::emulation),
        }
    }

    fn takes_name(&self, name: &str) -> bool {
        match (&self.glob, &self.spelling) {
            (Some(pattern), _) => {
                let without_parameters = name.split('(').next().unwrap_or(name);
                matches_glob(pattern, name) || matches_glob(pattern, without_parameters)
            }
            (None, Some((text, spelling))) => *text == name || spelling.fit(name.as_bytes()).is_some(),
            (None, None) => true,
        }
    }

    fn takes(&self, entry: &CatalogEntry) -> bool {
        if entry.is_function() {
            self.functions
        } else {
            self.variables
        }
    }
}

pub(super) fn run(args: &SymbolsArgs) -> CommandResult {
    let wanted = Wanted::new(args);
    let (files, others) = match names_file(&args.target) {
        true => (vec![file(&args.target)?], 0),
        false => files_of_process(args)?,
    };
    crate::rights::only_look().map_err(Failure::not_permitted)?;
    let rows_max = if args.json { JSON_ROWS_MAX } else { ROWS_MAX };
    let mut room = rows_max;
    let mut found = Vec::new();
    for listed in &files {
        let rows = rows(listed, &wanted, room)
            .map_err(|error| Failure::invalid(listed.path.clone()).caused_by(&error))?;
        room -= rows.symbols.len();
        if !rows.symbols.is_empty() || rows.omitted > 0 || rows.of_toolchain > 0 {
            found.push(rows);
        }
    }
    if found.is_empty() {
        return Err(Failure::invalid(nothing(args, &files)));
    }
    if args.json {
        let text = serde_json::to_string_pretty(&found).map_err(Failure::failed)?;
        say!("{text}");
        return Ok(Code::Done);
    }
    show(&found, others);
    // The first file is the program itself. Where nothing is found the error says so.
    if files.first().is_some_and(|first| first.image.is_stripped()) {
        say!("{} {STRIPPED}", args.target);
    }
    Ok(Code::Done)
}

/// Whether TARGET is a file: a path, or the name of a file in this folder if no program of that name runs.
/// Otherwise it is the running program, as with `attach`; a file of the same name is mentioned.
fn names_file(target: &str) -> bool {
    if target.contains('/') {
        return true;
    }
    if target.parse::<i32>().is_ok() || !Path::new(target).is_file() {
        return false;
    }
    let is_file = target::runs_nowhere(target);
    if !is_file {
        console::error_line(format_args!(
            "{target} is the running program here; the file of this name: tuneagent symbols ./{target}"
        ));
    }
    is_file
}

fn nothing(args: &SymbolsArgs, files: &[Listed]) -> String {
    match &args.pattern {
        Some(pattern) => {
            let symbols = files.iter().filter_map(|file| file.image.defined_symbols().ok());
            let near = nearest(pattern, symbols.flatten().map(|symbol| symbol.name));
            let near = near.map_or_else(String::new, |name| match (name == *pattern, args.functions) {
                (true, true) => format!(": `{name}` is a variable; leave out --functions"),
                (true, false) => format!(": `{name}` is a function; leave out --variables"),
                (false, _) => format!("; did you mean `{name}`?"),
            });
            let is_file = files.iter().any(|file| file.path == args.target);
            let file = if is_file { "the file " } else { "" };
            let text = format!("{file}{} has no symbol like `{pattern}`", args.target);
            // The first file is the program itself.
            match files.first().is_some_and(|first| first.image.is_stripped()) {
                // A similar name of a library is not the one that was removed.
                true => format!("{text}: it {STRIPPED}"),
                false => format!("{text}{near}"),
            }
        }
        None => format!(
            "{} has no symbols: it was stripped, and no debug file of it is to be found",
            args.target
        ),
    }
}

fn show(found: &[FileSymbols], others: usize) {
    for file in found {
        say!("{}", file.file);
        let width = table::width();
        table::lines(&file.symbols, width)
            .iter()
            .for_each(|line| say!("{line}"));
        if let Some(costs) = &file.costs {
            say!("  {costs}");
        }
    }
    let of_toolchain: usize = found.iter().map(|file| file.of_toolchain).sum();
    if of_toolchain > 0 {
        say!(
            "left out: {} of the compiler and the C library; a pattern shows them",
            plural(of_toolchain, "symbol")
        );
    }
    let omitted: usize = found.iter().map(|file| file.omitted).sum();
    if omitted > 0 {
        say!(
            "… and {} more: give a pattern, as in 'solver*'",
            count(omitted as f64)
        );
    }
    if others > 0 {
        let libraries = plural(others, "library").replace("librarys", "libraries");
        say!("only the program itself is listed; a pattern looks into its {libraries} too");
    }
}

fn file(path: &str) -> Result<Listed, Failure> {
    if !Path::new(path).exists() {
        return Err(Failure::invalid(format!("there is no file {path}")));
    }
    let failed = |error: &(dyn Error + 'static)| Failure::invalid(path).caused_by(error);
    let file = foreign::open(Path::new(path)).map_err(|error| failed(&error))?;
    let image = Image::read(file).map_err(|error| failed(&error))?;
    Ok(Listed {
        path: path.to_owned(),
        image: Arc::new(image.found_at(Origin::here(Path::new(path)))),
    })
}

/// The files of a process that are searched, and the number of others.
fn files_of_process(args: &SymbolsArgs) -> Result<(Vec<Listed>, usize), Failure> {
    let job = target::job(&mut Discovery::default(), &args.target, args.users.any_user)?;
    let typed = args.target.parse().ok();
    let is_typed = |member: &&Member| Some(member.process.pid.number) == typed;
    let first = job.members.iter().find(is_typed).or(job.members.first());
    let member =
        first.ok_or_else(|| Failure::invalid(format!("no process of {} could be inspected", args.target)))?;
    let pid = member.process.pid.number;
    if typed.is_some_and(|typed| typed != pid) {
        console::error_line(format_args!(
            "{} launches processes; this is the first of them: {pid}",
            args.target
        ));
    }
    let space = &member.space;
    for error in space.unreadable.iter() {
        warn!("{error}");
    }
    let is_listed = |is_executable| args.pattern.is_some() || is_executable;
    let (listed, others): (Vec<_>, Vec<_>) = space
        .modules
        .iter()
        .partition(|module| is_listed(module.is_executable));
    let listed = listed.into_iter().map(|module| Listed {
        path: module.path.clone(),
        image: Arc::clone(&module.image),
    });
    Ok((listed.collect(), others.len()))
}

fn rows(listed: &Listed, wanted: &Wanted<'_>, room: usize) -> Result<FileSymbols, tuner::ImageError> {
    let image = &listed.image;
    let mut entries = catalog::entries(image, |name| wanted.takes_name(name))?;
    entries.retain(|entry| wanted.takes(entry));
    let all = entries.len();
    let is_own = |entry: &CatalogEntry| !is_of_toolchain(&entry.name, entry.source.as_deref());
    if wanted.is_own {
        entries.retain(is_own);
    }
    let of_toolchain = all - entries.len();
    entries.sort_by_key(|entry| !is_own(entry));
    let sites = wanted
        .sites
        .map(|emulation| sites::of(image, &entries, emulation));
    let mut symbols = Vec::new();
    let mut omitted = entries.len().saturating_sub(room);
    entries.truncate(room);
    let known = catalog::describe(image, &entries)?;
    symbols.extend(entries.iter().map(|entry| row(entry, &known)));
    let with_marks = wanted.functions && sites.is_none();
    let costs = sites.map(|(sites, costs)| {
        for (row, site) in symbols.iter_mut().zip(sites) {
            row.site = site;
        }
        costs
    });
    if with_marks {
        let marks = mark_rows(image, wanted)?;
        let left = room.saturating_sub(symbols.len());
        omitted += marks.len().saturating_sub(left);
        symbols.extend(marks.into_iter().take(left));
    }
    if let Some((name, _)) = wanted.spelling.as_ref().filter(|_| with_marks) {
        let (places, total) = dwarf::inlined(image, name)?;
        let left = room.saturating_sub(symbols.len());
        symbols.extend(places.into_iter().take(left).map(inlined_row));
        let shown = symbols.iter().filter(|row| row.kind == INLINED).count();
        omitted += total - shown;
    }
    Ok(FileSymbols {
        file: listed.path.clone(),
        symbols,
        omitted,
        of_toolchain,
        costs,
    })
}

/// Whether a symbol belongs to the compiler or the C library.
fn is_of_toolchain(name: &str, source: Option<&str>) -> bool {
    const STARTUP: [&str; 11] = [
        "_start",
        "_end",
        "_init",
        "_fini",
        "_edata",
        "deregister_tm_clones",
        "register_tm_clones",
        "frame_dummy",
        "data_start",
        "edata",
        "end",
    ];
    // Names with these beginnings are reserved for them.
    let is_reserved = name.starts_with("__") || name.starts_with('.');
    let after = name.strip_prefix('_').and_then(|rest| rest.chars().next());
    is_reserved
        || after.is_some_and(|first| first.is_ascii_uppercase())
        || STARTUP.contains(&name)
        || source.is_some_and(|file| file.starts_with("crt"))
}

/// One row per mark and set of values that it passes, regardless of its number of places.
fn mark_rows(image: &Image, wanted: &Wanted<'_>) -> Result<Vec<SymbolRow>, tuner::ImageError> {
    let mut places: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for mark in image.marks()?.iter().filter(|mark| wanted.takes_name(&mark.name)) {
        let arguments = mark.arguments().into_iter();
        let types: Vec<&str> = arguments
            .map(|argument| argument.map_or("?", |known| known.type_name))
            .collect();
        *places.entry((&mark.name, types.join(", "))).or_default() += 1;
    }
    let row = |((name, types), count): ((&str, String), usize)| SymbolRow {
        name: name.to_owned(),
        kind: "mark",
        type_name: Some(format!("({types})")),
        can: match count {
            1 => "probe".to_owned(),
            count => format!("probe ({count} places)"),
        },
        ..SymbolRow::default()
    };
    Ok(places.into_iter().map(row).collect())
}

const INLINED: &str = "inlined";

fn inlined_row(place: Inlined) -> SymbolRow {
    SymbolRow {
        can: format!(
            "inlined into {} at {}:{}: probe that",
            place.into, place.file, place.line
        ),
        name: place.name,
        kind: INLINED,
        ..SymbolRow::default()
    }
}

fn row(entry: &CatalogEntry, known: &BTreeMap<tuner::LinkAddress, Description>) -> SymbolRow {
    let known = known.get(&entry.address);
    let can = match entry.can(known) {
        SymbolUse::Probe => "probe".to_owned(),
        SymbolUse::ProbeChoice => "probe (ifunc)".to_owned(),
        SymbolUse::Set { state_type: false } => "set".to_owned(),
        SymbolUse::Set { state_type: true } => "set --type TYPE".to_owned(),
        SymbolUse::Parts if known.is_some_and(|known| known.type_name.ends_with(']')) => {
            "set NAME[index]".to_owned()
        }
        SymbolUse::Parts => "set NAME.member".to_owned(),
        SymbolUse::Follow => "set *NAME".to_owned(),
        SymbolUse::Read(why) => format!("read ({why})"),
        SymbolUse::Nothing(why) => format!("no ({why})"),
    };
    let unit = known
        .map(|known| known.unit.clone())
        .filter(|unit| !unit.is_empty());
    SymbolRow {
        kind: if entry.is_function() {
            "function"
        } else {
            "variable"
        },
        type_name: known.map(|known| known.type_name.clone()),
        size: entry.size,
        section: entry.section.clone(),
        unit: unit.or_else(|| entry.source.clone()).filter(|_| entry.is_private),
        can,
        site: None,
        name: entry.name.clone(),
        symbol: entry.symbol.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_toolchain;

    #[test]
    fn functions_of_the_toolchain_differ_from_those_of_the_program() {
        for (name, source, expected) in [
            ("completed.0", Some("crtstuff.c"), true),
            ("deregister_tm_clones", None, true),
            ("__TMC_END__", None, true),
            ("_DYNAMIC", None, true),
            ("_end", None, true),
            ("_update", None, false),
            ("end_of_step", None, false),
            ("step", Some("solver.c"), false),
            ("limit", None, false),
        ] {
            assert_eq!(is_of_toolchain(name, source), expected, "{name}");
        }
    }
}
