//! Detects probes that were lost with their pages: a program that discards code pages (`madvise`,
//! MADV_DONTNEED) then gets those of the file, without the kernel's breakpoints. The kernel does not report
//! it, so one place of each page is compared. Reports the loss; attaches nothing.

use std::collections::BTreeMap;

use job::Member;
use tuner::{Address, Images, Module, has_probe};

use super::{LinkTarget, Probes, places::address_of};

/// Most pages of a file that are checked in each process.
const PAGES_MAX: usize = 64;
const PAGE: u64 = 4096;

impl Probes {
    /// Records the files whose probes are gone from the memory of one of these processes.
    pub fn look_for_gone<'a>(&mut self, members: impl Iterator<Item = &'a Member>, images: &Images) {
        for member in members {
            for module in &member.space.modules {
                let is_gone =
                    |address: &u64| has_probe(member.space.memory(), Address(*address)) == Some(false);
                if self.looked_at(member, module).any(|address| is_gone(&address))
                    && is_still_there(member, module, images)
                {
                    let (file, pid) = (module.file_name(), member.process.pid);
                    self.missing.report(format!("{file} gone from {pid}"), || {
                        format!(
                            "probes in {file} are gone from the memory of process {pid}: it discarded code pages (madvise), and calls there \
                             are no longer counted; attach again to count them"
                        )
                    });
                }
            }
        }
    }

    /// Addresses in a process of the first attached place of each page.
    fn looked_at(&self, member: &Member, module: &Module) -> impl Iterator<Item = u64> {
        let to = LinkTarget {
            file: module.file_id(),
            process: self.own_links.then_some(member.process.pid.number.unsigned_abs()),
        };
        let links = self.links.iter().filter(move |linked| linked.to == to);
        let served: Vec<u32> = links.flat_map(|linked| linked.probes.iter().copied()).collect();
        let places = self.attached.get(&to).into_iter().flatten();
        let places = places.filter(|place| served.contains(&place.site.probe));
        let mut pages = BTreeMap::new();
        for address in places.filter_map(|place| address_of(module, place.site.offset)) {
            pages.entry(address / PAGE).or_insert(address);
        }
        pages.into_values().take(PAGES_MAX)
    }
}

/// An unloaded library takes its probes with it, which is not a loss.
fn is_still_there(member: &Member, module: &Module, images: &Images) -> bool {
    let now = member.space_now(images);
    now.is_some_and(|now| {
        let mut modules = now.modules.iter();
        modules.any(|known| known.file_id() == module.file_id() && known.bias == module.bias)
    })
}
