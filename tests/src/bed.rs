//! Two machines on this one: namespaces with a network between them and an sshd each, and launchers of MPI that start
//! ranks on both. Needs root.
//!
//! Does not know the agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::job::{Job, Mpi};
use crate::problem::Context;
use crate::wait::{SOON, wait_until};
use crate::{Outcome, family};

/// Host names of the machines, and their addresses.
pub const HOSTS: [&str; 2] = ["bed-a", "bed-b"];
const ADDRESSES: [&str; 2] = ["10.93.7.1", "10.93.7.2"];

/// Names that ssh is configured for, and that are no machines: nothing listens there, and no key is accepted there.
pub const CLOSED: &str = "bed-closed";
pub const DENIED: &str = "bed-denied";

/// What a machine does: it is there for others by ssh.
const MACHINE: &str = "\
hostname \"$1\" && mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit 1
mount --bind \"$2/hosts\" /etc/hosts && mount -t tmpfs tmpfs /run && mkdir /run/sshd || exit 1
echo up > \"$2/$1.up\"
exec /usr/sbin/sshd -D -f \"$2/sshd_config\"";

/// The machines. They and what runs there end on drop.
pub struct Bed {
    machines: Vec<Child>,
    folder: TempDir,
}

impl Bed {
    pub fn start() -> Outcome<Bed> {
        let folder = tempfile::tempdir()?;
        let hosts: String = (ADDRESSES.iter().zip(HOSTS))
            .map(|(address, host)| format!("{address} {host}\n"))
            .collect();
        fs::write(folder.path().join("hosts"), hosts + "127.0.0.1 localhost\n")?;
        let mut bed = Bed {
            machines: Vec::new(),
            folder,
        };
        bed.configure_ssh()?;
        for host in HOSTS {
            bed.start_machine(host)?;
        }
        let (first, second) = (bed.node(0)?, bed.node(1)?);
        let link = format!("ip link add eth0 netns {first} type veth peer name eth0 netns {second}");
        run(&link)?;
        for (node, address) in [first, second].into_iter().zip(ADDRESSES) {
            run(&format!(
                "nsenter --net --target {node} ip address add {address}/24 dev eth0"
            ))?;
            run(&format!("nsenter --net --target {node} ip link set eth0 up"))?;
        }
        for node in [first, second] {
            // The kernel reports it late, and UCX uses only interfaces that are up.
            wait_until("the network", SOON, || is_connected(node))?;
        }
        Ok(bed)
    }

    /// One key is that of the machines, and of root.
    fn configure_ssh(&self) -> Outcome {
        let folder = self.folder.path().display();
        // An empty word after -N: no passphrase.
        run(&format!("ssh-keygen -q -t ed25519 -N  -f {folder}/key"))?;
        let server = format!(
            "HostKey {folder}/key\nAuthorizedKeysFile {folder}/key.pub\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nUsePAM no\nPidFile none\n"
        );
        let second = ADDRESSES[1];
        let client = format!(
            "Host {CLOSED}\n  HostName {second}\n  Port 23\nHost {DENIED}\n  HostName {second}\n  PubkeyAuthentication no\n\
             Host *\n  User root\n  IdentityFile {folder}/key\n  IdentityAgent none\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  \
             UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        );
        // Hydra takes one word.
        let shell = format!("#!/bin/sh\nexec ssh -F {folder}/ssh_config \"$@\"\n");
        for (name, text) in [("sshd_config", server), ("ssh_config", client), ("shell", shell)] {
            fs::write(self.folder.path().join(name), text)?;
        }
        let shell = self.folder.path().join("shell");
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).context(shell.display())
    }

    fn start_machine(&mut self, host: &str) -> Outcome {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let apart =
            "setpriv --pdeathsig KILL -- unshare --net --pid --fork --kill-child --mount --uts --ipc sh -c";
        let mut words = apart.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args([MACHINE, "sh", host, &folder]);
        let child = command.stdin(Stdio::null()).spawn().context("unshare")?;
        self.machines.push(child);
        let up = self.folder.path().join(format!("{host}.up"));
        wait_until("the machine", SOON, || Ok(up.exists()))?;
        let node = self.node(self.machines.len() - 1)?;
        wait_until("sshd", SOON, || listens(node))
    }

    /// The process, by its number in this namespace, whose namespaces are those of a machine.
    pub fn node(&self, machine: usize) -> Outcome<u32> {
        let child = self.machines.get(machine).ok_or("no such machine")?;
        let inside = family::descendants(child.id()).into_iter();
        let first = inside.map(|member| member.pid).next();
        Ok(first.ok_or("the machine has ended")?)
    }

    /// Starts a program with two ranks on each machine, from the first one.
    pub fn job(
        &self,
        mpi: Mpi,
        program: &Path,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Outcome<Job> {
        let folder = self.folder.path().display();
        let network = format!("{}/24", ADDRESSES[0]);
        let [first, second] = HOSTS;
        let (words, shell, further) = match mpi {
            // Process numbers are those of other beds, too: hence a folder of its own.
            Mpi::OpenMpi => (
                "mpirun.openmpi --allow-run-as-root --bind-to none --mca plm_rsh_agent",
                format!("ssh -F {folder}/ssh_config"),
                format!(
                    "--mca oob_tcp_if_include {network} --mca btl_tcp_if_include {network} --mca btl self,vader,tcp --mca pml ob1 \
                     --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base {folder} --host {first}:2,{second}:2"
                ),
            ),
            Mpi::Mpich => (
                "mpirun.mpich -launcher ssh -launcher-exec",
                format!("{folder}/shell"),
                format!("-hosts {first}:2,{second}:2"),
            ),
        };
        let enter = format!("nsenter --all --target {} -- {words}", self.node(0)?);
        let mut words: Vec<String> = enter.split(' ').map(str::to_owned).collect();
        words.push(shell);
        words.extend(further.split_whitespace().map(str::to_owned));
        words.extend(["-n", "4"].map(str::to_owned));
        Job::by(words, program, arguments)
    }

    /// The number of a job's launcher on the first machine.
    pub fn launcher(&self, job: &Job) -> Outcome<u32> {
        let members = family::descendants(job.pid());
        let inside = members.first().ok_or("the launcher has ended")?;
        let status = fs::read_to_string(format!("/proc/{}/status", inside.pid))?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let last = numbers.and_then(|numbers| numbers.split_whitespace().last());
        let number = last.ok_or("a process without a number")?;
        number.parse().context(number)
    }

    /// Connects or cuts the network between the machines.
    pub fn connect(&self, is_up: bool) -> Outcome {
        let state = if is_up { "up" } else { "down" };
        run(&format!(
            "nsenter --net --target {} ip link set eth0 {state}",
            self.node(1)?
        ))
    }

    /// Whether a process with this word in its command line is in a machine's process namespace.
    pub fn has_process(&self, machine: usize, word: &str) -> Outcome<bool> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(self.node(machine)?);
        let all = fs::read_dir("/proc")?.flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut there = pids
            .filter(|pid| namespace(*pid) == own)
            .filter_map(family::Member::of);
        Ok(there.any(|member| member.has_part(word)))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for machine in &mut self.machines {
            family::end(machine, std::time::Duration::ZERO);
        }
    }
}

/// Whether something listens at port 22 in the network of a process: state 0A, and the port as four digits.
fn listens(node: u32) -> Outcome<bool> {
    let sockets = fs::read_to_string(format!("/proc/{node}/net/tcp")).context("sockets of a machine")?;
    let mut sockets = sockets.lines().map(|line| line.split_whitespace().skip(1));
    Ok(sockets.any(|mut words| {
        let (own, state) = (words.next(), words.nth(1));
        own.is_some_and(|address| address.ends_with(":0016")) && state == Some("0A")
    }))
}

/// Whether the interface in the network of a process is up.
fn is_connected(node: u32) -> Outcome<bool> {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &node.to_string()]);
    let output = command.args(["ip", "link", "show", "eth0"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("state UP"))
}

fn run(line: &str) -> Outcome {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output();
    let output = output.context(line)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
