//! The libraries that the dynamic linker of this machine (glibc's, ld.so(8)) would load for a program, from
//! its file alone. Nothing is executed, since the file could name any program as its dynamic linker.
//!
//! Not handled here: LD_AUDIT, `dlopen`, a linker with other rules. These libraries are found when the
//! process exists.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::foreign;
use crate::image::{Dynamic, Image};

/// Bound on the libraries of one program.
const LIBRARIES_MAX: usize = 1_024;

/// Bound on the library names that are searched, including those not found.
const NAMES_MAX: usize = 8_192;

/// Bytes of the largest list of libraries that is read.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Folders that are searched last; the linker of another machine may have others.
const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Values of `$LIB`.
const LIBS: [&str; 3] = ["lib/x86_64-linux-gnu", "lib64", "lib"];

/// Where libraries are searched in addition to the folders that the files name.
#[derive(Debug, Default)]
pub struct Search {
    library_path: OsString,
    preload: Vec<OsString>,
    listed: Vec<(String, PathBuf)>,
}

impl Search {
    /// Searches as the linker of a process with these variables (`LD_LIBRARY_PATH`, `LD_PRELOAD`) in the
    /// current folder.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Search {
        let mut preload = words(variable("LD_PRELOAD").unwrap_or_default().as_bytes());
        preload.extend(words(&read(Path::new("/etc/ld.so.preload")).unwrap_or_default()));
        let list = read(Path::new("/etc/ld.so.cache")).unwrap_or_default();
        Search {
            library_path: variable("LD_LIBRARY_PATH").unwrap_or_default(),
            preload,
            listed: listed(&list).unwrap_or_default(),
        }
    }

    /// The libraries of the linker's cache, by name and path.
    pub fn listed(&self) -> &[(String, PathBuf)] {
        &self.listed
    }

    /// The program and the libraries that would be loaded with it, in this order, as canonical paths. Only
    /// the program if it has no dynamic linker or cannot be read.
    pub fn needed(&self, program: &Path) -> Vec<PathBuf> {
        let mut files = vec![program.to_owned()];
        let Some(image) = image(program) else { return files };
        let Some(linker) = image.interpreter.clone().map(PathBuf::from) else {
            return files;
        };
        let mut loading = Loading {
            search: self,
            loaded: Vec::new(),
            names: BTreeSet::new(),
        };
        loading.load(program, image.dynamic.clone(), linker);
        let found = loading.loaded.into_iter().skip(1);
        files.extend(found.filter_map(|library| std::fs::canonicalize(library.path).ok()));
        files
    }
}

/// A file that would be loaded.
struct Loaded {
    path: PathBuf,
    dynamic: Dynamic,
    /// The index of the file that needs it.
    loader: Option<usize>,
}

/// The files that would be loaded so far.
struct Loading<'a> {
    search: &'a Search,
    loaded: Vec<Loaded>,
    /// Names that need not be searched again.
    names: BTreeSet<OsString>,
}

impl Loading<'_> {
    /// The program, the preloaded libraries, and what they need, breadth first.
    fn load(&mut self, program: &Path, dynamic: Dynamic, linker: PathBuf) {
        self.loaded.push(Loaded {
            path: program.to_owned(),
            dynamic,
            loader: None,
        });
        // The linker itself is always loaded.
        self.names.extend(linker.file_name().map(OsStr::to_owned));
        let preload = self.search.preload.iter().map(|name| (0, name.clone()));
        let mut open: VecDeque<(usize, OsString)> = preload.collect();
        let mut next = 0;
        for _ in 0..NAMES_MAX {
            while open.is_empty() && next < self.loaded.len() {
                let needed = &self.loaded[next].dynamic.needed;
                open.extend(needed.iter().map(|name| (next, OsString::from(name))));
                next += 1;
            }
            let Some((loader, name)) = open.pop_front() else {
                break;
            };
            if self.loaded.len() < LIBRARIES_MAX && self.names.insert(name.clone()) {
                self.find(loader, &name);
            }
        }
        if let Some(image) = image(&linker) {
            self.add(linker, image.dynamic.clone(), Some(0));
        }
    }

    fn find(&mut self, loader: usize, name: &OsStr) {
        let found = if name.as_bytes().contains(&b'/') {
            let paths = self.expanded(name, loader);
            paths.into_iter().find_map(|path| self.library(path))
        } else {
            let listed = self.search.listed.iter().filter(|(known, _)| **known == *name);
            let listed = listed.filter_map(|(_, path)| Some(path.parent()?.to_owned()));
            let last = FOLDERS.iter().map(PathBuf::from);
            let mut folders = self.folders(loader).into_iter().chain(listed).chain(last);
            folders.find_map(|folder| in_folder(&folder, name).find_map(|path| self.library(path)))
        };
        let Some((path, image)) = found else { return };
        self.add(path, image.dynamic.clone(), Some(loader));
    }

    fn add(&mut self, path: PathBuf, dynamic: Dynamic, loader: Option<usize>) {
        // A file that needs it by its soname gets this file.
        self.names.extend(dynamic.soname.as_ref().map(OsString::from));
        self.loaded.push(Loaded {
            path,
            dynamic,
            loader,
        });
    }

    /// The file, if the program can load it.
    fn library(&self, path: PathBuf) -> Option<(PathBuf, Image)> {
        let image = image(&path)?;
        Some((path, image))
    }

    /// The folders that are searched first for the libraries of `loader`.
    fn folders(&self, loader: usize) -> Vec<PathBuf> {
        let own = self.loaded.get(loader);
        let runpath = own.and_then(|own| own.dynamic.runpath.as_deref());
        let mut folders = Vec::new();
        if runpath.is_none() {
            for index in self.line(loader) {
                let dynamic = &self.loaded[index].dynamic;
                let rpath = dynamic.rpath.as_deref().filter(|_| dynamic.runpath.is_none());
                folders.extend(self.listed(rpath.unwrap_or_default().as_bytes(), index));
            }
        }
        folders.extend(self.listed(self.search.library_path.as_bytes(), 0));
        folders.extend(self.listed(runpath.unwrap_or_default().as_bytes(), loader));
        folders
    }

    /// A file, the file that needs it, and so on up to the program.
    fn line(&self, loader: usize) -> Vec<usize> {
        let up = |index: &usize| self.loaded.get(*index).and_then(|loaded| loaded.loader);
        std::iter::successors(Some(loader), up).collect()
    }

    /// The folders of a list separated by colons; an empty entry is the current folder.
    fn listed(&self, list: &[u8], of: usize) -> Vec<PathBuf> {
        if list.is_empty() {
            return Vec::new();
        }
        let parts = list.split(|byte| matches!(byte, b':' | b';'));
        let parts = parts.flat_map(|part| match part {
            b"" => vec![PathBuf::from(".")],
            part => self.expanded(OsStr::from_bytes(part), of),
        });
        parts.collect()
    }

    /// A path with `$ORIGIN`, `$LIB` and `$PLATFORM` replaced by each of their values.
    fn expanded(&self, path: &OsStr, of: usize) -> Vec<PathBuf> {
        let path = path.to_string_lossy();
        let origin = self.loaded.get(of).and_then(|loaded| loaded.path.parent());
        let origin = origin.unwrap_or(Path::new("/")).to_string_lossy();
        let replaced = |path: &str, name: &str, by: &str| {
            path.replace(&format!("${{{name}}}"), by)
                .replace(&format!("${name}"), by)
        };
        let path = replaced(&path, "ORIGIN", &origin);
        let path = replaced(&path, "PLATFORM", std::env::consts::ARCH);
        if !path.contains("$LIB") && !path.contains("${LIB}") {
            return vec![path.into()];
        }
        let paths = LIBS.iter().map(|lib| replaced(&path, "LIB", lib).into());
        paths.collect()
    }
}

/// The candidate paths of a library in one folder: variants for newer CPUs come first.
fn in_folder(folder: &Path, name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let variants = folder.join("glibc-hwcaps");
    let levels: &[&str] = if variants.is_dir() { levels() } else { &[] };
    let variants = levels.iter().map(move |level| variants.join(level));
    let name = name.to_owned();
    variants
        .chain([folder.to_owned()])
        .map(move |folder| folder.join(&name))
}

/// The variants that this machine's CPUs support, newest first (levels of the x86-64 psABI).
fn levels() -> &'static [&'static str] {
    const LEVELS: [&str; 3] = ["x86-64-v4", "x86-64-v3", "x86-64-v2"];
    let is_second = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt");
    let is_third = is_second
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("fma");
    let is_fourth = is_third
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl");
    match (is_second, is_third, is_fourth) {
        (_, _, true) => &LEVELS,
        (_, true, _) => &LEVELS[1..],
        (true, ..) => &LEVELS[2..],
        _ => &[],
    }
}

fn image(path: &Path) -> Option<Image> {
    Image::read(foreign::open(path).ok()?).ok()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = foreign::open(path).ok()?.take(LIST_BYTES_MAX);
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The names in a list of preloaded libraries.
fn words(text: &[u8]) -> Vec<OsString> {
    let words = text.split(|byte| byte.is_ascii_whitespace() || *byte == b':');
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// The names and paths in the linker's cache, in glibc's format since 2.2: a head of 48 bytes and 24 for each
/// library, with the offsets of its strings. Old files have another list before it.
fn listed(list: &[u8]) -> Option<Vec<(String, PathBuf)>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEAD_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    let list = list.get(memchr::memmem::find(list, MAGIC)?..)?;
    let word =
        |at: usize| Some(u32::from_le_bytes(list.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize);
    let text = |at: usize| {
        let rest = list.get(at..)?;
        let bytes = rest.get(..memchr::memchr(0, rest)?)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let entries = list
        .get(HEAD_BYTES..)?
        .chunks_exact(ENTRY_BYTES)
        .take(word(MAGIC.len())?);
    let found = (0..entries.len()).filter_map(|index| {
        let entry = HEAD_BYTES + index * ENTRY_BYTES;
        Some((text(word(entry + 4)?)?, PathBuf::from(text(word(entry + 8)?)?)))
    });
    Some(found.collect())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn variable(name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    /// Programs of this machine, whose own linker may be executed.
    #[test]
    fn libraries_that_the_linker_lists_are_found_for_programs_of_this_machine() {
        let search = Search::of(variable);
        let mut compared = 0;
        for program in [
            "/bin/sh",
            "/usr/bin/env",
            "/usr/bin/python3",
            "/usr/bin/git",
            "/usr/bin/gdb",
        ] {
            let Ok(program) = std::fs::canonicalize(program) else {
                continue;
            };
            let Some(linker) = image(&program).and_then(|image| image.interpreter.clone()) else {
                continue;
            };
            let output = Command::new(linker).arg("--list").arg(&program).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
            let expected: BTreeSet<PathBuf> =
                paths.map(|path| std::fs::canonicalize(path).unwrap()).collect();
            let found = search.needed(&program);
            assert_eq!(found.first(), Some(&program));
            assert_eq!(
                found.into_iter().skip(1).collect::<BTreeSet<_>>(),
                expected,
                "{program:?}"
            );
            compared += 1;
        }
        assert!(compared >= 2, "{compared} programs compared");
    }

    #[test]
    fn the_interpreter_that_a_file_names_is_not_executed() {
        let folder = tempfile::tempdir().unwrap();
        let (proof, interpreter) = (folder.path().join("proof"), folder.path().join("evil"));
        let script = format!("#!/bin/sh\necho executed > {}\n", proof.display());
        std::fs::write(&interpreter, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&interpreter, mode).unwrap();
        let source = folder.path().join("a.c");
        std::fs::write(&source, "int main() { return 0; }").unwrap();
        let program = folder.path().join("data.elf");
        let status = Command::new("cc")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .arg(format!("-Wl,--dynamic-linker={}", interpreter.display()))
            .status()
            .unwrap();
        assert!(status.success());
        let found = Search::of(variable).needed(&program);
        assert!(
            !proof.exists(),
            "what a file names as its interpreter was executed"
        );
        assert!(
            found
                .iter()
                .any(|file| file.to_string_lossy().contains("libc.so")),
            "{found:?}"
        );
    }

    /// `main` needs `libone.so`, which needs `libtwo.so`, with each way of naming a folder.
    #[test]
    fn folders_are_searched_in_the_order_of_the_linker() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let build = |output: &str, arguments: &[&str]| {
            let output = root.join(output);
            std::fs::create_dir_all(output.parent().unwrap()).unwrap();
            let source = root.join("a.c");
            std::fs::write(&source, "int main() { return 0; }").unwrap();
            let mut cc = Command::new("cc");
            cc.current_dir(&root).arg(&source).arg("-o").arg(&output);
            assert!(
                cc.arg("-Wl,--no-as-needed")
                    .args(arguments)
                    .status()
                    .unwrap()
                    .success()
            );
        };
        let library = |output: &str, more: &[&str]| {
            build(output, &[&["-shared", "-fPIC"], more].concat());
        };
        for place in ["near", "far", "path"] {
            library(&format!("{place}/libtwo.so"), &[]);
            library(&format!("{place}/libone.so"), &["-Lnear", "-ltwo"]);
        }
        let old = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/near";
        let new = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/near";
        build("inherits", &["-Lnear", "-lone", "-Wl,-rpath-link,near", old]);
        build("own", &["-Lnear", "-lone", "-Wl,-rpath-link,near", new]);
        build("none", &["-Lnear", "-lone", "-Wl,-rpath-link,near"]);
        let path = root.join("path");
        let found = |program: &str, library_path: Option<&Path>| {
            let value = |name: &str| (name == "LD_LIBRARY_PATH").then_some(library_path);
            let search = Search::of(|name| Some(value(name)??.as_os_str().to_owned()));
            let needed = search.needed(&root.join(program));
            let own = needed
                .iter()
                .skip(1)
                .filter_map(|file| file.strip_prefix(&root).ok());
            own.map(|file| file.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        let near = ["near/libone.so", "near/libtwo.so"];
        assert_eq!(
            found("inherits", None),
            near,
            "DT_RPATH of the program holds for all"
        );
        assert_eq!(found("inherits", Some(&path)), near, "and comes first");
        assert_eq!(
            found("own", None),
            ["near/libone.so"],
            "DT_RUNPATH for its own needs alone"
        );
        assert_eq!(found("own", Some(&path)), ["path/libone.so", "path/libtwo.so"]);
        assert_eq!(found("none", None), [""; 0]);
        assert_eq!(found("none", Some(&path)), ["path/libone.so", "path/libtwo.so"]);
    }

    #[test]
    fn preloaded_libraries_come_first() {
        let libm = Search::of(variable)
            .listed()
            .iter()
            .find_map(|(name, path)| (name == "libm.so.6").then(|| path.clone()))
            .expect("every machine has it");
        let preload = format!("libm.so.6 /no/such.so:{}", libm.display());
        let search = Search::of(|name| (name == "LD_PRELOAD").then(|| preload.clone().into()));
        let found = search.needed(&std::fs::canonicalize("/usr/bin/env").unwrap());
        assert_eq!(found.get(1), Some(&libm.canonicalize().unwrap()), "{found:?}");
    }

    proptest! {
        #[test]
        fn no_list_of_libraries_makes_the_search_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), count: u32) {
            let mut list = b"glibc-ld.so.cache1.1".to_vec();
            list.extend(count.to_le_bytes());
            list.extend(bytes);
            let _ = listed(&list);
        }
    }
}
