//! The right to write, once dropped, is gone. In a test program of its own, because it cannot be taken back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::ErrorKind,
    process::{Command, Stdio},
};

#[test]
fn what_was_dropped_stays_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept");
    fs::write(&file, "before").unwrap();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let memory = format!("/proc/{}/mem", sleeper.id());
    let open = |path: &str| fs::OpenOptions::new().write(true).open(path);
    assert!(open(&memory).is_ok(), "one's own child can be written before");

    tuneagent::rights::drop_right_to_write().unwrap();

    let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    refused(open(&memory).unwrap_err());
    refused(fs::write(&file, "after").unwrap_err());
    refused(fs::File::create(folder.path().join("new")).unwrap_err());
    // A thread made later, and a program started later, have lost it as well.
    std::thread::spawn(move || refused(fs::OpenOptions::new().append(true).open(&memory).unwrap_err()))
        .join()
        .unwrap();
    let shell = Command::new("sh")
        .arg("-c")
        .arg(format!("echo x > {}", file.display()))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(!shell.status.success());
    // Reading goes on.
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}
