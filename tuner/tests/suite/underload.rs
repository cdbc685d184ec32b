//! The program with many threads that checks its own results, and how it is started and read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plan::{CallRequest, Expression, FunctionName, Invocation, Moment, PatchRequest, ReturnType};
use tuner::journal::{Reason, RevertOutcome};
use tuner::{ActionOutcome, ActionReceipt, Writer, WriterError};

use crate::programs::{Program, Workshop};

/// The program under load, with a state directory for writers.
pub(crate) struct Load {
    pub(crate) workshop: Workshop,
    pub(crate) program: Program,
    /// The code at the start.
    code: Vec<(String, Vec<u8>)>,
}

pub(crate) const QUIET: &str = "a=1 b=0 logged=1 noted=0 size=4096 weight=2500 tail=8 loop=0 errors=0";

impl Load {
    pub(crate) fn start() -> Option<Load> {
        Load::with(&[], &["-g"])
    }

    pub(crate) fn with(arguments: &[&str], flags: &[&str]) -> Option<Load> {
        let workshop = Workshop::open()?;
        workshop.build("part.c", "libpart.so", &["-shared", "-fPIC"]);
        workshop.build("tuned.c", "libtuned.so", &["-shared", "-fPIC", "-g"]);
        let mut all = vec!["-pthread", "libpart.so", "-Wl,-z,lazy"];
        all.extend(flags);
        let path = workshop.build("underload.c", "underload", &all);
        let arguments: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
        let arguments: Vec<&Path> = arguments.iter().map(PathBuf::as_path).collect();
        let program = Program::start(&path, &arguments)?;
        let code = code(&program);
        Some(Load {
            workshop,
            program,
            code,
        })
    }

    pub(crate) fn state(&self) -> &Path {
        self.workshop.path()
    }

    pub(crate) fn writer(&self) -> Writer {
        self.program.writer(self.state()).unwrap()
    }

    pub(crate) fn runs(&mut self) -> String {
        self.program.say("run")
    }

    /// Checks that the program gives its first results and has its first code.
    pub(crate) fn is_as_at_first(&mut self) {
        assert_eq!(self.runs(), QUIET);
        self.has_its_first_code("");
    }

    /// Checks that the code is that of the start, with nothing mapped besides.
    pub(crate) fn has_its_first_code(&self, what: &str) {
        let now = code(&self.program);
        let names =
            |code: &[(String, Vec<u8>)]| code.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&now), names(&self.code), "{what}");
        assert!(now == self.code, "{what}: the code differs");
    }

    /// Ends the program, which must have found no error in itself.
    pub(crate) fn ends_well(self) {
        assert_eq!(self.ends(), FINE);
    }

    /// Ends the program and returns its last line.
    pub(crate) fn ends(mut self) -> String {
        self.program.close();
        self.program.line()
    }

    pub(crate) fn library(&self) -> String {
        let path = self.workshop.path().join("libtuned.so");
        path.to_string_lossy().into_owned()
    }
}

/// Code in memory of all loaded files, and the names of all mappings.
pub(crate) fn code(program: &Program) -> Vec<(String, Vec<u8>)> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.pid())).unwrap();
    let memory = File::open(format!("/proc/{}/mem", program.pid())).unwrap();
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let mut bytes = vec![0; (number(end) - number(start)) as usize];
        if memory.read_exact_at(&mut bytes, number(start)).is_ok() {
            found.push((line.to_owned(), bytes));
        }
    }
    found
}

pub(crate) const FINE: &str = "errors=0 sleeps=1 polls=1 waits=1";

pub(crate) fn call(text: &str, returns: Option<ReturnType>) -> CallRequest {
    let Invocation { function, arguments } = Invocation::parse(text).unwrap();
    CallRequest {
        function,
        arguments,
        returns,
        wait_ms: 20_000,
        thread: None,
        inverse: plan::Inverse::Unstated,
    }
}

/// A call with its inverse, and the expression that reads `was`.
pub(crate) fn invertible(text: &str, inverse: &str, was: Option<&str>) -> CallRequest {
    let invocation = |text: &str| Invocation::parse(text).unwrap();
    CallRequest {
        inverse: plan::Inverse::Call {
            call: invocation(inverse),
            was: was.map(invocation),
            remains: None,
        },
        ..call(text, None)
    }
}

pub(crate) fn replace(function: &str, with: &str) -> PatchRequest {
    PatchRequest::Replace {
        function: function.into(),
        with: with.into(),
    }
}

pub(crate) fn insert(text: &str, into: &str, place: Moment) -> PatchRequest {
    let Invocation { function, arguments } = Invocation::parse(text).unwrap();
    PatchRequest::InsertCall {
        function,
        arguments,
        into: into.into(),
        place,
    }
}

pub(crate) fn remove(function: &str, within: Option<&str>) -> PatchRequest {
    PatchRequest::RemoveCall {
        function: function.into(),
        within: within.map(FunctionName::from),
    }
}

pub(crate) fn argument(function: &str, index: usize, value: &str) -> PatchRequest {
    PatchRequest::SetArgument {
        function: function.into(),
        index,
        value_type: None,
        value: Expression::parse(value).unwrap(),
    }
}

/// Return value of a call.
pub(crate) fn result(receipt: &ActionReceipt) -> String {
    match &receipt.outcome {
        ActionOutcome::Returned { result, .. } => result.clone(),
        outcome => panic!("{outcome:?}"),
    }
}

pub(crate) fn try_call(writer: &mut Writer, request: CallRequest) -> Result<ActionReceipt, WriterError> {
    writer.call(request, Reason::default())
}

pub(crate) fn try_patch(writer: &mut Writer, request: &PatchRequest) -> Result<ActionReceipt, WriterError> {
    writer.patch(request, Reason::default())
}

/// Changes code; the change must succeed.
pub(crate) fn patch(writer: &mut Writer, request: &PatchRequest) -> ActionReceipt {
    try_patch(writer, request).unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

/// Calls a function without options and returns the result.
pub(crate) fn called(writer: &mut Writer, text: &str) -> String {
    result(&try_call(writer, call(text, None)).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// Reverts a change; the revert must succeed.
pub(crate) fn take_back(writer: &mut Writer, change: u64) {
    assert_eq!(writer.revert(change).unwrap().outcome, RevertOutcome::Reverted);
}
