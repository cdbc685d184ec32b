//! Actions of rules on a program with threads. Each effect is checked in the program's own output, and each
//! change is reverted when its condition ends or the session ends. Actions that are impossible are reported
//! with the reason.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder, written};

/// A program, and an agent with a rule that acts on it.
pub(crate) struct Acting {
    pub(crate) job: Job,
    pub(crate) agent: Agent,
    /// Holds libraries and rules, which must exist during the session.
    _folder: TempDir,
}

const HEAD: &str = "about: for a test
probes: {step: {entry: step}}
capture: {step.heavy: heavy, step.wish: wish}
windows: {pulse: {every: 100ms}}
metrics: {load: max(step.heavy), wished: max(step.wish)}
tune:
";

/// Writes the rule `acting` with these tunes into a file.
pub(crate) fn rule(folder: &TempDir, head: &str, tunes: &str) -> Outcome<String> {
    written(
        folder.path(),
        "acting.yaml",
        &format!("rule: acting\n{head}{tunes}"),
    )
}

impl Acting {
    /// Starts `levers` with the libraries, and the agent with a rule of these tunes.
    fn start(libraries: &[&Path], tunes: &str) -> Outcome<Acting> {
        let libraries: Vec<String> = libraries
            .iter()
            .map(|file| file.to_string_lossy().into_owned())
            .collect();
        let program = programs::threads("levers")?;
        Acting::of(&program, HEAD, tunes, libraries)
    }

    pub(crate) fn of(program: &Path, head: &str, tunes: &str, arguments: Vec<String>) -> Outcome<Acting> {
        let folder = tempfile::tempdir()?;
        rule(&folder, head, tunes)?;
        let job = Job::alone(program, |folder| with_folder(folder, arguments))?;
        job.events("ready", 1, SOON)?;
        job.open("go")?;
        let rule = folder.path().join("acting.yaml");
        let flags = ["--rules", "none", &rule.to_string_lossy(), "--apply=acting"];
        let agent = Agent::attach(job.pid(), &flags)?;
        Ok(Acting {
            job,
            agent,
            _folder: folder,
        })
    }

    /// Waits for a round that `is_it` accepts, after skipping `from` rounds. Returns the number of rounds
    /// until then.
    pub(crate) fn sees(&self, what: &str, from: usize, is_it: impl Fn(&Value) -> bool) -> Outcome<usize> {
        let agent = || format!("the agent said:\n{}", self.agent.lines.text());
        let place = shows(&self.job, what, from, is_it);
        place
            .map(|(place, _)| place)
            .map_err(|error| tuneagent_e2e::Problem::new(format!("{error}\n{}", agent())))
    }

    /// Ends the session, then the program, which must have computed all sums correctly. Returns the report
    /// and the rounds.
    fn end(self) -> Outcome<(Value, Vec<Value>)> {
        let (report, views, _) = self.end_and_what_was_said()?;
        Ok((report, views))
    }

    /// As `end`, with the session's output.
    fn end_and_what_was_said(mut self) -> Outcome<(Value, Vec<Value>, String)> {
        let report = self.agent.stop()?;
        self.end_program(report)
    }

    /// Ends the program after the session.
    fn end_program(mut self, report: Value) -> Outcome<(Value, Vec<Value>, String)> {
        // The program makes another round with the current settings.
        self.job.open("end")?;
        let result = self.job.events("result", 1, SOON)?.remove(0);
        assert_eq!(result["wrong"], 0, "{result}");
        let views = self.job.events("view", 1, SOON)?;
        self.job.finish(SOON)?;
        Ok((report, views, self.agent.lines.text()))
    }
}

/// Waits for a round of the program that `is_it` accepts, after skipping `from` rounds. Returns the number of rounds until
/// then, and its time.
pub(crate) fn shows(
    job: &Job,
    what: &str,
    from: usize,
    is_it: impl Fn(&Value) -> bool,
) -> Outcome<(usize, Instant)> {
    job.lines
        .wait_for(&format!("a round with {what}"), SOON, |lines| {
            let views = lines.iter().filter_map(|line| {
                let value: Value = serde_json::from_str(&line.text).ok()?;
                (value["event"] == "view" || value["event"] == "team").then_some((value, line.at))
            });
            let mut rest = views.enumerate().skip(from);
            rest.find_map(|(place, (view, at))| is_it(&view).then_some((place + 1, at)))
        })
}

/// Changes in a report with this action.
pub(crate) fn changes<'a>(report: &'a Value, action: &str) -> Vec<&'a Value> {
    let all = report["changes"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter(|change| change["action"] == action).collect()
}

/// An action, its fields, and a check of the program's output. The change is in force while the program is
/// heavy.
type WhileHeavy<'a> = (&'a str, &'a str, &'a dyn Fn(&Value) -> bool);

#[test]
fn calls_and_changes_of_code_are_in_force_while_their_condition_holds_and_reverted_after_it() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let tunes: [WhileHeavy<'_>; 4] = [
        (
            "call",
            ": flush_level(cfg.level)\n    was: level_flushed()\n    inverse: flush_level(was)",
            &|view| view["flushed"] == 2,
        ),
        ("replace", ": sort_a\n    with: sort_b", &|view| {
            view["sort"] == "b"
        }),
        (
            "insert_call",
            ": tick(3)\n    in: step\n    place: return",
            &|view| view["ticks"] == 3,
        ),
        ("remove_call", ": log_state\n    in: step", &|view| {
            view["logs"] == 0
        }),
    ];
    let rules = tunes.map(|(action, rest, _)| format!("  - {action}{rest}\n    while: load > 0\n"));
    let acting = Acting::start(&[], &rules.concat())?;
    let done = acting.sees("all of it", 0, |view| tunes.iter().all(|(.., there)| there(view)))?;
    acting.job.open("calm")?;
    let nothing = |view: &Value| !tunes.iter().any(|(.., there)| there(view));
    acting.sees("none of it", done, nothing)?;
    acting
        .agent
        .lines
        .wait_for_line("its condition no longer holds; reverted", SOON)?;
    let (report, views) = acting.end()?;
    assert!(nothing(views.last().ok_or("no view")?), "{views:?}");
    for (action, ..) in tunes {
        let made = changes(&report, action);
        assert!(!made.is_empty(), "{report}");
        for change in made {
            assert_eq!(
                (&change["outcome"], &change["guard"]["verdict"]),
                (&"reverted".into(), &"ended".into()),
                "{report}"
            );
            assert_eq!(change["rule"], "acting");
            assert_ne!(change["change"], 0, "the journal has it: {report}");
        }
    }
    let first = |action: &str| changes(&report, action)[0].clone();
    let call = first("call");
    assert_eq!(
        (&call["variable"], &call["new"], &call["old"]),
        (&"call flush_level(cfg.level)".into(), &"20".into(), &"0".into()),
        "{call}"
    );
    assert!(call["hold_ns"].as_u64() > Some(0), "{call}");
    assert_eq!(first("replace")["variable"], "replace sort_a with sort_b");
    for (action, how) in [("call", "by one thread"), ("insert_call", "while no thread ran")] {
        let mechanism = first(action)["mechanism"].to_string();
        assert!(mechanism.starts_with(&format!("\"{how}")), "{mechanism}");
    }
    Ok(())
}

#[test]
fn parts_of_variables_and_every_copy_of_one_are_set_and_put_back() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (one, two) = (programs::library("tuned", 1)?, programs::library("tuned", 2)?);
    let tunes = "  - set: cfg.solver.chunk
    value: 128
    range: value >= 1
    when: load > 0
  - set: limits[2]
    value: 31
    while: load > 0
  - set: tuned_level
    in: all
    value: 5
    when: load > 0
";
    let acting = Acting::start(&[&one, &two], tunes)?;
    let both = serde_json::json!([5, 5]);
    let done = acting.sees("all of it", 0, |view| {
        (view["chunk"] == 128) & (view["limit"] == 31) & (view["levels"] == both)
    })?;
    acting.job.open("calm")?;
    acting.sees("the limit as it was", done, |view| view["limit"] == 30)?;
    let (report, views) = acting.end()?;
    let last = views.last().ok_or("no view")?;
    assert_eq!(
        (&last["chunk"], &last["limit"], &last["levels"]),
        (&64.into(), &30.into(), &serde_json::json!([1, 1])),
        "{last}"
    );
    let made = changes(&report, "set");
    assert_eq!(made.len(), 4, "one for each copy: {report}");
    let is_copy = |change: &&&Value| {
        let variable = change["variable"].as_str();
        variable.is_some_and(|variable| variable.ends_with(":tuned_level"))
    };
    assert_eq!(made.iter().filter(is_copy).count(), 2, "{report}");
    for change in &made {
        assert_eq!(change["outcome"], "reverted", "{report}");
    }
    Ok(())
}

#[test]
fn a_session_that_only_watches_shows_where_every_copy_is_and_what_would_be_called() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (one, two) = (programs::library("tuned", 1)?, programs::library("tuned", 2)?);
    let folder = tempfile::tempdir()?;
    let tunes = "  - set: tuned_level
    in: all
    value: 5
    when: load > 0
    finding: the level is low
  - call: flush_level(1)
    inverse: flush_level(0)
    when: load > 0
";
    let rule = rule(&folder, HEAD, tunes)?;
    let libraries = [&one, &two].map(|file| file.to_string_lossy().into_owned());
    let job = Job::alone(&programs::threads("levers")?, |folder| {
        with_folder(folder, libraries.to_vec())
    })?;
    job.events("ready", 1, SOON)?;
    job.open("go")?;
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule])?;
    agent.lines.wait_for_line("finding  acting", SOON)?;
    let report = agent.stop()?;
    let now = report["findings"][0]["now"].to_string();
    assert!(now.contains("tuned_level is in tuned-"), "{report}");
    for part in [&one, &two].map(|file| file.file_name().unwrap_or_default().to_string_lossy()) {
        assert!(now.contains(&*part), "{part}: {report}");
    }
    assert!(now.contains("calls flush_level("), "{report}");
    Ok(())
}

#[test]
fn variables_that_may_not_be_set_are_refused_and_reported_with_the_reason() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let tunes = "  - set: cfg.solver.chunk
    value: 0.5
    when: load > 0
  - set: cfg.solver
    value: 1
    when: load > 0
  - set: fixed
    value: 1
    when: load > 0
  - set: limits[3]
    value: 1
    when: load > 0
  - call: nobody_has_this()
    inverse: flush_level(0)
    when: load > 0
  - call: flush_level(1)
    inverse: flush_level(0)
    when: load > 0
    at: {entry: nobody_has_this}
";
    let acting = Acting::start(&[], tunes)?;
    let said = [
        "expected an integer",
        "`cfg.solver` is a struct: name one of its members (`cfg.solver.chunk`)",
        "is read-only",
        "element 3 is outside of int[3]",
        "has no function `nobody_has_this`",
        "defines a function nobody_has_this",
    ];
    for reason in said {
        acting.agent.lines.wait_for_line(reason, SOON)?;
    }
    let (report, views) = acting.end()?;
    assert_eq!(views.len(), 1, "nothing has changed: {views:?}");
    let text = report.to_string();
    for reason in said {
        assert!(text.contains(reason), "{reason} is not in {report:#}");
    }
    Ok(())
}

#[test]
fn a_guard_says_that_a_call_is_reverted_once_the_program_has_what_it_had() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let head = "about: for a test
probes: {step: {entry: step}}
capture: {step.flushed: flushed, step.heavy: heavy}
windows: {pulse: {every: 100ms}}
metrics: {load: max(step.heavy), level: max(step.flushed)}
tune:
";
    let tune = "  - call: flush_level(4)
    was: level_flushed()
    inverse: flush_level(was)
    when: load > 0
    guard: {minimize: level, over: 2, undo_if_worse_by: 5%}
";
    let mut acting = Acting::of(&programs::threads("levers")?, head, tune, Vec::new())?;
    let done = acting.sees("the level flushed", 0, |view| view["flushed"] == 4)?;
    acting.agent.lines.wait_for_line("; reverted", SOON)?;
    // The first round after that line must show the revert.
    let views = acting.sees("the level as it was", done, |view| view["flushed"] == 0)?;
    assert_eq!(views, done + 1);
    // The exit code is 1, because a change was reverted.
    acting.agent.signal(rustix::process::Signal::INT)?;
    let report = acting.agent.finish_with(SOON, &[0, 1])?;
    let (report, ..) = acting.end_program(report)?;
    let made = changes(&report, "call");
    assert_eq!(
        (&made[0]["outcome"], &made[0]["guard"]["verdict"]),
        (&"reverted".into(), &"reverted".into()),
        "{report}"
    );
    Ok(())
}

#[test]
fn a_call_without_an_inverse_is_refused_where_everything_is_put_back_and_else_said_to_stay() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let tune = "  - call: flush_level(4)\n    when: load > 0\n";
    let folder = tempfile::tempdir()?;
    let file = rule(&folder, HEAD, tune)?;
    let job = Job::alone(&programs::threads("levers")?, |folder| {
        with_folder(folder, Vec::new())
    })?;
    job.events("ready", 1, SOON)?;
    job.open("go")?;
    let (pid, flags) = (
        job.pid().to_string(),
        ["--rules", "none", &file, "--apply=acting"],
    );
    let (code, text) = Agent::run_in(folder.path(), &[&["attach", &pid][..], &flags[..]].concat())?;
    let refused = "its call flush_level() has no `inverse` and cannot be reverted at the end of the session; such rules act with --keep";
    assert!(code != 0 && text.contains(refused), "{text}");
    let agent = Agent::attach(job.pid(), &[&flags[..], &["--keep"]].concat())?;
    let acting = Acting {
        job,
        agent,
        _folder: folder,
    };
    acting.sees("the level flushed", 0, |view| view["flushed"] == 4)?;
    let (report, views, said) = acting.end_and_what_was_said()?;
    assert_eq!(views.last().ok_or("no view")?["flushed"], 4, "{views:?}");
    let outcome = changes(&report, "call")[0]["outcome"].clone();
    assert_eq!(outcome, "returned 40; it has no inverse and stays");
    let stays = "1 change cannot be reverted and stays (call flush_level(4))";
    assert!(said.contains(stays), "{said}");
    assert!(!said.contains("ended with"), "the program lives: {said}");
    Ok(())
}

/// The last line of a session must agree with the state of the program afterwards.
#[test]
fn the_last_line_says_what_the_program_has() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let library = programs::library("tuned", 3)?;
    let load = format!("load: {}", library.to_string_lossy());
    type Seen<'a> = &'a dyn Fn(&Value) -> bool;
    let cases: [(&str, Seen<'_>); 7] = [
        ("set: cfg.solver.chunk\n    value: 128", &|view| {
            view["chunk"] == 128
        }),
        (
            "call: flush_level(4)\n    was: level_flushed()\n    inverse: flush_level(was)",
            &|view| view["flushed"] == 4,
        ),
        (&load, &|view| view["loaded"] == 1),
        ("replace: sort_a\n    with: sort_b", &|view| view["sort"] == "b"),
        ("insert_call: tick(3)\n    in: step\n    place: return", &|view| {
            view["ticks"] == 3
        }),
        ("remove_call: log_state\n    in: step", &|view| view["logs"] == 0),
        ("set_arg: send_block(1)\n    value: 7", &|view| view["size"] == 7),
    ];
    let without =
        "call: flush_level(4)\n    inverse: none\n    because: the level is written anew in each round";
    let stays: Seen<'_> = &|view| view["flushed"] == 4;
    for (cases, words, is_kept) in [
        (&cases[..], "7 changes reverted", false),
        (&[(without, stays)], "nothing is left to revert", true),
    ] {
        let tunes = cases
            .iter()
            .map(|(tune, _)| format!("  - {tune}\n    when: load > 0\n"));
        let acting = Acting::start(&[], &tunes.collect::<String>())?;
        acting.sees("all of it", 0, |view| cases.iter().all(|(_, seen)| seen(view)))?;
        let (_, views, said) = acting.end_and_what_was_said()?;
        let last = said
            .lines()
            .rfind(|line| line.contains("; detached"))
            .unwrap_or_default();
        assert!(last.ends_with(words), "{last}");
        let view = views.last().ok_or("no view")?;
        for (tune, seen) in cases {
            assert_eq!(seen(view), is_kept, "{tune}: {last}\n{views:?}");
        }
    }
    Ok(())
}

#[test]
fn a_name_that_is_bound_to_a_pattern_means_one_function_or_is_refused() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let head = format!("names:\n  flush: writes a level out\n  any: whatever there is\n{HEAD}");
    let tunes = "  - call: flush(4)
    was: level_flushed()
    inverse: flush(was)
    when: load > 0
  - call: any(4)
    inverse: flush(0)
    when: load > 0
";
    let rule = rule(&folder, &head, tunes)?;
    let job = Job::alone(&programs::threads("levers")?, |folder| {
        with_folder(folder, Vec::new())
    })?;
    job.events("ready", 1, SOON)?;
    job.open("go")?;
    let flags = ["--rules", "none", &rule, "--apply=acting"];
    let binds = [
        "--bind",
        "flush=levers*:flush_l?vel",
        "--bind",
        "any=levers*:sort_*",
    ];
    let agent = Agent::attach(job.pid(), &[&flags[..], &binds[..]].concat())?;
    let acting = Acting {
        job,
        agent,
        _folder: folder,
    };
    acting.sees("the level flushed", 0, |view| view["flushed"] == 4)?;
    acting
        .agent
        .lines
        .wait_for_line("`levers*:sort_*` fits 2 functions of process", SOON)?;
    let (report, _) = acting.end()?;
    let made = changes(&report, "call");
    assert_eq!(made.len(), 1, "{report}");
    let states = report["rules"].to_string();
    assert_has!(states, "sort_a in ", "sort_b in ");
    Ok(())
}

#[test]
fn a_library_is_loaded_and_its_function_takes_the_place_of_another() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let library = programs::library("tuned", 3)?;
    let path = library.to_string_lossy();
    let name = library.file_name().ok_or("no name")?.to_string_lossy();
    let tunes = format!(
        "  - load: {path}
    while: load > 0
  - replace: sort_a
    with: '{name}:tuned_sort'
    after: {path}
    while: load > 0
"
    );
    let acting = Acting::start(&[], &tunes)?;
    let done = acting.sees("the other function", 0, |view| {
        view["sort"] == "?" && view["loaded"] == 1
    })?;
    acting.job.open("calm")?;
    // The function is reverted first, then the library.
    acting.sees("neither", done, |view| view["sort"] == "a" && view["loaded"] == 0)?;
    let (report, views) = acting.end()?;
    let broken = |view: &Value| view["sort"] == "?" && view["loaded"] == 0;
    assert!(!views.iter().any(broken), "{views:?}");
    for action in ["load", "replace"] {
        let made = changes(&report, action);
        assert_eq!(made.len(), 1, "{report}");
        assert_eq!(made[0]["outcome"], "reverted", "{report}");
    }
    Ok(())
}

#[test]
fn an_argument_follows_the_rule_and_is_the_programs_again_at_the_end() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let tune = "  - set_arg: send_block(1)\n    value: min(original * 2, 100 + wished)\n";
    let acting = Acting::start(&[], tune)?;
    let done = acting.sees("5 more", 0, |view| view["size"] == 105)?;
    acting.job.open("calm")?;
    acting.sees("7 more", done, |view| view["size"] == 107)?;
    let (report, views) = acting.end()?;
    assert_eq!(views.last().ok_or("no view")?["size"], 100, "{views:?}");
    let made = changes(&report, "set_arg");
    assert_eq!(made.len(), 2, "the first made room for the second: {report}");
    for change in made {
        assert_eq!(change["outcome"], "reverted", "{report}");
    }
    Ok(())
}
