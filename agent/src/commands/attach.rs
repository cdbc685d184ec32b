//! `tuneagent attach`: checks the arguments, acquires everything that a session needs, gives up the right to
//! write, and runs the session.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use job::os_metrics::Sampler;
use job::{Discovery, Job, Member, ProcessTable, job_id};
use probe::has_regions;
use probe::kernel::{self, Closer};
use profile::format::plural;
use profile::progress::ProgressSource;
use profile::streams::StageFunctions;
use profile::{Baseline, ProcessView, Rates, Snapshot, SpeedupHint};
use report::{Reference, view};
use session::request::Settings;
use tuner::foreign;

use super::{
    contract,
    node::{join, machines},
    probe_access::{ProbeAccess, missing_rights, why_no_probes, without_probes},
    target,
};
use crate::{
    actuator::{Actuator, StartOptions},
    cli::{AttachArgs, ExportArgs, RuleArgs, WatchArgs},
    control::Control,
    exit::{CommandResult, Failure, unreadable},
    hint::{as_root, quote},
    nodes::Ticket,
    output_name::refuse_shared,
    priority::{self, RealTimeClass},
    rights,
    rulebook::{Recorder, RuleBook},
    session::{
        Options, Session,
        nodes::{NodeRole, NodeSetup},
        outputs::{Addresses, Exports, Outputs},
    },
};

/// How long /proc is observed if probes are not permitted.
const OBSERVATION: Duration = Duration::from_secs(1);

/// The targets. `--rules a.yaml 8123` and `--probe f 8123` parse the number as an argument of the flag,
/// although it is the target.
fn targets(args: &mut AttachArgs) -> Result<Vec<String>, Failure> {
    let mut targets = args.targets.clone();
    if targets.is_empty() {
        let is_number = |word: &mut String| word.parse::<u32>().is_ok();
        let last = args.watch.rules.paths.pop_if(is_number);
        targets.extend(last.or_else(|| args.watch.probe.pop_if(is_number)));
    }
    match targets.is_empty() {
        true => Err(Failure::invalid(
            "the target is missing: a process (8123), a program (lmp), slurm:4711 or container:3f9c. --rules and --probe take all words \
             that follow: write `--rules FILE -- 8123`. `tuneagent ps` lists the programs here that lose time",
        )),
        false => Ok(targets),
    }
}

pub(super) fn run(args: AttachArgs) -> CommandResult {
    run_as(args, None)
}

/// Attaches; with a ticket as a node of the session that wrote it.
pub(super) fn run_as(args: AttachArgs, ticket: Option<Ticket>) -> CommandResult {
    // If ranks keep every CPU busy, just finding them would take seconds otherwise. A failure is reported
    // once there is a session.
    let _ = priority::raise();
    let real_time = RealTimeClass::begin();
    let mut args = args;
    let targets = targets(&mut args)?;
    let typed = targets.join(" ");
    let compared = compared(&args.watch)?;
    let mut discovery = Discovery::default();
    let mut job = target::jobs(&mut discovery, &targets, args.any_user)?;
    let ProbeAccess { loader, missing } = ProbeAccess::find(args.tracefs, args.watch.apply.is_some())?;
    let loads_itself = missing.is_empty() && loader.service().is_none();
    let refusal = loads_itself.then(kernel::refusal).flatten();
    let can_probe = missing.is_empty() && refusal.is_none();
    let mut why_none = why_no_probes(&missing, refusal.as_ref()).into_iter();
    let cannot_probe = why_none.next();
    let joined = ticket
        .map(|ticket| join::Joined::begin(ticket, &job, cannot_probe.clone()))
        .transpose()?;
    let mut rules = match &joined {
        Some(joined) => joined.rules(&mut args.watch)?,
        None => rules(&args.watch, can_probe)?,
    };
    let has_mpi = job.members.iter().any(|member| member.mpi.is_some());
    // Rules may be added later to a session that may write.
    let has_rules = !rules.is_empty() || args.watch.apply.is_some();
    let probes = args.watch.probes();
    let needs_mpi = !has_mpi && probes.is_empty() && !has_rules;
    rights::looking(|| is_worth_watching(&mut job, needs_mpi, &args.watch.stages))
        .map_err(Failure::not_permitted)??;
    if !missing.is_empty() && !probes.is_empty() {
        return Err(not_permitted(&job, &missing));
    }
    if let Some(refusal) = refusal.as_ref().filter(|_| !probes.is_empty()) {
        return Err(Failure::invalid(without_probes(refusal)));
    }
    let writer = super::history::other_writer(&job, args.watch.apply.is_some());
    let is_locked = writer.is_some();
    let mut notes: Vec<String> = writer.into_iter().chain(notes_on(&job, &targets)).collect();
    let has_no_contract = compared.contract.is_some() && !has_mpi && args.watch.stages.is_empty();
    notes.extend(has_no_contract.then(|| NO_CONTRACT.to_owned()));
    notes.extend(why_none);
    let chosen = match &joined {
        Some(_) => None,
        None => machines::choose(&args, &job, &targets, &mut notes)?,
    };
    let nodes = join::setup(joined, chosen, &args, &job, &mut rules, can_probe, &mut notes)?;
    let options = Options {
        is_node: nodes
            .as_ref()
            .is_some_and(|nodes| matches!(nodes.role, NodeRole::Node(_))),
        notes,
        is_locked,
        typed,
        plain: args.plain,
        loader,
        cannot_probe,
        ..compared
    };
    let watched = Watched {
        program: job.program(),
        job,
        discovery,
        rules,
        real_time,
        nodes,
    };
    watched.watch(args.watch, options, || Ok(()))
}

/// What the user should know of the job.
fn notes_on(job: &Job, targets: &[String]) -> Vec<String> {
    let typed = targets.join(" ");
    let mut notes: Vec<String> = super::history::left_behind(job, &typed).into_iter().collect();
    notes.extend(stopped(job));
    notes.extend(ranks_without_mpi(job));
    notes.extend(ranks_alone(job));
    notes.extend(several_programs(job, targets));
    notes
}

/// # Errors
/// If the job has nothing to watch, or not the functions of the stages.
fn is_worth_watching(job: &mut Job, needs_mpi: bool, stages: &[StageFunctions]) -> Result<(), Failure> {
    if needs_mpi && !has_regions(job) {
        return Err(no_mpi(job));
    }
    job.report_stripped();
    contract::stages::are_in(stages, job)
}

/// Without stages a contract is judged by the messages between ranks.
const NO_CONTRACT: &str = "note: no process has MPI, so --contract judges nothing: `tuneagent contract watch FILE TARGET` compares a \
     pipeline, and --stage names the functions of other programs";

/// What the session is compared with, and whose programs its rights are for.
pub(super) fn compared(args: &WatchArgs) -> Result<Options, Failure> {
    Ok(Options {
        is_lent: rights::is_lent(),
        reference: reference(args)?,
        baseline: args.baseline.map(Baseline).unwrap_or_default(),
        speedup_hints: speedup_hints(args)?,
        contract: (args
            .contract
            .as_deref()
            .map(|file| contract::follower(file, &args.stages, "attached")))
        .transpose()?,
        ..Options::default()
    })
}

/// The report to compare this run with.
fn reference(args: &WatchArgs) -> Result<Option<Reference>, Failure> {
    let read = args.reference.as_deref().map(Reference::read);
    read.transpose().map_err(Failure::invalid)
}

/// Upper bound of the bytes of `--hint` that are read.
const HINT_BYTES_MAX: u64 = 1 << 16;

/// The speedups that the user states.
fn speedup_hints(args: &WatchArgs) -> Result<Vec<SpeedupHint>, Failure> {
    let Some(file) = &args.hint else {
        return Ok(Vec::new());
    };
    let path = Path::new(file);
    let failed = |error| unreadable(path, &error);
    let mut text = String::new();
    let opened = foreign::open(path).map_err(failed)?;
    let mut bounded = opened.take(HINT_BYTES_MAX);
    bounded.read_to_string(&mut text).map_err(failed)?;
    let wrong = |line| {
        let place = if line > 0 {
            format!(":{line}")
        } else {
            String::new()
        };
        Failure::invalid(format!(
            "{file}{place}: expected threads and their speedup, as `8,6.4`"
        ))
    };
    SpeedupHint::parse(&text).map_err(wrong)
}

pub(super) fn rules(args: &WatchArgs, can_probe: bool) -> Result<RuleBook, Failure> {
    let (mut paths, mut apply) = (args.rules.paths.clone(), args.apply.clone());
    let mut parameters = args.rules.settings.parameters.clone();
    if let Some(share) = &args.scaling {
        paths.push("scaling".to_owned());
        parameters.push(("planned_loss".to_owned(), share.clone()));
        // `--apply` without names is for all loaded rules.
        let named = apply.iter_mut().filter(|names| !names.is_empty());
        named.for_each(|names| names.push("scaling".to_owned()));
    }
    let settings = Settings {
        parameters: &parameters,
        ..args.rules.settings.as_settings()
    };
    RuleBook::load(&paths, settings, apply.as_deref(), can_probe)
}

pub(super) struct Watched {
    pub(super) job: Job,
    pub(super) discovery: Discovery,
    pub(super) rules: RuleBook,
    /// The name in a recording.
    pub(super) program: String,
    /// Until the first numbers exist.
    pub(super) real_time: Option<RealTimeClass>,
    /// `None` on one machine.
    pub(super) nodes: Option<NodeSetup>,
}

impl Watched {
    /// Opens the outputs, attaches the probes, gives up unneeded rights, and runs the session; calls `armed`
    /// once the probes are attached.
    pub(super) fn watch(
        mut self,
        args: WatchArgs,
        mut options: Options,
        armed: impl FnOnce() -> Result<(), Failure>,
    ) -> CommandResult {
        // Before any thread is started: later threads and the actuator inherit the binding.
        if let Some(cpus) = &args.agent_cpus {
            super::cpus::bind(cpus)?;
        }
        if !args.keep {
            options.notes.extend(self.rules.revert_everything_at_exit()?);
        }
        if args.apply.is_some() {
            options.notes.extend(super::history::note_of_journal());
            let never = self.rules.never_applying();
            options.notes.extend(shown_at_once(never).map(only_advises));
            options.notes.extend(self.rules.only_reporting());
            let is_empty = self.rules.is_empty();
            options
                .notes
                .extend(is_empty.then(|| NOTHING_TO_APPLY.to_owned()));
        }
        set_flags(&mut options, &args);
        let host = job::host();
        let files = outputs(&args);
        refuse_stdout(&files)?;
        refuse_shared(&files, &host)?;
        let addresses = addresses(&args);
        let outputs = Outputs::open(args.json.as_deref(), &exports(args.exports), addresses, &host)?;
        if let Some(name) = &args.record {
            self.record(&name.replace("%h", &host), &host)?;
        }
        if priority::raise().is_err() {
            report::console::error_line(format_args!(
                "note: CAP_SYS_NICE is missing: busy ranks may starve this session (tuneagent doctor says how to have it)"
            ));
        }
        let control = control_socket();
        let actuator = actuator(&options, &self.rules)?;
        let closer = closer();
        // Held until this function returns.
        let awake = args.keep_awake.then(super::cpus::keep_awake).transpose()?;
        let (_awake, said) = awake.unzip();
        options.notes.extend(said);
        // Events of tracefs are defined by writing into a file, which needs rights that are given up
        // afterwards.
        let give_up = if options.loader.attaches_by_files() {
            rights::only_look
        } else {
            rights::only_look_and_arm().map_err(Failure::not_permitted)?;
            rights::have_armed
        };
        let session = Session::arm(self.job, self.discovery, self.rules, outputs, options)?;
        give_up().map_err(Failure::not_permitted)?;
        armed()?;
        session.run(actuator, (control, self.nodes), closer, self.real_time)
    }

    /// Records what rules observe.
    fn record(&mut self, name: &str, host: &str) -> Result<(), Failure> {
        let view = crate::session::job_view(&self.job, 0);
        let version = view.mpi.and_then(|(_, version)| version).unwrap_or_default();
        let about = [
            ("user", view.user),
            ("job", job_id(&self.job)),
            ("mpi_version", version),
        ];
        let recorder = Recorder::create(name, host, self.program.clone(), about)?;
        self.rules.record(recorder);
        Ok(())
    }
}

/// Copies the flags into the options of the session.
fn set_flags(options: &mut Options, args: &WatchArgs) {
    options.loads = loads(&args.rules);
    options.applies = args.apply.is_some();
    options.keep = args.keep;
    options.is_verbose = args.verbose;
    options.duration = args.duration;
    options.budget = args.budget;
    options.busy_poll = args.busy_poll;
    options.has_second_cpu = args.agent_cpus.as_ref().is_some_and(|cpus| cpus.cpus().len() > 1);
    options.probe = args.probes();
    let iterations = args
        .iterations
        .map(|count| ProgressSource::Iterations(count as f64));
    options.progress = args.progress.clone().or(iterations);
}

fn addresses(args: &WatchArgs) -> Addresses {
    Addresses {
        metrics: args.metrics,
        web: args.web,
        web_names: args.web_host.clone(),
    }
}

/// The flags that load these rules, as they are typed, each after a space.
fn loads(args: &RuleArgs) -> String {
    let words = |flag: &str, words: Vec<String>| match words.is_empty() {
        true => String::new(),
        false => format!(" {flag} {}", words.join(" ")),
    };
    let paths = args.paths.iter().map(|path| quote(path)).collect();
    let settings = |flag: &str, of: &[(String, String)]| -> String {
        let each = of
            .iter()
            .map(|(name, value)| words(flag, vec![quote(&format!("{name}={value}"))]));
        each.collect()
    };
    let parameters = settings("--param", &args.settings.parameters);
    words("--rules", paths) + &parameters + &settings("--bind", &args.settings.bindings)
}

/// Flags whose file may be standard output.
const TO_STDOUT: [&str; 2] = ["--json", "--csv"];

/// The files that are written, by their flags.
fn outputs(args: &WatchArgs) -> [(&'static str, Option<&str>); 7] {
    let exports = &args.exports;
    [
        ("--json", args.json.as_deref()),
        ("--csv", exports.csv.as_deref()),
        ("--html", exports.html.as_deref()),
        ("--record", args.record.as_deref()),
        ("--trace", exports.trace.as_deref()),
        ("--snapshots", exports.snapshots.as_deref()),
        ("--record-session", exports.record_session.as_deref()),
    ]
}

/// Refuses standard output for files that are written during the session, since they are useless in a pipe,
/// and for the page.
fn refuse_stdout(files: &[(&'static str, Option<&str>)]) -> Result<(), Failure> {
    let is_wrong = |(flag, file): &&(&str, Option<&str>)| *file == Some("-") && !TO_STDOUT.contains(flag);
    match files.iter().find(is_wrong) {
        Some((flag, _)) => Err(Failure::invalid(format!(
            "{flag} - : this is not written to standard output; give it a file"
        ))),
        None => Ok(()),
    }
}

fn exports(args: ExportArgs) -> Exports {
    Exports {
        csv: args.csv,
        html: args.html,
        trace: args.trace,
        trace_max: args.trace_max,
        snapshots: args.snapshots,
        every: args.every,
        session: args.record_session,
    }
}

/// Starts the actuator if rules may write. Where probes are permitted it is prepared for sync points, because
/// a rule that is added later may use them.
fn actuator(options: &Options, rules: &RuleBook) -> Result<Option<Actuator>, Failure> {
    let start = StartOptions {
        keeps: options.keep,
        has_sync_points: rules.waits_for_places()
            || options.cannot_probe.is_none() && options.loader.service().is_none(),
        has_stand_in: true,
    };
    let started = options.applies.then(|| Actuator::start(start)).transpose();
    started.map_err(Failure::invalid)
}

/// Starts the process that closes probes. Without it the session closes them itself, and waits for that.
fn closer() -> Closer {
    Closer::start()
        .inspect_err(|error| tracing::warn!(%error, "the session itself will detach the probes"))
        .unwrap_or_default()
}

const NOTHING_TO_APPLY: &str =
    "no rule is loaded, so --apply changes nothing until `tuneagent session add` gives this session one";

/// Of the rules that never apply, those that the user supplied. For the others this is reported with their
/// findings, because most of them do not concern the program.
fn shown_at_once(never_applying: Vec<String>) -> impl Iterator<Item = String> {
    never_applying
        .into_iter()
        .filter(|rule| !rules::is_built_in(rule))
}

fn only_advises(rule: impl std::fmt::Display) -> String {
    format!(
        "{rule} only advises: it must be named, as rules that change code or load libraries must: --apply={rule}"
    )
}

/// Opens the control socket; the session also runs without one.
fn control_socket() -> Option<Control> {
    Control::open()
        .inspect_err(|error| tracing::warn!(%error, "the session has no control socket"))
        .ok()
}

fn no_mpi(job: &Job) -> Failure {
    let member = job.members.first();
    let pid = member.map_or(0, |member| member.process.pid.number);
    let program = job.program();
    if let Some(why) = member.and_then(Member::stripped_mpi) {
        return Failure::invalid(format!("{program} (process {pid}) cannot be watched: {why}"));
    }
    let started_us = ProcessTable::read()
        .lineage(std::process::id() as i32)
        .any(|(number, _)| number == pid);
    if started_us {
        return Failure::invalid(format!(
            "{program} (process {pid}) started this command; programs that can be watched: tuneagent ps"
        ));
    }
    let modules = member.map_or(0, |member| member.space.modules.len());
    let unreadable = member.map_or(&[][..], |member| &*member.space.unreadable);
    let unread = unreadable.first().map_or_else(String::new, |first| {
        let count = plural(unreadable.len(), "file");
        format!("{count} of it could not be read, in which MPI may be: {first}\n")
    });
    Failure::invalid(format!(
        "{program} (process {pid}) is not an MPI program and has no parallel regions of OpenMP: none of its {modules} modules defines MPI_Init or GOMP_parallel\n\
         (libmpi, libmpich, or MPI linked into the program; a Python program loads it at `import mpi4py`).\n\
         {unread}To count calls of its own functions: {}",
        as_root(&format!("attach {pid} --probe FUNCTION")),
    ))
}

/// The missing rights, the command to get them, and what /proc alone shows.
fn not_permitted(job: &Job, missing: &[&str]) -> Failure {
    let mut lines = vec![
        missing_rights(missing),
        String::new(),
        "from /proc alone:".to_owned(),
    ];
    let snapshot = look(job);
    lines.push(view::header(&snapshot));
    lines.extend(view::summary(&snapshot));
    Failure::not_permitted(lines.join("\n"))
}

fn look(job: &Job) -> Snapshot {
    let open = |pid: i32| {
        let mut sampler = Sampler::open(pid).ok()?;
        let first = sampler.sample().ok()?;
        Some((sampler, first))
    };
    let pids = job
        .members
        .iter()
        .map(|member| (member.process.pid.number, member.rank));
    let mut samplers: Vec<_> = pids.map(|(pid, rank)| (pid, rank, open(pid))).collect();
    let started = std::time::Instant::now();
    std::thread::sleep(OBSERVATION);
    let mut snapshot = Snapshot {
        job: crate::session::job_view(job, 0),
        elapsed: OBSERVATION,
        ..Snapshot::default()
    };
    for (pid, rank, sampler) in &mut samplers {
        let rates = sampler.as_mut().and_then(|(sampler, first)| {
            let last = sampler.sample().ok()?;
            let elapsed = started.elapsed().as_nanos() as f64;
            let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
            Some(Rates {
                cpu: share(last.cpu_ns, first.cpu_ns),
                runqueue: share(last.runqueue_ns, first.runqueue_ns),
                switches_per_s: share(last.switches_involuntary, first.switches_involuntary) * 1e9,
                ..Rates::default()
            })
        });
        let rank = rank.map(|rank| rank.number);
        snapshot.processes.push(ProcessView {
            pid: *pid,
            rank,
            rates,
            ..ProcessView::default()
        });
    }
    snapshot
}

/// A launcher of MPI starts any program. One that was built without MPI runs several times at once.
fn ranks_without_mpi(job: &Job) -> Option<String> {
    let is_without =
        |member: &Member| member.rank.is_some() && member.mpi.is_none() && member.stripped_mpi().is_none();
    let ranks = job.members.len();
    (ranks > 1 && job.members.iter().all(is_without)).then(|| {
        format!("note: a launcher started {ranks} ranks, and none of them has loaded MPI: a program without it does all of its work in each")
    })
}

/// A note if each rank is a job of its own: the launcher belongs to another MPI than the program.
fn ranks_alone(job: &Job) -> Option<String> {
    let alone = job.members.iter().filter(|member| member.is_alone()).count();
    (alone > 1).then(|| {
        format!(
            "note: {alone} ranks were started together, but each is alone in MPI_COMM_WORLD and does all of the work: the launcher is not that \
             of the program's MPI"
        )
    })
}

/// A note if a name is that of programs that were started separately.
fn several_programs(job: &Job, targets: &[String]) -> Option<String> {
    let [name] = targets else { return None };
    let is_name = name.parse::<i32>().is_err() && !name.contains(':');
    let several = job.roots.len();
    (is_name && several > 1).then(|| {
        format!("note: {several} programs named {name} were started separately, and are watched together; a process number selects one")
    })
}

/// A note on stopped processes, because they make no calls.
fn stopped(job: &Job) -> Option<String> {
    let is_stopped = |member: &&Member| member.process.state().is_ok_and(|state| state == 'T');
    let pids: Vec<String> = job
        .members
        .iter()
        .filter(is_stopped)
        .map(|member| member.process.pid.to_string())
        .collect();
    (!pids.is_empty()).then(|| {
        let pids = pids.join(" ");
        format!("note: stopped by a signal or by job control; to continue it: kill -CONT {pids}")
    })
}

#[cfg(test)]
mod tests {
    use super::shown_at_once;

    #[test]
    fn that_a_rule_has_to_be_named_is_said_at_the_start_of_those_that_the_user_brought() {
        let never = ["mpich-busy-wait", "mine"].map(str::to_owned).to_vec();
        assert_eq!(shown_at_once(never).collect::<Vec<_>>(), ["mine"]);
    }
}
