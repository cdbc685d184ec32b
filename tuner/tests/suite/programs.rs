//! Builds the C programs and runs them. Synchronisation is by lines: a program prints when it is ready, and
//! answers each line.

use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use plan::{Value, ValueType};
use tempfile::TempDir;
use tuneagent_e2e::line_program::LineProgram;
use tuneagent_e2e::lines::succeed;
use tuneagent_e2e::needs::{Need, has, skip};

use tuner::journal::StateDir;
use tuner::{
    AddressSpace, Author, Hooks, Images, Location, Pid, Process, Receipt, SetRequest, VariableError,
    WritablePlace, WritablePlaceError, Writer, WriterError,
};

/// Asserts that the result is an error with this part in its text.
#[track_caller]
pub(crate) fn fails<T: Debug, E: Display>(result: Result<T, E>, part: &str) {
    match result {
        Err(error) => assert!(error.to_string().contains(part), "`{part}` is not in `{error}`"),
        Ok(done) => panic!("{done:?} instead of `{part}`"),
    }
}

/// Asserts that the result is an error with this text.
#[track_caller]
pub(crate) fn fails_with<T: Debug, E: Display>(result: Result<T, E>, text: &str) {
    assert_eq!(result.map_err(|error| error.to_string()).unwrap_err(), text);
}

/// Number of reverting writes in the journal of a process.
pub(crate) fn writes_back(state: &Path, pid: Pid) -> usize {
    let journal = StateDir::at(state).journal_path(pid);
    let journal = std::fs::read_to_string(journal).unwrap();
    journal.matches(r#""record":"revert_intent""#).count()
}

/// Ways in which compilers emit debug information and addresses, with their flags. Split files and debug
/// links need more than flags and are in `finding` and `binding`.
pub(crate) const FLAGS: [(&str, &[&str]); 11] = [
    ("DWARF 4", &["-gdwarf-4"]),
    ("DWARF 5", &["-gdwarf-5"]),
    ("compressed sections", &["-gdwarf-5", "-gz"]),
    ("type units", &["-gdwarf-4", "-fdebug-types-section"]),
    ("type units of DWARF 5", &["-gdwarf-5", "-fdebug-types-section"]),
    ("fixed addresses", &["-gdwarf-5", "-no-pie"]),
    ("at a chosen address", &AT_A_CHOSEN_ADDRESS),
    ("not optimised", &["-g", "-O0"]),
    ("optimised", &["-g", "-O2"]),
    ("static", &["-g", "-static"]),
    ("optimised by the link editor", &["-g", "-flto", "-rdynamic"]),
];

/// Lets the link editor place a program.
pub(crate) const AT_A_CHOSEN_ADDRESS: [&str; 3] = ["-g", "-no-pie", "-Wl,-Ttext-segment=0x10000000"];

/// A directory with the built programs.
pub(crate) struct Workshop {
    pub(crate) directory: TempDir,
}

impl Workshop {
    /// Skips if there is no C compiler.
    pub(crate) fn open() -> Option<Workshop> {
        has(module_path!(), &[Need::Cc]).then(|| Workshop {
            directory: tempfile::tempdir().unwrap(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Builds a library with the variable `knob` of this value, and a function that returns it.
    pub(crate) fn library(&self, output: &str, value: u32, view: &str, flags: &[&str]) -> PathBuf {
        let (value, view) = (format!("-DVALUE={value}"), format!("-DVIEW={view}"));
        let common = ["-shared", "-fPIC", value.as_str(), &view];
        self.build("library.c", output, &[&common, flags].concat())
    }

    /// Runs a tool of the compiler in the directory. Skips if it is not installed.
    pub(crate) fn run(&self, tool: &str, arguments: &[&str]) -> Option<()> {
        let mut command = Command::new(tool);
        let Ok(done) = command
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
        else {
            skip(&format!("there is no `{tool}`"));
            return None;
        };
        assert!(
            done.status.success(),
            "{tool}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        Some(())
    }

    /// Builds `source` of tests/programs as `output`.
    pub(crate) fn build(&self, source: &str, output: &str, flags: &[&str]) -> PathBuf {
        let compiler = match source.rsplit('.').next() {
            Some("f90") => "gfortran",
            Some("cc") => "c++",
            Some("rs") => "rustc",
            _ => "cc",
        };
        let always: &[&str] = match compiler {
            "rustc" => &["--edition=2024", "-O", "-g"],
            _ => &["-O1", "-Wl,--build-id"],
        };
        let source = source_path(source);
        let output = self.directory.path().join(output);
        let mut command = Command::new(compiler);
        command
            .args(always)
            .arg(source)
            .arg("-o")
            .arg(&output)
            .args(flags);
        succeed(command.current_dir(self.directory.path())).unwrap();
        output
    }
}

/// Path of a file in tests/programs.
pub(crate) fn source_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// `variables` with debug information, as a running process.
pub(crate) fn variables() -> Option<(Workshop, Program)> {
    variables_with(&["-g"])
}

/// `variables`, built with these flags, as a running process.
pub(crate) fn variables_with(flags: &[&str]) -> Option<(Workshop, Program)> {
    let workshop = Workshop::open()?;
    let program = Program::start(&workshop.build("variables.c", "variables", flags), &[])?;
    Some((workshop, program))
}

thread_local! {
    /// A program to which a hook of this test sends lines. Hooks are functions without captures.
    static LENT: RefCell<Option<Program>> = const { RefCell::new(None) };
}

/// Runs `body` with the program that `Program::lend` has lent.
pub(crate) fn with_lent<R>(body: impl FnOnce(&mut Program) -> R) -> R {
    LENT.with_borrow_mut(|program| body(program.as_mut().unwrap()))
}

/// Sends a line to the lent program and returns the answer.
pub(crate) fn say_to_lent(text: &str) -> String {
    with_lent(|program| program.say(text))
}

pub(crate) struct Program {
    program: LineProgram,
    pub(crate) images: Arc<Images>,
}

impl Program {
    /// Starts it and waits for its first line. Skips if the kernel does not permit writing into a child.
    pub(crate) fn start(path: &Path, arguments: &[&Path]) -> Option<Program> {
        Program::start_with(path, arguments, &[])
    }

    /// As `start`, with additional environment variables.
    pub(crate) fn start_with(
        path: &Path,
        arguments: &[&Path],
        environment: &[(&str, &Path)],
    ) -> Option<Program> {
        let program = Program::try_start(path, arguments, environment).unwrap();
        let memory = format!("/proc/{}/mem", program.pid());
        if let Err(error) = OpenOptions::new().write(true).open(memory) {
            skip(&format!("the kernel does not let us write into a child: {error}"));
            return None;
        }
        Some(program)
    }

    /// Starts it. `None` if it ends without its first line.
    pub(crate) fn try_start(
        path: &Path,
        arguments: &[&Path],
        environment: &[(&str, &Path)],
    ) -> Option<Program> {
        let mut command = Command::new(path);
        command.envs(environment.iter().copied());
        command
            .args(arguments)
            .env("LD_LIBRARY_PATH", path.parent().unwrap());
        let mut program = LineProgram::start(&mut command).unwrap();
        let is_ready = program.line().is_ok_and(|line| line == "ready");
        is_ready.then(|| Program {
            program,
            images: Arc::new(Images::new()),
        })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.program.pid().cast_signed()
    }

    pub(crate) fn process(&self) -> Process {
        Process::open(self.pid()).unwrap()
    }

    pub(crate) fn line(&mut self) -> String {
        self.program.line().unwrap()
    }

    /// Sends a line and returns the answer.
    pub(crate) fn say(&mut self, text: &str) -> String {
        self.program.say(text).unwrap()
    }

    /// The program's own view of `name`.
    pub(crate) fn sees(&mut self, name: &str) -> String {
        let answer = self.say("?");
        let find = |word: &str| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        answer
            .split(' ')
            .find_map(find)
            .unwrap_or_else(|| panic!("no {name} in {answer}"))
    }

    /// Closes the program's input, so that it ends. Its last output can be read.
    pub(crate) fn close(&mut self) {
        self.program.close();
    }

    /// Closes the program's input and waits for the end.
    pub(crate) fn end(&mut self) {
        self.program.end().unwrap();
    }

    pub(crate) fn space(&self) -> AddressSpace {
        AddressSpace::read(&self.process(), &self.images).unwrap()
    }

    pub(crate) fn find(&self, name: &str) -> Result<Location, VariableError> {
        self.space().variable(&name.into())
    }

    pub(crate) fn find_in(&self, module: &str, name: &str) -> Result<Location, VariableError> {
        let name = tuner::VariableName {
            name: name.to_owned(),
            module: Some(module.to_owned()),
        };
        self.space().variable(&name)
    }

    pub(crate) fn place(
        &self,
        name: &str,
        stated: Option<ValueType>,
    ) -> Result<WritablePlace, WritablePlaceError> {
        WritablePlace::validate(&self.find(name).unwrap(), stated)
    }

    /// Writes a value with a new writer.
    pub(crate) fn set(&self, state: &Path, place: &WritablePlace, value: Value) -> Receipt {
        self.writer(state).unwrap().set(place, to(value)).unwrap()
    }

    pub(crate) fn writer(&self, state: &Path) -> Result<Writer, WriterError> {
        self.writer_with(state, Hooks::default())
    }

    pub(crate) fn writer_with(&self, state: &Path, hooks: Hooks) -> Result<Writer, WriterError> {
        let (state, images) = (StateDir::at(state), Arc::clone(&self.images));
        Writer::open(self.process(), &state, Author::current(), images, hooks)
    }

    /// Lends the program to the hooks of this test, until the result is dropped.
    pub(crate) fn lend(self) -> Lent {
        LENT.set(Some(self));
        Lent
    }
}

/// Ends the lent program when it is dropped.
pub(crate) struct Lent;

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.take();
    }
}

/// A request to write `value` without options.
pub(crate) fn to(value: Value) -> SetRequest {
    SetRequest {
        value,
        expect_old: None,
        why: vec!["a test".to_owned()],
        rule: None,
    }
}
