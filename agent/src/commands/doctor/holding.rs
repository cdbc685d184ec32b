//! Tests on a child process whether a thread can be held, and stopped, at a sync point.

use std::{
    io::{Read, Write},
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

use plan::{Literal, SyncPoint, ValueType};
use tuner::actuator::{ArmCommand, Collected, SetCommand};
use tuner::{Pid, Receipt};

use super::CheckResult;
use crate::actuator::{Actuator, StartOptions, passage_text};

/// The function that `cat` calls for each line.
const PLACE: &str = "entry:libc.so.6:write";
const WAIT: Duration = Duration::from_secs(20);

/// Sets a variable of the child twice at the write of its input: once while it is held, and once while it is
/// stopped. Then ends the child, so that nothing needs to be reverted. Returns a description.
pub(super) fn try_on(child: &mut Child, pid: Pid, variable: &str, state: &Path) -> CheckResult<String> {
    let options = StartOptions {
        keeps: false,
        has_sync_points: true,
        has_stand_in: false,
    };
    let mut actuator = Actuator::start_in(state.to_owned(), options)?;
    let place: SyncPoint = PLACE.parse()?;
    let mut said = Vec::new();
    for (value, by_stop) in [(4711, false), (4712, true)] {
        let command = ArmCommand {
            set: SetCommand {
                pid,
                variable: variable.to_owned(),
                module: None,
                value: Literal::Integer(value),
                value_type: Some(ValueType::I32),
                expect_old: None,
                why: vec!["tuneagent doctor".to_owned()],
                rule: None,
            },
            at: place.clone(),
            within_ms: WAIT.as_millis() as u64,
            answer_ns_max: None,
            by_stop,
        };
        let receipt = at_its_next_write(child, &mut actuator, command)?;
        let passage = receipt.passage.unwrap_or_default();
        said.push(passage_text(&place, receipt.mechanism, &passage, true));
    }
    let _ = child.kill();
    let _ = child.wait();
    Ok(said.join("\n"))
}

/// On a busy machine a hit can be missed, so the child writes repeatedly until the change is done.
fn at_its_next_write(
    child: &mut Child,
    actuator: &mut Actuator,
    command: ArmCommand,
) -> CheckResult<Receipt> {
    let ticket = actuator.client.arm(command)?;
    let input = child.stdin.as_mut().ok_or("the child ended")?;
    let output = child.stdout.as_mut().ok_or("the child ended")?;
    let until = Instant::now() + WAIT + WAIT;
    while Instant::now() < until {
        input.write_all(b"y")?;
        output.read_exact(&mut [0])?;
        let Collected { finished, .. } = actuator.client.collect()?;
        if let Some((_, result)) = finished.into_iter().find(|(of, _)| *of == ticket) {
            return Ok(result?);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("the actuator did not answer".into())
}
