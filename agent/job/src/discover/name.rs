//! The names of a program for its user: that under which it was started, and the script that an interpreter runs.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tuner::{Process, printable};

/// Options of interpreters whose value is the next word.
const WITH_VALUE: [&str; 7] = ["-W", "-X", "-I", "-o", "-O", "-r", "--require"];
/// Options after which there is no script: the program is a text on the command line.
const WITHOUT_SCRIPT: [&str; 4] = ["-c", "-e", "-E", "--args"];
const INTERPRETERS: [&str; 6] = ["python", "perl", "ruby", "node", "R", "bash"];
/// Longer names are no help in a line, in characters.
const SCRIPT_MAX: usize = 40;

/// File name of an executable.
pub(super) fn of_file(executable: &Path) -> String {
    let name = executable.file_name();
    name.map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The name under which a program was started, if it is that of a link to its file, as redis-server is to
/// redis-check-rdb; else its file name, also where that only adds a version (python3 and python3.11).
pub(super) fn of_process(process: &Process) -> String {
    let file = of_file(&process.executable);
    let word = process.arguments.first().map_or("", String::as_str);
    // A program may overwrite its arguments; its short name remains that of the link.
    let mut names = [word, &process.name].into_iter().filter_map(|word| {
        let name = Path::new(word).file_name()?.to_str()?;
        (!file.starts_with(name)).then_some((word, name))
    });
    let link = names.find(|(word, _)| is_link(process, word));
    link.map_or(file, |(_, name)| printable(name).into_owned())
}

/// Whether a word is the path of a link to the file of a process, or the name of one beside the file or in its
/// PATH.
fn is_link(process: &Process, word: &str) -> bool {
    let place = |file: &str| PathBuf::from(format!("/proc/{}/{file}", process.pid));
    let id = |path: PathBuf| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let root = place("root");
    let below_root = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let candidates = match word.contains('/') {
        true if word.starts_with('/') => vec![below_root(Path::new(word))],
        true => vec![place("cwd").join(word)],
        false => {
            let environment = process.environment().unwrap_or_default();
            let path = environment.iter().find_map(|line| line.strip_prefix("PATH="));
            let folders = std::env::split_paths(OsStr::new(path.unwrap_or_default()));
            let beside = process.executable.parent().map(Path::to_path_buf);
            let folders = beside.into_iter().chain(folders);
            folders.map(|folder| below_root(&folder.join(word))).collect()
        }
    };
    let file = id(place("exe"));
    file.is_some() && candidates.into_iter().any(|path| id(path) == file)
}

/// The name of a process for its user: its script, or that of its program; `None` if its file may not be read.
pub fn name_of(pid: i32) -> Option<String> {
    let process = Process::open(pid).ok()?;
    let script = script(&of_file(&process.executable), &process.arguments);
    Some(script.unwrap_or_else(|| of_process(&process)))
}

/// File name of the script that this process runs, if it is an interpreter; else the module after `-m`, or `None`.
pub(crate) fn script_of(pid: i32) -> Option<String> {
    let process = Process::open(pid).ok()?;
    script(&of_file(&process.executable), &process.arguments)
}

/// File name of the script that an interpreter runs, or the module after `-m`; `None` for other programs.
pub(super) fn script(executable: &str, arguments: &[String]) -> Option<String> {
    let stem = executable.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&stem) {
        return None;
    }
    let mut words = arguments.iter().skip(1).map(String::as_str);
    let word = loop {
        let word = words.next()?;
        if WITHOUT_SCRIPT.contains(&word) {
            return None;
        }
        match word {
            "-m" | "-f" => break words.next()?,
            _ if WITH_VALUE.contains(&word) => drop(words.next()),
            _ if word.starts_with("--file=") => break word.trim_start_matches("--file="),
            _ if word.starts_with('-') => {}
            _ => break word,
        }
    };
    let name = Path::new(word).file_name()?.to_str()?;
    (name.chars().count() <= SCRIPT_MAX).then(|| printable(name).into_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::{fs::symlink, process::CommandExt},
        process::Command,
    };

    use tuneagent_e2e::line_program::LineProgram;

    use super::*;

    #[test]
    fn the_script_of_an_interpreter_is_the_first_word_that_is_no_option() {
        for (command, script) in [
            ("python3.11 train.py --epochs 3", Some("train.py")),
            ("python3 -u -W ignore /home/ana/train.py", Some("train.py")),
            (
                "python3 -m torch.distributed.run x.py",
                Some("torch.distributed.run"),
            ),
            ("python3 -c print(1)", None),
            ("python3", None),
            ("perl -w -I lib tool.pl", Some("tool.pl")),
            ("R --no-echo --no-restore --file=fit.R --args 3", Some("fit.R")),
            ("R --no-save", None),
            ("bash -e", None),
            ("bash ./run.sh", Some("run.sh")),
            ("lmp -in in.lj", None),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(self::script(&words[0], &words).as_deref(), script, "{command}");
        }
    }

    #[test]
    fn a_program_has_the_name_of_the_link_under_which_it_was_started() {
        let folder = tempfile::tempdir().unwrap();
        let cat = folder.path().join("cat-by-its-long-file");
        let link = folder.path().join("reader");
        fs::copy("/bin/cat", &cat).unwrap();
        symlink(&cat, &link).unwrap();
        // The program, its first argument, and the name that is shown.
        for (program, word, name) in [
            (&cat, "cat-by-its-long-file", "cat-by-its-long-file"),
            (&link, link.to_str().unwrap(), "reader"),
            // Programs overwrite their arguments.
            (&link, "reader: *:6379", "reader"),
            // A shorter name is that of the file without its version.
            (&cat, "cat", "cat-by-its-long-file"),
            (&cat, "another", "cat-by-its-long-file"),
        ] {
            let mut running = LineProgram::start(Command::new(program).arg0(word)).unwrap();
            running.say("a line").unwrap();
            let found = of_process(&Process::open(running.pid() as i32).unwrap());
            assert_eq!(found, name, "{word}");
            assert_eq!(name_of(running.pid() as i32).as_deref(), Some(name), "{word}");
        }
    }
}
