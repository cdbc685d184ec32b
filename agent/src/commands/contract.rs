//! `tuneagent contract check|max|size|map|what-if|simulate|schema`: what a stream program can deliver, computed from its
//! contract file. Attaches nothing. `learn` makes the file of a running program, and `watch` compares them.

mod act;
mod job;
mod learn;
mod metrics;
mod required;
mod sampling;
mod simulate;
pub(super) mod stages;
mod watch;

use std::{fs, path::Path};

use contract::{Arithmetic, Assessment, Capacity, Contract, FittedWork, Raise, Size};
use profile::format::plural;
use profile::streams::{ContractFollower, NotWatched, StageFunctions};
use rules::Diagnostic;
use rules::quantity::{percent, significant};
use serde_json::json;

use super::{print_json, replay::Report};
use crate::{
    cli::{ContractArgs, ContractCommand},
    diagnostics,
    exit::{Code, CommandResult, Failure, unreadable},
    rulebook::rank_reports,
};

pub(super) fn run(command: &ContractCommand) -> CommandResult {
    let (args, shown): (&ContractArgs, &dyn Fn(&Contract) -> ShowResult) = match command {
        ContractCommand::Schema => {
            say!("{}", contract::schema());
            return Ok(Code::Done);
        }
        ContractCommand::Learn(args) => return learn::run(args),
        ContractCommand::Check { args, dot, svg } => {
            (args, &|contract| check(contract, args.json, *dot, svg.as_deref()))
        }
        ContractCommand::Max(args) => (args, &|contract| max(contract, args.json)),
        ContractCommand::Size(args) => (args, &|contract| size(contract, args.json)),
        ContractCommand::Map(args) => (args, &|contract| map(contract, args.json)),
        ContractCommand::Watch(args) => (&args.contract, &|contract| watch::run(contract, args)),
        ContractCommand::WhatIf { args, changes } => {
            (args, &|contract| what_if(contract, changes, args.json))
        }
        ContractCommand::Simulate { args, scenario } => (args, &|contract| {
            simulate::simulate(contract, scenario, args.json)
        }),
    };
    let text = text(&args.file)?;
    let refuse = |wrong: &[Diagnostic]| {
        diagnostics::print(&args.file.display().to_string(), &text, wrong);
        Ok(Code::Failed)
    };
    let shown = match parsed(&text, args) {
        Ok(contract) => shown(&contract),
        Err(why) => Err(why),
    };
    match shown {
        Ok(code) => Ok(code),
        Err(NotShown::Contract(wrong)) => refuse(&wrong),
        Err(NotShown::Failure(failure)) => Err(failure),
    }
}

/// The contract of this file, to watch a job or stages against it. What is wrong with it is printed, and what is not done
/// then.
pub(super) fn follower(
    file: &Path,
    stages: &[StageFunctions],
    what_is_not_done: &str,
) -> Result<ContractFollower, Failure> {
    stages::are_a_chain(stages)?;
    let text = text(file)?;
    let name = file.display();
    let followed = match Contract::parse(&text) {
        Ok(contract) => ContractFollower::of(&contract, stages),
        Err(wrong) => Err(NotWatched::Contract(wrong)),
    };
    followed.map_err(|why| match why {
        NotWatched::Contract(wrong) => {
            diagnostics::print(&name.to_string(), &text, &wrong);
            Failure::failed(format!(
                "nothing was {what_is_not_done}: {name} is no contract that can be watched"
            ))
        }
        NotWatched::NotComparable(why) => Failure::invalid(format!("{name}: {why}")),
    })
}

/// Judges recordings of an MPI job, or of stages, by a contract, as a session would have done.
pub(super) fn replay(
    file: &Path,
    stages: &[StageFunctions],
    recordings: &[(String, Vec<u8>)],
) -> CommandResult {
    let mut follower = follower(file, stages, "judged")?;
    let mut broken = None;
    for report in rank_reports(recordings, stages.is_empty()).map_err(Failure::failed)? {
        match report {
            Ok(report) => follower.take(report).iter().for_each(|line| say!("{line}")),
            Err(error) => broken = broken.or(Some(Failure::failed(error))),
        }
    }
    let (summary, last) = (follower.view().summary, follower.not_judged());
    if summary.windows == 0 {
        let why = last.map_or_else(
            || Failure::failed(watch::NO_WINDOW),
            |why| watch::failure(why.clone()),
        );
        return Err(broken.unwrap_or(why));
    }
    summary.lines().iter().for_each(|line| say!("{line}"));
    broken.map_or(Ok(()), Err)?;
    Ok(if summary.holds { Code::Done } else { Code::Failed })
}

/// The contract of a file with this text, with what the command line requires instead.
fn parsed(text: &str, args: &ContractArgs) -> Result<Contract, NotShown> {
    let mut contract = Contract::parse(text)?;
    for requirement in &args.requirements {
        contract.require(requirement).map_err(|wrong| {
            let help = wrong.help.map_or(String::new(), |help| format!(" ({help})"));
            Failure::invalid(format!("--require {requirement}: {}{help}", wrong.message))
        })?;
    }
    Ok(contract)
}

fn text(path: &Path) -> Result<String, Failure> {
    let shown = path.to_string_lossy();
    let is_process = shown.chars().all(|c| c.is_ascii_digit());
    fs::read_to_string(path).map_err(|error| match is_process {
        true => Failure::invalid(format!(
            "there is no file {shown}: the contract comes first, then the process"
        )),
        false => unreadable(path, &error),
    })
}

/// Why nothing is shown.
enum NotShown {
    Contract(Vec<Diagnostic>),
    Failure(Failure),
}

impl From<Vec<Diagnostic>> for NotShown {
    fn from(wrong: Vec<Diagnostic>) -> NotShown {
        NotShown::Contract(wrong)
    }
}

impl From<Failure> for NotShown {
    fn from(failure: Failure) -> NotShown {
        NotShown::Failure(failure)
    }
}

type ShowResult = Result<Code, NotShown>;

fn rate(value: f64) -> String {
    match value != 0.0 && value.abs() < 1e-3 {
        true => format!("{value:.2e}/s"),
        false => format!("{}/s", significant(value, 4)),
    }
}

fn check(contract: &Contract, json: bool, dot: bool, svg: Option<&str>) -> ShowResult {
    let (assessment, capacity) = contract.capacity()?;
    let exceeded = contract.exceeded(&capacity);
    if let Some(name) = svg {
        Report::open(name)?.write_text(&contract.svg(&assessment, &capacity, None))?;
    }
    let is_picture = svg == Some("-");
    if is_picture {
        // Nothing else belongs to standard output.
    } else if dot {
        say!("{}", contract.dot(&assessment, &capacity).trim_end());
    } else if json {
        print_json(&json!({
            "holds": exceeded.is_none(),
            "assessment": assessment,
            "calibrations": contract.calibrations(),
            "capacity": capacity,
        }))?;
    } else {
        contract
            .calibrations()
            .iter()
            .for_each(|one| say!("{}", calibrated(one)));
        show_assessment("", &assessment);
        show_resources(&capacity);
    }
    match exceeded {
        Some(wrong) => Err(vec![wrong].into()),
        None if dot || json || is_picture => Ok(Code::Done),
        None => {
            say!("the contract {} can hold", contract.name());
            Ok(Code::Done)
        }
    }
}

/// `rendering: flop 3.307e9, memory 3.020e8 fit the times within 0.004 s; condition 7.1`
fn calibrated(one: &FittedWork) -> String {
    let amounts = one
        .amounts
        .iter()
        .map(|(metric, amount)| format!("{metric} {amount:.3e}"));
    let largest = one
        .residuals_s
        .values()
        .map(|residual| residual.abs())
        .fold(0.0, f64::max);
    format!(
        "{}: {} fit the times within {} s; condition {}",
        one.work,
        amounts.collect::<Vec<_>>().join(", "),
        significant(largest, 2),
        significant(one.condition, 2)
    )
}

/// Rates of all features, of modules with contracts of their own behind their names.
fn show_assessment(prefix: &str, assessment: &Assessment) {
    let arithmetic = match assessment.arithmetic {
        Arithmetic::ExactFractions => "solved in exact fractions".to_owned(),
        Arithmetic::FloatingPoint { residual } => {
            format!("solved in floating point, residual {residual:.0e}")
        }
    };
    let freedom = match assessment.degrees_of_freedom {
        1 => "1 degree of freedom".to_owned(),
        several => format!("{several} degrees of freedom"),
    };
    say!("{}: {freedom}, {arithmetic}", assessment.contract);
    assessment
        .relations
        .iter()
        .for_each(|relation| say!("  requirements must satisfy {relation}"));
    assessment
        .conversions
        .iter()
        .for_each(|conversion| say!("  {conversion}"));
    if !assessment.raised.is_empty() {
        say!(
            "  raised to satisfy the equations: {}",
            raises(&assessment.raised)
        );
    }
    for other in &assessment.alternatives {
        say!("  not the only least raise; or: {}", raises(other));
    }
    let names = assessment
        .features
        .iter()
        .map(|one| prefix.len() + one.feature.len());
    let width = names.max().unwrap_or_default().max("rate of".len());
    say!("{:<width$}  {:>12}  {:>12}", "rate of", "assessed", "required");
    for one in &assessment.features {
        let required = one.required.map_or(String::new(), rate);
        let name = format!("{prefix}{}", one.feature);
        say!(
            "{}",
            format!("{name:<width$}  {:>12}  {required:>12}", rate(one.rate)).trim_end()
        );
    }
    for (module, part) in &assessment.parts {
        show_assessment(&format!("{prefix}{module}."), part);
    }
}

fn raises(raised: &[Raise]) -> String {
    let one = |one: &Raise| format!("{} from {} to {}", one.feature, rate(one.from), rate(one.to));
    raised.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn show_resources(capacity: &Capacity) {
    if !capacity.resources.is_empty() {
        let names = capacity.resources.iter().map(|one| one.resource.len());
        let width = names.max().unwrap_or_default().max("resource".len());
        say!(
            "{:<width$}  {:>6}  binds {} at",
            "resource",
            "used",
            capacity.feature
        );
        for one in &capacity.resources {
            let used = percent(one.utilisation);
            say!("{:<width$}  {used:>6}  {}", one.resource, rate(one.binds_at));
        }
    }
    capacity.unknown.iter().for_each(|why| say!("not limited: {why}"));
    capacity.points.iter().for_each(|point| say!("{point}"));
}

fn max(contract: &Contract, json: bool) -> ShowResult {
    let (_, capacity) = contract.capacity()?;
    if json {
        print_json(&capacity)?;
        return Ok(Code::Done);
    }
    say!("{}", greatest(&capacity));
    show_resources(&capacity);
    for one in &capacity.additions {
        let gain = if one.gain == 0.0 {
            "nothing".to_owned()
        } else {
            format!("+{}", rate(one.gain))
        };
        say!("{}: {gain}", one.addition);
    }
    Ok(Code::Done)
}

/// `film: at most 1.04/s, bound by C2, then by link L2`
fn greatest(capacity: &Capacity) -> String {
    let Some(greatest) = capacity.greatest else {
        return format!("{}: nothing in the contract limits it", capacity.feature);
    };
    let mut names = capacity.resources.iter().map(|one| one.resource.as_str());
    let first = names.next().unwrap_or_default();
    let then = names
        .next()
        .map_or(String::new(), |second| format!(", then by {second}"));
    format!(
        "{}: at most {}, bound by {first}{then}",
        capacity.feature,
        rate(greatest)
    )
}

fn size(contract: &Contract, json: bool) -> ShowResult {
    let (_, sizes) = contract.sizes()?;
    let is_enough = sizes.iter().all(|size| size.insufficient.is_none());
    if json {
        print_json(&sizes)?;
    } else if sizes.is_empty() {
        say!("no module states its work and `workers`: add both to the modules that may get more workers");
    } else {
        sizes.iter().for_each(|size| say!("{}", described(size)));
    }
    Ok(if is_enough { Code::Done } else { Code::Failed })
}

fn map(contract: &Contract, json: bool) -> ShowResult {
    let mapping = contract.mapping()?;
    if json {
        print_json(&mapping)?;
        return Ok(Code::Done);
    }
    if mapping.modules.is_empty() {
        say!("no module states its work: add it to the modules that need machines");
    }
    let sizes = mapping.modules.iter();
    sizes.for_each(|size| say!("{}", described(size)));
    let doubt = if mapping.is_least {
        ""
    } else {
        "; not all choices could be tried: another may cost less"
    };
    say!("cost {}{doubt}", significant(mapping.cost, 4));
    show_resources(&mapping.capacity);
    Ok(Code::Done)
}

/// `C2: 20 pianosa (nrender = 20), 96 % used, cost 20`
fn described(size: &Size) -> String {
    let machines = size
        .machines
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"));
    let machines = machines.collect::<Vec<_>>().join(" + ");
    let machines = match machines.is_empty() {
        true => plural(size.workers as usize, "worker"),
        false => machines,
    };
    let set = size
        .set
        .as_ref()
        .map_or(String::new(), |set| format!(" ({set} = {})", size.workers));
    let insufficient = size
        .insufficient
        .as_ref()
        .map_or(String::new(), |why| format!("; not enough: {why}"));
    format!(
        "{}: {machines}{set}, {} used, cost {}{insufficient}",
        size.module,
        percent(size.utilisation),
        significant(size.cost, 4)
    )
}

fn what_if(contract: &Contract, changes: &[String], json: bool) -> ShowResult {
    let mut changed = contract.clone();
    for change in changes {
        changed.suppose(change).map_err(Failure::invalid)?;
    }
    let ((_, before), (_, after)) = (contract.capacity()?, changed.capacity()?);
    if json {
        print_json(&json!({"before": before, "after": after}))?;
        return Ok(Code::Done);
    }
    say!("before  {}", greatest(&before));
    say!("after   {}", greatest(&after));
    show_resources(&after);
    Ok(Code::Done)
}
