//! The live view as users see it: on a terminal, with keys, and the state of the terminal afterwards.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tuneagent_e2e::agent::binary;
use tuneagent_e2e::job::Waiting;
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::screen::Screen;
use tuneagent_e2e::sight::{Ranks, Sight};
use tuneagent_e2e::{Outcome, family, gromacs, require};

use crate::expected::{SOON, start_workers};

/// Maximum time until numbers are shown. The target is 2 s for the optimised program on an idle machine
/// (`cargo xtask bench attach`). Here the program is unoptimised, and the busy ranks compete with it for the
/// CPUs.
fn seen_within(ranks: Ranks) -> Duration {
    match ranks {
        Ranks::Asleep => Duration::from_secs(8),
        Ranks::Busy => Duration::from_secs(20),
    }
}

/// Settings of the program `workers`.
const SETTINGS: [&str; 3] = ["40000", "2000", "2"];

/// The shell's screen, cursor and terminal modes are restored.
fn assert_sane(screen: &Screen) -> Outcome {
    assert_eq!(screen.fact("alternate_on")?, "0", "the other screen is left");
    assert_eq!(screen.fact("cursor_flag")?, "1", "the cursor is seen");
    screen.enter("clear; stty -a | tr ';\\n' '  '; echo 'modes' end")?;
    let text = screen.see("modes end")?;
    for mode in ["icanon", "echo", "isig", "opost", "icrnl"] {
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.contains(&mode), "{mode} is not set:\n{text}");
    }
    Ok(())
}

fn session_list(screen: &Screen) -> Outcome<String> {
    let output = Command::new(binary()?)
        .args(["session", "list"])
        .env("XDG_RUNTIME_DIR", screen.runtime_folder())
        .stdin(Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The keys of the rules switch a rule to advising, back, and off.
fn switches_the_rule(screen: &Screen) -> Outcome {
    screen.press("5")?;
    screen.wait_for("the rule", |text| {
        text.contains("optimal-workers") && text.contains("applying")
    })?;
    screen.press("a")?;
    screen.see("optimal-workers is advising")?;
    let list = session_list(screen)?;
    assert!(list.contains("advising") && !list.contains("applying"), "{list}");
    screen.press("p")?;
    screen.see("optimal-workers is applying")?;
    screen.press("o")?;
    screen.see("optimal-workers is off")?;
    screen.press("7")?;
    screen.see("optimal-workers switched from applying to off")?;
    Ok(())
}

#[test]
fn the_live_view_shows_a_run_reads_keys_and_leaves_the_terminal_as_it_was() -> Outcome {
    let _machine = require!(shared: Root, Mpich, Tmux);
    let mut job = start_workers(5, SETTINGS)?;
    let screen = Screen::start(80, 24)?;
    let attach = format!(
        "{} attach {} --rules none optimal-workers --apply; echo ended with $?",
        binary()?.display(),
        job.pid()
    );
    screen.enter(&attach)?;
    let text = screen.wait_for("the overview with numbers", |text| {
        text.contains("MPI calls/s") && text.contains("MPI_Iprobe")
    })?;
    assert_has!(
        text,
        "5 ranks",
        " may write",
        " 1 Overview 2 Ranks ",
        "inside MPI",
        "waiting for a CPU",
        " q quit"
    );
    assert_eq!(screen.fact("alternate_on")?, "1");

    screen.press("2")?;
    screen.wait_for("a line for each rank", |text| {
        text.contains("sorted by rank") && (0..5).all(|rank| text.contains(&format!("\n    {rank}  ")))
    })?;
    screen.press("s")?;
    screen.see("sorted by time in MPI")?;
    screen.press("Tab")?;
    screen.wait_for("the functions", |text| {
        text.contains("all calls") && text.contains("MPI_Send")
    })?;
    switches_the_rule(&screen)?;

    screen.press("2")?;
    screen.resize(120, 40)?;
    screen.see("switched/s")?;
    screen.see("MPICH")?;
    screen.press("4")?;
    screen.wait_for("the lines that call MPI", |text| {
        text.contains("called from") && text.contains("workers.c:")
    })?;
    screen.press("?")?;
    screen.see("which line of the program calls them")?;
    screen.press("Escape")?;
    screen.see("called from")?;

    screen.press("q")?;
    // The exit code is 1 if switching the rule off reverted a change on trial.
    screen.wait_for("the end", |text| {
        text.contains("ended with 0") || text.contains("ended with 1")
    })?;
    let all = screen.everything()?;
    assert_has!(
        all,
        "armed: ",
        "optimal-workers switched from applying to off",
        "ended by the user; detached"
    );
    assert_sane(&screen)?;
    job.open("stop")?;
    job.finish(SOON)
}

#[test]
fn numbers_of_sixteen_ranks_are_seen_within_seconds_of_the_start_whether_they_sleep_or_spin() -> Outcome {
    // Long runs only; `coexist` checks in every run that the numbers are those of all ranks.
    if !is_long() {
        return Ok(());
    }
    let _machine = require!(machine: Root, Mpich, Tmux);
    for ranks in Ranks::ALL {
        let mut job = ranks.start(16)?;
        let sight = Sight::of(&job)?;
        println!("{}: {sight:?}", ranks.name());
        for took in [sight.line, sight.screen] {
            assert!(took < seen_within(ranks), "{}: {sight:?}", ranks.name());
        }
        job.open("end")?;
        job.finish(10 * SOON)?;
    }
    Ok(())
}

fn has_functions_alone_in_their_table(text: &str) -> bool {
    let rows = text.lines().skip_while(|line| !line.starts_with(" function "));
    let mut rows = rows.skip(1).map(str::trim).take_while(|line| !line.is_empty());
    let is_row =
        |line: &str| line.starts_with("MPI_") || line.starts_with("GOMP_") || line.starts_with("and ");
    rows.clone().count() >= 2 && rows.all(is_row)
}

#[test]
fn the_screen_of_gromacs_has_its_pace_its_efficiencies_its_functions_and_its_finding() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi, Gromacs, Tmux);
    let job = gromacs::start(Waiting::Spinning, 4)?;
    job.lines.wait_for("steps of GROMACS", 4 * SOON, |lines| {
        (gromacs::steps(lines).len() >= 2).then_some(())
    })?;
    let screen = Screen::start(120, 40)?;
    screen.enter(&format!(
        "{} attach {}; echo ended with $?",
        binary()?.display(),
        job.pid()
    ))?;
    // A screen may be read while the next one is being drawn.
    let text = screen.wait_for("its pace, its finding and its functions", |text| {
        text.contains("one step of the detected loop takes ")
            && text.contains(" 1  openmpi-busy-wait")
            && has_functions_alone_in_their_table(text)
    })?;
    assert_has!(
        text,
        "gmx_mpi: 4 ranks (pids ",
        "Open MPI ",
        " MPI calls/s, ",
        "inside MPI",
        "waiting for a CPU",
        "parallel efficiency ",
        "4 ranks share ",
        "    now    ",
        " q quit"
    );
    // Where lines about the cost take the room, the rest of the finding is on another screen.
    let is_brief = text.contains("1 finding (details: tab Rules)");
    assert!(is_brief || text.contains("    next   "), "{text}");
    // On a small screen the most important parts come first.
    screen.resize(80, 24)?;
    let small = screen.wait_for("the small screen", |text| {
        text.lines().all(|line| line.chars().count() <= 80) && text.contains(" q quit")
    })?;
    assert_has!(
        small,
        "gmx_mpi: 4 ranks",
        "openmpi-busy-wait",
        "one step of the detected loop takes "
    );
    screen.press("q")?;
    screen.see("ended with 0")?;
    Ok(())
}

#[test]
fn however_a_session_ends_the_terminal_is_given_back() -> Outcome {
    let _machine = require!(shared: Root, Mpich, Tmux);
    let mut job = start_workers(5, SETTINGS)?;
    let screen = Screen::start(80, 24)?;
    let attach = format!("{} attach {} --rules none", binary()?.display(), job.pid());
    // Text of the session before may still be on the screen.
    let armed = || {
        screen.wait_for("a new session", |text| {
            text.contains("MPI calls/s") && !text.contains("ended with")
        })
    };
    let agent = || -> Outcome<Pid> {
        let shell = screen
            .fact("pane_pid")?
            .parse()
            .map_err(|error| format!("{error}"))?;
        // Descendants include the agent's own child processes.
        let program = binary()?.display().to_string();
        let mut members = family::descendants(shell).into_iter();
        let last = members
            .find(|member| member.has_word(&program))
            .ok_or("the shell runs nothing")?;
        Ok(Pid::from_raw(last.pid as i32).ok_or("no process")?)
    };
    let endings: [(&str, &dyn Fn() -> Outcome); 5] = [
        ("Ctrl-C; detached", &|| screen.press("C-c")),
        ("SIGTERM; detached", &|| {
            Ok(kill_process(agent()?, Signal::TERM).map_err(|error| format!("{error}"))?)
        }),
        ("SIGHUP; detached", &|| {
            Ok(kill_process(agent()?, Signal::HUP).map_err(|error| format!("{error}"))?)
        }),
        ("stopped by tuneagent session stop; detached", &|| {
            let pid = agent()?.as_raw_nonzero().to_string();
            let mut stop = Command::new(binary()?);
            stop.args(["session", "stop", &pid])
                .env("XDG_RUNTIME_DIR", screen.runtime_folder());
            assert!(stop.output()?.status.success());
            Ok(())
        }),
        ("the program has ended; detached", &|| job.open("stop")),
    ];
    for (words, end) in endings {
        screen.enter(&format!("clear; {attach}; echo ended with $?"))?;
        armed()?;
        end()?;
        let text = screen.see("ended with 0")?;
        assert!(text.contains(words), "{words} is not in:\n{text}");
        assert_sane(&screen)?;
    }
    job.finish(SOON)
}

#[test]
fn without_a_terminal_to_hear_keys_from_there_are_plain_lines() -> Outcome {
    let _machine = require!(shared: Root, Mpich, Tmux);
    let mut job = start_workers(5, SETTINGS)?;
    let screen = Screen::start(100, 60)?;
    let attach = format!(
        "{} attach {} --rules none --duration 1s",
        binary()?.display(),
        job.pid()
    );
    for how in ["--plain", "< /dev/null", "| cat"] {
        screen.enter(&format!("clear; {attach} {how}; echo ended with $?"))?;
        screen.wait_for("a new session", |text| {
            text.contains("armed: ") && !text.contains("ended with")
        })?;
        assert_eq!(screen.fact("alternate_on")?, "0", "{how}");
        let text = screen.see("ended with 0")?;
        assert!(
            text.contains("armed: ") && text.contains("detached"),
            "{how}:\n{text}"
        );
    }
    job.open("stop")?;
    job.finish(SOON)
}
