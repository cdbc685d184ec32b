//! `tuneagent get` and `tuneagent set`: read and write variables by hand, in every process of a job.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use job::{Discovery, Job, Member};
use plan::{FunctionName, SyncPoint, Value, ValueType};
use profile::format::plural;
use tuner::actuator::{ActuatorRefusalKind, ArmCommand, ClientError, SetCommand};
use tuner::dwarf::{Leaf, ValueKind};
use tuner::{AddressSpace, FollowError, Images, Location, Pid, Receipt, VariableName};

use super::{history, refusals::Outcomes, target};
use crate::{
    actuator::{Actuator, StartOptions, passage_text},
    cli::{GetArgs, SetArgs},
    exit::{Code, CommandResult, Failure},
    rights, similar_name,
};

/// After a write in several ranks of an MPI program.
const AT_DIFFERENT_ITERATIONS: &str = "note: the ranks got the value at different iterations; if it decides which messages they exchange, they \
     may wait for each other forever. A rule with `together` changes all ranks at the same iteration";

/// Maximum number of ranks that are listed in a message.
const RANKS_LISTED: usize = 8;

/// The interval for checking whether the processes have reached their sync points.
const COLLECT_EVERY: Duration = Duration::from_millis(5);

pub(super) fn get(args: &GetArgs) -> CommandResult {
    let mut discovery = Discovery::default();
    let job = target::job(&mut discovery, &args.target, args.users.any_user)?;
    // Files that need more rights are open by now.
    rights::only_look().map_err(Failure::not_permitted)?;
    let mut outcomes = Outcomes::default();
    for member in &job.members {
        for variable in &args.variables {
            let name = VariableName::from(variable.as_str());
            let locations = match args.all_copies {
                true => member.space.every_variable(&name),
                false => member.space.variable(&name).map(|location| vec![location]),
            };
            let locations = locations.unwrap_or_else(|error| {
                let hint = similar_name::of_variable(&member.space, variable)
                    .map_or_else(String::new, |hint| format!("; {hint}"));
                outcomes.refused(member.process.pid, &format!("{error}{hint}"));
                Vec::new()
            });
            for location in &locations {
                let copy = match locations.len() {
                    0 | 1 => String::new(),
                    _ => format!("{}:", location.module.file_name()),
                };
                match value_of(&member.space, location) {
                    Ok(text) => {
                        outcomes.done();
                        say!("{:>8}  {copy}{variable} = {text}", member.process.pid);
                    }
                    Err(error) => outcomes.refused(member.process.pid, &error.to_string()),
                }
            }
        }
    }
    match outcomes.reading() {
        None => Ok(Code::Done),
        Some(conclusion) => Err(Failure::invalid(conclusion)),
    }
}

/// The value of a variable, with its type in brackets; none where it cannot be read.
pub(super) fn read(space: &AddressSpace, variable: &str) -> Option<String> {
    let location = space.variable(&VariableName::from(variable)).ok()?;
    value_of(space, &location).ok()
}

/// Why the value of a variable cannot be shown.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error("{symbol} is {type_name} of {size} bytes; name {}", part(.symbol, .fields))]
    Compound {
        symbol: String,
        type_name: String,
        size: u64,
        /// Empty for an array.
        fields: Vec<String>,
    },
}

fn part(symbol: &str, fields: &[String]) -> String {
    match fields.first() {
        Some(first) => format!(
            "a field of it, as in `{symbol}.{first}`: it has {}",
            fields.join(", ")
        ),
        None => "an element of it".to_owned(),
    }
}

/// Maximum number of bytes of a text that are shown.
const TEXT_BYTES_MAX: u64 = 256;

/// The value of a variable, as text.
fn value_of(space: &AddressSpace, location: &Location) -> Result<String, ReadError> {
    if let Some(Leaf {
        text_bytes: Some(length),
        type_name,
        ..
    }) = &location.leaf
    {
        let mut text = vec![0; (*length).min(TEXT_BYTES_MAX) as usize];
        location.read_into(space.memory(), &mut text)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = String::from_utf8_lossy(text.get(..end).unwrap_or_default()).into_owned();
        return Ok(format!("{text:?} ({type_name})"));
    }
    let bytes = location.read(space.memory())?;
    let value_type = location.value_type().or_else(|| enum_type(location));
    let value = value_type.and_then(|of| Value::from_bytes(of, bytes).ok());
    let hex = || -> String {
        bytes
            .as_slice()
            .iter()
            .rev()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    Ok(match (value, &location.leaf) {
        (Some(value), Some(leaf)) => match location.value_type() {
            Some(of) => format!("{value} ({})", of.name()),
            None => format!("{value} ({})", leaf.type_name),
        },
        (_, Some(leaf)) if leaf.of.kind == ValueKind::Pointer => format!("0x{} ({})", hex(), leaf.type_name),
        (_, Some(leaf)) if leaf.of.kind == ValueKind::Compound => {
            return Err(ReadError::Compound {
                symbol: location.symbol.clone(),
                type_name: leaf.type_name.clone(),
                size: location.size,
                fields: leaf.fields.clone(),
            });
        }
        (_, Some(leaf)) => format!("0x{} ({})", hex(), leaf.type_name),
        (_, None) => format!(
            "0x{} ({}; no debug information on its type)",
            hex(),
            plural(bytes.as_slice().len(), "byte")
        ),
    })
}

/// An enum is shown as its number.
fn enum_type(location: &Location) -> Option<ValueType> {
    let of = location.variable_type().filter(|of| of.kind == ValueKind::Enum)?;
    ValueType::ALL.iter().copied().find(|known| of.accepts(*known))
}

pub(super) fn set(args: &SetArgs) -> CommandResult {
    let value_type = args.value_type.as_deref().map(parse_type).transpose()?;
    let mut discovery = Discovery::default();
    let job = target::job(&mut discovery, &args.target, args.users.any_user)?;
    let processes = members(&job, &args.target, args.only)?;
    let writer = history::other_writer(&job, false);
    let mut actuator = Actuator::start(StartOptions {
        keeps: true,
        has_sync_points: args.at.is_some(),
        has_stand_in: false,
    })
    .map_err(Failure::invalid)?;
    rights::only_look().map_err(Failure::not_permitted)?;
    let mut hand = ByHand {
        actuator: &mut actuator,
        images: discovery.images(),
        args,
        value_type,
        failed: None,
        is_late: false,
        outcomes: Outcomes::default(),
    };
    match &args.at {
        None => hand.set_at_once(&processes),
        Some(place) => hand.set_at(&processes, place)?,
    }
    let (outcomes, is_late) = (hand.outcomes, hand.is_late && args.at.is_some());
    let ranks: Vec<Pid> = (processes.iter().filter(|member| member.mpi.is_some()))
        .map(|member| member.process.pid)
        .collect();
    if outcomes.changed_processes() > 1 && ranks.len() > 1 {
        say!("{AT_DIFFERENT_ITERATIONS}");
    }
    if let Some(note) = writer.filter(|_| outcomes.changed_processes() > 0) {
        say!("{note}");
    }
    outcomes.say_revert(&args.target, &job);
    let failed = hand.failed.or(outcomes.have_all_ended().then_some(Code::Invalid));
    actuator.finish().map_err(Failure::failed)?;
    match failed {
        None => Ok(Code::Done),
        Some(code) => {
            let first = processes.first().map(|member| &member.space);
            let names = args.assignments.iter().map(|(name, _)| name);
            let hints = names.filter_map(|name| similar_name::of_variable(first?, name));
            let function = args.at.as_ref().map(|at| FunctionName {
                name: at.function.clone(),
                module: at.module.clone(),
            });
            let of_place = function.and_then(|function| similar_name::of_function(first?, &function));
            let cause = is_late.then(|| history::set_apart(&ranks)).flatten();
            hints
                .chain(of_place)
                .chain(cause)
                .for_each(|hint| warn!("{hint}"));
            Err(Failure::new(code, outcomes.conclusion("written")))
        }
    }
}

/// All processes of the job, or only the specified one.
pub(super) fn members<'a>(job: &'a Job, target: &str, only: bool) -> Result<Vec<&'a Member>, Failure> {
    let only = only.then(|| target::pid(target)).transpose()?;
    let members: Vec<&Member> = job
        .members
        .iter()
        .filter(|member| only.is_none_or(|pid| member.process.pid.number == pid))
        .collect();
    if members.is_empty() {
        let pids = job.members.iter().map(|member| member.process.pid);
        let pids: Vec<String> = pids.take(RANKS_LISTED).map(|pid| pid.to_string()).collect();
        return Err(Failure::invalid(format!(
            "{target} is not a rank of its job: with --only give the process id of the rank ({}{}); without --only all ranks are changed",
            pids.join(", "),
            if job.members.len() > pids.len() {
                ", ..."
            } else {
                ""
            },
        )));
    }
    Ok(members)
}

/// The state of one `set` command.
struct ByHand<'a> {
    actuator: &'a mut Actuator,
    images: &'a Images,
    args: &'a SetArgs,
    value_type: Option<ValueType>,
    failed: Option<Code>,
    /// Some process did not reach the place in time, or another session writes into it.
    is_late: bool,
    outcomes: Outcomes,
}

impl ByHand<'_> {
    fn set_at_once(&mut self, processes: &[&Member]) {
        for (pid, variable, command) in self.possible(processes) {
            let written = self.actuator.client.set(command);
            self.report(pid, &variable, written);
        }
    }

    /// Arms all processes at once, since each reaches the place at a different time.
    fn set_at(&mut self, processes: &[&Member], place: &SyncPoint) -> Result<(), Failure> {
        let mut waiting = BTreeMap::new();
        for (pid, variable, set) in self.possible(processes) {
            let armed = self.actuator.client.arm(ArmCommand {
                set,
                at: place.clone(),
                within_ms: u64::try_from(self.args.within.as_millis()).unwrap_or(u64::MAX),
                answer_ns_max: None,
                by_stop: false,
            });
            match armed {
                Ok(ticket) => drop(waiting.insert(ticket, (pid, variable))),
                Err(error) => self.report(pid, &variable, Err(error)),
            }
        }
        while !waiting.is_empty() {
            std::thread::sleep(COLLECT_EVERY);
            for (ticket, result) in self.actuator.client.collect().map_err(Failure::failed)?.finished {
                if let Some((pid, variable)) = waiting.remove(&ticket) {
                    self.report(pid, &variable, result.map_err(ClientError::Refused));
                }
            }
        }
        Ok(())
    }

    /// The writes to make. Of several variables all are checked before the first is written: a process in
    /// which one of them cannot be written is left as it is.
    fn possible(&mut self, processes: &[&Member]) -> Vec<(Pid, String, SetCommand)> {
        let mut commands = self.commands(processes);
        if self.args.assignments.len() < 2 {
            return commands;
        }
        let mut refused = BTreeSet::new();
        for (pid, variable, command) in &commands {
            if let Err(error) = self.actuator.client.check(command.clone()) {
                self.report(*pid, variable, Err(error));
                refused.insert(*pid);
            }
        }
        commands.retain(|(pid, ..)| !refused.contains(pid));
        commands
    }

    fn commands(&self, processes: &[&Member]) -> Vec<(Pid, String, SetCommand)> {
        let mut commands = Vec::new();
        for member in processes {
            let pid = member.process.pid;
            for (variable, value) in &self.args.assignments {
                let copies = match self.args.all_copies {
                    true => member.copies(variable, self.images),
                    false => vec![None],
                };
                for module in copies {
                    let command = SetCommand {
                        pid,
                        variable: variable.clone(),
                        module,
                        value: *value,
                        value_type: self.value_type,
                        expect_old: None,
                        why: Vec::new(),
                        rule: None,
                    };
                    commands.push((pid, variable.clone(), command));
                }
            }
        }
        commands
    }

    fn report(&mut self, pid: Pid, variable: &str, written: Result<Receipt, ClientError>) {
        // A value that was set by hand stays: the user is the guard.
        let written = written.and_then(|receipt| {
            if let Some(change) = receipt.change {
                self.actuator.client.confirm(pid, change)?;
            }
            Ok(receipt)
        });
        match written {
            Ok(receipt) => {
                self.outcomes.done();
                say!("{pid:>8}  {variable} {}", self.done(&receipt));
                receipt
                    .change
                    .into_iter()
                    .for_each(|change| self.outcomes.changed(pid, change));
            }
            // A process that has ended meanwhile needs no change; if all have, that is reported at the end.
            Err(error) if !pid.is_alive() => self.outcomes.ended(&error.to_string()),
            Err(error) => {
                self.outcomes.refused(pid, &error.to_string());
                self.failed = self.failed.or(Some(code(&error)));
                self.is_late |= matches!(
                    &error,
                    ClientError::Refused(why) if matches!(why.kind, ActuatorRefusalKind::Busy | ActuatorRefusalKind::NotReached)
                );
            }
        }
    }

    fn done(&self, receipt: &Receipt) -> String {
        let show = |bytes| {
            Value::from_bytes(receipt.value_type, bytes)
                .map_or_else(|_| "?".into(), |value| value.to_string())
        };
        let Some(change) = receipt.change else {
            return format!("is {} already", show(receipt.old));
        };
        let how = match (&self.args.at, &receipt.passage) {
            (Some(place), Some(passage)) => {
                format!(", {}", passage_text(place, receipt.mechanism, passage, true))
            }
            _ => String::new(),
        };
        format!(
            "{} -> {} ({}), change {change}{how}",
            show(receipt.old),
            show(receipt.new),
            receipt.value_type.name(),
        )
    }
}

/// The exit code of a refusal.
pub(super) fn code(error: &ClientError) -> Code {
    match error {
        ClientError::Refused(refusal) => code_of(refusal.kind),
        ClientError::Ended | ClientError::Io(_) | ClientError::OutOfStep => Code::Failed,
    }
}

pub(super) fn code_of(kind: ActuatorRefusalKind) -> Code {
    match kind {
        ActuatorRefusalKind::NotPermitted => Code::NotPermitted,
        ActuatorRefusalKind::NotFound | ActuatorRefusalKind::Ended | ActuatorRefusalKind::Protocol => {
            Code::Invalid
        }
        ActuatorRefusalKind::Busy
        | ActuatorRefusalKind::NotReached
        | ActuatorRefusalKind::Refused
        | ActuatorRefusalKind::Failed => Code::Failed,
    }
}

pub(super) fn parse_type(text: &str) -> Result<ValueType, Failure> {
    ValueType::ALL
        .iter()
        .copied()
        .find(|known| known.name() == text)
        .ok_or_else(|| {
            let known: Vec<&str> = ValueType::ALL.iter().map(|known| known.name()).collect();
            Failure::invalid(format!("unknown type `{text}`; use one of {}", known.join(", ")))
        })
}
