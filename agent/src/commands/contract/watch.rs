//! `tuneagent contract watch FILE TARGET`: measured rates of a running pipeline against its contract.

use std::{collections::VecDeque, time::Duration};

use profile::streams::{ContractWatch, NotComparable, NotLearned, Slice, counted};
use report::console;
use rules::contract::Contract;

use super::{ShowResult, sampling};
use crate::{
    cli::WatchContractArgs,
    commands::print_json,
    exit::{Code, Failure},
};

/// A window has as many slices; from their differences follows how uncertain its rates are.
const SLICES: usize = 10;
const SLICE: Duration = Duration::from_millis(100);

pub(super) fn run(contract: &Contract, args: &WatchContractArgs) -> ShowResult {
    let (assessment, _) = contract.capacity()?;
    let mut watch = ContractWatch::of(contract, &assessment).map_err(Failure::not_there)?;
    if args.contract.json {
        console::keep_for_data();
    }
    let (pipeline, mut sampler) = sampling::open(&args.target)?;
    let part = watch.part_of(&pipeline);
    let (mut window, mut passed_ns, mut refused) = (VecDeque::new(), 0, None);
    let ended = sampling::slices(&part, &mut sampler, SLICE, args.duration, |slice: Slice| {
        passed_ns += slice.ns;
        window.push_back(slice);
        if window.len() < SLICES {
            return true;
        }
        let slices: Vec<Slice> = window.drain(..).collect();
        let judged = counted(&part, &slices)
            .map_err(Unwatched::from)
            .and_then(|seen| Ok(watch.window(passed_ns as f64 / 1e9, &seen)?));
        match judged {
            Ok(lines) => lines.iter().for_each(|line| say!("{line}")),
            Err(why) => refused = Some(why),
        }
        refused.is_none()
    });
    if let Some(why) = refused {
        return Err(Failure::not_there(why).into());
    }
    if let Err(ended) = ended {
        console::error_line(format_args!("{ended}"));
    }
    let summary = watch.summary();
    if summary.windows == 0 {
        let seconds = args.duration.as_secs_f64();
        return Err(Failure::no(NotLearned::Filling { seconds }).into());
    }
    match args.contract.json {
        true => print_json(&summary).map(drop)?,
        false => summary.lines().iter().for_each(|line| say!("{line}")),
    }
    Ok(if summary.holds { Code::Done } else { Code::No })
}

/// Why a window is not judged.
#[derive(Debug, thiserror::Error)]
enum Unwatched {
    #[error(transparent)]
    NotCounted(#[from] NotLearned),
    #[error(transparent)]
    NotComparable(#[from] NotComparable),
}
