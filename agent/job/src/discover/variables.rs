//! Which variables processes have, by the files that they have mapped. The ranks of a job have the same
//! files, and to find out that none has a variable every symbol is read. Does not know what the variables are
//! for.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use tuner::Image;

use super::Member;

/// More sets of files are not remembered together.
const FILES_MAX: usize = 64;

/// Files in the order of the dynamic linker, and what is known of each variable.
type OfFiles = (Vec<Arc<Image>>, HashMap<String, bool>);

/// What is known of variables.
#[derive(Debug, Default)]
pub struct Variables(RefCell<Vec<OfFiles>>);

impl Variables {
    /// Whether a process has a variable of this name. What is found while its files are not mapped yet, or
    /// not linked, says nothing of others that have the same.
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
