//! Tests with our own process, and with texts in the kernel's format.

use super::*;
use proptest::prelude::*;

const LINE: &str = "42 (a) b (c) R 7 42 42 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0";

#[test]
fn a_name_may_hold_parentheses_and_spaces() {
    let stat = Stat::parse(LINE).unwrap();
    assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) b (c", 'R', 7));
    assert_eq!(stat.start_time, 987_654);
}

#[test]
fn only_a_process_that_is_known_to_have_ended_counts_as_ended() {
    let stat = || Stat::parse(LINE).unwrap();
    let pid = Pid {
        number: 42,
        start_time: stat().start_time,
    };
    let failed = |errno| Err(io_error(42, "/proc/42/stat", io::Error::from_raw_os_error(errno)));
    let zombie = Stat { state: 'Z', ..stat() };
    let successor = Stat {
        start_time: 987_655,
        ..stat()
    };
    assert!(pid.check_stat(Ok(stat())).is_ok());
    for ended in [
        Ok(zombie),
        Ok(successor),
        failed(libc::ENOENT),
        failed(libc::ESRCH),
    ] {
        let error = pid.check_stat(ended).unwrap_err();
        assert!(matches!(error, ProcessError::Ended { .. }), "{error}");
    }
    for unknown in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EACCES] {
        let error = pid.check_stat(failed(unknown)).unwrap_err();
        assert!(!matches!(error, ProcessError::Ended { .. }), "{error}");
    }
}

#[test]
fn init_is_refused() {
    assert!(matches!(Process::open(1), Err(ProcessError::Init)));
}

#[test]
fn we_are_refused_ourselves() {
    let pid = i32::try_from(std::process::id()).unwrap();
    assert!(matches!(Process::open(pid), Err(ProcessError::Ourselves { .. })));
}

#[test]
fn a_number_that_no_process_has_is_reported() {
    let error = Process::open(i32::MAX).unwrap_err();
    assert_eq!(error.to_string(), "there is no process 2147483647 here");
    assert!(Process::open(-5).is_err());
    assert!(Process::open(0).is_err());
}

#[test]
fn a_program_with_rights_of_its_own_is_recognised_by_its_auxiliary_vector() {
    let vector = |pairs: &[(u64, u64)]| -> Vec<u8> {
        let words = pairs.iter().flat_map(|(key, value)| [*key, *value]);
        words.flat_map(u64::to_le_bytes).collect()
    };
    assert!(secure_in(&vector(&[(6, 4096), (libc::AT_SECURE, 1), (0, 0)])));
    assert!(!secure_in(&vector(&[
        (6, libc::AT_SECURE),
        (libc::AT_SECURE, 0),
        (0, 0)
    ])));
    assert!(!secure_in(&[23, 0, 0]));
}

proptest! {
    #[test]
    fn no_stat_line_makes_the_parser_panic(text in "[0-9() a-zR\n]{0,120}") {
        let _ = Stat::parse(&text);
    }

    #[test]
    fn any_name_is_read_back(name in "[ -~]{1,15}") {
        let line = LINE.replace("a) b (c", &name);
        prop_assert_eq!(Stat::parse(&line).unwrap().name, name);
    }
}
