//! Programs whose libraries bring an OpenMP runtime each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tuneagent_e2e::crowd::{Crowd, leave};
use tuneagent_e2e::lines::succeed;
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::wait::{SOON, wait_until};
use tuneagent_e2e::{Outcome, programs, require};

const SONAME: &[u8] = b"libgomp.so.1\0";

/// A copy of GCC's OpenMP runtime with a file name and a soname of its own, as in a Python wheel. `digit` takes
/// the place of the last character of the soname.
fn copy_of_libgomp(folder: &Path, digit: u8) -> Outcome<PathBuf> {
    let printed = Command::new("cc").arg("-print-file-name=libgomp.so.1").output()?;
    let own = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
    let mut bytes = fs::read(&own).context(&own)?;
    let names = bytes.windows(SONAME.len()).enumerate();
    let names: Vec<usize> = names
        .filter(|(_, text)| *text == SONAME)
        .map(|(at, _)| at)
        .collect();
    assert!(!names.is_empty(), "{own} has no soname");
    for at in names {
        bytes[at + SONAME.len() - 2] = digit;
    }
    let copy = folder.join(format!("libgomp.so.{}", char::from(digit)));
    fs::write(&copy, bytes).context(copy.display())?;
    Ok(copy)
}

/// The library `copies_part`, on a runtime of its own. `definition` is a flag of the compiler.
fn part(folder: &Path, digit: u8, definition: &str) -> Outcome<String> {
    let runtime = copy_of_libgomp(folder, digit)?;
    let (object, library) = (
        folder.join("part.o"),
        folder.join(format!("libpart{}.so", char::from(digit))),
    );
    let compile = ["-O1", "-g", "-fopenmp", "-fPIC", "-c", definition];
    succeed(
        Command::new("cc")
            .args(compile)
            .arg(programs::source("copies_part.c"))
            .arg("-o")
            .arg(&object),
    )?;
    let found = format!("-Wl,-rpath,{}", folder.display());
    let mut link = Command::new("cc");
    link.args(["-shared", found.as_str()])
        .args([&object, &runtime])
        .arg("-o")
        .arg(&library);
    succeed(&mut link)?;
    Ok(library.to_string_lossy().into_owned())
}

/// Waits for a team size in the first and the last library of each process.
fn teams_become(crowd: &Crowd, wanted: Value) -> Outcome {
    wait_until(&format!("teams {wanted}"), SOON, || {
        crowd.pace(0.1)?;
        Ok(Value::from(crowd.newest("teams")) == wanted)
    })
}

/// Two processes, with two copies of the runtime in each: the rule acts in each copy, and the sizes are as before
/// when the agent leaves.
fn each_copy_is_changed(definition: &str, rule: &str, done: &str, reverted: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let part = |digit| part(folder.path(), digit, definition);
    let arguments = ["DIRECTORY", &part(b'3')?, &part(b'4')?];
    let crowd = Crowd::start(2, &[], &programs::threads("copies")?, &arguments)?;
    teams_become(&crowd, json!([[2, 2], [2, 2]]))?;
    let agent = crowd.attach(&[&format!("--apply={rule}")])?;
    agent.lines.wait_for_line(done, SOON)?;
    teams_become(&crowd, json!([[1, 1], [1, 1]]))?;
    let text = leave(agent)?;
    assert_has!(text, reverted);
    teams_become(&crowd, json!([[2, 2], [2, 2]]))?;
    let results = crowd.finish()?;
    assert!(results.values().all(|of| of.len() == 1), "{results:?}");
    Ok(())
}

#[test]
fn team_sizes_are_set_in_each_copy_of_the_runtime_and_reverted() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let done = "omp_set_num_threads(1): done in 2 processes";
    each_copy_is_changed("-O1", "openmp-team-size", done, "4 changes reverted")
}

#[test]
fn stated_team_sizes_are_changed_in_each_copy_of_the_runtime_and_reverted() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let done = "set_arg openmp.size = min(original, 1): done in 2 processes";
    each_copy_is_changed("-DTEAM=2", "openmp-stated-team-size", done, "2 changes reverted")
}
