//! Names and files that other users choose have no effect on a user who inspects their programs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::knobs::open_folder;
use tuneagent_e2e::lines::{Lines, succeed};
use tuneagent_e2e::{Outcome, family, programs, require};

use crate::expected::SOON;

/// A name that acts on a terminal: it clears the screen, sets the title and colours, reverses the writing
/// direction, and adds a line that looks like ours.
const EVIL: &str = "x\x1b[2J\x1b]0;pwned\x07\x1b[31m\u{9b}1m\u{202e}\"}\nINJECTED 1\n,\"=1+1";

/// The same for symbol names, with the placeholder in the file that each replaces.
const SYMBOLS: [(&str, &str); 2] = [
    (
        "evil_function_abcdefghijklmnopqrstuvwxyz",
        "evil_f\x1b]0;pwned\x07\x1b[2J\"}\nINJECTED 2\n#",
    ),
    (
        "evil_variable_abcdefghijklmnopqrstuvwxyz",
        "evil_v\x1b]0;pwned\x07\x1b[2J\"}\nINJECTED 3\n#",
    ),
];

/// A running program, which is ended on drop.
struct Started(Child);

impl Started {
    fn start(command: &mut Command) -> Outcome<Started> {
        Started::until("ready", command)
    }

    /// Starts it and waits for a line with this word.
    fn until(word: &str, command: &mut Command) -> Outcome<Started> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = Lines::default();
        lines.follow(child.stdout.take().ok_or("no output")?);
        let started = Started(child);
        lines.wait_for_line(word, SOON)?;
        Ok(started)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // `timeout` passes the signal on.
        family::end(&mut self.0, SOON);
    }
}

/// A copy of the program with names that act on a terminal.
fn evil(folder: &Path) -> Outcome<PathBuf> {
    let mut bytes = fs::read(programs::c("evil")?)?;
    for (plain, evil) in SYMBOLS {
        assert!(evil.len() <= plain.len());
        let mut name = vec![b'z'; plain.len()];
        name[..evil.len()].copy_from_slice(evil.as_bytes());
        let mut places: Vec<usize> = (0..bytes.len() - plain.len())
            .filter(|at| bytes[*at..].starts_with(plain.as_bytes()))
            .collect();
        assert!(!places.is_empty(), "{plain}");
        while let Some(at) = places.pop() {
            bytes[at..at + plain.len()].copy_from_slice(&name);
        }
    }
    let program = folder.join(EVIL);
    // Written by a child process: a descriptor open for writing could be inherited by a child of another
    // thread, and executing the file would fail with ETXTBSY.
    let mut tee = Command::new("tee")
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    tee.stdin.take().ok_or("no input")?.write_all(&bytes)?;
    assert!(tee.wait()?.success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// A command of the agent in a folder, which has its journals and sockets.
fn command(folder: &Path, arguments: &[&str]) -> Outcome<Command> {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", "120"])
        .arg(binary()?)
        .args(arguments)
        .current_dir(folder)
        .env("TUNEAGENT_STATE_DIR", folder.join("state"))
        .env("XDG_RUNTIME_DIR", folder)
        .stdin(Stdio::null());
    Ok(command)
}

/// Bytes of both output streams of a command.
fn printed(folder: &Path, arguments: &[&str]) -> Outcome<Vec<u8>> {
    let output = command(folder, arguments)?.output()?;
    Ok([output.stdout, output.stderr].concat())
}

/// Control characters and injected lines in an output.
fn harm(printed: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(printed);
    let is_active = |c: char| (c.is_control() && c != '\t') || c == '\u{202e}';
    let forged = |line: &&str| line.trim_start().starts_with("INJECTED") || line.contains(is_active);
    text.split('\n')
        .filter(forged)
        .map(|line| format!("{line:?}"))
        .collect()
}

/// Runs every command that shows names of programs.
#[test]
fn no_name_of_a_program_acts_on_the_terminal_that_shows_it() -> Outcome {
    require!(Root, Cc);
    let folder = open_folder()?;
    let program = Started::start(&mut Command::new(evil(folder.path())?))?;
    let pid = program.pid().to_string();
    let mut seen = 0;
    let mut run = |arguments: &[&str], shows: &str| -> Outcome {
        let printed = printed(folder.path(), arguments)?;
        let text = String::from_utf8_lossy(&printed);
        assert!(
            text.contains(shows),
            "{arguments:?} does not show {shows:?}:\n{text}"
        );
        assert_eq!(harm(&printed), [""; 0], "{arguments:?}");
        seen += 1;
        Ok(())
    };
    run(&["ps", "--all", "--duration", "200ms"], "\\x1b")?;
    run(&["symbols", &pid], "evil_f\\x1b]0;pwned\\x07")?;
    run(&["symbols", &pid, "--json"], "evil_f\\\\x1b")?;
    run(&["doctor", &pid], "\\x1b")?;
    run(&["rule", "new", "evil", "--pid", &pid], "evil.yaml")?;
    run(&["set", &pid, "knob=11"], "knob")?;
    run(&["journal"], "\\x1b")?;
    run(&["journal", &pid], "\\x1b")?;
    run(&["undo", &pid], "knob")?;
    let attach = format!("attach {pid} --plain --duration 1s --record evil.rec");
    let attach: Vec<&str> = attach.split(' ').collect();
    run(&[&attach[..], &["--probe", "step"]].concat(), "\\x1b")?;
    run(&["replay", "evil.rec", "--rules", "none"], "x")?;
    // Commands that list sessions show the program's name.
    let attach = ["attach", &pid, "--plain", "--duration", "60s", "--probe", "step"];
    let session = Started::until("armed", &mut command(folder.path(), &attach)?)?;
    run(&["session", "list"], "\\x1b")?;
    drop(session);
    assert_eq!(seen, 12);
    let written = fs::read(folder.path().join("evil.yaml"))?;
    assert_eq!(harm(&written), [""; 0], "the rule that was written");
    Ok(())
}

/// `tuneagent` inspects a process whose file was replaced by a FIFO, and must not block.
#[test]
fn a_program_that_replaces_its_file_by_a_fifo_blocks_no_process() -> Outcome {
    require!(Root, Cc);
    let folder = open_folder()?;
    let mut command = Command::new(programs::c("replaced")?);
    let program = Started::start(command.arg(folder.path()))?;
    let mut agent = Agent::attach(program.pid(), &["--probe", "step", "--duration", "1s"])?;
    agent.wait(SOON)?;
    let pid = program.pid().to_string();
    // With only the right to open the file by its name; other rights would allow other ways.
    let few = [
        "--bounding-set=-all,+sys_ptrace",
        "--inh-caps=-all",
        "--ambient-caps=-all",
    ];
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "setpriv"])
        .args(few)
        .arg("--")
        .arg(binary()?)
        .args(["get", &pid, "knob"])
        .env("TUNEAGENT_STATE_DIR", folder.path().join("state"))
        .output()?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some(), "it waits for the FIFO: {text}");
    Ok(())
}

/// `run` searches the words of its command for programs.
#[test]
fn a_data_file_among_the_words_of_a_command_has_nothing_executed() -> Outcome {
    require!(Root, Cc);
    let folder = tempfile::tempdir()?;
    let (proof, interpreter) = (folder.path().join("proof"), folder.path().join("evil"));
    fs::write(
        &interpreter,
        format!("#!/bin/sh\necho executed > {}\n", proof.display()),
    )?;
    fs::set_permissions(&interpreter, fs::Permissions::from_mode(0o755))?;
    let (source, data) = (folder.path().join("a.c"), folder.path().join("data.elf"));
    fs::write(&source, "int main(void) { return 0; }\n")?;
    let linker = format!("-Wl,--dynamic-linker={}", interpreter.display());
    succeed(Command::new("cc").arg(&source).arg("-o").arg(&data).arg(linker))?;
    let data = data.to_string_lossy().into_owned();
    let text = Agent::succeed(&["run", "--rules", "none", "--", "wc", "-c", &data])?;
    assert!(text.contains(&data), "{text}");
    assert!(!proof.exists(), "{text}");
    Ok(())
}

/// The report's name is a symbolic link that another user has created in a sticky folder.
#[test]
fn a_link_of_another_user_does_not_have_a_file_replaced() -> Outcome {
    require!(Root, Cc);
    let folder = open_folder()?;
    let program = Started::start(&mut Command::new(programs::c("evil")?))?;
    let pid = program.pid().to_string();
    let victim = folder.path().join("victim");
    fs::write(&victim, "old")?;
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600))?;
    let sticky = folder.path().join("sticky");
    fs::create_dir(&sticky)?;
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777))?;
    let link = sticky.join("report");
    std::os::unix::fs::symlink(&victim, &link)?;
    std::os::unix::fs::lchown(&link, Some(65_534), None)?;
    let name = link.to_string_lossy().into_owned();
    for flag in ["--json", "--csv"] {
        let (code, text) = Agent::run(&["attach", &pid, "--plain", "--duration", "200ms", flag, &name])?;
        assert_eq!(code, 2, "{flag}: {text}");
        assert!(text.contains("a link of user 65534"), "{flag}: {text}");
    }
    let mode = fs::metadata(&victim)?.permissions().mode() & 0o777;
    assert_eq!((fs::read(&victim)?, mode), (b"old".to_vec(), 0o600));
    Ok(())
}
