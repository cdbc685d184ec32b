//! `cargo xtask dist`: everything that is distributed, in `target/dist/`: the static program and its debug
//! information, manual pages, completions, the rule library, a Debian package of them, and checksums.
//!
//! `agent/Cargo.toml` says where the package puts each file; `cargo-deb` makes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{capture, cargo, find_installed, run};
use crate::{Result, release};

/// Each shell, and the file in which it looks for our completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "tuneagent.bash"),
    ("zsh", "_tuneagent"),
    ("fish", "tuneagent.fish"),
];

/// Pages of the documents that are manual pages of section 5, too: name, subject, file.
const FORMATS: [(&str, &str, &str); 2] = [
    ("tuneagent-rules", "the language of rules", "rules/LANGUAGE.md"),
    (
        "tuneagent-contracts",
        "contracts of pipelines",
        "docs/contracts.md",
    ),
];

/// Files that the package must contain.
const PACKAGED: [&str; 12] = [
    "./usr/bin/tuneagent",
    "./usr/share/man/man1/tuneagent.1.gz",
    "./usr/share/man/man1/tuneagent-attach.1.gz",
    "./usr/share/man/man5/tuneagent-rules.5.gz",
    "./usr/share/man/man5/tuneagent-contracts.5.gz",
    "./usr/share/bash-completion/completions/tuneagent",
    "./usr/share/zsh/vendor-completions/_tuneagent",
    "./usr/share/fish/vendor_completions.d/tuneagent.fish",
    "./usr/lib/systemd/system/tuneagent.service",
    "./usr/lib/sysusers.d/tuneagent.conf",
    "./etc/tuneagent/policy.yaml",
    "./usr/share/tuneagent/rules/runtime/openmpi-busy-wait.yaml",
];

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    crate::only_flags("dist", flags, &[])?;
    let package = build(&crate::root())?;
    println!("{}", package.display());
    Ok(())
}

/// Builds the folder, and returns the path of the Debian package in it.
fn build(root: &Path) -> Result<PathBuf> {
    let debian =
        find_installed("cargo-deb").ok_or("cargo-deb is not here: cargo install cargo-deb --locked")?;
    let folder = release::folder(root);
    // What an earlier version has left would get checksums, too.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    release::build(root)?;
    for part in ["man", "completions"] {
        let part = folder.join(part);
        fs::create_dir(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    }
    let mut pages = cargo(root, "run --quiet --package tuneagent --example manual");
    run(pages.arg(folder.join("man")))?;
    for format in FORMATS {
        write_format(root, &folder.join("man"), format)?;
    }
    for (shell, name) in COMPLETIONS {
        let file = folder.join("completions").join(name);
        let script = capture(Command::new(folder.join("tuneagent")).args(["completions", shell]))?;
        fs::write(&file, script).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(root.join("rules/library"));
    run(copy.arg(folder.join("rules")))?;
    let mut package = Command::new(debian);
    package.args([
        "--no-build",
        "--no-strip",
        "--quiet",
        "--package",
        "tuneagent",
        "--target",
        release::TARGET,
    ]);
    let package = capture(package.arg("--output").arg(&folder).current_dir(root))?;
    let sums = "find * -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum > SHA256SUMS";
    run(Command::new("sh").args(["-c", sums]).current_dir(&folder))?;
    Ok(PathBuf::from(package.trim()))
}

/// Writes a page of the documents as a manual page.
fn write_format(root: &Path, folder: &Path, (name, subject, file): (&str, &str, &str)) -> Result<()> {
    let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let (_, text) = text
        .split_once('\n')
        .ok_or_else(|| format!("{file} has no title"))?;
    let page = format!(
        "---\ntitle: {name}\nsection: 5\nheader: File formats\n---\n\n# Name\n{name} - {subject}\n\n{text}"
    );
    let source = folder.join(format!("{name}.md"));
    fs::write(&source, page).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut pandoc = Command::new("pandoc");
    pandoc.args([
        "--standalone",
        "--from=gfm+yaml_metadata_block",
        "--to=man",
        "--output",
    ]);
    run(pandoc.arg(folder.join(format!("{name}.5"))).arg(&source))?;
    fs::remove_file(&source).map_err(|error| format!("{}: {error}", source.display()))
}

/// Builds everything, and checks the package: it has the files, and the program in it runs where nothing else is.
pub(crate) fn check(root: &Path) -> Result<()> {
    let package = build(root)?;
    let listing = capture(Command::new("dpkg-deb").arg("--contents").arg(&package))?;
    let has = |path: &&str| listing.lines().any(|line| line.ends_with(path));
    let missing: Vec<&str> = PACKAGED.into_iter().filter(|path| !has(path)).collect();
    if !missing.is_empty() {
        return Err(format!("{} lacks {}", package.display(), missing.join(", ")));
    }
    let conffiles = capture(
        Command::new("dpkg-deb")
            .args(["--info"])
            .arg(&package)
            .arg("conffiles"),
    )?;
    if conffiles.trim() != "/etc/tuneagent/policy.yaml" {
        return Err(format!(
            "{} has these files of configuration: {conffiles}",
            package.display()
        ));
    }
    run(Command::new("sha256sum")
        .args(["--quiet", "--check", "SHA256SUMS"])
        .current_dir(release::folder(root)))?;
    let empty = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
    run(Command::new("dpkg-deb")
        .arg("--extract")
        .arg(&package)
        .arg(empty.path()))?;
    let mut chroot = Command::new("unshare");
    chroot.args(["--map-root-user", "chroot"]).arg(empty.path());
    let version = capture(chroot.args(["/usr/bin/tuneagent", "--version"]))?;
    if !version.contains(release::TARGET) {
        return Err(format!("the program of {} says: {version}", package.display()));
    }
    // Each crate builds from what would be published of it alone.
    run(&mut cargo(
        root,
        "publish --workspace --dry-run --locked --allow-dirty",
    ))
}
