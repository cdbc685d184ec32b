//! Detects the loop of a program from the sequence of its call sites: which call begins an iteration.
//! Replaces the dynamic periodicity detector of SelfAnalyzer, which requires equal iterations: here inner
//! loops may have varying numbers of passes, an iteration may have a call more or less, and may occasionally
//! take another path.
//!
//! Pure: sites go in one by one, begins of iterations come out. The memory is a window of bounded length.
//! Independent of time.
//!
//! An **anchor** begins an iteration: a site, or the first of several consecutive ones that an inner loop
//! repeats. A segment lies between two occurrences of the anchor. An anchor is *regular* if its segments are
//! similar, and the regular anchor with the longest segments wins: the outermost loop. There is one
//! exception: if the deviating segments of a loop *lack* calls of the ordinary iteration, the loop took
//! another path (LAMMPS rebuilds its lists instead of a plain exchange), and the periodicity of this path is
//! not an enclosing loop. An enclosing loop contains all calls of the inner loop, and more.

mod anchor;
mod level;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use self::anchor::Anchor;
use self::anchor::Follower;

/// Number of calls in which a loop is searched at first. Three iterations must fit; nine iterations of some
/// hundred calls each do, as in a step of molecular dynamics.
pub const WINDOW: usize = 4096;

/// The same while no loop is found in it: the window doubles up to this length, in which three iterations of
/// 10 000 calls fit. A search of it takes about 4 ms.
pub const WINDOW_MAX: usize = 32_768;

/// A loop is searched once this many calls were seen since the last search, and then at each request.
const ENOUGH: usize = 4;

/// A loop counts as left after this multiple of the calls of its longest iteration without a new iteration.
const PATIENCE: usize = 4;

/// The current loop of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub anchor: Anchor,
    /// Mean number of calls in an iteration, over the window.
    pub calls: f64,
    /// Maximum number of calls in an iteration of the window.
    pub most_calls: usize,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Still the same loop, or still none.
    Same,
    /// A loop was found, or one around the loop known so far. The numbers are how many calls ago its
    /// iterations began, oldest first; 0 is the newest call.
    Found(Vec<usize>),
    /// The known loop is over.
    Left,
}

/// Observes the calls of one thread.
#[derive(Clone, Debug, Default)]
pub struct Detector {
    window: VecDeque<u64>,
    known: Option<Loop>,
    follower: Follower,
    since_begin: usize,
    since_look: usize,
    /// How many times the window was doubled.
    doublings: u32,
}

impl Detector {
    /// Handles the next call. True if it begins an iteration of the known loop.
    pub fn push(&mut self, site: u64) -> bool {
        if self.window.len() == self.capacity() {
            self.window.pop_front();
        }
        self.window.push_back(site);
        self.since_look += 1;
        self.since_begin += 1;
        let Some(known) = &self.known else { return false };
        let begins = self.follower.push(&known.anchor, site);
        if begins {
            self.since_begin = 0;
        }
        begins
    }

    /// Calls were missed: the next calls do not continue the previous ones. The loop stays known.
    pub fn gap(&mut self) {
        self.window.clear();
        self.follower = Follower::default();
        self.since_begin = 0;
    }

    pub fn known(&self) -> Option<&Loop> {
        self.known.as_ref()
    }

    /// Whether the known loop has not begun an iteration for so long that it may have been left.
    pub fn is_overdue(&self) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| self.since_begin > PATIENCE * known.most_calls)
    }

    /// Number of calls that the window holds now.
    pub fn capacity(&self) -> usize {
        WINDOW << self.doublings
    }

    /// Number of calls in the window.
    pub fn seen(&self) -> usize {
        self.window.len()
    }

    /// Searches for a loop in the window, and checks whether the known one continues and is the outermost.
    /// Takes up to half a millisecond for each 4 096 calls, so it is not done at each call.
    pub fn look(&mut self) -> Look {
        if self.since_look < ENOUGH {
            return Look::Same;
        }
        self.since_look = 0;
        let sites: Vec<u64> = self.window.iter().copied().collect();
        let found = level::outermost(&sites, self.known.as_ref().map(|known| &known.anchor));
        match (found, &mut self.known) {
            (None, None) => {
                if sites.len() == self.capacity() && sites.len() < WINDOW_MAX {
                    self.doublings += 1;
                }
                Look::Same
            }
            (None, Some(known)) => {
                if self.since_begin <= PATIENCE * known.most_calls {
                    return Look::Same;
                }
                self.known = None;
                Look::Left
            }
            (Some((found, _)), Some(known)) if found.anchor == known.anchor => {
                *known = found;
                Look::Same
            }
            (Some((found, begins)), known) => {
                // A loop inside the known one does not replace it: the known one has only not begun an
                // iteration in this window.
                if let Some(outer) = known
                    && found.calls < outer.calls
                    && self.since_begin <= PATIENCE * outer.most_calls
                {
                    return Look::Same;
                }
                let newest = sites.len() - 1;
                self.since_begin = begins.last().map_or(0, |begin| newest - begin);
                self.follower = Follower::default();
                for site in &sites {
                    self.follower.push(&found.anchor, *site);
                }
                *known = Some(found);
                Look::Found(begins.into_iter().map(|begin| newest - begin).collect())
            }
        }
    }
}
