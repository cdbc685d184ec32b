//! A cache for a value that was read of a file and can be read again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kept from its first use until it is forgotten; then only by owners of the `Arc`.
#[derive(Debug)]
pub(super) struct Cached<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(Mutex::new(None))
    }
}

impl<T> Cached<T> {
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
    fn a_cached_image_is_read_once_and_again_after_its_removal() {
        let (cached, mut reads) = (Cached::default(), 0);
        let mut read = || -> Result<u32, ()> {
            reads += 1;
            Ok(reads)
        };
        let first = cached.get(&mut read).unwrap();
        assert!(Arc::ptr_eq(&first, &cached.get(&mut read).unwrap()));
        cached.forget();
        assert_eq!((*cached.get(&mut read).unwrap(), *first), (2, 1));
        cached.forget();
        assert_eq!(cached.get(|| Err("gone")), Err("gone"));
        assert_eq!(*cached.get(&mut read).unwrap(), 3, "a failure is not kept");
    }
}
