//! The name of a job at its site: the number that its batch system assigned, otherwise the pid of the process
//! that started it.

use tuner::printable;

use super::Job;

/// Variables of batch systems that contain the number of a job: Slurm, PBS, LSF, Flux, Grid Engine.
const VARIABLES: &[&str] = &["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"];

/// Longer names are truncated: the name is a label of every metric.
const CHARACTERS_MAX: usize = 64;

/// The name of a job, unique within its site, or without a batch system within this machine.
pub fn job_id(job: &Job) -> String {
    let members = job.members.iter().take(1);
    let given = members.filter_map(|member| from_environment(&member.process.environment().ok()?));
    let starter = job.roots.first().map(|root| root.process.pid.number.to_string());
    given.chain(starter).next().unwrap_or_default()
}

/// When the batch system ends the job, in seconds since 1970; `None` if it has no time limit, or none is known.
pub fn end_time_s(job: &Job) -> Option<f64> {
    let environment = job.members.first()?.process.environment().ok()?;
    value(&environment, "SLURM_JOB_END_TIME")?.parse().ok()
}

fn value<'a>(environment: &'a [String], name: &str) -> Option<&'a str> {
    let mut values = environment.iter().filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix('=')?.trim();
        (!value.is_empty()).then_some(value)
    });
    values.next()
}

fn from_environment(environment: &[String]) -> Option<String> {
    let value = VARIABLES.iter().find_map(|name| value(environment, name))?;
    Some(printable(value).chars().take(CHARACTERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_system_names_the_job() {
        let of = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            from_environment(&lines)
        };
        assert_eq!(
            of(&["HOME=/", "SLURM_JOB_ID=4711", "JOB_ID=1"]),
            Some("4711".into())
        );
        assert_eq!(of(&["PBS_JOBID=12.pbs"]), Some("12.pbs".into()));
        assert_eq!(of(&["SLURM_JOB_ID=", "SLURM_JOB_IDS=1"]), None);
        let long = format!("JOB_ID={}", "9".repeat(1000));
        assert_eq!(of(&[&long]).map(|id| id.len()), Some(CHARACTERS_MAX));
    }
}
