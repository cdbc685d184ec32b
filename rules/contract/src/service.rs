//! Service times: work over power, over the workers of a module (45)-(49).

use syntax::diag::Diagnostic;

use super::error::ContractError;
use super::model::{Contract, Machine, Module, OperatingPoint};
use super::points::point;

/// The machines of a module: each kind with how many of it.
pub(super) type Workers = Vec<(usize, u32)>;

/// The service time of an activation on one machine; `None` without a power in a metric of the work.
fn on_machine(point: &OperatingPoint, machine: &Machine) -> Option<f64> {
    if let Some(time) = point.time_s {
        return Some(time);
    }
    let times = point
        .amounts
        .iter()
        .map(|(metric, amount)| Some(amount / machine.power.get(metric)?));
    let times = times.collect::<Option<Vec<f64>>>()?;
    Some(match point.overlapped {
        true => times.into_iter().fold(0.0, f64::max),
        false => times.into_iter().sum(),
    })
}

/// The service time of a work on a machine, at its first operating point that holds there.
pub(super) fn time_on(contract: &Contract, work: usize, machine: usize) -> Result<f64, ContractError> {
    let (work, machine) = (&contract.works[work], &contract.machines[machine]);
    let Some(point) = point(contract, work, Some(machine)) else {
        return Err(ContractError::NoPointOn {
            work: work.name.clone(),
            machine: machine.name.clone(),
        });
    };
    on_machine(point, machine).ok_or_else(|| ContractError::NoPower {
        machine: machine.name.clone(),
        work: work.name.clone(),
    })
}

/// The used share of the power of `workers` workers, between the entries of the table by a line.
pub(super) fn efficiency(module: &Module, workers: u32) -> Result<f64, ContractError> {
    let table = &module.efficiency;
    let Some((last, _)) = table.last() else {
        return Ok(1.0);
    };
    if workers > *last {
        return Err(ContractError::UnknownEfficiency {
            module: module.name.clone(),
            workers: *last,
        });
    }
    let after = table
        .iter()
        .position(|(known, _)| *known >= workers)
        .unwrap_or_default();
    let before = match after {
        0 => (1, 1.0),
        after => table[after - 1],
    };
    let (to, share) = table[after];
    if to == workers || to == before.0 {
        return Ok(share);
    }
    let part = f64::from(workers - before.0) / f64::from(to - before.0);
    Ok(before.1 + part * (share - before.1))
}

/// The machines of a module, and the number of its workers.
pub(super) fn workers(module: &Module) -> Result<(Workers, u32), ContractError> {
    let stated = match &module.workers {
        None => Some(1),
        Some(workers) => workers.count,
    };
    let explicit = module.place.stated_machines();
    if explicit > 0 {
        return Ok((module.place.machines.clone(), explicit));
    }
    let Some(count) = stated else {
        let name = module.workers.as_ref().and_then(|workers| workers.name.clone());
        return Err(ContractError::UnknownWorkers {
            module: module.name.clone(),
            parameter: name.unwrap_or_default(),
        });
    };
    match module.place.machines.as_slice() {
        [(machine, _)] => Ok((vec![(*machine, count)], count)),
        _ => Ok((Vec::new(), count)),
    }
}

/// The service time of a work on one worker, for each kind of machine; one time if there are no machines.
pub(super) fn times_of(
    contract: &Contract,
    module: &Module,
    work: usize,
    machines: &Workers,
) -> Result<Vec<f64>, ContractError> {
    match machines.is_empty() {
        true => Ok(vec![timed(contract, module, work)?]),
        false => machines
            .iter()
            .map(|(machine, _)| time_on(contract, work, *machine))
            .collect(),
    }
}

/// The service time of a computation with these workers: their rates add up (49), times the efficiency.
pub(super) fn time_with(
    contract: &Contract,
    module: &Module,
    work: usize,
    machines: &Workers,
    count: u32,
) -> Result<f64, ContractError> {
    let times = times_of(contract, module, work, machines)?;
    let counts = machines.iter().map(|(_, count)| *count);
    let counts: Vec<u32> = if machines.is_empty() {
        vec![count]
    } else {
        counts.collect()
    };
    let rate: f64 = counts
        .iter()
        .zip(times)
        .map(|(count, time)| f64::from(*count) / time)
        .sum();
    Ok(1.0 / (efficiency(module, count)? * rate))
}

/// The share of the workers' time that activations at these rates take (47).
pub(super) fn use_of(
    contract: &Contract,
    module: &Module,
    rates: &[f64],
    machines: &Workers,
    count: u32,
) -> Result<f64, ContractError> {
    let mut total = 0.0;
    for (computation, rate) in module.computations.iter().zip(rates) {
        if let Some(work) = computation.work {
            total += rate * time_with(contract, module, work, machines, count)?;
        }
    }
    Ok(total)
}

/// The service time of a work that is stated as a time, for a module without machines.
fn timed(contract: &Contract, module: &Module, work: usize) -> Result<f64, ContractError> {
    let work = &contract.works[work];
    let found = point(contract, work, None);
    if found.is_none() && work.points.iter().any(|point| point.properties.is_empty()) {
        let work = work.name.clone();
        return Err(ContractError::NoPoint { work });
    }
    found
        .and_then(|point| point.time_s)
        .ok_or_else(|| ContractError::NoMachines {
            module: module.name.clone(),
            work: work.name.clone(),
        })
}

/// Checks where modules are placed: conditions of their machines, and how many there are.
pub(super) fn placement(contract: &Contract) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    let mut used = vec![0_u32; contract.machines.len()];
    let mut aggregates: Vec<Vec<&str>> = vec![Vec::new(); contract.machines.len()];
    for module in &contract.modules {
        let place = &module.place;
        let push = |message: String| Diagnostic::wrong("E0179", place.span, message);
        for (index, _) in &place.machines {
            let machine = &contract.machines[*index];
            wrong.extend(fits(module, machine).err().map(|why| push(why.to_string())));
        }
        let explicit = place.stated_machines();
        let stated = module.workers.as_ref().and_then(|workers| workers.count);
        if let Some(stated) = stated.filter(|stated| explicit > 0 && *stated != explicit) {
            let message = format!("`{}` has {stated} workers and {explicit} machines", module.name);
            wrong.push(push(message));
        }
        let Ok((machines, _)) = workers(module) else {
            continue;
        };
        for (machine, count) in &machines {
            if contract.machines[*machine].count > 1 || machines.len() > 1 {
                used[*machine] += count;
                aggregates[*machine].push(&module.name);
            } else if *count > 1 {
                let name = &contract.machines[*machine].name;
                let message = format!("`{}` has {count} workers, and there is one `{name}`", module.name);
                wrong.push(
                    push(message).help("`count` of a machine is how many workers it can have in total"),
                );
            }
        }
    }
    for ((machine, used), modules) in contract.machines.iter().zip(used).zip(aggregates) {
        if used > machine.count {
            let message = format!(
                "{} use {used} machines `{}`, and there are {}",
                modules.join(" and "),
                machine.name,
                machine.count
            );
            wrong.push(Diagnostic::wrong("E0179", contract.span, message));
        }
    }
    wrong
}

/// Fails with the condition of a module's place that a machine does not meet.
pub(super) fn fits(module: &Module, machine: &Machine) -> Result<(), ContractError> {
    let place = &module.place;
    let names = || (module.name.clone(), machine.name.clone());
    if let Some(host) = place.host.clone().filter(|host| *host != machine.name) {
        let (module, machine) = names();
        return Err(ContractError::OtherHost {
            module,
            host,
            machine,
        });
    }
    if place.domain.is_some() && place.domain != machine.domain {
        let (module, machine) = names();
        return Err(ContractError::OtherDomain { machine, module });
    }
    if let Some(lacks) = place.has.iter().find(|wanted| !machine.has.contains(wanted)) {
        let (module, machine) = names();
        return Err(ContractError::Lacks {
            machine,
            lacks: lacks.clone(),
            module,
        });
    }
    if !machine.has_at_least(&place.properties) {
        let (module, machine) = names();
        return Err(ContractError::LessThanNeeded { machine, module });
    }
    Ok(())
}
