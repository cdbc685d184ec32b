//! Kinds of programs: without symbols, with MPI linked statically, in containers, and ranks that exec another
//! program. Each is watched normally, or the reason why it cannot be watched is reported.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, counts, start_pingpong, summed, with_folder};

/// Compares each rank's counts with the newest entry of that rank in the report. Process numbers may be those
/// of a container.
fn assert_counted(own_counts: &[Value], report: &Value) -> Outcome {
    let processes = report["processes"].as_array().ok_or("no processes")?;
    for own_count in own_counts {
        let rank = &own_count["rank"];
        let of_rank = |process: &&Value| process["rank"] == *rank;
        let process = processes.iter().rfind(of_rank).ok_or("a rank is missing")?;
        let seen = counts(&process["functions"])?;
        for (name, count) in counts(&own_count["functions"])? {
            assert_eq!(seen.get(&name), Some(&count), "{name} of rank {rank}: {report}");
        }
    }
    Ok(())
}

/// Attaches to a `count` job that waits at its first gate, and lets it run to its end.
fn counted(mut job: Job, target: u32) -> Outcome<Value> {
    job.events("ready", 2, SOON)?;
    let mut agent = Agent::attach(target, &[])?;
    let (own_counts, report) = summed(&mut job, &mut agent, 2)?;
    assert_counted(&own_counts, &report)?;
    assert_eq!(report["completeness"]["status"], "complete", "{report}");
    Ok(report)
}

fn three_rounds(folder: &Path) -> Vec<String> {
    with_folder(folder, ["--iterations", "3"].map(String::from).to_vec())
}

#[test]
fn a_program_without_symbols_is_counted_by_those_of_its_mpi() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let folder = tempfile::tempdir()?;
    let program = programs::stripped(&programs::mpi("count", Mpi::Mpich)?, folder.path())?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, three_rounds)?;
    let launcher = job.pid();
    counted(job, launcher)?;
    Ok(())
}

/// As with a package that was built without MPI, whose `mpirun -n 4` computes the same four times.
#[test]
fn ranks_of_a_program_without_mpi_are_said_to_do_all_of_its_work_each() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Cc);
    let program = programs::c("asleep")?;
    let job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 2, &program, |_| Vec::new())?;
    job.events("ready", 2, SOON)?;
    let agent = Agent::attach(job.pid(), &[])?;
    let note = "note: a launcher started 2 ranks, and none of them has loaded MPI";
    agent.lines.wait_for_line(note, SOON)?;
    Ok(())
}

#[test]
fn ranks_that_the_launcher_of_another_mpi_started_are_said_to_be_alone() -> Outcome {
    let _machine = require!(shared: Root, Mpich, OpenMpi);
    let program = programs::mpi("pace", Mpi::OpenMpi)?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, |folder| {
        vec!["100".to_owned(), folder.to_string_lossy().into_owned()]
    })?;
    job.events("ready", 2, SOON)?;
    let agent = Agent::attach(job.pid(), &[])?;
    let note = "note: 2 ranks were started together, but each is alone in MPI_COMM_WORLD";
    agent.lines.wait_for_line(note, SOON)?;
    Ok(())
}

#[test]
fn programs_of_one_name_that_were_started_separately_are_said_to_be_several() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("twice");
    fs::copy(programs::c("asleep")?, &program)?;
    let jobs = [
        Job::alone(&program, |_| Vec::new())?,
        Job::alone(&program, |_| Vec::new())?,
    ];
    jobs.iter()
        .try_for_each(|job| job.events("ready", 1, SOON).map(|_| ()))?;
    let agent = Agent::command(&["attach", "--plain", "twice"])?;
    agent
        .lines
        .wait_for_line("note: 2 programs named twice were started separately", SOON)?;
    Ok(())
}

/// Requests a function of a program without symbols.
fn assert_refused(program: &Path) -> Outcome {
    let mut job = Job::alone(program, |folder| with_folder(folder, vec!["5".into()]))?;
    job.events("ready", 1, SOON)?;
    let pid = job.pid().to_string();
    let (code, text) = Agent::run(&["attach", &pid, "--rules", "none", "--probe", "step_outer"])?;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("the symbols of busywork"), "{text}");
    assert!(text.contains("were removed (strip)"), "{text}");
    job.open("go")?;
    job.end(SOON)
}

#[test]
fn a_function_of_a_program_without_symbols_is_refused_with_the_reason() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    assert_refused(&programs::stripped(&programs::c("busywork")?, folder.path())?)
}

#[test]
fn functions_of_a_program_without_shared_libraries_are_counted_or_refused_with_the_reason() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    for how in ["-static", "-static-pie"] {
        let program = programs::c_alone("busywork", how)?;
        let mut job = Job::alone(&program, |folder| with_folder(folder, vec!["500".into()]))?;
        job.events("ready", 1, SOON)?;
        let mut agent = Agent::attach(job.pid(), &["--rules", "none", "--probe", "step_outer"])?;
        let (own_counts, report) = summed(&mut job, &mut agent, 1)?;
        let function = &report["processes"][0]["functions"][0];
        assert_eq!(function["name"], "step_outer", "{how}: {report}");
        assert_eq!(function["calls"], own_counts[0]["step_outer"], "{how}: {report}");
        assert_eq!(function["calls"], 500, "{how}: {report}");
        assert_eq!(report["completeness"]["status"], "complete", "{how}: {report}");
        assert_refused(&programs::stripped(&program, folder.path())?)?;
    }
    Ok(())
}

#[test]
fn mpi_that_is_linked_into_the_program_is_counted() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let program = programs::mpi_linked_in("count")?;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, three_rounds)?;
    let launcher = job.pid();
    let report = counted(job, launcher)?;
    assert_eq!(report["job"]["mpi"]["implementation"], "MPICH", "{report}");
    let library = report["job"]["mpi"]["library"].as_str().unwrap_or_default();
    assert_eq!(Path::new(library), program, "its MPI is the program itself");
    Ok(())
}

#[test]
fn mpi_that_is_linked_into_a_program_without_symbols_is_refused_with_the_reason() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let folder = tempfile::tempdir()?;
    let program = programs::stripped(&programs::mpi_linked_in("count")?, folder.path())?;
    let mut job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, three_rounds)?;
    job.events("ready", 2, SOON)?;
    let pid = job.pid().to_string();
    let (code, text) = Agent::run(&["attach", &pid, "--rules", "none"])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "MPI is linked into its program, whose symbols were removed");
    // With rules the session starts, and reports the missing function.
    let mut agent = Agent::attach(job.pid(), &["--duration", "100ms"])?;
    let report = agent.finish(SOON)?;
    let missing = report["completeness"]["missing"].to_string();
    assert!(missing.contains("MPI is linked into its program"), "{missing}");
    job.open("go")?;
    job.end(SOON)
}

/// Runs a shell script as root of a container, with its own mounts and process numbers. `$0` is the job's
/// folder and `$1` the program.
fn contained(script: &str, program: &Path) -> Outcome<Job> {
    let unshare = Path::new("/usr/bin/unshare");
    Job::alone(unshare, |folder| {
        let words = [
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "/bin/bash",
            "-c",
            script,
        ];
        let given = [folder, program].map(|path| path.to_string_lossy().into_owned());
        words.map(String::from).into_iter().chain(given).collect()
    })
}

#[test]
fn a_job_in_a_container_with_another_file_under_the_path_of_its_mpi_is_counted_from_outside() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let script = r#"library=$(readlink -f "$(ldd "$1" | sed -n 's/.*=> \(.*libmpich[^ ]*\) .*/\1/p')")
        cp "$library" "$0/other" && mount --bind "$0/other" "$library" || exit 9
        mpirun.mpich -n 2 "$1" "$0" --iterations 3 & wait $!"#;
    let job = contained(script, &programs::mpi("count", Mpi::Mpich)?)?;
    let target = job.pid();
    counted(job, target)?;
    Ok(())
}

#[test]
fn a_job_in_a_container_with_a_root_of_its_own_is_counted_from_outside() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    // Overlay layers as in containers; if the kernel does not support them here, the same files under another
    // root.
    let script = r#"cp "$1" "$0/program" && mkdir "$0/layers" && mount -t tmpfs none "$0/layers" || exit 9
        root="$0/layers/root"; mkdir "$root" "$0/layers/up" "$0/layers/work"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$0/layers/up,workdir=$0/layers/work" "$root" 2>/dev/null ||
            mount --bind / "$root" || exit 9
        for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder" || exit 9; done
        mkdir -p "$root$0" && mount --bind "$0" "$root$0" || exit 9
        chroot "$root" mpirun.mpich -n 2 "$0/program" "$0" --iterations 3 & wait $!"#;
    let job = contained(script, &programs::mpi("count", Mpi::Mpich)?)?;
    let target = job.pid();
    counted(job, target)?;
    Ok(())
}

#[test]
fn a_container_within_the_one_that_the_agent_is_in_is_refused_with_the_reason() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let script = format!(
        r#"unshare --mount --pid --fork --mount-proc --kill-child mpirun.mpich -n 2 "$1" "$0" --iterations 3 & job=$!
           while [ ! -e "$0/attach" ]; do read -t 0.05 x <> <(:); done 2>/dev/null
           {} attach $job --plain --rules none > "$0/said" 2>&1; echo "ended with $?" >> "$0/said"
           touch "$0/go" "$0/end"; wait $job"#,
        binary()?.display()
    );
    let mut job = contained(&script, &programs::mpi("count", Mpi::Mpich)?)?;
    job.events("ready", 2, SOON)?;
    job.open("attach")?;
    job.finish(SOON)?;
    let said = fs::read_to_string(job.file("said"))?;
    assert!(said.contains("is in a pid namespace below ours"), "{said}");
    assert!(said.ends_with("ended with 2\n"), "{said}");
    Ok(())
}

/// As in a container that was moved from another machine: its CLOCK_MONOTONIC is not that of the kernel's programs.
#[test]
fn an_agent_in_a_time_namespace_measures_by_the_clock_of_the_machine() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let mut job = start_pingpong(Mpi::Mpich, Waiting::Yielding, 2, 0)?;
    job.open("go")?;
    let shifted = "unshare --time --fork --kill-child --monotonic 1000000 --boottime 2000000";
    let shifted: Vec<&str> = shifted.split(' ').collect();
    let mut agent = Agent::attach_under(&shifted, job.pid(), &["--duration", "1s"])?;
    let report = agent.finish(SOON)?;
    job.open("stop")?;
    job.finish(SOON)?;
    let elapsed_s = report["elapsed_s"].as_f64().ok_or("no time")?;
    for process in each(&report["processes"]) {
        let functions = each(&process["functions"]).map(|function| &function["time_s"]);
        let times_s = functions.chain([&process["mpi_time_s"]]);
        let times_s: Vec<f64> = times_s.filter_map(Value::as_f64).collect();
        let are_sane = times_s.iter().all(|time_s| (0.0..=elapsed_s).contains(time_s));
        assert!(times_s.len() > 1 && are_sane, "{elapsed_s} s: {process}");
    }
    Ok(())
}

#[test]
fn ranks_that_all_go_on_as_another_program_are_counted_in_it() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL.into_iter().take(if is_long() { 2 } else { 1 }) {
        let count = programs::mpi("count", mpi)?;
        let become_ = programs::mpi("become", mpi)?;
        let mut job = Job::mpi(mpi, Waiting::Yielding, 2, &become_, |folder| {
            let mut words = with_folder(folder, vec![count.to_string_lossy().into_owned()]);
            words.extend(three_rounds(folder));
            words
        })?;
        job.events("ready", 2, SOON)?;
        let mut agent = Agent::attach_armed(job.pid(), &[])?;
        job.open("become")?;
        for rank in 0..2 {
            let line = |part: &str| format!("rank {rank} (pid {part}");
            agent.lines.wait_for("what became of the ranks", SOON, |lines| {
                let said = |end: &str| {
                    lines
                        .iter()
                        .any(|text| text.text.starts_with(&line("")) && text.text.contains(end))
                };
                (said("executed another program") && said(") is watched again")).then_some(())
            })?;
        }
        // The programs after exec print it, too.
        job.events("ready", 4, SOON)?;
        let (own_counts, report) = summed(&mut job, &mut agent, 2)?;
        assert_counted(&own_counts, &report)?;
        let ended: Vec<&Value> = each(&report["processes"])
            .map(|process| &process["ended"])
            .collect();
        assert_eq!(ended, [true, true, false, false], "{report}");
        let missing = report["completeness"]["missing"].to_string();
        assert!(missing.contains("executed another program"), "{missing}");
    }
    Ok(())
}

/// As on kernels before 6.6.
#[test]
fn a_program_that_comes_where_probes_are_attached_at_the_start_only_is_reported_and_the_session_goes_on()
-> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let [become_, coming] = ["become", "coming"].map(|name| programs::mpi(name, Mpi::OpenMpi));
    let coming = coming?.to_string_lossy().into_owned();
    let mut job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 2, &become_?, |folder| {
        let given = vec![coming, folder.to_string_lossy().into_owned()];
        with_folder(folder, given)
    })?;
    job.events("ready", 2, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--tracefs", "--rules", "none", "--probe", "step"])?;
    job.open("become")?;
    for rank in 0..2 {
        agent
            .lines
            .wait_for("the ranks as the new program", SOON, |lines| {
                let joined = |text: &str| {
                    text.starts_with(&format!("rank {rank} ")) && text.ends_with(") is watched again")
                };
                lines.iter().any(|line| joined(&line.text)).then_some(())
            })?;
    }
    job.end(SOON)?;
    let report = agent.finish(SOON)?;
    let missing = report["completeness"]["missing"].to_string();
    assert_has!(missing, "which was not there at the start, is not probed");
    Ok(())
}

#[test]
fn a_rank_that_goes_on_without_mpi_is_reported_and_the_session_ends_with_the_last_process() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let program = programs::mpi("become", Mpi::OpenMpi)?;
    let mut job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 2, &program, |folder| {
        let script = r#"while [ ! -e "$0/over" ]; do read -t 0.05 x <> <(:); done 2>/dev/null; exit 0"#;
        let mut words = with_folder(folder, ["/bin/bash", "-c", script].map(String::from).to_vec());
        words.push(folder.to_string_lossy().into_owned());
        words
    })?;
    job.events("ready", 2, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    job.open("become-1")?;
    agent.lines.wait_for_line("executed another program", SOON)?;
    // Rank 0 ends first; rank 1 may still load MPI.
    job.open("end")?;
    wait_until("the end of rank 0", SOON, || {
        Ok(agent.snapshot()?["processes"][0]["ended"] == true)
    })?;
    job.open("over")?;
    job.finish(SOON)?;
    let report = agent.finish(SOON)?;
    let missing = report["completeness"]["missing"].to_string();
    assert!(missing.contains("once it has loaded its MPI"), "{missing}");
    assert_has!(agent.lines.text(), "the program has ended");
    Ok(())
}
