//! The node's service: what users without rights see with it, and what it does not let them do.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod unit;

use std::{
    collections::BTreeMap,
    fs,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use abi::ProbeSpec;
use harness::{Node, Programs, as_user, is_probed};
use probe::kernel::{
    CallMoment, Kernel, Link, LinkRequest, LoadOptions, ProbeSite, Service, ServiceError, ServiceReply,
    ServiceRequest, protocol, receive, send,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;
use tuneagent_e2e::{
    Draw, Outcome,
    agent::Agent,
    each, family,
    job::Mpi,
    knobs::{ANA, BEN, Knobs, User, follow},
    lines::finish,
    programs, require,
    wait::{SOON, wait_until},
};

/// Calls by process and function.
fn calls(report: &Value) -> BTreeMap<(i64, String), i64> {
    let processes = each(&report["processes"]);
    let all = processes.flat_map(|process| {
        let pid = process["pid"].as_i64().unwrap();
        each(&process["functions"]).map(move |function| {
            let name = function["name"].as_str().unwrap().to_owned();
            ((pid, name), function["calls"].as_i64().unwrap())
        })
    });
    all.filter(|(_, calls)| *calls > 0).collect()
}

#[test]
fn a_user_without_rights_counts_the_calls_of_their_own_job_that_root_counts() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let node = Node::start("")?;
    let ana = User::new(ANA, &[])?;
    let mut ranks = ana.ranks(&programs::mpi("count", Mpi::OpenMpi)?, 2)?;
    let ready = ranks.lines.events("ready", 2, SOON)?;
    let pid = ready[0]["pid"].to_string();
    let report = format!("{}/report.json", ana.own());
    let mut attach = node.command(
        &ana,
        &["attach", &pid, "--plain", "--budget", "none", "--json", &report],
    );
    attach.env("HOME", ana.own());
    let mut session = follow(attach)?;
    session.begun("armed")?;
    assert_eq!(
        session.lines.text().lines().next(),
        Some("probes by the node's service")
    );
    let mut root = Agent::attach(
        ready[0]["pid"].as_u64().unwrap() as u32,
        &["--any-user", "--budget", "none"],
    )?;
    root.armed()?;
    fs::write(format!("{}/go", ana.own()), "")?;
    ranks.lines.events("tally", 2, SOON)?;
    let roots = root.stop()?;
    let (code, text) = ana.run(&["session", "stop", &pid])?;
    assert_eq!(code, 0, "{text}");
    assert_eq!(session.wait()?, 0, "{}", session.lines.text());
    let anas: Value = serde_json::from_str(&fs::read_to_string(&report)?)?;
    assert_eq!(
        anas["completeness"]["status"], "complete",
        "{}",
        anas["completeness"]
    );
    let (anas, roots) = (calls(&anas), calls(&roots));
    assert!(
        anas.len() > 20 && anas.keys().any(|(_, name)| name == "MPI_Allreduce"),
        "{anas:?}"
    );
    assert_eq!(anas, roots);
    fs::write(format!("{}/end", ana.own()), "")?;
    assert_eq!(ranks.wait()?, 0, "{}", ranks.lines.text());

    let uid = ANA.to_string();
    let end = node.entries(&[("TUNEAGENT_EVENT", "end"), ("TUNEAGENT_UID", &uid)])?;
    assert!(
        end[0]["TUNEAGENT_PROCESSES"].contains(&format!("{pid} ")),
        "{end:?}"
    );
    let begin = node.entries(&[("TUNEAGENT_EVENT", "begin"), ("TUNEAGENT_UID", &uid)])?;
    assert_eq!(begin[0]["TUNEAGENT_SESSION"], end[0]["TUNEAGENT_SESSION"]);
    node.signal("TERM")?;
    node.reported("STOPPING=1")?;
    let said = node.end()?;
    assert!(!said.contains("log entries"), "{said}");
    Ok(())
}

/// The request to watch calls of `step` of a program.
fn request(programs: &Programs, name: &str, pid: u32) -> LinkRequest {
    let sites = vec![ProbeSite::new(programs.offset, 0)];
    LinkRequest::new(programs.path(name), sites, CallMoment::Entry, Some(pid))
}

/// Attaches to a copy of the program in a process, and counts its calls.
fn attach(kernel: &mut Kernel, programs: &Programs, name: &str, pid: u32) -> Link {
    kernel.set_spec(0, ProbeSpec::default()).unwrap();
    kernel.watch(pid, 0).unwrap();
    kernel.attach(&request(programs, name, pid)).unwrap()
}

#[test]
fn processes_of_others_set_uid_programs_and_the_first_process_are_refused_and_logged() -> Outcome {
    require!(Root, Cc);
    let node = Node::start("")?;
    let programs = Programs::build()?;
    programs.copy("suid", BEN, 0o4755)?;
    let (anas, bens) = (programs.start(ANA, "own")?, programs.start(BEN, "own")?);
    let suid = programs.start(ANA, "suid")?;
    let mut hidden = programs.start(ANA, "own")?;
    assert_eq!(hidden.say("d0")?, "done");
    let refusal = |kernel: &Kernel, pid: u32| {
        let error = kernel.attach(&request(&programs, "own", pid)).unwrap_err();
        std::error::Error::source(&error).unwrap().to_string()
    };
    as_user(ANA, || {
        let kernel = node.load();
        for pid in [bens.pid(), suid.pid(), hidden.pid(), 1] {
            let expected = format!("process {pid} is not a program that you may have watched");
            assert_eq!(refusal(&kernel, pid), expected);
        }
        // A file that this user cannot read, or that is none.
        for path in ["/etc/shadow", "/dev/null", "/"] {
            let request = LinkRequest {
                path: PathBuf::from(path),
                ..request(&programs, "own", anas.pid())
            };
            assert!(kernel.attach(&request).is_err(), "{path}");
        }
        // Marks with a counter would be written to.
        let mut writing = request(&programs, "own", anas.pid());
        writing.sites[0].semaphore = 64;
        assert!(kernel.attach(&writing).is_err());
        drop(kernel.attach(&request(&programs, "own", anas.pid())).unwrap());
    });
    for (pid, reason) in [
        (bens.pid(), "another user"),
        (suid.pid(), "set-uid"),
        (hidden.pid(), "has forbidden it"),
        (1, "another user"),
    ] {
        let (pid, uid) = (pid.to_string(), ANA.to_string());
        let fields = [
            ("TUNEAGENT_EVENT", "refused"),
            ("TUNEAGENT_PROCESSES", &*pid),
            ("TUNEAGENT_UID", &uid),
        ];
        let found = node.entries(&[&fields[..], &[("TUNEAGENT_REASON", reason)]].concat())?;
        assert!(
            found.iter().any(|entry| entry["TUNEAGENT_PROCESSES"] == pid),
            "{found:?}"
        );
    }
    Ok(())
}

#[test]
fn a_watched_process_is_not_observed_while_its_user_may_not_inspect_it() -> Outcome {
    require!(Root, Cc);
    let node = Node::start("")?;
    let programs = Programs::build()?;
    let suid = programs.copy("suid", BEN, 0o4755)?;
    let again = programs.copy("again", 0, 0o755)?;
    let mut program = programs.start(ANA, "own")?;
    let pid = program.pid();
    let (mut kernel, links) = as_user(ANA, || {
        let mut kernel = node.load();
        let links = ["own", "suid", "again"].map(|name| attach(&mut kernel, &programs, name, pid));
        (kernel, links)
    });
    let mut counted = |line: &str, answer: &str| -> Outcome<u64> {
        let before = kernel.calls_of(0, 0);
        assert_eq!(program.say(line)?, answer, "{line}");
        assert_eq!(program.say("s")?, "done");
        Ok(kernel.calls_of(0, 0) - before)
    };
    assert_eq!(counted("n", "done")?, 100);
    assert_eq!(counted("d0", "done")?, 0, "it has forbidden it");
    assert_eq!(counted("d1", "done")?, 100);
    // The link is there after an exec, and the process is another user's.
    assert_eq!(counted(&format!("e{}", again.display()), "ready")?, 100);
    assert_eq!(
        counted(&format!("e{}", suid.display()), "ready")?,
        0,
        "it runs as another user"
    );
    // What it permits itself does not count, nor what the user writes into the maps.
    assert_eq!(counted("d1", "done")?, 0);
    kernel.watch(pid, 0).unwrap();
    assert_eq!(program.say("s")?, "done");
    assert_eq!(kernel.calls_of(0, 0), 300);
    drop(links);
    Ok(())
}

#[test]
fn what_a_service_or_a_session_attached_is_gone_when_either_is_killed() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut node = Node::start("")?;
    let programs = Programs::build()?;
    let mut program = programs.start(ANA, "own")?;
    let (pid, ana) = (program.pid(), User::new(ANA, &[])?);
    let attach = ["attach", &pid.to_string(), "--probe", "step", "--plain"].map(str::to_owned);
    let attach: Vec<&str> = attach.iter().map(String::as_str).collect();
    for kills in ["the session", "the service", "the session"] {
        let mut session = follow(node.command(&ana, &attach))?;
        session.begun("armed")?;
        assert!(is_probed(pid, &programs)?);
        match kills {
            "the session" => {
                let members = family::descendants(session.pid());
                members
                    .iter()
                    .filter(|member| member.has_word("attach"))
                    .for_each(|member| member.kill());
            }
            _ => node.signal("KILL")?,
        }
        wait_until(
            &format!("the end of its probes after {kills} was killed"),
            SOON,
            || Ok(!is_probed(pid, &programs)?),
        )?;
        session.wait()?;
        assert_eq!(program.say("s")?, "done");
        if kills == "the service" {
            let said = session.lines.text();
            assert!(said.contains("the node's service has ended"), "{said}");
            node.restart()?;
        }
    }
    Ok(())
}

#[test]
fn limits_and_the_policy_refuse_with_numbers_and_names_and_a_wrong_policy_changes_nothing() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let node = Node::start("limits: {sessions_per_user: 2, sessions: 3, probes: 50}\n")?;
    let knobs = Knobs::start_as(ANA)?;
    let (pid, ana) = (knobs.pid().to_string(), User::new(ANA, &[])?);
    let refused = |found: Result<Option<Service>, ServiceError>| match found {
        Err(ServiceError::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let _bens = as_user(BEN, || node.connect()).unwrap();
    let (_first, second) = as_user(ANA, || (node.connect().unwrap(), node.connect().unwrap()));
    let why = refused(as_user(ANA, || node.connect()));
    assert_eq!(why, "a user may have 2 sessions, and you have 2");
    let why = refused(as_user(BEN, || node.connect()));
    assert_eq!(why, "there may be 3 sessions, and there are 3");
    drop(second);
    as_user(ANA, || {
        let sizes = LoadOptions {
            probes: 51,
            ..LoadOptions::ONE_PROBE
        };
        let error = Kernel::load_by(node.wait_for_place(), sizes)
            .map(drop)
            .unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("1 to 50 functions, not 51"), "{why}");
    });
    // A session that may change something is refused in one line; watching goes on without probes.
    let (code, text) = finish(&mut node.command(&ana, &["attach", &pid, "--apply"]))?;
    assert_eq!((code, text.trim_end().lines().count()), (3, 1), "{text}");
    assert!(
        text.contains("policy.yaml") && text.contains("root can permit it there with `apply: own`"),
        "{text}"
    );

    fs::write(node.policy(), "wacth: none\n")?;
    node.signal("HUP")?;
    node.entries(&[("TUNEAGENT_EVENT", "policy"), ("MESSAGE", "stays in force")])?;
    drop(as_user(ANA, || node.wait_for_place()));
    let (code, text) = ana.run(&["node", "check", &node.policy().to_string_lossy()])?;
    assert!(
        code == 1 && text.contains("policy.yaml:1:1") && text.contains("`watch`"),
        "{code} {text}"
    );
    fs::write(node.policy(), "watch: none\n")?;
    node.signal("HUP")?;
    node.entries(&[("TUNEAGENT_EVENT", "policy"), ("MESSAGE", "was read again")])?;
    let why = refused(as_user(ANA, || node.connect()));
    assert!(why.contains("lets no user watch programs"), "{why}");
    let arguments = [
        "attach",
        &pid,
        "--plain",
        "--duration",
        "1s",
        "--rules",
        "openmpi-oversubscribed",
    ];
    let (_, text) = finish(&mut node.command(&ana, &arguments))?;
    assert!(
        text.contains("tuneagent: the node's service gives no probes"),
        "{text}"
    );
    Ok(())
}

/// Sets `knob` in the first windows in which the program calls `step`, with no guard.
const SET_KNOB: &str = "rule: set-knob\nabout: sets knob in what calls step\nroles:\n  program: has(knob)\n\
    probes:\n  call: {role: program, entry: step}\nwindows:\n  pulse: {every: 100ms}\n\
    metrics:\n  pace: count(call) / pulse.duration\ntune:\n  - set: knob\n    role: program\n    value: 20\n    \
    when: pace > 0 / 1s\n    for: 2\n    \
    guard: {maximize: pace, over: 2, undo_if_worse_by: 90%, keep: not_worse}\n    finding: knob is not 20\n";

#[test]
fn a_rule_changes_a_program_by_what_the_service_counts_where_the_policy_permits_it() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let node = Node::start("apply: own\n")?;
    let (mut knobs, ana) = (Knobs::start_as(ANA)?, User::new(ANA, &[])?);
    let (pid, rule) = (knobs.pid().to_string(), ana.file("set-knob.yaml", SET_KNOB)?);
    let arguments = ["attach", &pid, "--rules", "none", &rule, "--apply", "--plain"];
    let mut session = follow(node.command(&ana, &arguments))?;
    session.lines.wait_for_line("written and read back", SOON)?;
    assert_eq!(knobs.knob()?, 20);
    let (code, text) = ana.run(&["session", "stop", &pid])?;
    assert_eq!(code, 0, "{text}");
    assert_eq!(session.wait()?, 0, "{}", session.lines.text());
    assert_eq!(knobs.knob()?, 10, "{}", session.lines.text());
    let end = node.entries(&[("TUNEAGENT_EVENT", "end")])?;
    assert!(
        end[0]["TUNEAGENT_PROCESSES"].contains(&format!("{pid} knobs")),
        "{end:?}"
    );
    node.entries(&[("TUNEAGENT_EVENT", "begin"), ("TUNEAGENT_APPLIES", "1")])?;
    Ok(())
}

/// A connection on which nothing was said.
fn connection(node: &Node) -> OwnedFd {
    let stream = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    connect(&stream, &SocketAddrUnix::new(node.socket()).unwrap()).unwrap();
    stream
}

/// The reply to a message; `None` at the end of the connection.
fn reply(stream: &OwnedFd, message: &[u8], descriptors: &[&OwnedFd]) -> Option<ServiceReply> {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    send(stream.as_fd(), message, &descriptors).ok()?;
    let mut bytes = [0; 4096];
    let (count, _) = receive(stream.as_fd(), &mut bytes).ok()?;
    ServiceReply::decode(&bytes[..count]).ok()
}

#[test]
fn a_thousand_hostile_messages_are_refused_and_the_next_session_works() -> Outcome {
    require!(Root, Cc);
    let node = Node::start("")?;
    let programs = Programs::build()?;
    let (anas, bens) = (programs.start(ANA, "own")?, programs.start(BEN, "own")?);
    as_user(ANA, || {
        let hello = ServiceRequest::Hello {
            protocol: protocol(),
            applies: false,
        }
        .encode();
        let load = ServiceRequest::Load(LoadOptions::ONE_PROBE).encode();
        let LinkRequest { at, sites, .. } = request(&programs, "own", bens.pid());
        let attach = ServiceRequest::Attach { at, sites }.encode();
        let silent = connection(&node);
        let mut draw = Draw(1);
        let mut random = |bound: u32| draw.below(bound);
        let pidfd = |pid: u32| {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
        };
        let file = OwnedFd::from(fs::File::open(programs.path("own")).unwrap());
        let (theirs, first) = (pidfd(bens.pid()), pidfd(1));
        let (mut sent, mut sessions) = (0, 0);
        while sent < 1000 {
            let stream = connection(&node);
            // Half of the connections begin a session as they should.
            let begins = random(2) == 0 && reply(&stream, &hello, &[]).is_some();
            sessions +=
                u32::from(begins && matches!(reply(&stream, &load, &[]), Some(ServiceReply::Done { .. })));
            for _ in 0..20 {
                let mut message = [&hello, &load, &attach][random(3) as usize].clone();
                let place = random(message.len() as u32) as usize;
                match random(4) {
                    0 => message[place] ^= 1 << random(8),
                    1 => message.truncate(place),
                    2 => message.iter_mut().for_each(|byte| *byte = random(256) as u8),
                    _ => {}
                }
                let descriptors = match random(4) {
                    0 => vec![&file, &theirs],
                    1 => vec![&file, &first],
                    2 => vec![&theirs, &file, &file],
                    _ => vec![],
                };
                sent += 1;
                // An empty message is the end of a connection.
                let Some(answer) = reply(&stream, &message, &descriptors).filter(|_| !message.is_empty())
                else {
                    break;
                };
                if message == attach {
                    assert!(!matches!(answer, ServiceReply::Done { .. }), "{descriptors:?}");
                }
            }
        }
        assert!(sessions > 5, "{sessions}");
        // It said nothing, and was closed.
        assert!(matches!(receive(silent.as_fd(), &mut [0; 4096]), Ok((count, _)) if count > 0));
        assert!(matches!(
            receive(silent.as_fd(), &mut [0; 4096]),
            Ok((0, _)) | Err(_)
        ));
        let mut kernel = node.load();
        drop(self::attach(&mut kernel, &programs, "own", anas.pid()));
    });
    Ok(())
}
