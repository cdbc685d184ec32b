//! Allowed dependencies between the crates of the workspace, and between the top modules of each crate.
//! Tables are sorted bottom up.
//!
//! A row names a crate or a module and those that it uses. It may name only rows above it, so the table has
//! no cycle. The code may use only what its row names, and must use all of it. Unit tests are excluded. `pure`
//! checks what the pure crates depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::{Outcome, each};

use crate::tidy::{assert_none, paths_below, root, sources};

/// A top module and the top modules that it uses.
type Row<'a> = (&'a str, BTreeSet<&'a str>);

/// Parses the rows of a table; a word with a colon begins a row.
fn rows(table: &str) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for word in table.split_whitespace() {
        match (word.strip_suffix(':'), rows.last_mut()) {
            (Some(name), _) => rows.push((name, BTreeSet::new())),
            (None, Some((_, arrows))) => {
                arrows.insert(word);
            }
            (None, None) => panic!("{word} stands before the first row"),
        }
    }
    rows
}

/// The packages of the workspace, and those that each uses outside its tests. `rules` and `tuner` do not use
/// each other.
const CRATES: &str = "
tuneagent-abi:
tuneagent-e2e:
tuneagent-plan:
tuneagent-syntax: tuneagent-plan
tuneagent-contract: tuneagent-syntax
tuneagent-rules: tuneagent-plan tuneagent-syntax
tuneagent-recording: tuneagent-rules
tuneagent-tuner: tuneagent-plan
tuneagent-profile: tuneagent-abi tuneagent-contract tuneagent-plan tuneagent-rules
tuneagent-session: tuneagent-abi tuneagent-plan tuneagent-profile tuneagent-rules
tuneagent-job: tuneagent-abi tuneagent-plan tuneagent-profile tuneagent-tuner
tuneagent-probe: tuneagent-abi tuneagent-job tuneagent-plan tuneagent-profile tuneagent-tuner
tuneagent-report: tuneagent-abi tuneagent-plan tuneagent-profile tuneagent-rules tuneagent-tuner
tuneagent-page: tuneagent-plan tuneagent-profile tuneagent-report
tuneagent: tuneagent-abi tuneagent-contract tuneagent-job tuneagent-page tuneagent-plan tuneagent-probe tuneagent-profile
    tuneagent-recording tuneagent-report tuneagent-rules tuneagent-session tuneagent-tuner
xtask: tuneagent-e2e
";

#[test]
fn the_crates_of_the_workspace_use_what_is_below_them() -> Outcome {
    let metadata = metadata()?;
    let members: Vec<&Value> = members(&metadata).collect();
    let ours: BTreeSet<&str> = members
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let used = members.iter().map(|package| {
        let all = each(&package["dependencies"]).filter(|dependency| dependency["kind"].is_null());
        let names = all.filter_map(|dependency| dependency["name"].as_str());
        let to = names
            .filter(|name| ours.contains(name))
            .map(|name| (name.to_owned(), "Cargo.toml".to_owned()));
        (
            package["name"].as_str().unwrap_or_default().to_owned(),
            to.collect(),
        )
    });
    compared("the workspace", &used.collect(), CRATES);
    Ok(())
}

pub(crate) fn metadata() -> Outcome<Value> {
    metadata_with(&[])
}

/// Metadata of the workspace, with further arguments of cargo.
pub(crate) fn metadata_with(arguments: &[&str]) -> Outcome<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    let output = command
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(arguments)
        .current_dir(root())
        .output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Packages of this workspace.
pub(crate) fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let ids: BTreeSet<&str> = each(&metadata["workspace_members"])
        .filter_map(Value::as_str)
        .collect();
    each(&metadata["packages"])
        .filter(move |package| package["id"].as_str().is_some_and(|id| ids.contains(id)))
}

const XTASK: &str = "
process:
ebpf: process
fuzz: process
twice: process
wheels: process
deny: process wheels
minimum: process
release: process
dist: process release
slowest:
measure: process
experiment: measure
setup: ebpf process release wheels
demo: measure process setup
vm: process setup
ci: deny dist ebpf experiment fuzz minimum process setup slowest twice vm
attack: ci process
bench: ci measure process
";

const AGENT: &str = "
exit:
heap:
priority:
readable:
rights:
atomic_file:
cli:
connections:
print:
control: connections
diagnostics:
hint:
output_name: exit
report_file: atomic_file output_name rights
nodes: exit readable rights
similar_name:
watchdog: exit
actuator: heap rights
service: cli exit readable rights
rulebook: diagnostics exit output_name
http: connections
session: actuator control exit heap hint http nodes output_name priority readable report_file rulebook similar_name watchdog
commands: actuator cli control diagnostics exit hint http nodes output_name priority readable report_file rights rulebook service session
    atomic_file similar_name
";

const JOB: &str = "
clock:
hosts:
mpi:
discover: hosts mpi
os_metrics:
pipes: discover
place:
root:
";

const PROBE: &str = "
awake:
kernel:
probe: kernel
rendezvous: awake kernel
";

const PAGE: &str = "
model:
cells: model
chart: model
heat: model
series: model
messages: cells model
tables: cells messages model series
make: messages model series tables
html: chart heat messages model
";

const REPORT: &str = "
console:
metrics:
plot:
trace:
report: trace
view: console
";

const PROFILE: &str = "
student:
statistics: student
format:
cost: format statistics
error:
fieldwise:
mpi:
os_metrics:
calls: cost fieldwise format student
progress: calls student
probe: calls mpi
stream_views: fieldwise format
snapshot: calls cost fieldwise format mpi os_metrics progress stream_views
streams: format snapshot statistics stream_views
profile: calls cost format mpi os_metrics probe snapshot
";

const SESSION: &str = "
steps:
greeting:
intake:
process:
request:
budget: intake
changes: process
members: process
leave: changes
requests: leave request
log: changes leave members request requests
decision: changes
nodes: decision request
parts: changes decision leave log members request requests
";

const RULES: &str = "
codes:
cpu_shares:
ids:
period:
pseudo_random:
read:
measure:
requirements: measure
types:
value: types
function: cpu_shares types value
aggregate: value
facts: value
partial_sum: value
target: facts
file: target
plan: measure read partial_sum target
term: function measure types value
folds: function term
guard: term
change: guard term
hit: term value
window: term
rule: change folds function guard measure plan read requirements target term value window
eval: aggregate change facts folds function hit measure rule partial_sum term types value
check: change eval facts file folds function guard measure plan read requirements rule target term
    types value window
explain: eval rule term types value
engine: change eval explain facts folds function guard hit ids measure plan pseudo_random read rule partial_sum target
    term value window
fit: eval facts file plan read rule target value
graph: check engine eval guard plan read rule target term value
library: file rule
page: file rule target types
policy:
";

const SYNTAX: &str = "
diag:
json:
keys:
unit:
quantity: unit
text: diag
ast: diag
lexer: diag text unit
parser: ast diag lexer text unit
print: ast
template: ast diag parser text
yaml: diag text
fields: ast diag keys lexer parser template text yaml
schema: json keys
";

const CONTRACT: &str = "
calibrate:
exact:
keys:
repair:
model: calibrate exact
reduce: exact
schema: keys
error: model
outline: model
system: exact model reduce
deadlock: exact model reduce repair system
points: error exact model
read: calibrate exact keys model system
satisfy: exact model reduce repair system
assess: deadlock exact model reduce satisfy system
service: error model points
capacity: assess error exact model points service system
choice: error model service
dot: assess capacity model system
simulate: assess capacity error exact model service system
size: assess choice error model service system
svg: assess capacity model system
mapping: capacity choice exact model size system
remedy: capacity error model service size
";

const PLAN: &str = "
words:
value:
call: value
cpus:
expression: value
gpu:
openmp: value
outcome: words
site: words
sync: words
action: call cpus expression sync value words
";

const ABI: &str = "
word:
family: word
limits: family
histogram: word
hold: word
message: word
records: message word
partial_sum: records word
spec: message partial_sum
";

/// `stored` has the records as they are encoded, `block` their compressed bytes with checksums.
const RECORDING: &str = "
format:
error: format
record:
block: error format
stored: error format record
writer: block error format record stored
reader: block error record stored
merge: error reader record
";

const TUNER: &str = "
address:
printable:
author:
sys:
process: author printable sys
seccomp: process
arch: address seccomp
clock: sys
maps: address
arena: address clock maps
elf: address printable
foreign:
path:
spelling:
dwarf: address elf foreign path printable spelling
memory: address process
mark: address elf printable
symbol: address elf printable spelling
frames: address elf
image: address arch dwarf elf frames mark spelling symbol
module: address dwarf foreign image maps memory printable process
link_map: address memory module
space: address image link_map maps memory module process symbol
live_maps: address maps memory process space sys
variable: address dwarf image memory module path process space spelling symbol
writable_place: address clock dwarf live_maps maps memory module process space variable
place: address arch arena maps memory module process space writable_place
ptrace: arch process seccomp
write: address arena memory place process ptrace space sys variable writable_place
exits: address frames image symbol
intact: address maps memory module printable process space
function: address dwarf image module process space spelling symbol
error: address function memory module place process ptrace space write
sync: address dwarf exits function intact module process space symbol variable
journal: address arena author clock image process sync variable
unwind: address arch frames maps module place
remote: address arch arena error image maps place process ptrace seccomp space symbol unwind write
rendezvous: address clock process ptrace sync writable_place write
site: address arch image
lock: author memory process
writer: arena author clock error journal lock memory module place process remote space sync variable writable_place write
action: address arch arena clock dwarf error foreign function image journal memory module place process ptrace remote
    rendezvous site space symbol sync variable write writer
revert: author journal module process space variable writable_place write writer
actuator: action address clock error function journal lock memory module place process ptrace rendezvous space
    sync sys revert variable author writable_place write writer
catalog: address dwarf image spelling symbol
libraries: foreign image
";

#[test]
fn the_modules_of_each_crate_use_what_is_below_them() -> Outcome {
    for (folder, table) in [
        ("xtask/src", XTASK),
        ("agent/src", AGENT),
        ("agent/job/src", JOB),
        ("agent/probe/src", PROBE),
        ("agent/page/src", PAGE),
        ("agent/report/src", REPORT),
        ("agent/profile/src", PROFILE),
        ("agent/session/src", SESSION),
        ("rules/src", RULES),
        ("rules/contract/src", CONTRACT),
        ("rules/plan/src", PLAN),
        ("rules/recording/src", RECORDING),
        ("rules/syntax/src", SYNTAX),
        ("tuner/src", TUNER),
        ("ebpf/abi/src", ABI),
    ] {
        compared(folder, &used(folder)?, table);
    }
    Ok(())
}

/// For each module, the modules that it uses, each with a file that does.
type Used = BTreeMap<String, BTreeMap<String, String>>;

/// Fails unless the imports of each module are exactly those in the table.
fn compared(what: &str, used: &Used, table: &str) {
    let mut wrong = misplaced(table);
    let rows: BTreeMap<&str, BTreeSet<&str>> = rows(table).into_iter().collect();
    for (name, arrows) in used {
        let Some(allowed) = rows.get(name.as_str()) else {
            wrong.push(format!("{name} has no row; it uses {:?}", arrows.keys()));
            continue;
        };
        let outside = arrows.iter().filter(|(to, _)| !allowed.contains(to.as_str()));
        wrong.extend(outside.map(|(to, file)| format!("{name} uses {to} ({file})")));
        let idle = allowed.iter().filter(|to| !arrows.contains_key(**to));
        wrong.extend(idle.map(|to| format!("{name} does not use {to}: take it out of the row")));
    }
    let gone = rows.keys().filter(|name| !used.contains_key(**name));
    wrong.extend(gone.map(|name| format!("{name} has a row and is not there")));
    assert_none(
        &wrong,
        &format!("{what} against its table in tests/e2e/arrows.rs"),
    );
}

/// Rows that name themselves, a later row, or an unknown name. Without such rows the table has no cycle.
fn misplaced(table: &str) -> Vec<String> {
    let mut above = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, arrows) in rows(table) {
        let astray = arrows.iter().filter(|to| !above.contains(*to));
        wrong.extend(astray.map(|to| format!("the row of {name} names {to}, which does not stand above it")));
        if !above.insert(name) {
            wrong.push(format!("{name} has two rows"));
        }
    }
    wrong
}

/// Used top modules of each top module of a crate, each with a file.
fn used(folder: &str) -> Outcome<Used> {
    let top = Top::read(folder)?;
    let mut used = Used::new();
    used.extend(top.modules.iter().map(|name| (name.clone(), BTreeMap::new())));
    for source in sources(&[folder])? {
        let path = source.name.trim_start_matches(folder).trim_start_matches('/');
        let path: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        let Some(arrows) = path.first().and_then(|name| used.get_mut(*name)) else {
            continue;
        };
        let depth = path.iter().filter(|part| **part != "mod").count();
        let mut paths = paths_below("crate::", &source.product);
        paths.extend(paths_below(&"super::".repeat(depth), &source.product));
        let modules = paths.iter().filter_map(|path| top.module(path));
        let others = modules.filter(|to| *to != path[0]);
        arrows.extend(others.map(|to| (to.to_owned(), source.name.clone())));
    }
    Ok(used)
}

/// Contents of a crate's root module.
struct Top {
    modules: BTreeSet<String>,
    /// Re-exported items, with the module of each.
    items: BTreeMap<String, String>,
}

impl Top {
    fn read(folder: &str) -> Outcome<Top> {
        let mut top = Top {
            modules: BTreeSet::new(),
            items: BTreeMap::new(),
        };
        for file in ["lib.rs", "main.rs"] {
            let path = root().join(folder).join(file);
            if path.exists() {
                top.take(&fs::read_to_string(&path).context(path.display())?);
            }
        }
        Ok(top)
    }

    fn take(&mut self, text: &str) {
        let declared = text.lines().filter_map(|line| {
            let line = line.strip_suffix(';')?;
            line.split_once("mod ")
        });
        let of_product = declared.filter(|(before, name)| {
            matches!(*before, "" | "pub " | "pub(crate) ")
                && !text.contains(&format!("#[cfg(test)]\nmod {name};"))
        });
        self.modules
            .extend(of_product.map(|(_, name)| name.trim().to_owned()));
        let exported = text.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
        let paths = exported.flat_map(|(path, _)| paths_below("crate::", &format!("crate::{path}")));
        for path in paths {
            let name = path.rsplit([':', ' ']).next().unwrap_or_default().to_owned();
            let from = path.trim_start_matches("crate::").trim_start_matches("self::");
            let from = from.split("::").next().unwrap_or_default();
            if self.modules.contains(from) {
                self.items.insert(name, from.to_owned());
            }
        }
    }

    /// The top module that a path from the crate root leads to.
    fn module(&self, path: &str) -> Option<&str> {
        let first = path.split([':', ' ']).next()?;
        let module = self.modules.get(first).or_else(|| self.items.get(first))?;
        Some(module)
    }
}

#[test]
fn a_table_names_only_rows_above() {
    assert!(misplaced("a: b: a").is_empty());
    for table in ["a: b b: a", "a: a b:", "a: b: c", "a: a:"] {
        assert_eq!(misplaced(table).len(), 1, "{table}");
    }
}

#[test]
fn a_path_through_the_root_leads_to_its_module() {
    let mut top = Top {
        modules: BTreeSet::new(),
        items: BTreeMap::new(),
    };
    top.take("mod one;\npub mod two;\n#[cfg(test)]\nmod tests;\npub use one::{A, inner::B as C};\nuse crate::two::D;\n");
    let known = ["one::x", "two", "A", "C::new", "D", "tests", "E", "B"].map(|path| top.module(path));
    let (one, two) = (Some("one"), Some("two"));
    assert_eq!(known, [one, two, one, one, two, None, None, None]);
}
