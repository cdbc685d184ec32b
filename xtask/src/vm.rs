//! `cargo xtask vm KERNEL.deb`: runs tests that depend on the kernel on another kernel, in a virtual machine
//! with this machine's files: loading of our programs by the verifier, `doctor`, counting of calls, also of
//! MPI jobs, and sync points.
//!
//! The kernel is a Debian package (`apt-get download linux-image-6.1.0-56-amd64`), which is not installed.
//! The virtual machine boots it with an initial file system of busybox and the modules for mounting this
//! machine's root file system, read-only, and runs the test binary there. Cargo starts this program again as
//! its "runner", because only cargo knows the path of that binary.
//!
//! Without --kvm the processor is emulated: everything takes a hundred times as long, the tests get a larger
//! bound on a hold (`TUNEAGENT_SYNC_ANSWER_US`), and the printed times are those of an emulator.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{capture, cargo, find_program, host_in_variables, run};
use crate::setup::{self, Brought, Purpose};
use crate::{Result, target_folder};

const USAGE: &str = "cargo xtask vm KERNEL.deb [--preempt none|full] [--kvm] [--long] [verifier] [counting] [mpi] [sync] [TEST...]";

/// Test programs for the virtual machine. Each gets a machine of its own.
const SUITES: [&str; 4] = ["verifier", "counting", "mpi", SYNC];
const SYNC: &str = "sync";

/// Modules for mounting the root file system. Some kernels have some of them built in.
const MODULES: [&str; 10] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "netfs",
    "fscache",
    "9pnet",
    "9pnet_virtio",
    "9p",
];

/// Target programs of the tests.
const PROGRAMS: [&str; 3] = ["steps", "ranks", "counted"];
/// Target program that the tests start under each MPI.
const PROGRAM_OF_MPI: &str = "exchanges";
const MPIS: [&str; 2] = ["openmpi", "mpich"];

/// Maximum duration of a hold, in µs, on an emulated processor.
const EMULATED_ANSWER_US: &str = "300000";
/// Time limit of the virtual machine, which also ends one that hangs.
const SECONDS_MAX: &str = "14400";

const ENDED: &str = "TESTS-ENDED ";

/// First program of the machine. It loads the modules in several rounds, because they depend on each other.
const INIT: &str = r#"#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t devtmpfs dev /dev
for round in 1 2 3 4 5; do for module in /modules/*.ko; do $B insmod $module 2>/dev/null; done; done
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro root /root || $B poweroff -f
$B mount -t proc proc /root/proc; $B mount -t sysfs sys /root/sys; $B mount -t devtmpfs dev /root/dev
$B hostname localhost; $B ip link set lo up
$B mount -t debugfs debug /root/sys/kernel/debug; $B mount -t tmpfs run /root/run
$B mkdir /root/dev/shm; $B mount -t tmpfs shm /root/dev/shm
$B cp /command /root/run/command
echo "kernel $($B uname -r), preemption: $($B cat /root/sys/kernel/debug/sched/preempt), lockdown: $($B cat /root/sys/kernel/security/lockdown 2>/dev/null)"
$B chroot /root /bin/sh /run/command
echo "TESTS-ENDED $?"
$B poweroff -f
"#;

pub(crate) fn main(words: &[&str]) -> Result<()> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--preempt" => wanted.preempt = words.next().copied().unwrap_or_default().to_owned(),
            "--long" => wanted.long = true,
            "--kvm" => wanted.kvm = true,
            flag if flag.starts_with("--") => {
                return Err(format!("cargo xtask vm does not know {flag}\n{USAGE}"));
            }
            suite if SUITES.contains(&suite) => wanted.suites.push(suite.to_owned()),
            kernel if wanted.kernel.is_none() => wanted.kernel = Some(PathBuf::from(kernel)),
            test => wanted.tests.push(test.to_owned()),
        }
    }
    let package = wanted
        .kernel
        .as_deref()
        .ok_or_else(|| format!("which kernel?\n{USAGE}"))?;
    let _: Brought = setup::bring(&[Purpose::Vm], false)?;
    let root = crate::root();
    let kernel = Kernel::unpacked(package, &target_folder(&root).join("vm"))?;
    let flags = ["-g", "-pthread", "-fno-optimize-sibling-calls"];
    for name in PROGRAMS {
        compile(&root, name, "cc", &flags, &kernel.folder.join(name))?;
    }
    for mpi in MPIS {
        let program = kernel.folder.join(format!("{PROGRAM_OF_MPI}.{mpi}"));
        compile(&root, PROGRAM_OF_MPI, &format!("mpicc.{mpi}"), &[], &program)?;
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let runner = format!("{} vm-runner {}", this.display(), kernel.folder.display());
    let mut command = cargo(&root, "test --release --package tuneagent");
    for suite in SUITES {
        if wanted.suites.is_empty() || wanted.suites.iter().any(|word| word == suite) {
            command.args(["--test", suite]);
        }
    }
    command
        .args(["--", "--nocapture", "--test-threads=1"])
        .args(&wanted.tests)
        .env(format!("CARGO_TARGET_{}_RUNNER", host_in_variables()?), runner)
        .env("TUNEAGENT_VM_PREEMPT", &wanted.preempt);
    for (name, is_wanted) in [("TUNEAGENT_LONG", wanted.long), ("TUNEAGENT_VM_KVM", wanted.kvm)] {
        command.env(name, if is_wanted { "1" } else { "" });
    }
    run(&mut command)
}

/// Checks on the oldest supported kernel, Debian 12's, that the verifier accepts all programs and that calls
/// are counted, also those of an MPI job.
pub(crate) fn oldest(root: &Path) -> Result<()> {
    let reported = capture(Command::new("apt-cache").args(["depends", "--important", "linux-image-amd64"]))?;
    let name = reported
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-6.1."))
        .ok_or("Debian 12's kernel is not to be had here: linux-image-amd64 depends on no linux-image-6.1")?;
    let folder = target_folder(root).join("vm");
    make(&folder)?;
    let downloaded = || {
        let is_it = |file: &PathBuf| {
            let name_of_file = file.file_name().unwrap_or_default().to_string_lossy();
            name_of_file.starts_with(&format!("{name}_")) && name_of_file.ends_with(".deb")
        };
        Ok::<_, String>(listed(&folder)?.into_iter().find(is_it))
    };
    if downloaded()?.is_none() {
        run(Command::new("apt-get")
            .args(["download", name])
            .current_dir(&folder))?;
    }
    let package = downloaded()?.ok_or_else(|| format!("apt-get download {name} left no package"))?;
    main(&[&package.to_string_lossy(), "verifier", "counting", "mpi"])
}

#[derive(Default)]
struct Wanted {
    kernel: Option<PathBuf>,
    /// Suites to run; empty means all.
    suites: Vec<String>,
    /// Preemption model; empty means the kernel's default.
    preempt: String,
    long: bool,
    kvm: bool,
    tests: Vec<String>,
}

/// An unpacked kernel package. Its folder also has the other files of the virtual machine.
struct Kernel {
    folder: PathBuf,
}

impl Kernel {
    fn unpacked(package: &Path, below: &Path) -> Result<Kernel> {
        let name = package
            .file_stem()
            .ok_or_else(|| format!("{} is no file", package.display()))?;
        let folder = below.join(name);
        let kernel = Kernel { folder };
        if kernel.image().is_err() {
            make(&kernel.folder)?;
            run(Command::new("dpkg-deb")
                .arg("-x")
                .arg(package)
                .arg(&kernel.folder))?;
        }
        kernel.image().map(|_| kernel)
    }

    fn image(&self) -> Result<PathBuf> {
        let files = listed(&self.folder.join("boot"))?;
        let is_image = |file: &PathBuf| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        };
        let image = files.into_iter().find(is_image);
        image.ok_or_else(|| {
            format!(
                "{} has no kernel: is it a package linux-image-VERSION?",
                self.folder.display()
            )
        })
    }

    /// Makes the initial file system, which contains the command to run.
    fn initial(&self, command: &str) -> Result<PathBuf> {
        let tree = self.folder.join("initial");
        for folder in ["bin", "dev", "proc", "root", "modules"] {
            make(&tree.join(folder))?;
        }
        let busybox = find_program("busybox").ok_or("busybox is not here")?;
        let copied = tree.join("bin/busybox");
        std::fs::copy(&busybox, &copied).map_err(|error| format!("{}: {error}", busybox.display()))?;
        write(&tree.join("command"), command)?;
        let init = tree.join("init");
        write(&init, INIT)?;
        run(Command::new("chmod").arg("755").arg(&init))?;
        let mut modules = Vec::new();
        find_modules(&self.folder.join("lib/modules"), &mut modules)?;
        for module in modules {
            bring_module(&module, &tree.join("modules"))?;
        }
        let archive = self.folder.join("initial.cpio");
        run(Command::new("sh")
            .args(["-c", "find . | cpio --quiet -o -H newc > \"$1\"", "sh"])
            .arg(&archive)
            .current_dir(&tree))?;
        Ok(archive)
    }
}

/// Cargo runs this instead of the test binary: boots the machine and runs the binary there.
pub(crate) fn runner(words: &[&str]) -> Result<()> {
    let Some((folder, command)) = words.split_first() else {
        return Err("cargo xtask vm starts this by itself".to_owned());
    };
    let kernel = Kernel {
        folder: PathBuf::from(folder),
    };
    let has_kvm = variable("TUNEAGENT_VM_KVM").is_some();
    let mut script = format!(
        "export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run TUNEAGENT_REQUIRE_ALL=1 TUNEAGENT_SYNC_PROGRAMS={folder}\n"
    );
    if variable("TUNEAGENT_LONG").is_some() {
        script += "export TUNEAGENT_LONG=1\n";
    }
    if !has_kvm {
        let bound = variable("TUNEAGENT_SYNC_ANSWER_US").unwrap_or_else(|| EMULATED_ANSWER_US.to_owned());
        script += &format!("export TUNEAGENT_SYNC_ANSWER_US={bound}\n");
    }
    // Debian's default is 3, with which kernels before 6.6 require CAP_SYS_ADMIN for each uprobe; sessions
    // drop that capability.
    if command.first().is_some_and(|program| is_of(program, SYNC)) {
        script += "[ \"$(cat /proc/sys/kernel/perf_event_paranoid)\" -le 2 ] || echo 2 > /proc/sys/kernel/perf_event_paranoid\n";
    }
    // Paths of test binaries and names of tests contain no blanks.
    script += &command.join(" ");
    let initial = kernel.initial(&script)?;
    boot(&kernel.image()?, &initial, has_kvm)
}

/// Whether a path is the binary of this suite; cargo appends a hash to its name.
fn is_of(program: &str, suite: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.rsplit_once('-'))
        .is_some_and(|(name, _)| name == suite)
}

/// Runs the virtual machine and prints its output until the tests end.
fn boot(image: &Path, initial: &Path, has_kvm: bool) -> Result<()> {
    let preempt = variable("TUNEAGENT_VM_PREEMPT").map_or_else(String::new, |how| format!(" preempt={how}"));
    let mut machine = Command::new("timeout");
    machine.args([SECONDS_MAX, "qemu-system-x86_64", "-accel"]);
    machine.arg(if has_kvm { "kvm" } else { "tcg,thread=multi" });
    machine
        .args("-cpu max -smp 2 -m 2048 -nographic -no-reboot -kernel".split(' '))
        .args([image, Path::new("-initrd"), initial])
        .args([
            "-virtfs",
            "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
        ])
        // An emulated timer is sometimes late, and the kernel would report it as broken.
        .arg("-append")
        .arg(format!("console=ttyS0 quiet panic=-1 no_timer_check{preempt}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut machine = machine
        .spawn()
        .map_err(|error| format!("cannot start qemu-system-x86_64: {error}"))?;
    let mut code = None;
    let lines = machine
        .stdout
        .take()
        .map(|stdout| BufReader::new(stdout).split(b'\n'));
    for line in lines.into_iter().flatten().map_while(std::result::Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{}", line.trim_end());
        if let Some(ended) = line.trim_end().strip_prefix(ENDED) {
            code = ended.trim().parse::<i32>().ok();
        }
    }
    let status = machine.wait().map_err(|error| error.to_string())?;
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(format!("the tests in the machine ended with {code}")),
        None => Err(format!("the machine ended ({status}) before the tests did")),
    }
}

/// An empty variable counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn compile(root: &Path, name: &str, compiler: &str, flags: &[&str], program: &Path) -> Result<()> {
    let mut compiler = Command::new(compiler);
    compiler.arg("-O1").args(flags).arg("-o").arg(program);
    compiler.arg(root.join(format!("agent/tests/programs/{name}.c")));
    run(&mut compiler)
}

fn find_modules(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for path in listed(folder)? {
        if path.is_dir() && !path.is_symlink() {
            find_modules(&path, into)?;
        } else if path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.split_once(".ko"))
            .is_some_and(|(name, _)| MODULES.contains(&name))
        {
            into.push(path);
        }
    }
    Ok(())
}

/// Copies a module, decompressed if necessary.
fn bring_module(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().ok_or("a module without a name")?;
    let copied = folder.join(name);
    std::fs::copy(file, &copied).map_err(|error| format!("{}: {error}", file.display()))?;
    match copied.extension().is_some_and(|extension| extension == "xz") {
        true => run(Command::new("xz").args(["--decompress", "--force"]).arg(&copied)),
        false => Ok(()),
    }
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let reported = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(reported)?;
    entries.map(|entry| Ok(entry.map_err(reported)?.path())).collect()
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
