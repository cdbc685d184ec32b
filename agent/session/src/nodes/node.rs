//! A node of a job on several machines, as a state machine.

use profile::NodeNumbers;
use rules::Schedule;

use super::message::{Down, NodeReport, Up, Welcome};
use super::part::PartReport;

/// Time between two reports, at least, in nanoseconds.
const REPORT_NS: u64 = 400_000_000;
/// A report is sent again if it was not acknowledged for this time, in nanoseconds.
const RESEND_NS: u64 = 2_000_000_000;

/// Why the session of a node ends.
pub(super) const BY_COORDINATOR: &str = "the coordinator has ended the session";
pub(super) const ORPHANED: &str = "nothing arrived from the coordinator for the time of --orphan";

#[derive(Debug)]
pub struct NodeAgent {
    incarnation: u64,
    orphan_ns: u64,
    sequence: u64,
    /// The report that is not acknowledged.
    outstanding: Option<Vec<u8>>,
    sent_ns: u64,
    /// When a message of the coordinator arrived last.
    arrived_ns: u64,
    /// Reports that were too long.
    dropped: u64,
    /// Nothing arrived for too long: no answer is expected any more.
    is_orphan: bool,
}

#[derive(Debug, PartialEq)]
pub enum NodeEffect {
    /// Send this message to the coordinator.
    Send(Vec<u8>),
    /// Pass this on to the rules' part.
    Learn { schedule: Schedule, offset_ns: i64 },
    /// End the session, for this reason.
    End(&'static str),
}

impl NodeAgent {
    pub fn new(welcome: &Welcome, now_ns: u64) -> NodeAgent {
        NodeAgent {
            incarnation: welcome.incarnation,
            orphan_ns: welcome.orphan_ns,
            sequence: 0,
            outstanding: None,
            sent_ns: 0,
            arrived_ns: now_ns,
            dropped: 0,
            is_orphan: false,
        }
    }

    /// The answer to a ping, which is sent at once.
    pub fn pong(sent_ns: u64, now_ns: u64) -> Up {
        Up::Pong {
            sent_ns,
            received_ns: now_ns,
            answered_ns: now_ns,
        }
    }

    /// Whether a report may be made: the one before is acknowledged. Until then everything is merged.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.outstanding.is_none() && now_ns.saturating_sub(self.sent_ns) >= REPORT_NS
    }

    /// The last report has arrived, or none is under way, or no answer is expected.
    pub fn is_settled(&self) -> bool {
        self.outstanding.is_none() || self.is_orphan
    }

    /// The coordinator is known to have ended: no answer is expected any more.
    pub fn orphan(&mut self) {
        self.is_orphan = true;
    }

    /// Makes the next report. The last one is sent whether or not the one before was acknowledged.
    pub fn report(
        &mut self,
        numbers: &NodeNumbers,
        part: PartReport,
        is_last: bool,
        now_ns: u64,
    ) -> Vec<NodeEffect> {
        let rules = part.report.encode().unwrap_or_default();
        self.dropped += u64::from(rules.is_empty());
        let mut report = NodeReport {
            incarnation: self.incarnation,
            sequence: self.sequence,
            is_last,
            members: part.members,
            rules,
            dropped: part.dropped + self.dropped,
            ..NodeReport::default()
        };
        if report.set_numbers(numbers).is_err() {
            self.dropped += 1;
        }
        let encoded = Up::Report(report.clone()).encode().or_else(|_| {
            self.dropped += 1;
            Up::Report(NodeReport {
                rules: Vec::new(),
                dropped: report.dropped + 1,
                ..report
            })
            .encode()
        });
        let Ok(message) = encoded else {
            self.dropped += 1;
            return Vec::new();
        };
        self.sequence += 1;
        self.sent_ns = now_ns;
        self.outstanding = Some(message.clone());
        vec![NodeEffect::Send(message)]
    }

    /// Takes a message of the coordinator. One that cannot be read changes nothing.
    pub fn take(&mut self, message: &[u8], now_ns: u64) -> Vec<NodeEffect> {
        let Ok(down) = Down::decode(message) else {
            return Vec::new();
        };
        self.arrived_ns = now_ns;
        match down {
            Down::Ping { sent_ns } => {
                let pong = NodeAgent::pong(sent_ns, now_ns).encode();
                pong.into_iter().map(NodeEffect::Send).collect()
            }
            Down::Acknowledged {
                sequence,
                schedule,
                offset_ns,
            } => {
                if sequence + 1 == self.sequence {
                    self.outstanding = None;
                }
                let schedule = Schedule::decode(&schedule).unwrap_or_default();
                vec![NodeEffect::Learn { schedule, offset_ns }]
            }
            Down::End(_) => vec![NodeEffect::End(BY_COORDINATOR)],
            // Of another agent that tries to join with the same credential.
            Down::Welcome(_) | Down::Refused(_) => Vec::new(),
        }
    }

    /// Sends a report again, and ends the session if nothing arrives.
    pub fn tick(&mut self, now_ns: u64) -> Vec<NodeEffect> {
        if now_ns.saturating_sub(self.arrived_ns) >= self.orphan_ns {
            self.is_orphan = true;
            return vec![NodeEffect::End(ORPHANED)];
        }
        let is_late = now_ns.saturating_sub(self.sent_ns) >= RESEND_NS;
        let again = self.outstanding.clone().filter(|_| is_late);
        again
            .into_iter()
            .map(|message| {
                self.sent_ns = now_ns;
                NodeEffect::Send(message)
            })
            .collect()
    }
}
