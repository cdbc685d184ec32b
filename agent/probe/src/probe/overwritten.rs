//! Excludes functions whose code in memory was overwritten (memory hooks of Open MPI and UCX,
//! instrumentation): under a probe the kernel would execute the file's instructions there, and the program
//! would crash. Checks, excludes and reports; the comparison itself is in the tuner.

use std::collections::{BTreeMap, BTreeSet};

use tuner::{CodeText, FileId, Module, Overwritten, SpaceError};

use super::{LinkTarget, Probes, places::PricedSite};

/// Most functions of one file that a line names.
const SHOWN_MAX: usize = 3;

enum Why {
    Overwritten(Overwritten),
    Unknown(SpaceError),
}

/// The probes among these places whose code in a process differs from the file.
fn looked_at(text: &mut CodeText<'_>, module: &Module, places: &[PricedSite]) -> BTreeMap<u32, Why> {
    let mut found = BTreeMap::new();
    for place in places {
        let probe = place.site.probe;
        if found.contains_key(&probe) {
            continue;
        }
        let why = match text.overwritten(module, &place.needs()) {
            Ok(None) => continue,
            Ok(Some(overwritten)) => Why::Overwritten(overwritten),
            Err(error) => Why::Unknown(error),
        };
        found.insert(probe, why);
    }
    found
}

impl Probes {
    /// The probes among these places of a process that must not be attached. If a link serves every process
    /// that maps the file, the memory of all of them is compared, including those outside the job: the probe
    /// could kill each of them.
    pub(super) fn overwritten(
        &mut self,
        text: &mut CodeText<'_>,
        module: &Module,
        places: &[PricedSite],
    ) -> BTreeSet<u32> {
        let mut found = looked_at(text, module, places);
        let file = module.file_id();
        let mut refused: BTreeSet<u32> = BTreeSet::new();
        if !self.own_links {
            let is_known = |probe: &u32| self.overwritten.contains(&(file, *probe));
            refused.extend(places.iter().map(|place| place.site.probe).filter(is_known));
            let attached = self.attached.get(&LinkTarget { file, process: None });
            let is_new = |place: &&PricedSite| {
                let probe = place.site.probe;
                attached.is_none_or(|attached| !attached.contains(place))
                    && !refused.contains(&probe)
                    && !found.contains_key(&probe)
            };
            let new: Vec<PricedSite> = places.iter().filter(is_new).copied().collect();
            found.append(&mut self.overwritten_elsewhere(module, &new));
        }
        self.report_overwritten(module, &found);
        refused.extend(found.into_keys());
        if !self.own_links {
            self.leave_alone(file, &refused);
        }
        refused
    }

    /// The same check in all other processes of the machine.
    fn overwritten_elsewhere(&mut self, module: &Module, places: &[PricedSite]) -> BTreeMap<u32, Why> {
        let mut found = BTreeMap::new();
        if places.is_empty() {
            return found;
        }
        let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut unknown = 0;
        for number in numbers {
            match CodeText::of_user(number, module) {
                Ok(None) => {}
                Ok(Some(mut text)) => found.append(&mut looked_at(&mut text, module, places)),
                // It has ended meanwhile, or we may not read it.
                Err(_) => unknown += 1,
            }
        }
        if unknown > 0 {
            let file = module.file_name();
            self.missing.report(format!("others of {file}"), || {
                format!(
                    "whether the code of {file} was overwritten in memory is not known of {unknown} other processes that use it: they \
                     cannot be inspected"
                )
            });
        }
        found
    }

    /// Functions of a file that are not probed in any process from now on. A link that also serves others
    /// stays: code written over its breakpoint is left as it is.
    fn leave_alone(&mut self, file: FileId, refused: &BTreeSet<u32>) {
        self.overwritten
            .extend(refused.iter().map(|probe| (file, *probe)));
        let to = LinkTarget { file, process: None };
        let is_over = |probes: &BTreeSet<u32>| !probes.is_empty() && probes.is_subset(refused);
        let (over, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.links)
            .into_iter()
            .partition(|linked| linked.to == to && is_over(&linked.probes));
        self.links = left;
        if let Some(places) = self.attached.get_mut(&to) {
            let is_left = |probe: &u32| !over.iter().any(|linked| linked.probes.contains(probe));
            places.retain(|place| is_left(&place.site.probe));
        }
        self.close(over);
    }

    fn report_overwritten(&mut self, module: &Module, found: &BTreeMap<u32, Why>) {
        let file = module.file_name();
        let pid = module.pid;
        let named: Vec<(String, &Why)> = found
            .iter()
            .map(|(probe, why)| (self.numbers.probes[*probe as usize].name.clone(), why))
            .collect();
        let reported = if named.len() > SHOWN_MAX { 1 } else { named.len() };
        for (name, why) in named.iter().take(reported) {
            let what = match named.len() - reported {
                0 => format!("{name} is"),
                more => format!("{name} and {more} more functions of {file} are"),
            };
            let (of, text) = match why {
                Why::Overwritten(overwritten) => (overwritten.pid, self.refusal(&what, file, overwritten)),
                Why::Unknown(error) => (
                    pid,
                    format!(
                        "{what} not probed: whether its code in {file} was overwritten is not known: {error}"
                    ),
                ),
            };
            self.missing.report(format!("{name} of {file} in {of}"), || text);
        }
    }

    fn refusal(&self, what: &str, file: &str, overwritten: &Overwritten) -> String {
        let pid = overwritten.pid;
        let place = match self.own_links {
            true => format!("in process {pid}"),
            false => "in any process (one link serves all)".to_owned(),
        };
        let target = overwritten.target.as_ref();
        let instead = target.and_then(|target| target.function.as_ref());
        let instead = instead.map_or_else(String::new, |function| {
            format!("probe {function}, where its calls go, or ")
        });
        let hooks = target.and_then(|target| target.file.as_deref());
        let how = match hooks.unwrap_or_default() {
            hooks if hooks.starts_with("libucm") => " (UCX_MEM_MMAP_HOOK_MODE=none)",
            hooks if hooks.starts_with("libopen-pal") => " (mpirun --mca memory ^patcher)",
            _ => "",
        };
        format!(
            "{what} not probed {place}: its code in {file} was overwritten in the memory of process {pid} ({overwritten}), and a probe would make \
             the kernel run the code of the file; {instead}start the program without what overwrites it{how}"
        )
    }
}
