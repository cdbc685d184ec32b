//! Hostile programs: each checks itself and must behave the same when watched, changed and reverted as it
//! does alone.
//!
//! A row of the table (`rows`) is a program in `programs/hostile`. At its end it prints `NAME: ok: …` and
//! exits with 0, or prints what was wrong. Its verdict is this line and the exit code. A batch of rows runs
//! side by side, in `batch`. Each batch runs once alone and then for one round, or 20 with TUNEAGENT_LONG=1.
//! In alternating rounds it is watched by `attach` and changed by a rule, or started by `run` and changed by
//! commands; batches differ in which comes first. TUNEAGENT_ROWS=PART selects rows whose names contain PART.
//! A refused change is not a failure, but must leave the program unharmed.

mod batch;
mod rows;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::knobs::open_folder;
use tuneagent_e2e::needs::amount;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::SOON;
use batch::{Batch, Verdicts};
use rows::{Row, Source};

/// Minimum number of rounds of each program in each condition.
const MORE_ROUNDS: u64 = 10;

/// Functions that are probed in all programs that have them. The MPI functions are those that the profile
/// does not probe.
const PROBES: [&str; 5] = ["--probe", "through", "deep", "MPI_Type_free", "check"];

const RULE: &str = "rule: hostile
about: changes whatever has a knob
roles: {program: has(knob)}
windows: {pulse: {every: 100ms}}
metrics: {used: sum(cpu.time) / pulse.duration}
tune:
  - set: knob
    role: program
    value: 11
    when: used >= 0
  - replace: f
    with: g
    role: program
    when: used >= 0
  - remove_call: tick
    in: check
    role: program
    when: used >= 0
  - call: set_level(2)
    was: level()
    inverse: set_level(was)
    role: program
    when: used >= 0
";

/// Commands that change a program, without the process number. `LIBRARY` stands for a library that the
/// program has not loaded.
const BY_HAND: [&[&str]; 8] = [
    &["set", "knob=11"],
    &["patch", "replace", "f", "g"],
    &["call", "extra(1)"],
    &["set", "knob=11", "--at", "entry:check"],
    &["patch", "remove", "tick", "--in", "check"],
    &["patch", "insert", "extra(1)", "check"],
    &["patch", "load", "LIBRARY"],
    &[
        "call",
        "set_level(2)",
        "--was",
        "level()",
        "--inverse",
        "set_level(was)",
    ],
];

/// Number of commands that run at the same time.
const HANDS: usize = 4;

/// Exit codes of a command that was executed, or refused with a reason.
const DONE_OR_REFUSED: [i32; 3] = [0, 1, 2];

fn rounds() -> Outcome<usize> {
    Ok(amount("TUNEAGENT_ROUNDS", 1, 20)? as usize)
}

/// Watches the batch by `attach`, then changes it by a rule, whose changes are reverted when the session
/// ends.
fn attached(batch: &Batch) -> Outcome {
    // Only running processes; ended ones are recorded in the verdicts.
    let pids = batch.pids()?;
    let mut words = vec!["attach"];
    words.extend(pids.iter().map(String::as_str));
    words.extend(["--plain", "--budget", "none", "--rules", "none"]);
    session(batch, "watched", &[&words[..], &PROBES].concat(), None)?;
    let folder = open_folder()?;
    let rule = folder.path().join("hostile.yaml");
    std::fs::write(&rule, RULE)?;
    let rule = rule.to_string_lossy();
    words.extend([&*rule, "--apply=hostile"]);
    session(batch, "changed by a rule", &words, Some("written and read back"))
}

/// A session until SIGINT, during some rounds of every program.
fn session(batch: &Batch, what: &str, words: &[&str], line: Option<&str>) -> Outcome {
    let mut agent = Agent::command(words)?;
    let armed = agent.armed();
    if let (Ok(()), Some(line)) = (&armed, line) {
        agent.lines.wait_for_line(line, SOON)?;
    }
    batch.makes_rounds(MORE_ROUNDS)?;
    agent.signal(Signal::INT).or(armed)?;
    let code = agent.wait(SOON)?;
    let text = agent.lines.text();
    let said = if code == 0 {
        text.lines().last()
    } else {
        Some(&*text)
    };
    println!("{what}, exit code {code}: {}", said.unwrap_or_default());
    // 1: a change was reverted or could not be made.
    if code != 0 && (line.is_none() || code != 1) {
        batch.fails(format!("the session ended with {code}: {text}"));
    }
    batch.look(what);
    Ok(())
}

/// Changes each row with a different command and reverts it. Several commands run at a time, because they
/// mostly wait.
fn by_hand(batch: &Batch, round: usize) -> Outcome {
    let library = programs::library("tuned", 7)?;
    let library = library.to_string_lossy();
    let rows: Vec<(usize, &Row)> = batch.rows().iter().enumerate().collect();
    // Rows are dealt out in turns, because rows that take several commands are adjacent in the table.
    let share = |hand: usize| -> Outcome {
        let mut rows = rows.iter().skip(hand).step_by(HANDS);
        rows.try_for_each(|(index, row)| row_by_hand(batch, row, index + round, &library))
    };
    let share = &share;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..HANDS).map(|hand| scope.spawn(move || share(hand))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.into_iter().try_for_each(|outcome| match outcome {
            Ok(outcome) => outcome,
            Err(_) => Err("a thread of the test panicked".into()),
        })
    })
}

/// Changes a row with one of the commands, or with all those that make calls if a call could kill the
/// program.
fn row_by_hand(batch: &Batch, row: &Row, turn: usize, library: &str) -> Outcome {
    for (number, words) in BY_HAND.iter().enumerate() {
        let makes_calls = ["call", "insert", "load"]
            .iter()
            .any(|verb| words[..2].contains(verb));
        // One command per round, for every second row, so that all commands are used. For rows in which held
        // threads and calls can do no specific harm, every third row.
        let is_second = (turn / BY_HAND.len() + turn).is_multiple_of(2);
        let is_chosen = match row.blocks_or_comes_and_goes() {
            true => is_second,
            false => turn.is_multiple_of(3),
        };
        let is_its_turn = number == turn % BY_HAND.len() && is_chosen;
        if is_its_turn || rounds()? > 2 || (row.source == Source::Filtered && makes_calls) {
            one_by_hand(batch, row, words, library)?;
        }
    }
    if row.mode == "libraries" {
        one_by_hand(batch, row, &["set", "first_knob=77"], library)?;
    }
    Ok(())
}

fn one_by_hand(batch: &Batch, row: &Row, words: &[&str], library: &str) -> Outcome {
    let Some(pid) = batch.pid_of(row) else {
        return Ok(());
    };
    let state = tempfile::tempdir()?;
    let mut typed = vec![words[0], &pid];
    typed.extend(words[1..].iter().map(|word| match *word {
        "LIBRARY" => library,
        word => word,
    }));
    let what = format!("{words:?}");
    let (code, text) = Agent::run_in(state.path(), &typed)?;
    let must_be_done = words == ["set", "knob=11"] && row.stays_what_it_is() && batch.lives(row);
    if !DONE_OR_REFUSED.contains(&code) || (must_be_done && code != 0) {
        batch.fails(format!("{} {what}: {code}: {text}", row.name()));
    }
    batch.makes_rounds_of(row, 2)?;
    let undo = || Agent::run_in(state.path(), &["undo", &pid]);
    let (mut code, mut text) = undo()?;
    // `undo` reports what it could not revert, with the reason. It is repeated, because a place may not have
    // been reached in time.
    for _ in 0..2 {
        if code == 0 || !batch.lives(row) {
            break;
        }
        println!("{} undo of {what}: {code}: {text}", row.name());
        batch.makes_rounds_of(row, 2)?;
        (code, text) = undo()?;
    }
    if !DONE_OR_REFUSED.contains(&code) {
        batch.fails(format!("{} undo of {what}: {code}: {text}", row.name()));
    }
    batch.look(&format!("after {what}"));
    Ok(())
}

/// Watches, changes and reverts a batch in one of the two ways.
fn one_round(rows: &[Row], round: usize) -> Outcome<Verdicts> {
    let is_attached = round.is_multiple_of(2);
    let flags = [&["--rules", "none"], &PROBES[..]].concat();
    let batch = Batch::start(rows, (!is_attached).then_some(&flags))?;
    batch.makes_rounds(1)?;
    match is_attached {
        true => attached(&batch)?,
        false => {
            batch.makes_rounds(MORE_ROUNDS)?;
            batch.look("under run");
            by_hand(&batch, round)?;
        }
    }
    batch.ends()
}

#[test]
fn no_two_rows_have_one_name_and_the_readme_says_how_many_there_are() -> Outcome {
    let rows: Vec<String> = rows::batches().iter().flatten().map(Row::name).collect();
    let different: std::collections::BTreeSet<&String> = rows.iter().collect();
    assert_eq!(different.len(), rows.len(), "{rows:?}");
    let readme = crate::tidy::read("README.md")?;
    let words: Vec<&str> = readme.split_whitespace().collect();
    let said = format!(" {} hostile cases ", rows.len());
    assert!(words.join(" ").contains(&said), "{said}");
    Ok(())
}

#[test]
fn hostile_programs_are_the_same_watched_changed_and_put_back_as_they_are_alone() -> Outcome {
    let _machine = require!(machine: Root, Cc, Cxx, OpenMpi, Mpich);
    let began = Instant::now();
    let mut failures = Vec::new();
    let mut count = 0;
    let part = std::env::var("TUNEAGENT_ROWS").unwrap_or_default();
    for (number, mut rows) in rows::batches().into_iter().enumerate() {
        rows.retain(|row| row.name().contains(&part));
        if rows.is_empty() {
            continue;
        }
        count += rows.len();
        let alone = Batch::start(&rows, None)?.ends()?;
        failures.extend(alone.failures());
        for round in (number..).take(rounds()?) {
            match one_round(&rows, round) {
                Ok(verdicts) => failures.extend(verdicts.differences(&alone, round)),
                Err(problem) => failures.push(format!("round {round}: {problem}")),
            }
        }
    }
    let took = Duration::from_millis(began.elapsed().as_millis() as u64);
    println!("{count} programs, {} rounds, in {took:?}", rounds()?);
    assert!(
        failures.is_empty(),
        "{} differ from what they do alone:\n{}",
        failures.len(),
        failures.join("\n")
    );
    Ok(())
}
