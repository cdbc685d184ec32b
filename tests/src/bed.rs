//! Two machines on this one: namespaces with a network between them, and a launcher of MPI that starts ranks on both.
//! Needs root.
//!
//! Does not know the agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::job::Job;
use crate::problem::Context;
use crate::wait::{SOON, wait_until};
use crate::{Outcome, family};

/// Host names of the machines, and their addresses.
pub const HOSTS: [&str; 2] = ["bed-a", "bed-b"];
const ADDRESSES: [&str; 2] = ["10.93.7.1", "10.93.7.2"];

/// What a machine does: it carries out the lines that the launcher of the other one writes.
const MACHINE: &str = "\
hostname \"$1\" && mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit 1
mount --bind \"$2/hosts\" /etc/hosts || exit 1
exec 3<>\"$2/$1.commands\"
echo up > \"$2/$1.up\"
while read -r line <&3; do sh -c \"$line\" </dev/null >/dev/null 2>&1 & done";

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
        bed.write_remote_shell()?;
        Ok(bed)
    }

    fn start_machine(&mut self, host: &str) -> Outcome {
        let folder = self.folder.path().to_string_lossy().into_owned();
        run(&format!("mkfifo {folder}/{host}.commands"))?;
        let apart =
            "setpriv --pdeathsig KILL -- unshare --net --pid --fork --kill-child --mount --uts --ipc sh -c";
        let mut words = apart.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args([MACHINE, "sh", host, &folder]);
        let child = command.stdin(Stdio::null()).spawn().context("unshare")?;
        self.machines.push(child);
        let up = self.folder.path().join(format!("{host}.up"));
        wait_until("the machine", SOON, || Ok(up.exists()))
    }

    /// Called as `ssh HOST COMMAND...`; the daemon that it starts there connects to the launcher.
    fn write_remote_shell(&self) -> Outcome {
        let shell = self.folder.path().join("remote-shell");
        let folder = self.folder.path().display();
        let text =
            format!("#!/bin/sh\nhost=$1\nshift\nprintf '%s\\n' \"$*\" > \"{folder}/$host.commands\"\n");
        fs::write(&shell, text)?;
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// The process, by its number in this namespace, whose namespaces are those of a machine.
    pub fn node(&self, machine: usize) -> Outcome<u32> {
        let child = self.machines.get(machine).ok_or("no such machine")?;
        let inside = family::descendants(child.id()).into_iter();
        let first = inside.map(|member| member.pid).next();
        Ok(first.ok_or("the machine has ended")?)
    }

    /// Starts an Open MPI program with two ranks on each machine, from the first one.
    pub fn job(&self, program: &Path, arguments: impl FnOnce(&Path) -> Vec<String>) -> Outcome<Job> {
        let shell = self.folder.path().join("remote-shell");
        let network = format!("{}/24", ADDRESSES[0]);
        let [first, second] = HOSTS;
        let words = format!(
            "nsenter --all --target {} -- mpirun.openmpi --allow-run-as-root -np 4 --bind-to none --host {first}:2,{second}:2 \
             --mca plm_rsh_agent {} --mca oob_tcp_if_include {network} --mca btl_tcp_if_include {network} --mca btl self,vader,tcp \
             --mca pml ob1 --mca mpi_yield_when_idle 1 --mca orte_tmpdir_base {}",
            self.node(0)?,
            shell.display(),
            // Process numbers are those of other beds, too.
            self.folder.path().display()
        );
        let words = words.split_whitespace().map(str::to_owned).collect();
        Job::by(words, program, arguments)
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
