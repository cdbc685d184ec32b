//! Finds the loop that a program runs in from the sequence of its call sites: which call begins an iteration.
//! In the place of the dynamic periodicity detector of SelfAnalyzer, which wants iterations to be equal: here
//! inner loops may go round another number of times each time, an iteration may have a call more or less, and
//! now and then take another way.
//!
//! Pure: sites go in one by one, the begins of iterations come out. What is kept is a window of bounded
//! length. Knows no time; who calls does.
//!
//! An **anchor** is what begins an iteration: a site, or the first of several in a row that an inner loop
//! repeats. What lies between two of its occurrences is a segment. An anchor is *regular* when its segments
//! are alike, and of regular ones that with the longest segments wins: the outermost loop. With one
//! exception: where what differs from a loop's ordinary iteration *lacks* calls of it, the loop took another
//! way (LAMMPS rebuilds its lists in the place of a plain exchange), and that this comes back in turn makes
//! no loop around it. In a loop that is around another one all calls of the inner one are made, and more.

mod anchor;
mod level;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use self::anchor::Anchor;
use self::anchor::Follower;

/// Calls in which a loop is looked for. Three iterations must fit: of some hundred calls each, as a step of
/// molecular dynamics has, nine do.
pub const WINDOW: usize = 4096;

/// A loop is searched for once this many calls were seen since the last search, and then at each request.
const ENOUGH: usize = 4;

/// How many times the calls of its longest iteration may go by without a new one before a loop counts as
/// left.
const PATIENCE: usize = 4;

/// The loop that the program is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    pub anchor: Anchor,
    /// Calls in an iteration, the mean over the window.
    pub calls: f64,
    /// The most calls that an iteration in the window had.
    pub most_calls: usize,
    /// Iterations in the window that were whole when it was found.
    pub iterations: usize,
}

/// What came of a look at the window.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Nothing new: still the same loop, or still none.
    Same,
    /// A loop was found, or one around the loop known so far. The numbers are how many calls ago its
    /// iterations began, oldest first; 0 is the newest call.
    Found(Vec<usize>),
    /// The loop that was known is over.
    Left,
}

/// Watches the calls of one thread.
#[derive(Clone, Debug, Default)]
pub struct Detector {
    window: VecDeque<u64>,
    known: Option<Loop>,
    follower: Follower,
    since_begin: usize,
    since_look: usize,
}

impl Detector {
    /// The next call. True when it begins an iteration of the known loop.
    pub fn push(&mut self, site: u64) -> bool {
        if self.window.len() == WINDOW {
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

    /// Calls were not seen: what comes next does not follow on what came before. The loop stays known.
    pub fn gap(&mut self) {
        self.window.clear();
        self.follower = Follower::default();
        self.since_begin = 0;
    }

    pub fn known(&self) -> Option<&Loop> {
        self.known.as_ref()
    }

    /// The known loop has not come round for so long that it may have been left.
    pub fn is_overdue(&self) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| self.since_begin > PATIENCE * known.most_calls)
    }

    /// Calls in the window.
    pub fn seen(&self) -> usize {
        self.window.len()
    }

    /// Looks for a loop in the window, or whether the known one still goes on and is the outermost. Takes
    /// some hundred microseconds, so it is not done at each call.
    pub fn look(&mut self) -> Look {
        if self.since_look < ENOUGH {
            return Look::Same;
        }
        self.since_look = 0;
        let sites: Vec<u64> = self.window.iter().copied().collect();
        let found = level::outermost(&sites, self.known.as_ref().map(|known| &known.anchor));
        match (found, &mut self.known) {
            (None, None) => Look::Same,
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
                // A loop within the known one is not another: the known one has merely not come round in this
                // window.
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
