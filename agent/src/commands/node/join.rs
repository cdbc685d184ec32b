//! A job on several machines: what the coordinator prepares, and `tuneagent node join`.

use std::{path::Path, time::Instant};

use clap::Parser;
use job::{Job, monotonic_ns};
use session::nodes::message::{Down, JoinRequest, Up, Welcome};
use session::nodes::{Coordinator, CoordinatorSetup, NodeAgent};
use session::request::Settings;

use crate::commands::attach;
use crate::{
    cli::{AttachArgs, Cli, Command, JoinArgs, VERSION, WatchArgs},
    exit::{CommandResult, Failure},
    nodes::{Carrier, CarrierOrder, Ticket},
    rulebook::{self, RuleBook},
    session::NodeRole,
};

/// How long a node waits for the coordinator's answer.
const ANSWER_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

pub(in crate::commands) fn join(args: &JoinArgs) -> CommandResult {
    let ticket = Ticket::take(&args.file)?;
    if ticket.tuneagent != VERSION {
        return Err(Failure::not_there(format!(
            "the join file is of tuneagent {}, and this is {VERSION}: install the same version on both machines",
            ticket.tuneagent
        )));
    }
    let mut words: Vec<String> = ["tuneagent", "attach", "--plain"].map(str::to_owned).into();
    words.extend(args.any_user.then(|| "--any-user".to_owned()));
    words.push("--".to_owned());
    words.extend(args.targets.iter().cloned());
    if args.targets.is_empty() {
        words.push(ticket.target.clone().ok_or_else(|| {
            Failure::not_there(format!(
                "nothing in the environment of {} on {} names its job: name its processes here: tuneagent node join FILE TARGET",
                ticket.program, ticket.host
            ))
        })?);
    }
    let Cli {
        command: Command::Attach(args),
    } = Cli::try_parse_from(words).map_err(Failure::not_there)?
    else {
        return Err(Failure::no("the command line of attach has changed"));
    };
    attach::run_as(args, Some(ticket))
}

/// A node that the coordinator has accepted.
pub(in crate::commands) struct Joined {
    carrier: Carrier,
    welcome: Welcome,
    machine: u32,
}

impl Joined {
    /// Connects to the coordinator, and says who is here.
    pub(in crate::commands) fn begin(ticket: Ticket, job: &Job) -> Result<Joined, Failure> {
        let host = ticket.host.clone();
        let machine = ticket.node;
        let mut carrier = Carrier::start(&CarrierOrder::Join(ticket))?;
        let hello = Up::JoinRequest(JoinRequest {
            build: VERSION.to_owned(),
            host: job::host(),
            ranks: ranks(job).collect(),
            processes: u32::try_from(job.members.len()).unwrap_or(u32::MAX),
            size: job.size().and_then(|size| u32::try_from(size).ok()),
        });
        let hello = hello.encode().map_err(Failure::no)?;
        carrier.send(0, &hello).map_err(Failure::no)?;
        let until = Instant::now() + ANSWER_WAIT;
        while Instant::now() < until {
            let silent = |error| Failure::no(format!("{host} does not answer: {error}"));
            let (_, message) = carrier.receive().map_err(silent)?;
            match Down::decode(&message).map_err(Failure::no)? {
                Down::Ping { sent_ns } => {
                    let pong = NodeAgent::pong(sent_ns, monotonic_ns());
                    carrier
                        .send(0, &pong.encode().map_err(Failure::no)?)
                        .map_err(Failure::no)?;
                }
                Down::Welcome(welcome) => {
                    let incarnation = welcome.incarnation;
                    let closed = Up::Closed { incarnation }.encode().map_err(Failure::no)?;
                    carrier.set_last(&closed).map_err(Failure::no)?;
                    return Ok(Joined {
                        carrier,
                        welcome: *welcome,
                        machine,
                    });
                }
                Down::Refused(why) => {
                    return Err(Failure::not_there(format!("{host} refuses this node: {why}")));
                }
                Down::End(reason) => {
                    return Err(Failure::no(format!("the session of {host} has ended: {reason}")));
                }
                Down::Acknowledged { .. } => {}
            }
        }
        Err(Failure::no(format!("{host} does not answer")))
    }

    /// The rules of the coordinator; sets what it watches, too.
    pub(in crate::commands) fn rules(&self, watch: &mut WatchArgs) -> Result<RuleBook, Failure> {
        watch.probe.clone_from(&self.welcome.probe);
        watch.budget = self.welcome.budget.parse().map_err(Failure::no)?;
        RuleBook::of_coordinator(&self.welcome.rules)
    }

    fn into_role(self, rules: &mut RuleBook) -> (NodeRole, Carrier) {
        rules.share((self.machine, self.welcome.incarnation), self.welcome.offset_ns);
        let node = NodeAgent::new(&self.welcome, monotonic_ns());
        (NodeRole::Node(Box::new(node)), self.carrier)
    }
}

/// The role of a session of `attach`: that of a node that has joined, a coordinator's, or none on one machine.
pub(in crate::commands) fn role(
    joined: Option<Joined>,
    args: &AttachArgs,
    (job, rules): (&Job, &mut RuleBook),
    can_probe: bool,
    notes: &mut Vec<String>,
) -> Result<Option<(NodeRole, Carrier)>, Failure> {
    match joined {
        Some(joined) => Ok(Some(joined.into_role(rules))),
        None if args.join_file.is_empty() => Ok(None),
        None => coordinate(args, (job, rules), can_probe, notes).map(Some),
    }
}

fn ranks(job: &Job) -> impl Iterator<Item = u32> {
    let ranks = job.members.iter().filter_map(|member| member.rank);
    ranks.map(|rank| rank.number)
}

/// Starts what lets other machines join, and writes the join files.
fn coordinate(
    args: &AttachArgs,
    (job, rules): (&Job, &mut RuleBook),
    can_probe: bool,
    notes: &mut Vec<String>,
) -> Result<(NodeRole, Carrier), Failure> {
    let given = &args.watch.rules;
    let settings = Settings {
        parameters: &given.settings.parameters,
        ..given.settings.as_settings()
    };
    let files: Result<Vec<_>, _> = args.join_file.iter().map(std::path::absolute).collect();
    let files = files.map_err(Failure::no)?;
    let setup = CoordinatorSetup {
        build: VERSION.to_owned(),
        host: job::host(),
        ranks: ranks(job).collect(),
        size: job.size().and_then(|size| u32::try_from(size).ok()),
        rules: rulebook::given_all(&given.paths, settings, can_probe)?,
        probe: args.watch.probes(),
        budget: args.watch.budget.to_string(),
        orphan_ns: u64::try_from(args.orphan.as_nanos()).unwrap_or(u64::MAX),
        nodes: u32::try_from(files.len()).unwrap_or(u32::MAX),
    };
    let ticket = Ticket::of_job(VERSION, job.program(), job::host(), job::target_elsewhere(job));
    let order = CarrierOrder::Coordinate { files, ticket };
    let carrier = Carrier::start(&order)?;
    notes.extend(args.join_file.iter().map(|file| note(file)));
    let coordinator = Coordinator::new(setup, rules.all(), monotonic_ns()).map_err(Failure::not_there)?;
    rules.share((0, 0), 0);
    Ok((NodeRole::Coordinator(Box::new(coordinator)), carrier))
}

fn note(file: &Path) -> String {
    let file = file.display();
    format!("another machine of the job joins with {file}, once: sudo tuneagent node join {file} (there)")
}
