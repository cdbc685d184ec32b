//! `tuneagent replay` of a session log: lists events and effects with their times, and whether this version
//! would produce the same effects.

use profile::format::{duration, plural};
use serde_json::{Value, json};
use session::request::RuleSource;

use super::replay::Report;
use crate::{
    cli::ReplayArgs,
    exit::{Code, CommandResult, Failure},
    rulebook::checked,
};
use session::log::{Mismatch, ReplayStep, Replayed, replay};

pub(super) fn run(args: &ReplayArgs, log: &[u8]) -> CommandResult {
    let [path] = args.recordings.as_slice() else {
        return Err(Failure::invalid(
            "a session log is replayed alone: give one file, or recordings of `--record` only",
        ));
    };
    for (flag, is_given) in [
        ("--apply", args.apply.is_some()),
        ("--contract", args.contract.is_some()),
        ("--csv", args.csv.is_some()),
        ("--html", args.html.is_some()),
        ("--svg", args.svg.is_some()),
    ] {
        if is_given {
            return Err(Failure::invalid(format!(
                "{flag} is for recordings of `--record`; {} is a session log, which is listed or written with --json",
                path.display()
            )));
        }
    }
    let name = path.display();
    let text =
        std::str::from_utf8(log).map_err(|error| Failure::invalid(name.to_string()).caused_by(&error))?;
    let report = args.json.as_deref().map(Report::open).transpose()?;
    let is_quiet = args.json.as_deref() == Some("-");
    let mut steps = Vec::new();
    let mut skipped = 0;
    let check = |given: &RuleSource| checked(given).map_err(|failure| failure.error);
    let result = replay(text, check, |step| {
        if step.is_polling() {
            skipped += 1;
        } else if !is_quiet {
            list(&step);
        }
        steps.extend(report.is_some().then(|| as_json(&step)));
    });
    if let Some(report) = report {
        report.write_text(&format!("{:#}\n", summary(steps, &result)))?;
    }
    match result {
        Ok(replayed) => {
            if !is_quiet {
                say!("{}", last_line(&replayed, skipped));
            }
            Ok(Code::Done)
        }
        Err(mismatch @ Mismatch::Differs { .. }) => Err(Failure::failed(format!(
            "{name}:{mismatch}\nthis is a bug of tuneagent, or the log is of another build: report it with the file"
        ))),
        Err(mismatch) => Err(Failure::invalid(format!("{name}:{mismatch}"))),
    }
}

fn list(step: &ReplayStep) {
    let time = duration(step.since_ns as f64);
    say!("{time:>9}  {:<8} {}", step.part.name(), step.event_text());
    for effect in step.effect_texts() {
        say!("{:>21} {effect}", "->");
    }
}

fn last_line(replayed: &Replayed, skipped: usize) -> String {
    let header = &replayed.header;
    let mut line = format!(
        "{} of a session of tuneagent {} on {} replayed, with the same effects",
        plural(replayed.events, "event"),
        header.tuneagent,
        header.program
    );
    if skipped > 0 {
        line += &format!("; {skipped} in which only time passed are not listed");
    }
    if replayed.dropped > 0 {
        line += &format!("; {} came when the log was full", replayed.dropped);
    }
    line
}

fn as_json(step: &ReplayStep) -> Value {
    json!({
        "since_s": step.since_ns as f64 / 1e9,
        "part": step.part.name(),
        "event": step.event,
        "effects": step.effects,
    })
}

fn summary(steps: Vec<Value>, result: &Result<Replayed, Mismatch>) -> Value {
    let replayed = result.as_ref().ok();
    json!({
        "tuneagent": replayed.map(|replayed| &replayed.header.tuneagent),
        "program": replayed.map(|replayed| &replayed.header.program),
        "dropped": replayed.map(|replayed| replayed.dropped),
        "difference": result.as_ref().err().map(ToString::to_string),
        "steps": steps,
    })
}
