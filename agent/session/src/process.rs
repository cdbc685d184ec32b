//! Identifiers of machines and processes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A machine of the job; 0 is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MachineId(pub u32);

impl MachineId {
    pub const HERE: MachineId = MachineId(0);
}

/// A process that runs one program: when it executes another program, it gets another slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemberProcess {
    pub machine: MachineId,
    pub slot: u32,
}

/// A process as the actuator names it: a reused number belongs to a process with another start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActuatorPid {
    pub number: i32,
    /// In clock ticks since boot.
    pub start_time: u64,
}

impl fmt::Display for ActuatorPid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// The newest change that the session made in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastChange {
    /// Its number in the journal of the process.
    pub number: u64,
    pub rule: String,
    /// When it was made, in nanoseconds since the probes were armed.
    pub at_ns: u64,
}
