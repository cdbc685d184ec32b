//! The messages between ranks, for display. Independent of communicators: ranks are those of the world.

/// Point-to-point messages between ranks of the world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatrixView {
    /// What local ranks sent, the most bytes first.
    pub sent: Vec<PairView>,
    /// What local ranks received, or posted room for.
    pub received: Vec<PairView>,
    /// Pairs that are not listed.
    pub cut: usize,
    /// Pairs whose sender is local, listed or not.
    pub pairs: usize,
    /// What each local rank sends to and receives from known ranks, including pairs that are not listed; by
    /// rank.
    pub ranks: Vec<RankMessages>,
    /// All messages and bytes that were sent to a known rank, including pairs that are not listed.
    pub all_sent: Messages,
    /// Sent to a receiver whose world rank is unknown.
    pub unresolved_sent: Messages,
    /// Received, or waited for, from a sender whose world rank is unknown.
    pub unresolved_received: Messages,
}

impl MatrixView {
    /// All that local ranks sent, also to receivers whose rank is unknown.
    pub fn sent_to_all(&self) -> Messages {
        let mut all = self.all_sent;
        all += self.unresolved_sent;
        all
    }
}

/// An amount of messages, ordered by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Messages {
    pub bytes: u64,
    pub count: u64,
}

crate::fieldwise::fieldwise! {
    Messages { bytes, count }
}

/// All messages of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankMessages {
    pub rank: u32,
    pub sent: Messages,
    /// From all other ranks; posted room counts as received where the size is unknown.
    pub received: Messages,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairView {
    pub from: u32,
    pub to: u32,
    pub of: Messages,
}
