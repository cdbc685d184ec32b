//! Control of a running session through its socket, by its user only.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tuneagent_e2e::knobs::{ANA, BEN, Knobs, Running, User};
use tuneagent_e2e::{Outcome, require};

use crate::expected::SOON;
use crate::rights::SET_KNOB;

/// Starts Ana's session without capabilities on her own program: the control needs only /proc and a rule.
fn session(ana: &User, pid: &str, more: &[&str]) -> Outcome<Running> {
    let rule = ana.file("set-knob.yaml", SET_KNOB)?;
    let arguments = [&["attach", pid, "--plain", "--rules", "none", &rule], more].concat();
    let session = ana.start(&arguments)?;
    session.lines.wait_for_line("armed", SOON)?;
    Ok(session)
}

#[test]
fn a_session_is_listed_shown_switched_and_stopped_by_its_user() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let ana = User::new(ANA, &[])?;
    assert!(
        ana.run(&["session", "list"])?
            .1
            .contains("you have no running session")
    );
    let mut session = session(&ana, &pid, &["--apply"])?;
    session.lines.wait_for_line("kept", SOON)?;
    assert_eq!(knobs.knob()?, 20);

    let (code, text) = ana.run(&["session", "list"])?;
    assert_eq!(code, 0, "{text}");
    assert_has!(text, "rules may write", "set-knob  (applying)");
    let (code, text) = ana.run(&["session", "snapshot", &pid])?;
    assert_eq!(code, 0, "{text}");
    let report: serde_json::Value = serde_json::from_str(&text)?;
    assert_eq!(report["schema"], "tuneagent.report/1");
    assert_eq!(report["changes"][0]["new"], "20");

    let (code, text) = ana.run(&["session", "switch", &pid, "set-knob", "advising"])?;
    assert_eq!((code, text.trim()), (0, "set-knob was applying, is advising now"));
    let (code, text) = ana.run(&["session", "switch", &pid, "set-knob", "applying"])?;
    assert_eq!((code, text.trim()), (0, "set-knob was advising, is applying now"));
    let (code, text) = ana.run(&["session", "switch", &pid, "no-such-rule", "off"])?;
    assert_eq!(code, 2, "{text}");

    let (code, text) = ana.run(&["session", "stop", &pid])?;
    assert_eq!(code, 0, "{text}");
    assert_eq!(session.wait()?, 0, "{}", session.lines.text());
    assert!(session.lines.text().contains("stopped by tuneagent session stop"));
    assert_eq!(knobs.knob()?, 10, "stopped is as left: put back");
    let (code, text) = ana.run(&["session", "stop", &pid])?;
    assert_eq!(code, 2, "{text}");
    // An ending session may not remove files, so the socket is removed by commands that list sessions.
    assert_eq!(
        fs::read_dir(ana.runtime().join("tuneagent"))?.count(),
        0,
        "the socket is gone"
    );
    Ok(())
}

#[test]
fn a_session_without_apply_cannot_be_switched_to_it() -> Outcome {
    require!(Root, Cc);
    let mut knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let ana = User::new(ANA, &[])?;
    let mut session = session(&ana, &pid, &[])?;
    let (code, text) = ana.run(&["session", "switch", &pid, "set-knob", "applying"])?;
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("started without --apply"), "{text}");
    session.lines.wait_for_line("finding  set-knob", SOON)?;
    assert_eq!(knobs.knob()?, 10);
    let (code, text) = ana.run(&["session", "list", &pid])?;
    assert_eq!((code, text.contains("set-knob  (advising)")), (0, true), "{text}");
    let (code, text) = ana.run(&["session", "list", "1"])?;
    assert_eq!(
        (code, text.contains("none of your sessions")),
        (2, true),
        "{text}"
    );
    let (code, _) = ana.run(&["session", "switch", &pid, "set-knob", "off"])?;
    assert_eq!(code, 0);
    ana.run(&["session", "stop", &pid])?;
    assert_eq!(session.wait()?, 0);
    Ok(())
}

#[test]
fn another_user_is_kept_out_by_the_folder_and_refused_by_the_session_itself() -> Outcome {
    require!(Root, Cc);
    let knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let (ana, ben) = (User::new(ANA, &[])?, User::new(BEN, &[])?);
    let mut session = session(&ana, &pid, &["--apply"])?;
    let place = ana.runtime();
    let folder = place.join("tuneagent");
    let mode =
        |path: &std::path::Path| Ok::<_, std::io::Error>(fs::metadata(path)?.permissions().mode() & 0o777);
    let socket = fs::read_dir(&folder)?.next().ok_or("no socket")??.path();
    assert_eq!((mode(&folder)?, mode(&socket)?), (0o700, 0o600));

    let (code, text) = ben.run_at(&place, &["session", "stop", &pid])?;
    assert_eq!(code, 3, "{text}");
    // With all file permissions open, the session still checks the peer's user id with the kernel.
    for path in [&place, &folder, &socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    }
    for request in [["session", "stop", &pid], ["session", "snapshot", &pid]] {
        let (code, text) = ben.run_at(&place, &request)?;
        assert_eq!(code, 3, "{text}");
        assert!(text.contains("this session belongs to"), "{text}");
    }
    let (code, text) = ana.run(&["session", "stop", &pid])?;
    assert_eq!(
        (code, session.wait()?),
        (0, 0),
        "the session went on until its own user stopped it: {text}"
    );
    Ok(())
}
