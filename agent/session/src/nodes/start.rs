//! The starts of agents on other machines, as a state machine that also reports failures. A machine that cannot be reached
//! does not hold up the others.

use std::collections::BTreeMap;

use profile::format::{duration, plural};
use profile::node_list;
use serde::{Deserialize, Serialize};

/// Starts that are under way at once.
const AT_ONCE_MAX: usize = 32;
/// A machine that has not joined after this time is given up, in nanoseconds. An agent itself waits shorter for the answer
/// of its coordinator, and says so.
const JOIN_NS: u64 = 60_000_000_000;
/// What failed is said once nothing is under way, at the latest after this time, in nanoseconds.
const SAY_NS: u64 = 5_000_000_000;
/// Lines at a time; the machines of further reasons are counted.
const LINES_MAX: usize = 8;
/// Characters of a reason.
const REASON_MAX: usize = 160;

/// How the process that started an agent has ended: ssh, or srun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartEnd {
    /// Its exit code; `None` if a signal ended it, or it could not be started.
    pub code: Option<i32>,
    /// The last of what it printed.
    pub said: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartEffect {
    /// Start the agent of this node.
    Begin(u32),
    /// End the process that starts it.
    Stop(u32),
    Say(String),
}

use StartEffect::{Begin, Say, Stop};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartState {
    Waiting,
    Begun { at_ns: u64 },
    Reached,
    Failed,
}

/// A machine on which an agent is started.
#[derive(Clone, Debug)]
struct StartedNode {
    host: String,
    state: StartState,
}

/// All starts of a session.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    /// The program that starts: ssh, or srun.
    by: String,
    nodes: BTreeMap<u32, StartedNode>,
    began_ns: u64,
    reached_ns: u64,
    /// What failed and was not said: the machine, and why. The time is that of the first.
    unsaid: Vec<(String, String)>,
    unsaid_since_ns: u64,
    /// All are reached or failed, and this was said.
    is_settled: bool,
}

impl Starts {
    /// For these hosts, whose nodes are numbered from `first`.
    pub fn new(by: &str, first: u32, hosts: Vec<String>, now_ns: u64) -> Starts {
        let waiting = |host| StartedNode {
            host,
            state: StartState::Waiting,
        };
        Starts {
            by: by.to_owned(),
            nodes: (first..).zip(hosts.into_iter().map(waiting)).collect(),
            began_ns: now_ns,
            reached_ns: now_ns,
            ..Starts::default()
        }
    }

    /// The agent of a node has joined.
    pub fn reached(&mut self, node: u32, now_ns: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.state = StartState::Reached;
            self.reached_ns = now_ns;
        }
    }

    /// The coordinator has refused a node, and has said why.
    pub fn refused(&mut self, node: u32) {
        let node = self.nodes.get_mut(&node);
        if let Some(node) = node.filter(|node| node.state != StartState::Reached) {
            node.state = StartState::Failed;
        }
    }

    /// The process that started an agent has ended.
    pub fn ended(&mut self, node: u32, end: &StartEnd, now_ns: u64) {
        let Some(of) = self.nodes.get_mut(&node) else {
            return;
        };
        let is_failure = match of.state {
            StartState::Waiting | StartState::Begun { .. } => true,
            // Why an agent has ended that had joined is said if it has said it itself.
            StartState::Reached => end.code != Some(0) && own_line(&end.said).is_some(),
            StartState::Failed => false,
        };
        if of.state != StartState::Reached {
            of.state = StartState::Failed;
        }
        let host = of.host.clone();
        if is_failure {
            let reason = reason(&self.by, end);
            self.fail(host, reason, now_ns);
        }
    }

    fn fail(&mut self, host: String, reason: String, now_ns: u64) {
        if self.unsaid.is_empty() {
            self.unsaid_since_ns = now_ns;
        }
        self.unsaid.push((host, reason));
    }

    /// Begins what may begin, gives up what takes too long, and says what failed. `watched` are the ranks that are watched,
    /// and those of the job if that is known.
    pub fn tick(&mut self, now_ns: u64, watched: (usize, Option<u32>)) -> Vec<StartEffect> {
        let mut effects = self.give_up(now_ns);
        let begun = |node: &&StartedNode| matches!(node.state, StartState::Begun { .. });
        let room = AT_ONCE_MAX.saturating_sub(self.nodes.values().filter(begun).count());
        let waiting = self
            .nodes
            .iter_mut()
            .filter(|(_, node)| node.state == StartState::Waiting);
        for (number, node) in waiting.take(room) {
            node.state = StartState::Begun { at_ns: now_ns };
            effects.push(Begin(*number));
        }
        let is_over = self.nodes.values().all(StartedNode::is_over);
        if is_over && !self.is_settled && !self.nodes.is_empty() {
            self.is_settled = true;
            effects.extend(self.summary().map(Say));
        }
        let is_late = now_ns.saturating_sub(self.unsaid_since_ns) >= SAY_NS;
        if is_over || is_late {
            effects.extend(self.say(watched));
        }
        effects
    }

    /// Gives up the starts that take too long.
    fn give_up(&mut self, now_ns: u64) -> Vec<StartEffect> {
        let mut late = Vec::new();
        for (number, node) in &mut self.nodes {
            if let StartState::Begun { at_ns } = node.state
                && now_ns.saturating_sub(at_ns) >= JOIN_NS
            {
                node.state = StartState::Failed;
                late.push((*number, node.host.clone()));
            }
        }
        let mut effects = Vec::new();
        for (number, host) in late {
            let text = format!("its agent did not answer within {}", duration(JOIN_NS as f64));
            self.fail(host, text, now_ns);
            effects.push(Stop(number));
        }
        effects
    }

    /// The session ends: what is still under way was not reached.
    pub fn end(&mut self, now_ns: u64, watched: (usize, Option<u32>)) -> Vec<StartEffect> {
        let open = self.nodes.values_mut().filter(|node| !node.is_over());
        let mut hosts = Vec::new();
        for node in open {
            node.state = StartState::Failed;
            hosts.push(node.host.clone());
        }
        for host in hosts {
            self.fail(host, "it has not joined before the end".to_owned(), now_ns);
        }
        self.say(watched)
    }

    fn summary(&self) -> Option<String> {
        let reached = self
            .nodes
            .values()
            .filter(|node| node.state == StartState::Reached);
        let took = duration(self.reached_ns.saturating_sub(self.began_ns) as f64);
        match reached.count() {
            0 => None,
            count => Some(format!(
                "agents on {} by {}, after {took}",
                plural(count, "other machine"),
                self.by
            )),
        }
    }

    /// What failed since the last time, a line for each reason.
    fn say(&mut self, (watched, all): (usize, Option<u32>)) -> Vec<StartEffect> {
        let mut by_reason: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (host, reason) in std::mem::take(&mut self.unsaid) {
            let general = reason.replace(&host, "…");
            by_reason.entry(general).or_default().push((host, reason));
        }
        let mut lines: Vec<String> = Vec::new();
        let mut further = 0;
        for (general, hosts) in by_reason {
            if lines.len() == LINES_MAX {
                further += hosts.len();
                continue;
            }
            let named = node_list(hosts.iter().map(|(host, _)| host.as_str()));
            let reason = match &hosts[..] {
                [(_, reason)] => reason,
                _ => &general,
            };
            lines.push(format!("{named}: {reason}"));
        }
        if further > 0 {
            lines.push(format!(
                "{}, for other reasons",
                plural(further, "further machine")
            ));
        }
        if let (Some(last), Some(all)) = (lines.last_mut(), all) {
            *last += &format!(". {watched} of {all} ranks are watched");
        }
        lines.into_iter().map(Say).collect()
    }
}

impl StartedNode {
    fn is_over(&self) -> bool {
        matches!(self.state, StartState::Reached | StartState::Failed)
    }
}

/// The line with which our own program on the other machine says why it has ended.
fn own_line(said: &str) -> Option<&str> {
    let mut lines = said.lines().rev();
    lines.find_map(|line| line.trim().strip_prefix("tuneagent: "))
}

/// Why there is no agent, in a few words.
fn reason(by: &str, end: &StartEnd) -> String {
    let last = end.said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let text = match (own_line(&end.said), end.code, last) {
        (Some(own), ..) => own.to_owned(),
        (None, Some(126 | 127), _) => {
            "tuneagent is not there: install it at the same place as here, or in a folder of PATH".to_owned()
        }
        (None, _, Some(last)) => {
            // `ann@n3: Permission denied`
            let plain = match last.split_once(": ") {
                Some((who, why)) if who.contains('@') && !who.contains(' ') => why,
                _ => last,
            };
            let has_name = plain.starts_with(&format!("{by}: "));
            if has_name {
                plain.to_owned()
            } else {
                format!("{by}: {plain}")
            }
        }
        (None, Some(code), None) => format!("{by} has ended with exit code {code}"),
        (None, None, None) => format!("{by} was ended by a signal"),
    };
    let text: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(REASON_MAX)
        .collect();
    text.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn end(code: i32, said: &str) -> StartEnd {
        StartEnd {
            code: Some(code),
            said: said.to_owned(),
        }
    }

    fn starts(count: usize) -> Starts {
        let hosts = (1..=count).map(|number| format!("n{number}")).collect();
        Starts::new("ssh", 1, hosts, 0)
    }

    fn begun(effects: &[StartEffect]) -> Vec<u32> {
        let begun = effects.iter().filter_map(|effect| match effect {
            Begin(node) => Some(*node),
            _ => None,
        });
        begun.collect()
    }

    fn said(effects: &[StartEffect]) -> Vec<&str> {
        let said = effects.iter().filter_map(|effect| match effect {
            Say(text) => Some(text.as_str()),
            _ => None,
        });
        said.collect()
    }

    #[test]
    fn the_reason_is_the_line_that_names_it() {
        let not_there =
            "tuneagent is not there: install it at the same place as here, or in a folder of PATH";
        for (code, printed, expected) in [
            (
                255,
                "Warning: added n3\nann@n3: Permission denied (publickey).\n",
                "ssh: Permission denied (publickey)",
            ),
            (
                255,
                "ssh: connect to host n3 port 22: Connection refused\r\n",
                "ssh: connect to host n3 port 22: Connection refused",
            ),
            (
                255,
                "Host key verification failed.\n",
                "ssh: Host key verification failed",
            ),
            (127, "sh: 1: exec: tuneagent: not found\n", not_there),
            (126, "", not_there),
            (
                2,
                "tuneagent: this is version 1, and a has 2\nadvice\nsrun: error: n3: task 0: Exited with exit code 2\n",
                "this is version 1, and a has 2",
            ),
            (1, "", "ssh has ended with exit code 1"),
            (1, "\u{1b}[2Jx\n", "ssh: [2Jx"),
        ] {
            assert_eq!(reason("ssh", &end(code, printed)), expected);
        }
        assert_eq!(reason("srun", &StartEnd::default()), "srun was ended by a signal");
        assert!(reason("ssh", &end(1, &"x".repeat(9_000))).len() < 200);
    }

    #[test]
    fn thirty_two_begin_at_once_and_the_next_when_one_is_reached_or_failed() {
        let mut starts = starts(40);
        assert_eq!(begun(&starts.tick(0, (2, None))), (1..=32).collect::<Vec<_>>());
        assert_eq!(begun(&starts.tick(S, (2, None))), [0; 0]);
        starts.reached(7, S);
        starts.ended(9, &end(255, "no"), S);
        starts.refused(11);
        assert_eq!(begun(&starts.tick(S, (2, None))), [33, 34, 35]);
    }

    #[test]
    fn what_failed_is_said_once_by_reason_when_all_is_over() {
        let mut starts = starts(5);
        starts.tick(0, (2, Some(12)));
        starts.reached(1, S / 2);
        starts.ended(
            2,
            &end(255, "ssh: connect to host n2 port 22: Connection refused"),
            S,
        );
        starts.ended(
            3,
            &end(255, "ssh: connect to host n3 port 22: Connection refused"),
            S,
        );
        starts.ended(4, &end(255, "ann@n4: Permission denied (publickey)."), S);
        assert_eq!(said(&starts.tick(S, (4, Some(12)))), [""; 0], "n5 may still join");
        starts.refused(5);
        assert_eq!(
            said(&starts.tick(2 * S, (4, Some(12)))),
            [
                "agents on 1 other machine by ssh, after 500 ms",
                "n4: ssh: Permission denied (publickey)",
                "n2, n3: ssh: connect to host … port 22: Connection refused. 4 of 12 ranks are watched",
            ]
        );
        // The agent of a node that had joined ends in order, or says why not.
        starts.ended(1, &end(0, ""), 3 * S);
        assert_eq!(said(&starts.tick(4 * S, (4, Some(12)))), [""; 0]);
        starts.ended(1, &end(1, "tuneagent: no probes"), 5 * S);
        assert_eq!(said(&starts.tick(5 * S, (4, None))), ["n1: no probes"]);
    }

    #[test]
    fn a_machine_that_does_not_answer_is_given_up_and_others_are_not_held_up() {
        let mut starts = starts(2);
        starts.tick(0, (2, None));
        starts.ended(1, &end(255, "no route"), S);
        assert_eq!(said(&starts.tick(5 * S, (2, None))), [""; 0]);
        assert_eq!(said(&starts.tick(6 * S, (2, None))), ["n1: ssh: no route"]);
        let effects = starts.tick(60 * S, (2, Some(4)));
        assert_eq!(
            effects,
            [
                Stop(2),
                Say("n2: its agent did not answer within 60 s. 2 of 4 ranks are watched".to_owned())
            ]
        );
        starts.ended(2, &StartEnd::default(), 61 * S);
        assert_eq!(starts.tick(70 * S, (2, Some(4))), []);
    }

    #[test]
    fn five_hundred_failures_are_a_few_lines_and_an_early_end_is_one() {
        let mut many = starts(500);
        for node in 1..=500 {
            many.tick(S, (2, None));
            many.ended(node, &end(255, &format!("failure {}", node % 100)), S);
        }
        let lines = many.tick(S, (2, Some(4)));
        assert_eq!(said(&lines).len(), LINES_MAX + 1);
        assert!(said(&lines).iter().all(|line| line.len() < 300), "{lines:?}");
        let mut few = starts(3);
        few.tick(0, (2, None));
        few.reached(1, S);
        assert_eq!(
            said(&few.end(S, (2, None))),
            ["n2, n3: it has not joined before the end"]
        );
        assert_eq!(Starts::default().tick(S, (2, None)), []);
    }
}
