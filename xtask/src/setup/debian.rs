//! Queries dpkg and installs packages with apt-get.
//!
//! The list of packages is in `needs`. On systems other than Debian nothing is queried or installed.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::process::{capture, find_program, shown};

/// Packages, and the services that they would start now and at every boot. The tests start them themselves.
const SERVICES: [(&str, &str); 6] = [
    ("nats-server", "nats-server.service"),
    ("openssh-server", "ssh.service"),
    ("prometheus", "prometheus.service"),
    ("slurm-wlm", "slurmctld.service"),
    ("slurm-wlm", "slurmd.service"),
    ("munge", "munge.service"),
];

/// Packages that dpkg lists as installed.
pub(crate) struct Installed(HashSet<String>);

/// Returns `None` if there is no dpkg.
pub(crate) fn installed() -> Result<Option<Installed>> {
    if find_program("dpkg-query").is_none() {
        return Ok(None);
    }
    let listing = capture(Command::new("dpkg-query").args(["-W", "-f", "${Package} ${db:Status-Status}\n"]))?;
    let names = listing.lines().filter_map(|line| line.strip_suffix(" installed"));
    Ok(Some(Installed(names.map(str::to_owned).collect())))
}

impl Installed {
    pub(crate) fn has(&self, package: &str) -> bool {
        self.0.contains(package)
    }
}

/// apt-get, as root or through sudo. Package lists are updated at most once, before the first installation.
pub(crate) struct Apt {
    refreshed: bool,
}

impl Apt {
    pub(crate) fn new() -> Apt {
        Apt { refreshed: false }
    }

    pub(crate) fn install(&mut self, packages: &[String]) -> Result<()> {
        if packages.is_empty() {
            return Ok(());
        }
        if !self.refreshed {
            println!("refreshing the package lists");
            quiet(apt_get()?.args(["-q", "update"]))?;
            self.refreshed = true;
        }
        println!("installing {}", packages.join(" "));
        for (_, service) in SERVICES
            .iter()
            .filter(|(package, _)| packages.iter().any(|name| name == package))
        {
            keep_from_starting(service)?;
        }
        // --no-remove: Debian's rustc and rustc-web conflict; only the user may decide to remove one.
        let options = ["-q", "-y", "--no-install-recommends", "--no-remove", "install"];
        quiet(apt_get()?.args(options).args(packages))
    }
}

/// Masks a service of systemd before it is installed, as `systemctl mask` does; `systemctl unmask` allows it
/// again.
fn keep_from_starting(service: &str) -> Result<()> {
    let link = Path::new("/etc/systemd/system").join(service);
    if !Path::new("/run/systemd/system").exists() || link.exists() || link.is_symlink() {
        return Ok(());
    }
    quiet(as_root()?.args(["ln", "-s", "/dev/null"]).arg(link))
}

fn apt_get() -> Result<Command> {
    let mut command = as_root()?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    Ok(command)
}

/// Runs commands through `env`, because sudo drops environment variables.
fn as_root() -> Result<Command> {
    if rustix::process::geteuid().is_root() {
        Ok(Command::new("env"))
    } else if find_program("sudo").is_some() {
        let mut sudo = Command::new("sudo");
        sudo.arg("env");
        Ok(sudo)
    } else {
        Err("installing packages needs root, and sudo is not here; run this command as root".to_owned())
    }
}

/// Runs a command without output; if it fails, all of its output is shown. Standard input is inherited for
/// sudo's password.
fn quiet(command: &mut Command) -> Result<()> {
    let log =
        tempfile::NamedTempFile::new().map_err(|error| format!("cannot make a temporary file: {error}"))?;
    let copy = || log.as_file().try_clone().map_err(|error| error.to_string());
    let status = command
        .stdout(copy()?)
        .stderr(copy()?)
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    let said = tail(log.path(), 30);
    let advice = match said.contains("remove is disabled") {
        true => {
            "\nthey exclude packages of this machine; whether those may go is yours to say: apt-get install without --no-remove"
        }
        false => "",
    };
    Err(format!("{said}\n{} ended with {status}{advice}", shown(command)))
}

fn tail(file: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
