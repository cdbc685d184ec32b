//! Who sends how much to whom, as it is shown. Knows no communicator: ranks are those of the world.

/// Messages point to point, by ranks of the world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatrixView {
    /// What ranks here sent, the most bytes first.
    pub sent: Vec<PairView>,
    /// What ranks here received, or have room for.
    pub received: Vec<PairView>,
    /// Pairs beyond those that are listed.
    pub cut: usize,
    /// Pairs of which the sender is here, listed or not.
    pub pairs: usize,
    /// What each rank here sends to and receives from ranks that are known, pairs that are not listed
    /// included; by rank.
    pub ranks: Vec<RankMessages>,
    /// Their messages and bytes, and those of pairs that are listed: everything that was sent to a known
    /// rank.
    pub all_sent: Messages,
    /// Sent to a receiver whose world rank is unknown.
    pub unresolved_sent: Messages,
    /// Received, or waited for, from a sender whose world rank is unknown.
    pub unresolved_received: Messages,
}

/// An amount of messages; the more bytes the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Messages {
    pub bytes: u64,
    pub count: u64,
}

impl std::ops::AddAssign for Messages {
    fn add_assign(&mut self, more: Messages) {
        self.bytes += more.bytes;
        self.count += more.count;
    }
}

/// All messages of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankMessages {
    pub rank: u32,
    pub sent: Messages,
    /// From all others, or what there is room for.
    pub received: Messages,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairView {
    pub from: u32,
    pub to: u32,
    pub of: Messages,
}
