//! Where the product may write into another process.

use tuneagent_e2e::Outcome;

use super::{OTHERS, agent_and, assert_none, lines_with, read};

/// Files of these folders with one of `words` in their code, one entry per line of code.
fn files_with(words: &[&str], folders: &[&str]) -> Outcome<Vec<String>> {
    let lines = lines_with(words, folders, &[])?;
    let file = |line: &String| line.split(':').next().unwrap_or_default().to_owned();
    Ok(lines.iter().map(file).collect())
}

#[test]
fn exactly_one_function_writes_into_another_process() -> Outcome {
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
    // `sys` and `ptrace/sys` have the system calls; only this one function uses them.
    let (file, of_ptrace) = ("tuner/src/write.rs", "tuner/src/ptrace/mod.rs");
    let calls = ["tuner/src/ptrace/sys.rs", "tuner/src/sys.rs"];
    let product = agent_and(&OTHERS);
    assert_eq!(files_with(&writing, &product)?, [calls[0], calls[1], file]);
    assert_eq!(files_with(&["sys::store("], &product)?, [of_ptrace, file]);
    assert_eq!(files_with(&[".store(address.0, u64::"], &product)?, [file]);
    let text = read(file)?;
    let put = text.split("fn put(").nth(1).unwrap_or_default();
    let put = put.split("\n}\n").next().unwrap_or_default();
    for store in ["sys::store(", ".write_at(", ".store(address.0, u64::"] {
        assert!(put.contains(store), "{store}");
    }
    Ok(())
}

#[test]
fn a_warm_up_can_not_become_a_real_set() -> Outcome {
    let file = "tuner/src/actuator/warm_up.rs";
    let text = read(file)?;
    assert!(
        text.contains("pub struct SetWarmUp(SetCommand);"),
        "what is in it is its own"
    );
    // Only `warm_up` may destructure it, and it gets the session by shared reference.
    assert_eq!(text.matches("SetWarmUp(command)").count(), 2);
    assert!(text.contains("fn warm_up(&self, SetWarmUp(command): SetWarmUp)"));
    let elsewhere = lines_with(&["SetWarmUp("], &agent_and(&OTHERS), &[file])?;
    assert_none(&elsewhere, "warm_up.rs alone makes and takes it apart");
    Ok(())
}

#[test]
fn the_memory_of_another_process_is_opened_for_writing_in_one_place() -> Outcome {
    let opening = files_with(&[".write(true)"], &["tuner/src"])?;
    assert_eq!(opening, ["tuner/src/writable_place.rs"]);
    Ok(())
}
