//! Libraries are loaded into a program under load, used, and unloaded; or the reason why not is reported.

use plan::Moment;
use tuner::Writer;
use tuner::journal::Reason;

use crate::programs::{fails, fails_with};
use crate::underload::{Load, QUIET, called, insert, patch, replace, take_back};

#[test]
fn a_library_is_loaded_used_and_unloaded_again() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let path = load.library();
    let loaded = writer.load(&path, 20_000, Reason::default()).unwrap();
    assert_eq!(called(&mut writer, "tuned_loaded()"), "1");
    let replaced = patch(&mut writer, &replace("sort_a", "tuned_sort"));
    assert_eq!(load.runs(), QUIET.replace("a=1", "a=0"));
    let inserted = patch(
        &mut writer,
        &insert("tuned_note(5, 0.5, \"n\")", "log_state", Moment::Entry),
    );
    load.runs();
    let calls = called(&mut writer, "tuned_calls()");
    assert!(calls.parse::<u64>().unwrap() > 300, "{calls}");
    fails_with(
        writer.revert(loaded.change),
        &format!(
            "change {} is in force in the same code: revert that first",
            replaced.change
        ),
    );
    take_back(&mut writer, inserted.change);
    take_back(&mut writer, replaced.change);
    load.runs();
    take_back(&mut writer, loaded.change);
    assert_eq!(load.runs(), QUIET);
    load.has_its_first_code("the library is gone, too");
    load.ends_well();
}

#[test]
fn a_library_that_was_loaded_by_another_name_stays_while_its_code_is_in_use() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let link = load.workshop.path().join("by-another-name.so");
    std::os::unix::fs::symlink("libtuned.so", &link).unwrap();
    let loaded = writer
        .load(link.to_str().unwrap(), 20_000, Reason::default())
        .unwrap();
    let replaced = patch(&mut writer, &replace("sort_a", "tuned_sort"));
    fails(writer.revert(loaded.change), "is in force in the same code");
    assert_eq!(load.runs(), QUIET.replace("a=1", "a=0"));
    take_back(&mut writer, replaced.change);
    take_back(&mut writer, loaded.change);
    // By a bare name, which the dynamic linker searches.
    let loaded = writer.load("libtuned.so", 20_000, Reason::default()).unwrap();
    take_back(&mut writer, loaded.change);
    assert_eq!(load.runs(), QUIET);
    load.ends_well();
}

#[test]
fn a_library_that_cannot_be_loaded_is_reported_in_the_dynamic_linkers_words() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let reported = |writer: &mut Writer, path: &str| {
        writer
            .load(path, 20_000, Reason::default())
            .unwrap_err()
            .to_string()
    };
    assert!(reported(&mut writer, "./libtuned.so").contains("its path must be absolute"));
    assert!(reported(&mut writer, "/nowhere/libx.so").contains("No such file"));
    assert!(reported(&mut writer, "/etc/passwd").ends_with("not an ELF file"));
    assert!(writer.changes().is_empty(), "nothing was announced");
    let error = reported(&mut writer, "libnowhere.so");
    assert!(
        error.contains("libnowhere.so was not loaded: libnowhere.so: cannot open shared object file"),
        "{error}"
    );
    let broken = load.workshop.path().join("broken.so");
    let mut bytes = std::fs::read(load.library()).unwrap();
    bytes.truncate(5000);
    std::fs::write(&broken, bytes).unwrap();
    let error = reported(&mut writer, broken.to_str().unwrap());
    assert!(error.contains("broken.so was not loaded: "), "{error}");
    load.is_as_at_first();
    load.ends_well();
}
