//! The target program whose functions the benchmark of hits probes, and the probe places.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use abi::{ExitSite, SumSpec};
use probe::kernel::{self, CallMoment, LinkRequest, ProbeSite};
use tuneagent_e2e::line_program::LineProgram;
use tuner::{EntrySite, EntrySites, ExitFinder, FileOffset, Function, Image};

/// Prefix of the functions of the target program.
const PREFIX: &str = "begins_with_";

/// A function and its probe place.
pub(crate) struct Case {
    pub(crate) function: String,
    begin: u64,
    pub(crate) site: EntrySite,
    exits: Vec<ProbeSite>,
}

impl Case {
    /// Offset of the probe from the begin of the function.
    pub(crate) fn bytes(&self) -> u64 {
        self.site.offset.0 - self.begin
    }
}

/// Each function at its first byte, and at its site if that is different.
pub(crate) fn cases(image: &Image) -> Vec<Case> {
    let symbols = image.defined_symbols().unwrap();
    let mut names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    names.retain(|name| name.starts_with(PREFIX));
    names.sort_unstable();
    names.dedup();
    let sites = EntrySites::new(kernel::emulation());
    let mut cases = Vec::new();
    for function in image.functions(&names).unwrap() {
        let begin = function.offset.0;
        let chosen = sites.of(image, function.offset, function.size);
        // A function of unknown length has its first byte as its only site.
        let first_byte = sites.of(image, FileOffset(begin), 0);
        let mut both = vec![first_byte, chosen];
        both.dedup_by_key(|site| site.offset);
        let exits = exits(image, &function);
        cases.extend(both.into_iter().map(|site| Case {
            function: function.names.first().cloned().unwrap_or_default(),
            begin,
            site,
            exits: exits.clone(),
        }));
    }
    cases
}

/// Exits of a function, as in a session.
fn exits(image: &Image, function: &Function) -> Vec<ProbeSite> {
    let found = ExitFinder::new(image).exits(function).unwrap().own;
    let site = |offset: FileOffset, exit| ProbeSite {
        exit,
        ..ProbeSite::new(offset.0, 0)
    };
    let jumps = found.jumps.iter().map(|jump| {
        let condition = jump.condition.map(|condition| (condition, jump.is_taken));
        site(jump.offset, ExitSite::bits(jump.depth, condition))
    });
    let returns = found.beside_jumps.iter().map(|offset| site(*offset, 0));
    jumps.chain(returns).collect()
}

/// Durations of calls, aggregated by the first rule.
pub(crate) const DURATIONS: SumSpec = SumSpec {
    number: 1,
    ..SumSpec::DURATIONS
};

/// The target program, which answers with the duration of a call of a function.
pub(crate) struct Target {
    program: LineProgram,
    path: PathBuf,
}

impl Target {
    pub(crate) fn start(path: &Path) -> Target {
        Target {
            program: LineProgram::start(&mut Command::new(path)).unwrap(),
            path: path.to_owned(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    pub(crate) fn call_ns(&mut self, function: &str, calls: u64) -> f64 {
        let answer = self.program.say(&format!("{function} {calls}")).unwrap();
        answer.trim().parse().unwrap()
    }

    /// A request for the first probe, at a function of this process only.
    pub(crate) fn request(&self, case: &Case, at: CallMoment) -> LinkRequest {
        let site = |offset: &FileOffset| ProbeSite::new(offset.0, 0);
        let sites = match at {
            CallMoment::Entry => vec![site(&case.site.offset)],
            CallMoment::Exit { .. } => case.exits.clone(),
        };
        LinkRequest::new(self.path.clone(), sites, at, Some(self.pid()))
    }
}
