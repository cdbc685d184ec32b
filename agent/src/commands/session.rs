//! `tuneagent session`: lists and controls running sessions: list, snapshot, switch, add, remove, stop.

use profile::format::{duration, plural};
use session::request::{ListedTune, RefusalKind};

use crate::{
    cli::{AddRuleArgs, SessionCommand},
    control::{self, ControlError, SessionClient},
    exit::{Code, CommandResult, Failure},
    rulebook,
};

pub(super) fn run(command: &SessionCommand) -> CommandResult {
    match command {
        SessionCommand::List { session, json } => list(session.as_deref(), *json),
        SessionCommand::Snapshot { session } => {
            let report = find(session)?.snapshot().map_err(failure)?;
            say!(
                "{}",
                serde_json::to_string_pretty(&report).map_err(Failure::failed)?
            );
            Ok(Code::Done)
        }
        SessionCommand::Switch { session, rule, mode } => {
            let before = find(session)?.switch(rule, *mode).map_err(failure)?;
            say!("{rule} was {before}, is {} now", mode.name());
            Ok(Code::Done)
        }
        SessionCommand::Add(args) => add(args),
        SessionCommand::Remove { session, rule, keep } => {
            let (reverted, kept) = find(session)?.remove(rule, *keep).map_err(failure)?;
            let what = match (reverted, kept) {
                (0, 0) => "it had changed nothing".to_owned(),
                (0, kept) => format!("{} left in place", plural(kept, "change")),
                (reverted, _) => format!("{} reverted", plural(reverted, "change")),
            };
            say!("{rule} is removed; {what}");
            Ok(Code::Done)
        }
        SessionCommand::Stop { session } => {
            let session = find(session)?;
            let (pid, program) = (session.view.pid, session.view.program.clone());
            session.stop().map_err(failure)?;
            say!("the session of {program} (process {pid}) has ended");
            Ok(Code::Done)
        }
    }
}

/// The rule is read and checked here, with the rights of the caller; the session receives its text.
fn add(args: &AddRuleArgs) -> CommandResult {
    let given = rulebook::given(&args.rule, args.settings.as_settings())?;
    let (rule, missing) = find(&args.session)?.add(given, args.mode).map_err(failure)?;
    say!("{rule} is added, {} now", args.mode.name());
    for missing in missing {
        say!("missing: {missing}");
    }
    Ok(Code::Done)
}

fn list(session: Option<&str>, json: bool) -> CommandResult {
    let answered = match session {
        Some(target) => control::Answered {
            sessions: vec![find(target)?],
            silent: Vec::new(),
        },
        None => control::sessions().map_err(failure)?,
    };
    for error in &answered.silent {
        warn!("{error}");
    }
    if json {
        let views = answered.sessions.iter().map(|session| &session.view);
        return super::print_json(&views.collect::<Vec<_>>());
    }
    if answered.sessions.is_empty() {
        say!("you have no running session");
    }
    for session in &answered.sessions {
        let view = &session.view;
        let writes = if view.applies {
            "rules may write"
        } else {
            "nothing is written"
        };
        say!(
            "{:>8}  {} of {}, for {}; {writes}",
            view.pid,
            view.program,
            view.user,
            duration(view.elapsed_s * 1e9),
        );
        // Several tunes of a rule often wait for the same event.
        let are_alike =
            |a: &ListedTune, b: &ListedTune| (&a.name, &a.mode, &a.state) == (&b.name, &b.mode, &b.state);
        for alike in view.rules.chunk_by(are_alike) {
            let tunes: Vec<&str> = alike.iter().map(|one| &*one.tune).collect();
            let ListedTune {
                name, mode, state, ..
            } = &alike[0];
            say!("          {name}  ({mode})  {}: {state}", tunes.join(", "));
        }
    }
    Ok(Code::Done)
}

/// The session whose process has this id, or that watches the process with it or with this name.
pub(super) fn find(target: &str) -> Result<SessionClient, Failure> {
    // The number of a session's own process need not be a target's.
    let pid: i32 = target.parse().map_or_else(|_| super::target::pid(target), Ok)?;
    let control::Answered { sessions, mut silent } = control::sessions().map_err(failure)?;
    let mut fitting: Vec<SessionClient> = sessions
        .into_iter()
        .filter(|session| session.view.pid == pid.unsigned_abs() || session.view.pids.contains(&pid))
        .collect();
    match (fitting.pop(), fitting.is_empty()) {
        (Some(session), true) => Ok(session),
        (Some(last), false) => {
            let all = fitting
                .iter()
                .map(|session| session.view.pid)
                .chain([last.view.pid]);
            let all: Vec<String> = all.map(|pid| pid.to_string()).collect();
            Err(Failure::invalid(format!(
                "several sessions watch process {pid}: {}; give the number of one session",
                all.join(", ")
            )))
        }
        // A session that did not answer may be the right one.
        (None, _) => Err(silent.pop().map_or_else(
            || {
                Failure::invalid(format!(
                    "none of your sessions watches process {pid}; tuneagent session list shows those that run"
                ))
            },
            failure,
        )),
    }
}

pub(super) fn failure(error: ControlError) -> Failure {
    let is_refused = match &error {
        ControlError::Io { error, .. } => error.kind() == std::io::ErrorKind::PermissionDenied,
        ControlError::Refused { kind, .. } => *kind == RefusalKind::NotPermitted,
        ControlError::Silent { .. } | ControlError::OutOfStep { .. } => false,
    };
    match &error {
        _ if is_refused => Failure::not_permitted(error),
        ControlError::Refused {
            kind: RefusalKind::Failed,
            ..
        } => Failure::failed(error),
        _ => Failure::invalid(error),
    }
}
