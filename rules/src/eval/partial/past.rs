//! Contents of closed instances, for folds that refer to them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Content;
use crate::folds::WindowFolds;

/// Maximum number of kept instances; limits folds that go back further.
const EARLIER_MAX: usize = 1024;

/// The closed instances of one window.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    folds: Arc<WindowFolds>,
    /// As many as the longest range of a fold needs, the newest last.
    earlier: VecDeque<Arc<Content>>,
    run: Option<Arc<Content>>,
}

impl Past {
    pub(crate) fn new(folds: Arc<WindowFolds>) -> Past {
        Past {
            folds,
            earlier: VecDeque::new(),
            run: None,
        }
    }

    /// Adds a closed complete instance.
    pub(crate) fn push(&mut self, content: &Arc<Content>) {
        if self.folds.runs {
            match &mut self.run {
                Some(run) => Arc::make_mut(run).merge(content),
                None => self.run = Some(Arc::clone(content)),
            }
        }
        if self.folds.newest.is_empty() {
            return;
        }
        self.earlier.push_back(Arc::clone(content));
        while self.earlier.len() > EARLIER_MAX || self.has_enough_without_the_oldest() {
            self.earlier.pop_front();
        }
    }

    fn has_enough_without_the_oldest(&self) -> bool {
        let newer = || self.earlier.iter().skip(1);
        let enough = |(slot, probe, hits): &(usize, usize, u32)| {
            newer().map(|content| content.hits_of(*slot, *probe)).sum::<u64>() >= u64::from(*hits)
        };
        self.earlier.len() > 1 && self.folds.newest.iter().all(enough)
    }

    pub(crate) fn earlier(&self) -> Vec<Arc<Content>> {
        self.earlier.iter().cloned().collect()
    }

    pub(crate) fn run(&self) -> Option<Arc<Content>> {
        self.run.clone()
    }
}
