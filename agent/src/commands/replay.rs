//! `tuneagent replay`: rules on recordings; prints what they found and decided, window by window.

use std::{
    fs,
    io::{self, Write},
};

use crate::{
    cli::ReplayArgs,
    exit::{Code, Failure, Outcome},
    format::duration,
    rulebook::{Act, Replayed, RuleBook, Settings, replay},
};

pub(super) fn run(args: &ReplayArgs) -> Outcome {
    let settings = Settings {
        parameters: &args.parameters,
        bindings: &args.bindings,
    };
    let rules = RuleBook::load(&args.rules, settings, args.apply.as_deref())?;
    let mut recordings = Vec::new();
    for path in &args.recordings {
        let name = path.display().to_string();
        let bytes =
            fs::read(path).map_err(|error| Failure::not_there(format!("{name} cannot be read: {error}")))?;
        recordings.push((name, bytes));
    }
    let mut csv = open(args.csv.as_deref())?;
    let is_stdout = args.csv.as_deref() == Some("-");
    let mut failed = None;
    if let Some(csv) = &mut csv {
        failed = writeln!(csv, "time_s,rule,window,index,metric,value").err();
    }
    let mut windows = 0_u64;
    let result = replay(rules, &recordings, |since_ns, what| match (what, &mut csv) {
        (
            Replayed::Window {
                rule,
                window,
                index,
                metrics,
            },
            csv,
        ) => {
            windows += 1;
            let rows = metrics.iter().map(|(metric, value)| {
                [rule.as_str(), &window, &index.to_string(), metric, value]
                    .map(quoted)
                    .join(",")
            });
            if let Some(csv) = csv {
                let mut written = rows.map(|row| writeln!(csv, "{},{row}", since_ns as f64 / 1e9));
                let error = written.find_map(Result::err);
                failed = failed.take().or(error);
            }
        }
        (Replayed::Act(act), _) if !is_stdout => {
            if let Some(text) = line(&act) {
                say!("{:>9}  {text}", duration(since_ns as f64));
            }
        }
        (Replayed::Act(_), _) => {}
    });
    // A reader that has seen enough is no failure.
    if let Some(error) = failed.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        return Err(Failure::no(format!("the table could not be written: {error}")));
    }
    if !is_stdout {
        say!("{} evaluated", crate::format::plural(windows as usize, "window"));
    }
    result.map(|()| Code::Done).map_err(Failure::no)
}

fn open(name: Option<&str>) -> Result<Option<Box<dyn Write>>, Failure> {
    match name {
        None => Ok(None),
        Some("-") => Ok(Some(Box::new(io::stdout()))),
        Some(name) => match fs::File::create(name) {
            Ok(file) => Ok(Some(Box::new(io::BufWriter::new(file)))),
            Err(error) => Err(Failure::not_there(format!("{name} cannot be written: {error}"))),
        },
    }
}

/// As RFC 4180 wants it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn line(act: &Act) -> Option<String> {
    match act {
        Act::Found {
            rule,
            text,
            is_new: true,
            ..
        } => Some(format!("finding  {rule}   {}", text.trim_end())),
        Act::Found { .. } => None,
        Act::Gone { rule } => Some(format!("gone     {rule}")),
        Act::Decided(decision) => Some(format!(
            "decision {}   {}",
            decision.rule,
            decision.asked.join(", ")
        )),
        Act::Judged { rule, guard, .. } => Some(format!("guard    {rule}   {}", guard.text)),
    }
}
