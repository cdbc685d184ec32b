//! Properties that the source text must have.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match (path.is_dir(), path.extension()) {
            (true, _) => sources(&path),
            (false, Some(extension)) if extension == "rs" => {
                vec![(path.clone(), fs::read_to_string(&path).unwrap())]
            }
            // Pictures and data of tests.
            (false, _) => Vec::new(),
        })
        .collect()
}

/// Files of the tuner with one of `words` in their code, one entry per line of code.
fn files_with(words: &[&str]) -> Vec<String> {
    files_of("src", words)
}

/// Files of `folder` with one of `words` in their code, one entry per line of code.
fn files_of(folder: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let hits = code
            .filter(|line| words.iter().any(|word| line.contains(word)))
            .count();
        found.extend((0..hits).map(|_| path.file_name().unwrap().to_string_lossy().into_owned()));
    }
    found.sort();
    found
}

/// Sources of the other crates of the product.
const OTHERS: [&str; 10] = [
    "../agent/src",
    "../agent/job/src",
    "../agent/page/src",
    "../agent/probe/src",
    "../agent/profile/src",
    "../agent/report/src",
    "../agent/session/src",
    "../rules/plan/src",
    "../rules/recording/src",
    "../rules/src",
];

#[test]
fn exactly_one_function_writes_into_another_process() {
    let writing = [
        "write_at(",
        "write_all_at(",
        "write_vectored_at(",
        "process_vm_writev(",
        "pwrite(",
        "pwrite64(",
        "pwritev",
        "POKE",
    ];
    assert_eq!(files_with(&writing), ["sys.rs", "sys.rs", "write.rs"]);
    for folder in OTHERS {
        assert!(files_of(folder, &writing).is_empty(), "{folder} writes");
    }
    // `sys` and `ptrace/sys` have the system calls; only this one function uses them.
    assert_eq!(files_with(&["sys::store("]), ["mod.rs", "write.rs"]);
    assert_eq!(files_with(&[".store(address.0, u64::"]), ["write.rs"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/write.rs");
    let text = fs::read_to_string(source).unwrap();
    let put = text
        .split("fn put(")
        .nth(1)
        .unwrap()
        .split("\n}\n")
        .next()
        .unwrap();
    assert!(
        ["sys::store(", ".write_at(", ".store(address.0, u64::"]
            .iter()
            .all(|store| put.contains(store))
    );
}

#[test]
fn a_warm_up_can_not_become_a_real_set() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/actuator/warm_up.rs");
    let text = fs::read_to_string(source).unwrap();
    assert!(
        text.contains("pub struct SetWarmUp(SetCommand);"),
        "what is in it is its own"
    );
    // Only `warm_up` may destructure it, and it gets the session by shared reference.
    assert_eq!(text.matches("SetWarmUp(command)").count(), 2);
    assert!(text.contains("fn warm_up(&self, SetWarmUp(command): SetWarmUp)"));
    let elsewhere = files_with(&["SetWarmUp("]);
    assert!(elsewhere.iter().all(|file| file == "warm_up.rs"), "{elsewhere:?}");
}

#[test]
fn the_memory_of_another_process_is_opened_for_writing_in_one_place() {
    assert_eq!(files_with(&[".write(true)"]), ["writable_place.rs"]);
}
