//! A job on several machines: what the coordinator prepares, and `tuneagent node join`.

use std::{io, path::Path, time::Instant};

use clap::Parser;
use job::{Job, monotonic_ns};
use session::nodes::message::{Down, JoinRequest, Up, Welcome};
use session::nodes::{Coordinator, CoordinatorEffect, CoordinatorSetup, NodeAgent, Starts};
use session::request::Settings;

use super::machines::Chosen;
use crate::commands::attach;
use crate::{
    cli::{AttachArgs, Cli, Command, JoinArgs, VERSION, WatchArgs},
    exit::{CommandResult, Failure},
    nodes::{CarrierOrder, StartRequest, Subprocess, Ticket, start_carrier, start_node_starter},
    rulebook::{self, RuleBook},
    session::nodes::{NodeRole, NodeSetup},
};

/// How long a node waits for the coordinator's answer.
const ANSWER_WAIT: std::time::Duration = std::time::Duration::from_secs(30);

pub(in crate::commands) fn join(args: &JoinArgs) -> CommandResult {
    let ticket = Ticket::take(&args.file, VERSION)?;
    let mut words: Vec<String> = ["tuneagent", "attach", "--plain", "--nodes", "here"]
        .map(str::to_owned)
        .into();
    words.extend(args.users.any_user.then(|| "--any-user".to_owned()));
    words.push("--".to_owned());
    words.extend(args.targets.iter().cloned());
    if args.targets.is_empty() {
        words.push(ticket.target.clone().ok_or_else(|| {
            Failure::invalid(format!(
                "nothing in the environment of {} on {} names its job: name its processes here: tuneagent node join FILE TARGET",
                ticket.program, ticket.host
            ))
        })?);
    }
    let Cli {
        command: Command::Attach(args),
    } = Cli::try_parse_from(words).map_err(Failure::invalid)?
    else {
        return Err(Failure::failed("the command line of attach has changed"));
    };
    attach::run_as(args, Some(ticket))
}

/// A node that the coordinator has accepted.
pub(in crate::commands) struct Joined {
    carrier: Subprocess,
    welcome: Welcome,
    machine: u32,
    ends_with_input: bool,
}

impl Joined {
    /// Connects to the coordinator, and says who is here, and why there are no probes.
    pub(in crate::commands) fn begin(
        ticket: Ticket,
        job: &Job,
        cannot_probe: Option<String>,
    ) -> Result<Joined, Failure> {
        let (host, machine, ends_with_input) = (ticket.host.clone(), ticket.node, ticket.ends_with_input);
        let (mut carrier, _) = start_carrier(&CarrierOrder::Join(ticket))?;
        let hello = Up::JoinRequest(JoinRequest {
            build: VERSION.to_owned(),
            host: job::host(),
            ranks: ranks(job).collect(),
            processes: u32::try_from(job.members.len()).unwrap_or(u32::MAX),
            size: job.size().and_then(|size| u32::try_from(size).ok()),
            cannot_probe,
        });
        send(&mut carrier, &hello)?;
        let until = Instant::now() + ANSWER_WAIT;
        while Instant::now() < until {
            let silent = |error: io::Error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Failure::failed(format!("the session of {host} has ended")),
                _ => Failure::failed(format!("{host} does not answer: {error}")),
            };
            let (_, message) = carrier.receive(ends_with_input).map_err(silent)?;
            match Down::decode(&message).map_err(Failure::failed)? {
                Down::Ping { sent_ns } => send(&mut carrier, &NodeAgent::pong(sent_ns, monotonic_ns()))?,
                Down::Welcome(welcome) => {
                    let incarnation = welcome.incarnation;
                    let closed = Up::Closed { incarnation }.encode().map_err(Failure::failed)?;
                    carrier.set_last(&closed).map_err(Failure::failed)?;
                    return Ok(Joined {
                        carrier,
                        welcome: *welcome,
                        machine,
                        ends_with_input,
                    });
                }
                Down::Refused(why) => {
                    return Err(Failure::invalid(format!("{host} refuses this node: {why}")));
                }
                Down::End(reason) => {
                    return Err(Failure::failed(format!(
                        "the session of {host} has ended: {reason}"
                    )));
                }
                Down::Acknowledged { .. } => {}
            }
        }
        Err(Failure::failed(format!("{host} does not answer")))
    }

    /// The rules of the coordinator; sets what it watches, too.
    pub(in crate::commands) fn rules(&self, watch: &mut WatchArgs) -> Result<RuleBook, Failure> {
        watch.probe.clone_from(&self.welcome.probe);
        watch.budget = self.welcome.budget.parse().map_err(Failure::failed)?;
        RuleBook::of_coordinator(&self.welcome.rules)
    }

    fn into_setup(self, rules: &mut RuleBook) -> NodeSetup {
        rules.share(self.machine, self.welcome.incarnation, self.welcome.offset_ns);
        let node = NodeAgent::new(&self.welcome, monotonic_ns());
        NodeSetup {
            role: NodeRole::Node(Box::new(node)),
            carrier: self.carrier,
            node_starter: None,
            ends_with_input: self.ends_with_input,
        }
    }
}

fn send(carrier: &mut Subprocess, message: &Up) -> Result<(), Failure> {
    let message = message.encode().map_err(Failure::failed)?;
    carrier.send(0, &message).map_err(Failure::failed)
}

/// What a session of `attach` is: a node that has joined, a coordinator, or neither on one machine.
pub(in crate::commands) fn setup(
    joined: Option<Joined>,
    chosen: Option<Chosen>,
    args: &AttachArgs,
    job: &Job,
    rules: &mut RuleBook,
    can_probe: bool,
    notes: &mut Vec<String>,
) -> Result<Option<NodeSetup>, Failure> {
    match (joined, chosen) {
        (Some(joined), _) => Ok(Some(joined.into_setup(rules))),
        (None, None) if args.join_file.is_empty() => Ok(None),
        (None, chosen) => coordinate(args, chosen, job, rules, can_probe, notes).map(Some),
    }
}

fn ranks(job: &Job) -> impl Iterator<Item = u32> {
    let ranks = job.members.iter().filter_map(|member| member.rank);
    ranks.map(|rank| rank.number)
}

/// Starts what lets other machines join, writes the join files, and starts agents on the chosen machines.
fn coordinate(
    args: &AttachArgs,
    chosen: Option<Chosen>,
    job: &Job,
    rules: &mut RuleBook,
    can_probe: bool,
    notes: &mut Vec<String>,
) -> Result<NodeSetup, Failure> {
    let files: Result<Vec<_>, _> = args.join_file.iter().map(std::path::absolute).collect();
    let files = files.map_err(Failure::failed)?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (by_hand, further) = (
        count(files.len()),
        chosen.as_ref().map_or(0, |chosen| count(chosen.hosts.len())),
    );
    let setup = CoordinatorSetup {
        nodes: by_hand.saturating_add(further),
        ..coordinator_setup(args, job, can_probe)?
    };
    let target = super::machines::target(job)?;
    let ticket = Ticket::of_job(VERSION, job.program(), job::host(), target);
    let order = CarrierOrder::Coordinate {
        files,
        further,
        ticket,
    };
    let (carrier, tickets) = start_carrier(&order)?;
    notes.extend(args.join_file.iter().map(|file| note(file)));
    let mut coordinator = Coordinator::new(setup, rules.all(), monotonic_ns()).map_err(Failure::invalid)?;
    rules.share(0, 0, 0);
    let mut node_starter = None;
    if let Some(Chosen { hosts, way, user }) = chosen {
        let mut started = start_node_starter(&way, user, &hosts, tickets, args.any_user)?;
        let now_ns = monotonic_ns();
        let starts = Starts::new(way.name(), by_hand + 1, hosts, now_ns);
        for effect in coordinator.start(starts, now_ns) {
            if let CoordinatorEffect::Begin(node) = effect {
                started
                    .send(node, &StartRequest::Begin.encode())
                    .map_err(Failure::failed)?;
            }
        }
        node_starter = Some(started);
    }
    Ok(NodeSetup {
        role: NodeRole::Coordinator(Box::new(coordinator)),
        carrier,
        node_starter,
        ends_with_input: false,
    })
}

fn coordinator_setup(args: &AttachArgs, job: &Job, can_probe: bool) -> Result<CoordinatorSetup, Failure> {
    let given = &args.watch.rules;
    let settings = Settings {
        parameters: &given.settings.parameters,
        ..given.settings.as_settings()
    };
    Ok(CoordinatorSetup {
        build: VERSION.to_owned(),
        host: job::host(),
        ranks: ranks(job).collect(),
        size: job.size().and_then(|size| u32::try_from(size).ok()),
        rules: rulebook::given_all(&given.paths, settings, can_probe)?,
        probe: args.watch.probes(),
        budget: args.watch.budget.to_string(),
        orphan_ns: u64::try_from(args.orphan.as_nanos()).unwrap_or(u64::MAX),
        nodes: 0,
    })
}

fn note(file: &Path) -> String {
    let file = file.display();
    format!("another machine of the job joins with {file}, once: sudo tuneagent node join {file} (there)")
}
