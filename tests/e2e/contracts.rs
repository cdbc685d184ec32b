//! Contracts of pipelines of Debian's own tools, learned by a user without rights, of MPI programs, and of threads.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::knobs::{BEN, Running, User};
use tuneagent_e2e::wait::{SOON, wait_for};
use tuneagent_e2e::{Outcome, Problem, each, lammps, programs, require};

use crate::expected::with_folder;

/// A loaded machine may take the CPUs from the slow stage for a while: then it is looked at again.
const OFTEN: Duration = Duration::from_secs(100);

/// Starts `zstd -dc | awk FILTER | COMPRESSOR` on numbers, as this user. `timeout` has the pipes of awk, and is no
/// stage.
fn pipeline(ben: &User, filter: &str, compressor: &str) -> Outcome<Running> {
    ben.script(&format!(
        "seq 3000000 | zstd -q > numbers.zst
        zstd -dc $(yes numbers.zst | head -1000) | timeout 600 awk '{filter}' | {compressor} > /dev/null"
    ))
}

/// Slow compression, and slow filtering.
const XZ: (&str, &str) = ("{print $0, $1 * 2}", "xz -T1 -4");
const AWK: (&str, &str) = ("{for (i = 0; i < 60; i++) s += i; print}", "gzip -1");

#[test]
fn the_stage_that_holds_a_pipeline_up_is_learned_without_root_and_probes() -> Outcome {
    let _machine = require!(shared: Root);
    let ben = User::new(BEN, &[])?;
    for ((filter, compressor), name) in [(XZ, "xz"), (AWK, "awk")] {
        let shell = pipeline(&ben, filter, compressor)?;
        let pid = shell.pid().to_string();
        let file = format!("{}/learned.yaml", ben.own());
        let learn = ["contract", "learn", &pid, "--duration", "3s", "-o", &file];
        let head = format!("{name} holds the pipeline up: busy ");
        let mut seen = String::new();
        let learned = wait_for(&format!("`{head}`"), OFTEN, || {
            let (code, text) = ben.run(&learn)?;
            seen.clone_from(&text);
            Ok((code == 0 && text.contains(&head)).then_some(text))
        });
        let printed = learned.map_err(|problem| format!("{problem}; last:\n{seen}"))?;
        assert_has!(printed, "; zstd is blocked writing to awk", "written: ");
        let text = fs::read_to_string(&file)?;
        let stream = if name == "xz" { "awk_to_xz" } else { "awk_to_gzip" };
        assert_has!(
            text,
            "zstd_to_awk: {from: zstd, to: awk, item: 1",
            stream,
            "the two counts differ by"
        );
        assert_has!(
            text,
            "# Learned by `tuneagent contract learn`",
            &head,
            "-dc numbers.zst"
        );
        let (code, text) = ben.run(&["contract", "check", &file])?;
        assert_eq!(code, 0, "{text}");
        assert_has!(text, "1 degree of freedom", "can hold");
        let (code, text) = ben.run(&["contract", "max", &file])?;
        assert_eq!(code, 0, "{text}");
        assert_has!(text, &format!("bound by {name}"));
    }
    Ok(())
}

#[test]
fn a_pipeline_is_compared_with_its_contract_and_who_has_to_act_is_named() -> Outcome {
    let _machine = require!(shared: Root);
    let ben = User::new(BEN, &[])?;
    let shell = pipeline(&ben, XZ.0, XZ.1)?;
    let pid = shell.pid().to_string();
    let file = format!("{}/watched.yaml", ben.own());
    let learn = ["contract", "learn", &pid, "--duration", "2s", "-o", &file];
    wait_for(
        "a contract",
        OFTEN,
        || Ok((ben.run(&learn)?.0 == 0).then_some(())),
    )?;

    // On a loaded machine fewer windows are seen than the three that a verdict needs.
    let watch = |least: &str, json: &[&str], expected: i32, part: &str| {
        let require = format!("--require=xz >= {least}/s");
        let watch = [
            &["contract", "watch", &file, &pid, "--duration", "8s", &require],
            json,
        ]
        .concat();
        let mut seen = String::new();
        let watched = wait_for(&format!("`{part}`"), OFTEN, || {
            let (code, text) = ben.run(&watch)?;
            seen.clone_from(&text);
            Ok((code == expected && text.contains(part)).then_some(text))
        });
        watched.map_err(|problem| Problem::new(format!("{problem}; last:\n{seen}")))
    };
    let text = watch("0.0001", &[], 0, "the contract zstd-awk-xz holds")?;
    assert_has!(text, "more than required");

    // A line for each window, and one for all of them.
    let picture = format!("{}/watched.svg", ben.own());
    let text = watch("1e7", &["--json", "--svg", &picture], 1, "\"is_violated\":true")?;
    let lines = windows_in(&text)?;
    let (summary, windows) = lines.split_last().ok_or("no JSON")?;
    assert_eq!(summary["windows"], windows.len(), "{text}");
    let last = windows.last().ok_or("no window")?;
    assert!(
        each(&last["rates"]).any(|rate| rate["feature"] == "xz" && rate["is_violated"] == true),
        "{text}"
    );
    assert_eq!(last["modules"].as_array().map(Vec::len), Some(3), "{text}");
    assert_has!(fs::read_to_string(&picture)?, "<svg", ">xz<", "of 10000000/s");
    assert_eq!(summary["bottleneck"]["name"], "xz", "{text}");
    let xz = each(&summary["rates"])
        .find(|rate| rate["feature"] == "xz")
        .ok_or("no xz")?;
    assert_eq!(
        (&xz["target"], &xz["is_violated"]),
        (&serde_json::json!(1e7), &serde_json::json!(true))
    );

    // A contract of another program is not compared with this one.
    let other = ben.file(
        "other.yaml",
        "contract: other\nstreams: {s: {from: a, to: b, item: 1B}}\n\
         modules: {a: {gives: {s: 1}}, b: {takes: [s]}}\n",
    )?;
    let (code, text) = ben.run(&["contract", "watch", &other, &pid, "--duration", "3s"])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "the contract is about another program: it has a to b");
    Ok(())
}

#[test]
fn what_is_no_pipeline_of_ones_own_is_refused_and_nothing_is_written() -> Outcome {
    require!(Root);
    let ben = User::new(BEN, &[])?;
    let file = format!("{}/refused.yaml", ben.own());
    let alone = ben.script("echo begun; exec sleep 100")?;
    alone.lines.wait_for_line("begun", SOON)?;
    let ours = std::process::id().to_string();
    let rows = [
        (
            alone.pid().to_string(),
            2,
            "has no pipe to another process, and started none that have",
        ),
        (ours, 3, "may not be read: it is another user's"),
        ("999999999".to_owned(), 2, "no process 999999999 runs here"),
    ];
    for (target, expected, part) in rows {
        let (code, text) = ben.run(&["contract", "learn", &target, "-o", &file])?;
        assert_eq!(code, expected, "{text}");
        assert_has!(text, part);
    }
    // It takes everything before it sends anything.
    let sorted = ben.script("yes | sort | cat > /dev/null")?;
    let target = sorted.pid().to_string();
    let learn = ["contract", "learn", &target, "--duration", "1s", "-o", &file];
    let refused = wait_for("the pipes of the shell", OFTEN, || {
        let (code, text) = ben.run(&learn)?;
        Ok((code == 1).then_some(text))
    })?;
    assert_has!(refused, "nothing arrived at the end of the pipeline in 1 s");
    assert!(!Path::new(&file).exists());
    Ok(())
}

/// The windows in the output of `contract watch --json`, and what came of all of them.
pub(crate) fn windows_in(text: &str) -> Outcome<Vec<serde_json::Value>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The number behind a key in a text.
pub(crate) fn number_behind(text: &str, key: &str) -> Outcome<f64> {
    let behind = text
        .split_once(key)
        .ok_or_else(|| format!("no `{key}` in:\n{text}"))?
        .1;
    let end = behind
        .find(|c: char| !c.is_ascii_digit() && !".e-".contains(c))
        .unwrap_or(behind.len());
    Ok(behind[..end]
        .parse()
        .map_err(|_| format!("`{key}` has no number:\n{text}"))?)
}

#[test]
fn the_graph_of_an_mpi_program_is_learned_with_no_name_given() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let program = programs::mpi("pipeline", Mpi::OpenMpi)?;
    let job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 6, &program, |folder| {
        with_folder(
            folder,
            ["2", "1", "20000", "30000", "124416"].map(str::to_owned).to_vec(),
        )
    })?;
    job.events("ready", 6, SOON)?;
    job.open("go")?;
    let file = job.file("learned.yaml");
    let name = file.to_string_lossy().into_owned();
    let pid = job.pid().to_string();
    let (code, printed) = Agent::run(&["contract", "learn", &pid, "--duration", "16s", "-o", &name])?;
    assert_eq!(code, 0, "{printed}");
    let text = fs::read_to_string(&file)?;
    assert_has!(
        printed,
        "ranks1_2 holds the pipeline up: busy",
        "rank0 is blocked writing to ranks1_2"
    );
    assert_has!(
        text,
        "rank0_to_ranks1_2: {from: rank0, to: ranks1_2, item: 54B}",
        "ranks1_2_to_rank3: {from: ranks1_2, to: rank3, item: 124416B}",
        "rank3_to_rank4: {from: rank3, to: rank4, item: 1492992B}",
        "rank4_to_rank5: {from: rank4, to: rank5, item: 20971B}",
        "work: ranks1_2, workers: 2",
    );
    let group = number_behind(&text, "gives: {rank3_to_rank4: ")?;
    assert!((group * 12.0 - 1.0).abs() < 0.05, "{group}\n{text}");
    // 20 ms slept, without waiting for a CPU, which is not counted exactly.
    let render_ms = number_behind(&text, "ranks1_2: {time: ")?;
    assert!((14.0..45.0).contains(&render_ms), "{render_ms}\n{text}");
    let (code, max) = Agent::run(&["contract", "max", &name])?;
    assert_eq!(code, 0, "{max}");
    assert_has!(
        max,
        "rank5: at most ",
        "bound by ranks1_2",
        "one worker more in ranks1_2: +"
    );
    Ok(())
}

/// The contract of the program `mesh`, as written by hand.
const MESH: &str = include_str!("../programs/mesh.yaml");

#[test]
fn broadcast_merge_receivers_on_demand_and_a_cycle_are_learned_as_they_were_written() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let program = programs::mpi("mesh", Mpi::OpenMpi)?;
    let job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 9, &program, |folder| {
        with_folder(folder, Vec::new())
    })?;
    job.events("ready", 9, SOON)?;
    job.open("go")?;
    let file = job.file("learned.yaml");
    let name = file.to_string_lossy().into_owned();
    let pid = job.pid().to_string();
    let printed = Agent::succeed(&["contract", "learn", &pid, "--duration", "24s", "-o", &name])?;
    assert_has!(
        printed,
        "in doubt: rank0 sends as many items to rank1 and rank2: each of them to all (a broadcast, as stated)",
        "in doubt: rank3 sends items of one size to rank4 and rank5: to whichever is free (on demand, as stated)"
    );
    let text = fs::read_to_string(&file)?;
    let streams: Vec<&str> = MESH
        .lines()
        .filter_map(|line| line.split_once("{from: "))
        .map(|(_, ends)| ends)
        .collect();
    streams.iter().for_each(|ends| assert_has!(text, *ends));
    assert_eq!(text.matches("{from: ").count(), streams.len(), "{text}");
    for (module, stream, written) in [
        ("rank0", "rank0_to_rank1_and_rank2", 1.0),
        ("rank1", "rank1_to_rank7", 0.25),
        ("rank2", "rank2_and_rank6_to_rank3", 3.0),
        ("rank3", "rank3_to_rank4_and_rank5", 1.0),
        ("rank4", "rank4_to_rank6", 1.0),
        ("rank5", "rank5_and_rank6_to_rank8", 1.0),
        ("rank6", "rank2_and_rank6_to_rank3", 0.5),
        ("rank6", "rank5_and_rank6_to_rank8", 0.5),
    ] {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("  {module}: {{")));
        let gives = line
            .and_then(|line| line.split_once("gives: "))
            .ok_or("it gives nothing")?
            .1;
        let learned = number_behind(gives, &format!("{stream}: "))?;
        assert!(
            (learned / written - 1.0).abs() <= 0.02,
            "{module}: {learned}\n{text}"
        );
    }
    // The program measures how long it computes, without waiting for a CPU.
    for rank in [0, 1, 2, 4, 5, 6] {
        let last = wait_for("what the rank has computed", OFTEN, || {
            let computed = job.events("computed", 1, SOON)?;
            Ok(computed.into_iter().rfind(|event| event["rank"] == rank))
        })?;
        let of = |key: &str| last[key].as_f64().unwrap_or_default();
        let computed_ms = of("computed_ns") / of("activations") / 1e6;
        let learned_ms = number_behind(&text, &format!("rank{rank}: {{time: "))?;
        assert!(
            (learned_ms / computed_ms - 1.0).abs() <= 0.05,
            "rank {rank}: {computed_ms} ms\n{text}"
        );
    }
    Ok(())
}

/// What the program `pipeline` with two renderers has to deliver; the number replaces `RATE`.
const FILM: &str = include_str!("../programs/pipeline.yaml");

#[test]
fn the_slow_stage_of_an_mpi_program_is_named_with_those_that_wait_for_it() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let program = programs::mpi("pipeline", Mpi::OpenMpi)?;
    let job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 6, &program, |folder| {
        with_folder(
            folder,
            ["2", "1", "60000", "5000", "1244"].map(str::to_owned).to_vec(),
        )
    })?;
    job.events("ready", 6, SOON)?;
    let file = job.file("film.yaml");
    // Two renderers take 60 ms for a picture each, and the contract states 20 ms.
    let takes = "takes: [scenes], gives: {pictures: 1}";
    let timed = format!("kind: task-parallel, {takes}, workers: 2, work: render");
    let text = FILM.replace(takes, &timed) + "work: {render: {time: 20ms}}\n";
    fs::write(&file, text.replace("RATE", "1000"))?;
    job.open("go")?;
    let name = file.to_string_lossy().into_owned();
    let [reports, recording] =
        ["reports.jsonl", "film.rec"].map(|file| job.file(file).to_string_lossy().into_owned());
    let flags = ["--contract", &name, "--snapshots", &reports, "--every", "1s"];
    let recorded = ["--rules", "none", "--record", &recording];
    let mut agent = Agent::attach(job.pid(), &[&recorded[..], &flags].concat())?;
    agent
        .lines
        .wait_for_line("ranks1_2 holds the pipeline up: busy", SOON)?;
    let report = agent.stop()?;
    let contract = &report["contract"];
    assert_eq!(contract["bottleneck"]["name"], "ranks1_2", "{contract}");
    let film = each(&contract["rates"]).find(|rate| rate["feature"] == "film");
    assert_eq!(film.ok_or("no film")?["is_violated"], true, "{contract}");
    let verdicts: Vec<(&str, &str)> = each(&contract["modules"])
        .filter_map(|one| Some((one["module"].as_str()?, one["verdict"].as_str()?)))
        .collect();
    let expected = [
        ("rank0", "blocked"),
        ("rank3", "starved"),
        ("rank4", "starved"),
        ("rank5", "starved"),
        ("ranks1_2", "compute-bound"),
    ];
    assert_eq!(verdicts, expected, "{contract}");
    let seen = [
        "of 1000/s, violated",
        "ranks1_2 holds the pipeline up: busy",
        "rank0 is blocked writing to ranks1_2",
        "rank3 waits ",
        "ranks1_2 takes ",
        "for an activation, and the contract states 10 ms",
        "the contract film does not hold",
    ];
    let text = agent.lines.text();
    seen.iter().for_each(|part| assert_has!(text, part));
    is_judged_without_the_program(&file, &reports, &recording, &seen)
}

fn is_judged_without_the_program(file: &Path, reports: &str, recording: &str, seen: &[&str]) -> Outcome {
    let name = file.to_string_lossy();
    // What the session has written is judged in the same way, without the program.
    let watch = ["contract", "watch", &name, "--reports", reports];
    let (code, text) = Agent::run(&watch)?;
    assert_eq!(code, 1, "{text}");
    seen.iter().for_each(|part| assert_has!(text, part));
    // So is what it has recorded.
    let replay = ["replay", recording, "--contract", &name];
    let (code, text) = Agent::run(&replay)?;
    assert_eq!(code, 1, "{text}");
    seen.iter().for_each(|part| assert_has!(text, part));
    // A contract of another program says so, and what is there.
    fs::write(file, FILM.replace("rank5", "rank9").replace("RATE", "1"))?;
    for command in [&watch[..], &replay] {
        let (code, text) = Agent::run(command)?;
        assert_eq!(code, 2, "{text}");
        assert_has!(
            text,
            "the contract is about another program: it has rank4 to rank9"
        );
    }
    // What is no series of reports is refused at its line.
    let (code, text) = Agent::run(&["contract", "learn", "--reports", &name])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "film.yaml:1: this is no report of a session");
    Ok(())
}

#[test]
fn lammps_is_refused_as_no_stream_program() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Lammps);
    let job = lammps::start(Waiting::Yielding, 2, 100_000_000)?;
    job.lines.wait_for_line("Step", SOON)?;
    let pid = job.pid().to_string();
    // A program that hardly gets a CPU sends few messages in ten seconds.
    let learn = |duration| Agent::run(&["contract", "learn", &pid, "--duration", duration]);
    let (mut code, mut printed) = learn("10s")?;
    if printed.contains("watch for longer (--duration)") {
        (code, printed) = learn("60s")?;
    }
    assert_eq!(code, 1, "{printed}");
    assert_has!(printed, "this is no stream program: rank", "MPI_");
    Ok(())
}

/// Three stages as threads; rendering is slow.
fn chain() -> Outcome<Job> {
    let job = Job::alone(&programs::threads("chain")?, |folder| {
        with_folder(folder, ["2", "5000", "40000", "5000"].map(str::to_owned).to_vec())
    })?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

const READ: &str = "--stage=read=read_scene,,put_scene";
const RENDER: &str = "--stage=render=render_scene,take_scene,put_picture";
const STORE: &str = "--stage=store=store_group,take_picture";

#[test]
fn a_chain_of_threads_is_learned_and_watched_by_functions_that_are_named() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let job = chain()?;
    let file = job.file("chain.yaml").to_string_lossy().into_owned();
    let pid = job.pid().to_string();
    for (reads, renders, is_within) in [
        ("read_scene", "render_scene", false),
        ("read_next", "render_next", true),
    ] {
        let read = format!("--stage=read={reads},,put_scene");
        let render = format!("--stage=render={renders},take_scene,put_picture");
        let stages = [&*read, &*render, STORE];
        let learn = ["contract", "learn", &pid, "--duration", "6s", "-o", &file];
        let printed = Agent::succeed(&[&learn[..], &stages].concat())?;
        assert_has!(
            printed,
            "render holds the pipeline up: busy",
            "read is blocked writing to render",
            "store waits "
        );
        let text = fs::read_to_string(&file)?;
        assert_has!(
            text,
            "read_to_render: {from: read, to: render}",
            "render: {kind: task-parallel, takes: [read_to_render], gives: {render_to_store: 1}, work: render, workers: 2}",
            "store: {takes: [render_to_store], work: store}"
        );
        // Rendering never waits, so that it is not known of it.
        let within = "works in read_next, sends in put_scene, called within it";
        assert_eq!(text.contains(within), is_within, "{text}");
        let read_ms = number_behind(&text, "read: {time: ")?;
        assert!((4.5..20.0).contains(&read_ms), "{read_ms}\n{text}");
        // 40 ms slept by each of two threads, and 5 ms for two pictures. On a loaded machine threads wake late.
        let render_ms = number_behind(&text, "render: {time: ")?;
        assert!((39.0..80.0).contains(&render_ms), "{render_ms}\n{text}");
        let store_ms = number_behind(&text, "store: {time: ")?;
        assert!((2.5..20.0).contains(&store_ms), "{store_ms}\n{text}");
        let max = Agent::succeed(&["contract", "max", &file])?;
        assert_has!(
            max,
            "store: at most ",
            "bound by render",
            "one worker more in render: +"
        );
        if is_within {
            let require = "--require=store >= 1000/s";
            let watch = ["contract", "watch", &file, &pid, require, "--duration=10min"];
            let mut agent = Agent::command(&[&watch[..], &stages].concat())?;
            for part in ["of 1000/s, violated", "render holds the pipeline up"] {
                agent.lines.wait_for_line(part, OFTEN)?;
            }
            let (code, text) = agent.request_to(job.pid(), "stop", &[])?;
            assert_eq!(code, 0, "{text}");
            let code = agent.wait(SOON)?;
            let text = agent.lines.text();
            assert_eq!(code, 1, "{text}");
            assert_has!(text, "compute-bound: busy");
        }
    }
    Ok(())
}

#[test]
fn a_chain_of_threads_is_judged_in_a_session_and_from_its_recording() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let job = chain()?;
    let [file, recording] =
        ["chain.yaml", "chain.rec"].map(|file| job.file(file).to_string_lossy().into_owned());
    let contract = "contract: chain\nstreams: {scenes: {from: read, to: render}, pictures: {from: render, to: store}}\n\
                    modules: {read: {gives: {scenes: 1}}, render: {takes: [scenes], gives: {pictures: 1}}, store: {takes: [pictures]}}\n\
                    require: [store >= 1000/s]\n";
    fs::write(&file, contract)?;
    let stages = [READ, RENDER, STORE];
    let flags = ["--contract", &file, "--budget", "none"];
    let recorded = ["--rules", "none", "--record", &recording];
    let flags = [&recorded[..], &flags, &stages].concat();
    let mut agent = Agent::attach(job.pid(), &flags)?;
    agent
        .lines
        .wait_for_line("render holds the pipeline up: busy", SOON)?;
    let report = agent.stop()?;
    assert_eq!(report["contract"]["bottleneck"]["name"], "render", "{report}");
    let seen = [
        "of 1000/s, violated",
        "read is blocked writing to render",
        "the contract chain does not hold",
    ];
    let text = agent.lines.text();
    seen.iter().for_each(|part| assert_has!(text, part));
    let replay = ["replay", &recording, "--contract", &file];
    let (code, text) = Agent::run(&[&replay[..], &stages].concat())?;
    assert_eq!(code, 1, "{text}");
    seen.iter().for_each(|part| assert_has!(text, part));
    // A function that is not there is said before anything is attached.
    let pid = job.pid().to_string();
    let attach = [
        "attach",
        &pid,
        "--contract",
        &file,
        READ,
        "--stage=store=stor_group",
    ];
    let (code, text) = Agent::run(&attach)?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "did you mean `store_group`?\nnothing was attached");
    Ok(())
}
