//! A cache for a value that was read of a file and can be read again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kept from its first use until it is forgotten; then only by owners of the `Arc`.
#[derive(Debug)]
pub(super) struct Shelf<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf(Mutex::new(None))
    }
}

impl<T> Shelf<T> {
    /// The kept value; otherwise reads it. Concurrent callers read it once.
    pub(super) fn get<E>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut kept = self.kept();
        if let Some(kept) = &*kept {
            return Ok(Arc::clone(kept));
        }
        let new = Arc::new(read()?);
        *kept = Some(Arc::clone(&new));
        Ok(new)
    }

    pub(super) fn forget(&self) {
        *self.kept() = None;
    }

    fn kept(&self) -> MutexGuard<'_, Option<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_once_and_again_when_it_was_forgotten() {
        let (shelf, mut reads) = (Shelf::default(), 0);
        let mut read = || -> Result<u32, ()> {
            reads += 1;
            Ok(reads)
        };
        let first = shelf.get(&mut read).unwrap();
        assert!(Arc::ptr_eq(&first, &shelf.get(&mut read).unwrap()));
        shelf.forget();
        assert_eq!((*shelf.get(&mut read).unwrap(), *first), (2, 1));
        shelf.forget();
        assert_eq!(shelf.get(|| Err("gone")), Err("gone"));
        assert_eq!(*shelf.get(&mut read).unwrap(), 3, "a failure is not kept");
    }
}
