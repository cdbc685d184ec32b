//! Whether processes have certain variables, by their mapped files. The ranks of a job have the same files,
//! and determining that none has a variable reads every symbol, so the results are cached.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use tuner::Image;

use super::Member;

/// Most sets of files that are cached.
const FILES_MAX: usize = 64;

/// Files in the order of the dynamic linker, and whether they have each variable.
type OfFiles = (Vec<Arc<Image>>, HashMap<String, bool>);

/// Cache of known variables.
#[derive(Debug, Default)]
pub struct Variables(RefCell<Vec<OfFiles>>);

impl Variables {
    /// Whether a process has a variable of this name. The result is cached only if its files are all mapped
    /// and linked: otherwise it does not apply to other processes with the same files.
    pub fn has(&self, member: &Member, name: &str) -> bool {
        if !member.space.is_linked() {
            return member.has_variable(name);
        }
        let mut known = self.0.borrow_mut();
        let images = || member.space.modules.iter().map(|module| &module.image);
        let is_same = |(files, _): &OfFiles| {
            let mut both = files.iter().zip(images());
            files.len() == member.space.modules.len() && both.all(|(file, image)| Arc::ptr_eq(file, image))
        };
        let place = known.iter().position(is_same).unwrap_or_else(|| {
            if known.len() == FILES_MAX {
                known.remove(0);
            }
            known.push((images().cloned().collect(), HashMap::new()));
            known.len() - 1
        });
        let known = &mut known[place].1;
        if let Some(has) = known.get(name) {
            return *has;
        }
        let has = member.has_variable(name);
        known.insert(name.to_owned(), has);
        has
    }
}
