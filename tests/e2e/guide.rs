//! User guides with commands: every command is run, every file is written, and the output is compared with
//! the page, except for numbers.
//!
//! In a block `console` the lines with `$ ` are commands, the others their output; `...` stands for omitted
//! lines. A block with a file name after its language is that file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tuneagent_e2e::lines::succeed;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, Problem, agent, family, require};

use crate::tidy::root;

/// Process number of the background program in the pages.
const SHOWN_PID: &str = "8123";

/// A fenced block of a page: the text after the fence, and its lines.
struct Block {
    info: String,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(info) => {
                is_open = true;
                blocks.push(Block {
                    info: info.to_owned(),
                    lines: Vec::new(),
                });
            }
            None => {
                let block = blocks.last_mut().filter(|_| is_open);
                block
                    .into_iter()
                    .for_each(|block| block.lines.push(line.to_owned()));
            }
        }
    }
    blocks
}

/// A user's shell in a folder with the repository's `tests`.
struct Shell {
    folder: TempDir,
    background: Option<Child>,
}

impl Shell {
    fn new() -> Outcome<Shell> {
        let folder = tempfile::tempdir()?;
        let bin = folder.path().join("bin");
        fs::create_dir(&bin)?;
        symlink(agent::binary()?, bin.join("tuneagent"))?;
        // The tests already run as root, and the real sudo would reset PATH. With SUDO_UID, `tuneagent`
        // prints commands with sudo.
        let sudo = bin.join("sudo");
        fs::write(&sudo, "#!/bin/sh\nexport SUDO_UID=0\nexec \"$@\"\n")?;
        fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755))?;
        symlink(root().join("tests"), folder.path().join("tests"))?;
        Ok(Shell {
            folder,
            background: None,
        })
    }

    fn command(&self, line: &str) -> Command {
        let folder = self.folder.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", "timeout", "120", "sh", "-c", line]);
        command
            .current_dir(folder)
            .env("PATH", format!("{}:{path}", folder.join("bin").display()))
            .env("TUNEAGENT_STATE_DIR", folder.join("state"))
            .env("XDG_STATE_HOME", folder)
            .env("XDG_RUNTIME_DIR", folder)
            .stdin(Stdio::null());
        command
    }

    /// Runs a line and returns its output.
    fn run(&mut self, line: &str) -> Outcome<String> {
        let pid = self.background.as_ref().map_or(0, Child::id).to_string();
        // Shortened: a reader of the page wants to see more lines than the test needs.
        let line = line
            .replace(SHOWN_PID, &pid)
            .replace("--duration 5s", "--duration 2s");
        if let Some(line) = line.strip_suffix(" &") {
            return self.start(line);
        }
        let printed = succeed(&mut self.command(&line))?;
        // The kernel's time differs between machines.
        Ok(printed.replace(
            "detached; the kernel is still removing probes",
            "detached in 1 ms",
        ))
    }

    /// Starts a program in the background until the shell is dropped.
    fn start(&mut self, line: &str) -> Outcome<String> {
        let path = self.folder.path();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", "sh", "-c", &format!("exec {line}")]);
        let child = command.current_dir(path).stdin(Stdio::null()).spawn()?;
        let printed = format!("[1] {}", child.id());
        self.background = Some(child);
        if line.ends_with("> /dev/null") {
            return Ok(printed);
        }
        let log = line
            .rsplit_once("> ")
            .map(|(_, name)| path.join(name))
            .ok_or("no log is named")?;
        wait_until(&format!("the begin of `{line}`"), Duration::from_secs(60), || {
            Ok(fs::read_to_string(&log).is_ok_and(|text| text.contains("\"iteration\"")))
        })?;
        Ok(printed)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(child) = &mut self.background {
            family::end(child, Duration::from_secs(3));
        }
    }
}

/// Words of a text without parts that differ between runs: numbers become `#`, units and bars are removed,
/// and paths are reduced to their last part.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 16] = [
        "ns", "us", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "B/s", "KiB/s", "MiB/s", "GiB/s",
        "times",
    ];
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        // The formatter chooses between a factor and a percentage by size, so both become the same word.
        let line = line
            .replace("times less", "times")
            .replace(" (less is better)", "");
        let mut behind_number = false;
        for word in line.split_whitespace() {
            let word = match word.rsplit_once('/') {
                Some((_, last)) if word.starts_with('/') => last,
                _ => word,
            };
            let bare = word.trim_matches(['(', ')', ',', ';', ':']);
            let is_bar = !bare.is_empty() && bare.chars().all(|c| c == '#');
            if is_bar || bare == "-" || (behind_number && UNITS.contains(&bare)) {
                continue;
            }
            let is_number = bare.contains(|c: char| c.is_ascii_digit());
            // Thousands are separated by a space, so adjacent numbers are one number.
            if is_number && !behind_number {
                words.push("#".to_owned());
            } else if !is_number {
                words.push(word.to_owned());
            }
            behind_number = is_number;
        }
    }
    words
}

/// Checks that the output has the lines of the page in order. The error is the first missing line.
fn compare(expected: &[String], printed: &str) -> Result<(), String> {
    let all = words(printed);
    let mut rest = all.as_slice();
    for line in expected.iter().filter(|line| *line != "...") {
        let line_words = words(line);
        if line_words.is_empty() {
            continue;
        }
        let found = rest
            .windows(line_words.len())
            .position(|window| window == line_words);
        let place = found.ok_or_else(|| line.clone())?;
        rest = &rest[place + line_words.len()..];
    }
    Ok(())
}

/// Runs the commands of a page. Returns their number.
fn follow(page: &str, shell: &mut Shell) -> Outcome<usize> {
    let mut commands = 0;
    for block in blocks(page) {
        if let Some((_, file)) = block.info.split_once(' ') {
            fs::write(shell.folder.path().join(file), block.lines.join("\n") + "\n")?;
        }
        if block.info != "console" {
            continue;
        }
        let mut lines = block.lines.as_slice();
        while let Some((first, behind)) = lines.split_first() {
            let line = first
                .strip_prefix("$ ")
                .ok_or("a console block begins with a command")?;
            let end = behind
                .iter()
                .position(|line| line.starts_with("$ "))
                .unwrap_or(behind.len());
            let (expected, next) = behind.split_at(end);
            let printed = shell.run(line)?;
            commands += 1;
            compare(expected, &printed).map_err(|missing| {
                Problem::new(format!(
                    "$ {line}\nprints, without `{missing}` in its place:\n{printed}"
                ))
            })?;
            lines = next;
        }
    }
    Ok(commands)
}

#[test]
fn every_command_of_the_guide_does_what_the_guide_says() -> Outcome {
    let _machine = require!(machine: Root, Mpich);
    let page = fs::read_to_string(root().join("docs/guide.md"))?;
    let commands = follow(&page, &mut Shell::new()?)?;
    assert!(commands >= 12, "{commands} commands were found");
    Ok(())
}

/// `wildfire.c` before its preparation: the patch applied in reverse.
fn before() -> Outcome<String> {
    let programs = root().join("tests/programs");
    let patch = fs::read_to_string(programs.join("wildfire-prepared.patch"))?;
    let mut source = fs::read_to_string(programs.join("wildfire.c"))?;
    for hunk in patch.split("\n@@").skip(1) {
        let with = |sign: char| -> String {
            let lines = hunk.lines().skip(1).filter_map(|line| line.strip_prefix(sign));
            lines.map(|line| format!("{line}\n")).collect()
        };
        let (added, removed) = (with('+'), with('-'));
        assert_eq!(
            source.matches(&added).count(),
            1,
            "wildfire.c must have, once:\n{added}"
        );
        source = source.replace(&added, &removed);
    }
    Ok(source)
}

#[test]
fn the_requirements_of_a_program_are_what_the_patch_of_wildfire_adds() -> Outcome {
    require!(Mpich);
    let page = fs::read_to_string(root().join("docs/prepare.md"))?;
    let patch = fs::read_to_string(root().join("tests/programs/wildfire-prepared.patch"))?;
    let shown = blocks(&page).into_iter().find(|block| block.info == "diff");
    let shown = shown.ok_or("the page shows no patch")?.lines.join("\n") + "\n";
    assert_eq!(shown, patch, "docs/prepare.md shows another patch");
    let mut shell = Shell::new()?;
    fs::write(shell.folder.path().join("before.c"), before()?)?;
    let commands = follow(&page, &mut shell)?;
    assert!(commands >= 5, "{commands} commands were found");
    Ok(())
}

#[test]
fn pages_are_compared_by_their_words_and_not_by_their_numbers() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let page = lines(
        " mw_send    99   2.36 ms   0.66 %  #\n...\ntook 1.5 s; kept\nin /home/ana/nbody, process 8130",
    );
    assert_eq!(
        compare(
            &page,
            "mw_send 1 204 800 us 12 %\nother\ntook 80 ms;\nkept\nin /tmp/x/nbody, process 7"
        ),
        Ok(())
    );
    assert_eq!(
        compare(&page, "mw_send 99 2.36 ms\ntook 1.5 s; reverted\nin nbody"),
        Err("took 1.5 s; kept".to_owned())
    );
    assert_eq!(
        words("43.8 ms -> 21.1 ms (10 windows each): 2.1 times; kept"),
        words("92 ms -> 60.4 ms (10 windows each): +52 %; kept")
    );
    assert_eq!(
        words("45 ms -> 19.9 ms: 2.3 times less [2.1, 2.5]; kept"),
        words("43 ms -> 22.3 ms: -48.6 % [-65.6, -23.3] (less is better); kept")
    );
}

#[test]
fn every_command_of_the_page_on_contracts_does_what_the_page_says() -> Outcome {
    let _machine = require!(shared: Root);
    let page = fs::read_to_string(root().join("docs/contracts.md"))?;
    let commands = follow(&page, &mut Shell::new()?)?;
    assert_eq!(commands, 11);
    Ok(())
}
