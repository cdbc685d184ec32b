//! A real Slurm on this machine: a controller, and nodes with their own host names and process namespaces.
//! Needs root.
//!
//! Knows how Slurm is configured and used. Does not know the agent.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::job::Job;
use crate::problem::Context;
use crate::wait;
use crate::{Outcome, Problem, family};

/// Maximum time until all nodes have registered, which normally takes a second.
const BEGIN: Duration = Duration::from_secs(60);

/// CPUs in the configuration of each node.
const CPUS: usize = 4;

/// The daemons. They and all jobs are ended on drop.
pub struct Slurm {
    daemons: Vec<Child>,
    nodes: Vec<String>,
    folder: TempDir,
}

impl Slurm {
    /// Starts a Slurm with these nodes and waits until they accept jobs. The first job has the id 1.
    pub fn start(nodes: &[&str]) -> Outcome<Slurm> {
        let folder = tempfile::tempdir()?;
        // The daemons use sockets in this folder and run as different users.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let mut slurm = Slurm {
            daemons: Vec::new(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            folder,
        };
        slurm.configure()?;
        slurm.authenticate()?;
        let configuration = slurm.file("slurm.conf");
        slurm.daemon("slurmctld", &["slurmctld", "-D", "-c", "-f", &configuration])?;
        for node in nodes {
            // Each node has a separate folder, mounted at the one path in the configuration.
            let script = "hostname \"$1\" && mount --bind \"$2/client_$1\" \"$2/client\" && exec slurmd -D -f \"$2/slurm.conf\" -N \"$1\"";
            let folder = slurm.folder.path().to_string_lossy().into_owned();
            let apart: Vec<&str> = "unshare --uts --pid --fork --kill-child --mount-proc"
                .split(' ')
                .collect();
            let words = [&apart[..], &["sh", "-c", script, "sh", node, &folder]].concat();
            slurm.daemon(node, &words)?;
        }
        slurm.wait_for_nodes(nodes.len())?;
        Ok(slurm)
    }

    fn configure(&self) -> Outcome {
        let folder = self.folder.path().display();
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost={}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={folder}/munge.socket\nCredType=cred/munge\nStateSaveLocation={folder}/state\n\
             SlurmdSpoolDir={folder}/spool_%n\nSlurmdPidFile={folder}/%n.pid\nSlurmctldPidFile={folder}/slurmctld.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\n\
             SlurmdParameters=config_overrides\nSwitchType=switch/none\n",
            host.trim(),
            free_port()?,
        );
        for node in &self.nodes {
            text += &format!(
                "NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={} CPUs={CPUS}\n",
                free_port()?
            );
            for part in ["spool", "client"] {
                fs::create_dir(self.folder.path().join(format!("{part}_{node}")))?;
            }
        }
        text += &format!(
            "PartitionName=all Nodes={} Default=YES State=UP\n",
            self.nodes.join(",")
        );
        fs::create_dir(self.folder.path().join("state"))?;
        fs::create_dir(self.folder.path().join("client"))?;
        fs::write(self.file("slurm.conf"), text)?;
        // Folder through which the ranks of a node find each other (PMIx).
        fs::write(
            self.file("mpi.conf"),
            format!("PmixCliTmpDirBase={folder}/client\n"),
        )?;
        Ok(())
    }

    fn authenticate(&mut self) -> Outcome {
        let key = self.file("munge.key");
        fs::write(&key, [b'k'; 1024])?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        let options = [
            ("--key-file", "munge.key"),
            ("--socket", "munge.socket"),
            ("--pid-file", "munged.pid"),
            ("--log-file", "munged.log"),
            ("--seed-file", "munged.seed"),
        ];
        let mut words = vec![
            "munged".to_owned(),
            "--foreground".to_owned(),
            "--force".to_owned(),
        ];
        words.extend(options.map(|(option, name)| format!("{option}={}", self.file(name))));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.daemon("munged", &words)?;
        let socket = self.file("munge.socket");
        self.wait_until("munged's socket", || Ok(Path::new(&socket).exists()))
    }

    fn daemon(&mut self, name: &str, words: &[&str]) -> Outcome {
        let log = fs::File::create(self.file(&format!("{name}.out")))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(words);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        let child = command
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context(name)?;
        self.daemons.push(child);
        Ok(())
    }

    fn wait_for_nodes(&self, count: usize) -> Outcome {
        self.wait_until("the nodes", || {
            let idle = self.request("sinfo", &["--noheader", "--states=idle", "--format=%D"])?;
            Ok(idle.trim() == count.to_string())
        })
    }

    /// Waits for a condition. The error has the output of the daemons.
    fn wait_until(&self, what: &str, is_so: impl FnMut() -> Outcome<bool>) -> Outcome {
        let Err(problem) = wait::wait_until(what, BEGIN, is_so) else {
            return Ok(());
        };
        let mut text = format!("Slurm: {problem}");
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "out") {
                text += &format!("\n{}:\n{}", path.display(), fs::read_to_string(&path)?);
            }
        }
        Err(Problem::new(text))
    }

    fn request(&self, command: &str, arguments: &[&str]) -> Outcome<String> {
        let mut command = Command::new(command);
        let command = command.args(arguments).env("SLURM_CONF", self.file("slurm.conf"));
        let output = command.stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts an Open MPI program with `ranks_each` ranks on each of the first `nodes` nodes; `before`
    /// precedes the program's name.
    pub fn job(
        &self,
        (nodes, ranks_each): (usize, usize),
        before: &[&str],
        program: &Path,
        arguments: impl FnOnce(&Path) -> Vec<String>,
    ) -> Outcome<Job> {
        let words = [
            "env".to_owned(),
            self.variable(),
            // The nodes are one machine, so they communicate through the loopback interface.
            "OMPI_MCA_pml=ob1".to_owned(),
            "OMPI_MCA_btl=self,vader,tcp".to_owned(),
            "OMPI_MCA_btl_tcp_if_include=lo".to_owned(),
            "OMPI_MCA_mpi_yield_when_idle=1".to_owned(),
            "srun".to_owned(),
            "--mpi=pmix".to_owned(),
            format!("--nodelist={}", self.nodes[..nodes].join(",")),
            format!("--ntasks={}", nodes * ranks_each),
            format!("--ntasks-per-node={ranks_each}"),
        ];
        let before = before.iter().map(|word| (*word).to_owned());
        Job::by(words.into_iter().chain(before).collect(), program, arguments)
    }

    /// Process number, in this namespace, of a process in a node's namespaces.
    pub fn node(&self, place: usize) -> Outcome<u32> {
        let daemon = self.daemons.get(2 + place).ok_or("no such node")?;
        let inside = family::descendants(daemon.id()).into_iter().next();
        Ok(inside.ok_or("the node has ended")?.pid)
    }

    /// The variable by which commands find this Slurm.
    pub fn variable(&self) -> String {
        format!("SLURM_CONF={}", self.file("slurm.conf"))
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            family::end(daemon, Duration::ZERO);
        }
    }
}

/// A free port of this machine.
fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
