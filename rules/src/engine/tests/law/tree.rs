//! A tree of nodes and relays through which reports reach the coordinator, with faults.

use crate::aggregate::Merge;
use crate::engine::{Node, Reports, Schedule};

/// A node or a relay, with what it has not seen acknowledged.
#[derive(Default)]
struct Hop {
    /// The hop to which it sends; the coordinator without one. It is later in the list of hops.
    parent: Option<usize>,
    kept: Reports,
}

/// A message on its way to a hop, or to the coordinator.
type Message = (Option<usize>, Vec<u8>);

/// The nodes, then the relays.
#[derive(Default)]
pub(super) struct Tree {
    hops: Vec<Hop>,
    /// Messages that arrive after those that are sent next.
    late: Vec<Message>,
}

impl Tree {
    /// A tree of some relays above these nodes; `shape` chooses their number and parents.
    pub(super) fn new(nodes: usize, shape: &[u8]) -> Tree {
        let digit = |place: usize| usize::from(*shape.get(place % shape.len().max(1)).unwrap_or(&0));
        let relays = digit(0);
        let parent = |place: usize| {
            let above = place.max(nodes.saturating_sub(1)) + 1;
            let choices = (nodes + relays).saturating_sub(above);
            // The coordinator is a choice, too.
            let choice = digit(place + 1) % (choices + 1);
            (choice < choices).then_some(above + choice)
        };
        let hop = |place: usize| Hop {
            parent: parent(place),
            kept: Reports::default(),
        };
        Tree {
            hops: (0..nodes + relays).map(hop).collect(),
            late: Vec::new(),
        }
    }

    /// The reports that reach the coordinator when each node reports and each hop sends what it has. Some nodes
    /// are silent, and messages are lost, sent twice or late.
    pub(super) fn round(
        &mut self,
        nodes: &mut [Node],
        faults: &mut impl Iterator<Item = u8>,
    ) -> Vec<Reports> {
        let mut fault = || faults.next().unwrap_or(0);
        for (hop, node) in self.hops.iter_mut().zip(nodes) {
            if fault() != 1 {
                hop.kept.add(node.report());
            }
        }
        let mut arrived = Vec::new();
        let before = std::mem::take(&mut self.late);
        for place in 0..self.hops.len() {
            let (parent, messages) = (self.hops[place].parent, self.hops[place].kept.encode().unwrap());
            for message in messages {
                match fault() {
                    1 => {}
                    2 => {
                        self.arrive((parent, message.clone()), &mut arrived);
                        self.arrive((parent, message), &mut arrived);
                    }
                    3 => self.late.push((parent, message)),
                    _ => self.arrive((parent, message), &mut arrived),
                }
            }
        }
        before
            .into_iter()
            .for_each(|message| self.arrive(message, &mut arrived));
        arrived
    }

    fn arrive(&mut self, (to, message): Message, arrived: &mut Vec<Reports>) {
        let reports = Reports::decode(&message).unwrap();
        assert_eq!(reports.encode(), Ok(vec![message]));
        match to {
            Some(hop) => self.hops[hop].kept.merge(&reports),
            None => arrived.push(reports),
        }
    }

    /// Each hop gets the schedule, or does not.
    pub(super) fn learn(
        &mut self,
        schedule: &Schedule,
        nodes: &mut [Node],
        faults: &mut impl Iterator<Item = u8>,
    ) {
        let message = schedule.encode().unwrap();
        let arrived = Schedule::decode(&message).unwrap();
        assert_eq!(arrived, *schedule);
        let mut nodes = nodes.iter_mut();
        for hop in &mut self.hops {
            let node = nodes.next();
            if faults.next() != Some(3) {
                hop.kept.acknowledge(&arrived);
                node.into_iter().for_each(|node| node.learn(&arrived));
            }
        }
    }

    /// A hop loses what it has.
    pub(super) fn forget(&mut self, hop: usize) {
        self.hops[hop].kept = Reports::default();
    }

    /// Whether the coordinator has acknowledged all that was reported.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.hops.iter().all(|hop| hop.kept.is_empty())
    }
}
