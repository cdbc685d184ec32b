//! The contract that a program is watched against: its file may be changed meanwhile.

use std::fs;

use contract::Contract;
use profile::{
    format::significant,
    streams::{ContractWatch, NotComparable},
};
use report::console;

use super::{NotShown, parsed};
use crate::{cli::ContractArgs, diagnostics, exit::Failure};

/// A contract with its targets, and the text that it comes from.
pub(super) struct Required<'a> {
    pub(super) contract: Contract,
    pub(super) watch: ContractWatch,
    args: &'a ContractArgs,
    text: Option<String>,
    has_bytes: bool,
}

impl<'a> Required<'a> {
    /// `has_bytes`: items are counted by their bytes, so each stream has to state how many an item has.
    pub(super) fn of(
        contract: &Contract,
        args: &'a ContractArgs,
        has_bytes: bool,
    ) -> Result<Required<'a>, NotShown> {
        let (assessment, _) = contract.capacity()?;
        let watch = ContractWatch::of(contract, &assessment).map_err(Failure::invalid)?;
        let mut required = Required {
            contract: contract.clone(),
            watch,
            args,
            text: None,
            has_bytes,
        };
        required.has_sizes(&required.watch).map_err(Failure::invalid)?;
        required.text = required.read();
        Ok(required)
    }

    /// A pipe can be read once only.
    fn read(&self) -> Option<String> {
        let is_file = fs::metadata(&self.args.file).is_ok_and(|file| file.is_file());
        is_file
            .then(|| fs::read_to_string(&self.args.file).ok())
            .flatten()
    }

    fn has_sizes(&self, watch: &ContractWatch) -> Result<(), NotComparable> {
        if self.has_bytes { watch.has_sizes() } else { Ok(()) }
    }

    /// Whether the file has changed since the last time, and requires something else from now on. If it cannot be
    /// used, the reason is printed, and nothing changes.
    pub(super) fn has_changed(&mut self, now_s: f64) -> bool {
        let Some(text) = self.read().filter(|text| Some(text) != self.text.as_ref()) else {
            return false;
        };
        let taken = self.take(&text);
        let name = self.args.file.display().to_string();
        let is_taken = match &taken {
            Ok(lines) => {
                lines
                    .iter()
                    .for_each(|line| say!("{:>7} s  {line}", significant(now_s, 4)));
                true
            }
            Err(NotShown::Contract(wrong)) => {
                diagnostics::print(&name, &text, wrong);
                false
            }
            Err(NotShown::Failure(failure)) => {
                console::error_line(format_args!("{name} has changed: {}", failure.error));
                false
            }
        };
        self.text = Some(text);
        is_taken
    }

    fn take(&mut self, text: &str) -> Result<Vec<String>, NotShown> {
        let contract = parsed(text, self.args)?;
        let (assessment, _) = contract.capacity()?;
        let mut watch = self.watch.clone();
        let lines = watch.require(&contract, &assessment).map_err(Failure::invalid)?;
        self.has_sizes(&watch).map_err(Failure::invalid)?;
        (self.contract, self.watch) = (contract, watch);
        Ok(lines)
    }
}
