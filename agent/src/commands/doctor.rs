//! `tuneagent doctor`: tries what a session does, one thing after the other, and says what works, what does not, and what
//! would change it. Leaves nothing behind.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{Access, access},
    process::{getpid, getpriority_process},
};
use tuner::{module::Images, process::Process, space::AddressSpace};

use crate::{
    cli::DoctorArgs,
    discover::{ProcessTable, Scout, resolve},
    exit::{Code, Failure, Outcome},
    kernel::{At, Kernel, KernelError, LinkKind, LinkRequest, LoadOptions, Site},
    rights::{missing_to_probe, rights},
};

/// What was found out.
enum Finding {
    Works(String),
    /// It can be done without.
    Lacks(String),
    /// A session cannot run.
    Fails(String),
}
use Finding::{Fails, Lacks, Works};

pub(super) fn run(args: &DoctorArgs) -> Outcome {
    let mut checks: Vec<(&str, Finding)> = vec![
        ("kernel", kernel_version()),
        ("capabilities", capabilities()),
        ("BPF programs", bpf()),
        ("probes", probes()),
        ("tracefs fallback", tracefs()),
        ("reading memory", reading()),
        ("priority", priority()),
        ("lockdown", lockdown()),
        ("journal", journal()),
    ];
    if let Some(target) = &args.target {
        checks.push(("target", target_check(target)?));
    }
    let mut code = Code::Done;
    for (name, finding) in checks {
        let (mark, text) = match finding {
            Works(text) => ("works", text),
            Lacks(text) => ("lacks", text),
            Fails(text) => {
                code = Code::No;
                ("FAILS", text)
            }
        };
        let mut lines = text.lines();
        say!("{mark}  {name:<17} {}", lines.next().unwrap_or_default());
        lines.for_each(|line| say!("       {:<17} {line}", ""));
    }
    Ok(code)
}

fn kernel_version() -> Finding {
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(release) => Works(format!("Linux {}", release.trim())),
        Err(error) => Lacks(format!("its version cannot be read: {error}")),
    }
}

fn capabilities() -> Finding {
    let missing: Vec<String> = rights()
        .iter()
        .filter(|right| !right.held)
        .map(|right| format!("{} is missing: to {}", right.name, right.purpose))
        .collect();
    if missing.is_empty() {
        Works("all that watching and changing need".into())
    } else if missing_to_probe().is_empty() {
        Lacks(missing.join("\n"))
    } else {
        Fails(format!(
            "{}\nrun it as root: {}",
            missing.join("\n"),
            super::with_sudo("doctor")
        ))
    }
}

const ONE_PROBE: LoadOptions = LoadOptions {
    probes: 1,
    processes: 1,
    force_tracefs: false,
};

fn bpf() -> Finding {
    match Kernel::load(ONE_PROBE) {
        Ok(kernel) => match kernel.link_kind() {
            LinkKind::UprobeMulti { by_process: true } => Works("loaded; uprobe_multi links, limited to a process".into()),
            LinkKind::UprobeMulti { by_process: false } => {
                Lacks("loaded; uprobe_multi links, but this kernel (before 6.10) cannot limit them to a process:\nother programs that use the same library pay for the probes".into())
            }
            LinkKind::Tracefs => Lacks("loaded; no uprobe_multi (before 6.6): tracefs events are used".into()),
        },
        Err(error @ KernelError::Permission(_)) => Fails(error.to_string()),
        Err(error) => Fails(error.to_string()),
    }
}

fn probes() -> Finding {
    attach_to_ourselves(false)
}

fn tracefs() -> Finding {
    match attach_to_ourselves(true) {
        Fails(text) => Lacks(text),
        other => other,
    }
}

/// Attaches to the first function of our own file that has a name, in no process, and detaches.
fn attach_to_ourselves(force_tracefs: bool) -> Finding {
    let attached = (|| -> Result<usize, String> {
        let file = fs::File::open("/proc/self/exe").map_err(|error| error.to_string())?;
        let image = tuner::image::Image::read(file).map_err(|error| error.to_string())?;
        let functions = image
            .functions(&["main", "_start"])
            .map_err(|error| error.to_string())?;
        let site = |function: &tuner::symbol::Function| Site {
            offset: function.offset.0,
            probe: 0,
        };
        let sites: Vec<Site> = functions.iter().map(site).collect();
        if sites.is_empty() {
            return Err("our own program has no symbols to try it on".into());
        }
        let kernel = Kernel::load(LoadOptions {
            force_tracefs,
            ..ONE_PROBE
        })
        .map_err(|error| error.to_string())?;
        let path = fs::read_link("/proc/self/exe").map_err(|error| error.to_string())?;
        let request = LinkRequest {
            path,
            sites,
            at: At::Entry,
            pid: None,
        };
        kernel.attach(&request).map_err(|error| error.to_string())?;
        Ok(request.sites.len())
    })();
    match attached {
        Ok(_) => Works("attached to a function and detached".into()),
        Err(error) => Fails(error),
    }
}

/// Reads the memory of a child of ours.
fn reading() -> Finding {
    match read_child() {
        Ok(()) => Works("another process's memory can be read".into()),
        Err(error) => Fails(format!("{error}\n{}", yama())),
    }
}

fn read_child() -> io::Result<()> {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // What it echoes tells that it has started.
    let mut echo = [0];
    if let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.as_mut()) {
        input.write_all(b"x")?;
        input.flush()?;
        output.read_exact(&mut echo)?;
        let process = Process::open(child.id() as i32).map_err(io::Error::other)?;
        let space = AddressSpace::read(&process, &Images::new()).map_err(io::Error::other)?;
        let start = space
            .maps
            .first()
            .map(|map| map.start)
            .ok_or(io::ErrorKind::NotFound)?;
        space.memory().read(start, &mut echo).map_err(io::Error::other)?;
    }
    // Its input has ended, so it ends too.
    child.wait().map(|_| ())
}

fn yama() -> String {
    match fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map(|text| text.trim().to_owned())
        .as_deref()
    {
        Ok("0") | Err(_) => "Yama does not stand in the way".into(),
        Ok(scope) => {
            format!("kernel.yama.ptrace_scope is {scope}: only root and parents may look into processes")
        }
    }
}

fn priority() -> Finding {
    let before = getpriority_process(Some(getpid())).unwrap_or(0);
    match super::attach::raise_priority() {
        Ok(()) => {
            let now = getpriority_process(Some(getpid())).unwrap_or(before);
            Works(format!(
                "a session runs at nice {now}, so that busy ranks do not starve it"
            ))
        }
        Err(error) => Lacks(format!(
            "a session runs at nice {before} and may be starved by busy ranks: {error}"
        )),
    }
}

fn lockdown() -> Finding {
    let state = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let current = state.split(['[', ']']).nth(1).unwrap_or("not known");
    match current {
        "confidentiality" => Fails("confidentiality: the kernel lets no BPF program read memory".into()),
        other => Works(other.to_owned()),
    }
}

fn journal() -> Finding {
    match tuner::journal::StateDir::usual() {
        Ok(directory) => {
            let path = directory.path();
            let there = path
                .ancestors()
                .find(|path| path.exists())
                .unwrap_or(Path::new("/"));
            match access(there, Access::WRITE_OK) {
                Ok(()) => Works(format!("kept in {}", path.display())),
                Err(error) => Lacks(format!(
                    "{} cannot be written ({error}): nothing can be changed",
                    path.display()
                )),
            }
        }
        Err(error) => Fails(error.to_string()),
    }
}

fn target_check(target: &str) -> Result<Finding, Failure> {
    let pid = resolve(target, &ProcessTable::read()).map_err(Failure::not_there)?;
    Ok(match Scout::default().job_of(pid) {
        Ok(job) => {
            let functions: usize = job
                .members
                .iter()
                .filter_map(|member| member.mpi.as_ref())
                .map(|mpi| mpi.sites.len())
                .sum();
            let text = format!(
                "{}: {} processes can be looked into, {functions} MPI sites",
                job.program(),
                job.members.len()
            );
            if job.unreachable.is_empty() {
                Works(text)
            } else {
                Lacks(format!("{text}; {} cannot", job.unreachable.len()))
            }
        }
        Err(error) => Fails(error.to_string()),
    })
}
