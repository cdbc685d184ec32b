//! The machines of a job, as its launcher wrote them into the environment of its processes and into command lines.

use std::net::IpAddr;

use tuner::{Process, descendants};

use super::{Job, job_selector::CONTROL_PORT, launcher::is_launcher};
use crate::hosts;

/// Longer texts are no name of a job.
const CHARACTERS_MAX: usize = 64;
/// Processes below a launcher that are looked at. Remote shells are its own children, and come first.
const BELOW_MAX: usize = 4 * hosts::HOSTS_MAX;

/// The other machines of a job, and how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// Names and addresses of this machine.
    here: Vec<String>,
    /// The names of the other hosts. Empty if there are none, or nothing names them.
    pub others: Vec<String>,
    /// Why the names of the hosts cannot be used.
    pub wrong: Option<hosts::HostsError>,
    /// The number of the job in Slurm, if that knows its machines.
    pub slurm: Option<String>,
    /// The launcher's remote shell, with its flags.
    pub shell: Vec<String>,
    /// The job as a TARGET on its other machines.
    pub target: Option<String>,
}

/// A process of the job, or a launcher or its child.
#[derive(Clone, Debug, Default)]
struct ProcessWords {
    arguments: Vec<String>,
    environment: Vec<String>,
    /// It belongs to the user who watches: its words may be executed.
    is_own: bool,
}

impl Machines {
    /// The machines of a job. `caller` is the user who watches, `own` are names and addresses of this machine.
    pub fn of(job: &Job, caller: u32, own: &[String]) -> Machines {
        let see = |process: &Process| ProcessWords {
            arguments: process.arguments.clone(),
            environment: process.environment().unwrap_or_default(),
            is_own: process.uid == caller,
        };
        let rank = job.members.first().map(|member| see(&member.process));
        let launchers = job.roots.iter().filter(|root| root.is_launcher);
        let mut all: Vec<ProcessWords> = rank.into_iter().collect();
        for root in launchers {
            all.push(see(&root.process));
            let below = descendants(root.process.pid.number, BELOW_MAX);
            let below = below.into_iter().filter_map(|pid| Process::open(pid).ok());
            all.extend(below.filter(is_of_launcher).map(|process| see(&process)));
        }
        Machines::read(&all, own)
    }

    /// `all` has a rank first.
    fn read(all: &[ProcessWords], own: &[String]) -> Machines {
        let slurm_hosts = value(all, "SLURM_JOB_NODELIST").or_else(|| value(all, "SLURM_NODELIST"));
        let slurm_hosts = step_hosts(all).or(slurm_hosts);
        let slurm = value(all, "SLURM_JOB_ID").filter(|_| slurm_hosts.is_some());
        let slurm =
            slurm.filter(|job| job.len() <= CHARACTERS_MAX && job.bytes().all(|byte| byte.is_ascii_digit()));
        let (named, wrong) = match named_hosts(all, slurm_hosts) {
            Ok(named) => (named, None),
            Err(wrong) => (Vec::new(), Some(wrong)),
        };
        let here = value(all, "SLURMD_NODENAME").map(str::to_owned);
        let mut machines = Machines {
            here: own.iter().cloned().chain(here).collect(),
            others: Vec::new(),
            wrong,
            slurm: slurm.map(str::to_owned),
            shell: shell(all),
            target: target(all),
        };
        machines.others = machines.without_here(named);
        machines
    }

    /// The hosts of a list that are other machines than this one.
    pub fn without_here(&self, mut hosts: Vec<String>) -> Vec<String> {
        let is_same = |name: &String, host: &String| {
            let is_address = host.parse::<IpAddr>().is_ok();
            name == host || (short(name) == short(host) && !is_address)
        };
        hosts.retain(|host| !self.here.iter().any(|name| is_same(name, host)));
        hosts
    }
}

/// Whether a process below a launcher is a part of it, and not of the program. Remote shells may have any name.
fn is_of_launcher(process: &Process) -> bool {
    is_launcher(&process.name) || hosts::remote_shell(&process.arguments).is_some()
}

/// Where the list of the step is that of the job: the step is not one that another launcher made for its daemons.
fn step_hosts(all: &[ProcessWords]) -> Option<&str> {
    let rank = all.get(..1)?;
    let namespace = value(rank, "PMIX_NAMESPACE");
    let is_of_slurm = namespace.is_none_or(|name| name.starts_with("slurm."));
    value(rank, "SLURM_STEP_NODELIST").filter(|_| is_of_slurm)
}

/// The most specific list of hosts, this one among them or not.
fn named_hosts(all: &[ProcessWords], slurm_hosts: Option<&str>) -> Result<Vec<String>, hosts::HostsError> {
    let orte = value(all, "OMPI_MCA_orte_node_regex").map(str::to_owned);
    let orte = orte.or_else(|| all.iter().find_map(|seen| hosts::orte_regex(&seen.arguments)));
    if let Some(regex) = orte {
        return hosts::of_orte(&regex);
    }
    let shells = all.iter().filter_map(|seen| hosts::remote_shell(&seen.arguments));
    let shells: Vec<&str> = shells.map(|(_, host)| host).collect();
    match (step_hosts(all), slurm_hosts) {
        (Some(list), _) => hosts::parse(list),
        _ if !shells.is_empty() => hosts::parse(&shells.join(",")),
        (None, Some(list)) => hosts::parse(list),
        (None, None) => Ok(Vec::new()),
    }
}

/// Flags and variables with which users choose the remote shell of ORTE, PRRTE and Hydra.
const AGENTS: [&str; 2] = ["plm_rsh_agent", "plm_ssh_agent"];
const AGENT_VARIABLES: [&str; 3] = [
    "OMPI_MCA_plm_rsh_agent",
    "OMPI_MCA_plm_ssh_agent",
    "PRTE_MCA_plm_ssh_agent",
];
const HYDRA_FLAGS: [&str; 4] = [
    "-launcher-exec",
    "--launcher-exec",
    "-bootstrap-exec",
    "--bootstrap-exec",
];
const HYDRA_VARIABLES: [&str; 2] = ["HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC"];

/// The remote shell that the launcher uses. Words of other users are not taken: they are executed.
fn shell(all: &[ProcessWords]) -> Vec<String> {
    let own: Vec<ProcessWords> = all.iter().filter(|seen| seen.is_own).cloned().collect();
    let used = own.iter().find_map(|seen| hosts::remote_shell(&seen.arguments));
    if let Some((words, _)) = used {
        return words.to_vec();
    }
    let flag = |names: &[&str]| own.iter().find_map(|seen| hosts::after(&seen.arguments, names));
    let variable = |names: &[&str]| names.iter().find_map(|name| value(&own, name));
    // The first of several alternatives, which colons separate.
    let agent = flag(&AGENTS).or_else(|| variable(&AGENT_VARIABLES));
    let agent = agent.and_then(|agent| agent.split(':').next());
    let words: Vec<String> = agent
        .into_iter()
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect();
    let hydra = flag(&HYDRA_FLAGS).or_else(|| variable(&HYDRA_VARIABLES));
    match (words.is_empty(), hydra) {
        (false, _) => words,
        (true, Some(program)) => vec![program.to_owned(), "-x".to_owned()],
        (true, None) => vec!["ssh".to_owned()],
    }
}

/// The job as a TARGET on its other machines: its name in PMIx, which the launcher gives to all of its processes, the
/// address to which the proxies of Hydra connect, or its number and step in Slurm. `None` if there is none of these.
fn target(all: &[ProcessWords]) -> Option<String> {
    let rank = all.get(..1)?;
    let plain = |text: &str| {
        let is_plain = text.len() <= CHARACTERS_MAX && text.chars().all(|c| c.is_ascii_graphic());
        is_plain.then(|| text.to_owned())
    };
    let given = |name: &str| value(rank, name).and_then(plain);
    if let Some(name) = given("PMIX_NAMESPACE") {
        return Some(format!("pmix:{name}"));
    }
    let mut ports = all
        .iter()
        .skip(1)
        .filter_map(|seen| hosts::after(&seen.arguments, &[CONTROL_PORT]));
    if let Some(port) = ports.next().and_then(plain) {
        return Some(format!("hydra:{port}"));
    }
    let (job, step) = (given("SLURM_JOB_ID")?, given("SLURM_STEP_ID"));
    Some(step.map_or_else(|| format!("slurm:{job}"), |step| format!("slurm:{job}.{step}")))
}

fn value<'a>(all: &'a [ProcessWords], name: &str) -> Option<&'a str> {
    let lines = all.iter().flat_map(|seen| &seen.environment);
    let mut values = lines.filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix('=')?.trim();
        (!value.is_empty()).then_some(value)
    });
    values.next()
}

fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(arguments: &str, environment: &str) -> ProcessWords {
        let words = |text: &str| {
            text.split('|')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        ProcessWords {
            arguments: words(arguments),
            environment: words(environment),
            is_own: true,
        }
    }

    fn read(all: &[ProcessWords]) -> Machines {
        Machines::read(all, &["n1.site", "10.0.0.1", "localhost"].map(str::to_owned))
    }

    /// Other hosts, the job of Slurm, the shell, and the target.
    type Found<'a> = (&'a str, Option<&'a str>, &'a str, Option<&'a str>);

    /// Reads processes, each with its arguments and environment.
    fn assert_found(all: &[(&str, &str)], expected: Found<'_>) {
        let all: Vec<ProcessWords> = all.iter().map(|(words, all)| seen(words, all)).collect();
        let found = read(&all);
        let (others, shell) = (found.others.join(" "), found.shell.join(" "));
        let found_here = (&*others, found.slurm.as_deref(), &*shell, found.target.as_deref());
        assert_eq!(found_here, expected, "{all:?}");
        assert_eq!(found.wrong, None, "{all:?}");
    }

    #[test]
    fn hosts_the_shell_and_the_target_are_read_where_slurm_and_open_mpi_leave_them() {
        let ssh = "ssh -F /c -x";
        let step = "SLURM_JOB_ID=7|SLURM_STEP_ID=0|SLURM_STEP_NODELIST=n[1-3]|SLURM_JOB_NODELIST=n[1-9]";
        assert_found(&[("app", step)], ("n2 n3", Some("7"), "ssh", Some("slurm:7.0")));
        // The daemons of mpirun are a step of Slurm.
        let daemons = "SLURM_JOB_ID=7|SLURM_STEP_NODELIST=n2|SLURM_JOB_NODELIST=n[1-2]|PMIX_NAMESPACE=3145|SLURMD_NODENAME=n2";
        assert_found(&[("app", daemons)], ("", Some("7"), "ssh", Some("pmix:3145")));
        let by_ssh = [
            (
                "app",
                "PMIX_NAMESPACE=3145|OMPI_MCA_plm_rsh_agent=ssh -F /c : rsh",
            ),
            ("mpirun|-np|4|app", ""),
            (
                "ssh|-F|/c|-x|n2|orted -mca orte_node_regex \"n[1:1-3]@0(3)\" -mca x y",
                "",
            ),
        ];
        assert_found(&by_ssh, ("n2 n3", None, ssh, Some("pmix:3145")));
        let by_name = "PMIX_NAMESPACE=3145|OMPI_MCA_orte_node_regex=n[1:1-2],10.0.0.1@0(2)|OMPI_MCA_plm_rsh_agent=ssh -F /c -x : rsh";
        assert_found(&[("app", by_name)], ("n2", None, ssh, Some("pmix:3145")));
    }

    #[test]
    fn hosts_the_shell_and_the_target_are_read_where_hydra_leaves_them() {
        let by_ssh = [
            ("app", "PMI_RANK=0"),
            ("mpiexec.hydra|-hosts|n1,n2", ""),
            ("hydra_pmi_proxy|--control-port|n1:4", ""),
            (
                "/usr/bin/ssh|-x|n2|\"/usr/bin/hydra_pmi_proxy\"|--control-port|n1:4",
                "",
            ),
        ];
        assert_found(&by_ssh, ("n2", None, "/usr/bin/ssh -x", Some("hydra:n1:4")));
        let by_shell = [
            ("app", "PMI_RANK=0"),
            ("mpiexec.hydra|-launcher-exec|/t/shell", ""),
        ];
        assert_found(&by_shell, ("", None, "/t/shell -x", None));
        for without_launcher in [&[("app", "HOME=/")][..], &[]] {
            assert_found(without_launcher, ("", None, "ssh", None));
        }
    }

    #[test]
    fn words_of_another_user_are_not_executed_and_wrong_names_are_not_used() {
        let mut shell = seen("/tmp/evil|-x|n2|orted", "OMPI_MCA_plm_rsh_agent=/tmp/evil");
        shell.is_own = false;
        let found = read(&[seen("app", ""), shell]);
        assert_eq!(
            (found.shell.join(" ").as_str(), found.others.join(" ").as_str()),
            ("ssh", "n2")
        );
        let found = read(&[seen(
            "app",
            "SLURM_JOB_ID=7;x|SLURM_STEP_NODELIST=-oProxyCommand=x,n2",
        )]);
        assert_eq!((found.others.len(), found.slurm.as_deref()), (0, None));
        assert!(found.wrong.is_some());
        let found = read(&[seen("app", "SLURM_JOB_ID=7|SLURM_STEP_NODELIST=n[1-99999]")]);
        assert_eq!(found.wrong, Some(hosts::HostsError::TooMany));
    }
}
