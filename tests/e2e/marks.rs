//! Marks: probe places that a program names in its source (`include/tuneagent.h`), as compilers emit them, in
//! programs and libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::lines::succeed;
use tuneagent_e2e::{Outcome, require};

use crate::language::{finds, rule};

fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compile(compiler: &str, flags: &[&str], source: &Path, output: &Path) -> Outcome {
    let include = tests().join("../include");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(include);
    command.arg("-o").arg(output).arg(source).args(flags);
    succeed(&mut command).map(drop)
}

/// The program and its library, without symbols that are not needed at run time.
fn stripped(folder: &TempDir, flags: &[&str]) -> Outcome<PathBuf> {
    let source = tests().join("programs/marks.c");
    let (program, library) = (folder.path().join("marks"), folder.path().join("libmarks.so"));
    let search = [
        format!("-L{}", folder.path().display()),
        format!("-Wl,-rpath,{}", folder.path().display()),
    ];
    compile(
        "cc",
        &[flags, &["-DLIBRARY", "-shared", "-fPIC"]].concat(),
        &source,
        &library,
    )?;
    compile(
        "cc",
        &[flags, &["-lmarks", &search[0], &search[1]]].concat(),
        &source,
        &program,
    )?;
    succeed(Command::new("strip").args([&program, &library]))?;
    Ok(program)
}

const RULE: &str = r#"probes:
  opening: {mark: app:first}
  closing: {mark: app:last}
  turn: {mark: app:round}
  leaf: {mark: app:leaf}
  copy: {mark: app:copy}
  others: {mark: app:memory}
  guarded: {mark: app:guarded}
  library: {mark: lib:round}
capture:
  turn.number: arg(0)
  turn.name: arg(1) as str(16)
  leaf.x: arg(0)
  leaf.small: arg(1)
  leaf.real: arg(2) as f32
  copy.value: arg(0)
  others.local: arg(0)
  others.constant: arg(1)
  others.element: arg(2)
  others.second: "*arg(3) as f64"
  guarded.index: arg(0)
  library.number: arg(0)
  library.dt: arg(1) as f64
  library.pointed: "*arg(2) as f64"
  library.late: arg(3) as bool
windows:
  whole: {from: opening, to: closing}
tune:
  - every: whole
    when: count(turn) > 0
    finding: '{count(turn)} rounds {sum(turn.number)} {first(turn.name)}; leaf {sum(leaf.x)} {min(leaf.small)} {sum(leaf.real)}; copies {sum(copy.value)}; memory {sum(others.local)} {max(others.constant)} {sum(others.element)} {max(others.second)}; guarded {sum(guarded.index)}; library {sum(library.number)} {sum(library.dt)} {sum(library.pointed)} {count(library where library.late)}'
"#;

/// Sums of the values in `marks.c` over the rounds 0 to 15. The program itself checks that its stack is
/// intact.
const FOUND: &str =
    "16 rounds 120 a name; leaf 120 -3 24; copies 920; memory 126 -9 63 0; guarded 56; library 120 60 60 11";

#[test]
fn marks_are_probed_with_what_they_hand_over_in_a_program_and_its_library() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let ways: [&[&str]; 3] = [&["-O0"], &["-O2"], &["-O2", "-fno-pie", "-no-pie", "-flto"]];
    for flags in ways {
        let folder = tempfile::tempdir()?;
        let program = stripped(&folder, flags)?;
        let rule = rule(&folder, "marks", RULE)?;
        finds(&program, 16, &rule, &[FOUND])?;
    }
    Ok(())
}

#[test]
fn symbols_lists_the_marks_of_a_stripped_file() -> Outcome {
    require!(Cc);
    let folder = tempfile::tempdir()?;
    let program = stripped(&folder, &["-O2"])?.to_string_lossy().into_owned();
    let (code, listed) = Agent::run(&["symbols", &program, "app:*"])?;
    let rows: Vec<String> = listed
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for row in [
        "app:first () - - probe",
        "app:leaf (i32, i8, u32) - - probe",
        "app:memory (f64, i32, f64, u64) - - probe",
        "app:copy (i32) - - probe",
        "app:copy (i64) - - probe",
    ] {
        assert!(
            code == 0 && rows.iter().any(|known| known == row),
            "{row} is not in:\n{listed}"
        );
    }
    // Other tools can read the same notes.
    let notes = succeed(Command::new("readelf").args(["-n", &program]))?;
    assert_has!(notes, "Provider: app", "Name: leaf");
    Ok(())
}

const KINDS: &str = r#"
#include "tuneagent.h"
enum kind { FIRST, SECOND };
struct unknown;
static const short little = -3;
static const unsigned char high = 200;
static char text[20] = "text";
static float real = 1.5f;
struct unknown *nobody;
int main(int count, char **words)
{
    volatile long moving = count;
    TUNEAGENT_MARK(kinds, none);
    TUNEAGENT_MARK(kinds, one, count);
    TUNEAGENT_MARK(kinds, two, words, nobody);
    TUNEAGENT_MARK(kinds, three, little, text, real);
    TUNEAGENT_MARK(kinds, four, FIRST, 'c', -1L, 7UL);
    TUNEAGENT_MARK(kinds, five, moving, real * 2.0, &real, count > 1, high);
    TUNEAGENT_MARK(kinds, six, 1, 2, 3, 4, 5, 6);
    return 0;
}
"#;

#[test]
fn the_header_compiles_without_a_warning_in_c_and_c_plus_plus_and_every_mark_is_there() -> Outcome {
    require!(Cc, Cxx);
    let folder = tempfile::tempdir()?;
    let ways = [
        ("cc", "c", "-std=c11 -O0 -pedantic"),
        ("cc", "c", "-std=gnu17 -O3 -flto"),
        ("c++", "cc", "-std=c++11 -O2 -pedantic -Wold-style-cast"),
        ("c++", "cc", "-std=c++20 -O0"),
    ];
    for (compiler, ending, flags) in ways {
        let (source, program) = (
            folder.path().join(format!("kinds.{ending}")),
            folder.path().join("kinds"),
        );
        std::fs::write(&source, KINDS)?;
        let flags: Vec<&str> = flags.split(' ').collect();
        compile(compiler, &flags, &source, &program)?;
        succeed(&mut Command::new(&program))?;
        let listed = Agent::succeed(&["symbols", &program.to_string_lossy(), "kinds:*", "--json"])?;
        let files: serde_json::Value = serde_json::from_str(&listed)?;
        let marks = files[0]["symbols"].as_array().ok_or("no symbols")?;
        let types: Vec<(&str, &str)> = marks
            .iter()
            .filter_map(|mark| Some((mark["name"].as_str()?, mark["type"].as_str()?)))
            .collect();
        // In C, enum constants, character constants and comparisons have the type int.
        let [kind, letter, truth] = match ending {
            "c" => ["i32", "i32", "i32"],
            _ => ["u32", "i8", "u8"],
        };
        let four = format!("({kind}, {letter}, i64, u64)");
        let five = format!("(i64, u64, u64, {truth}, u8)");
        let expected = [
            ("kinds:five", five.as_str()),
            ("kinds:four", four.as_str()),
            ("kinds:none", "()"),
            ("kinds:one", "(i32)"),
            ("kinds:six", "(i32, i32, i32, i32, i32, i32)"),
            ("kinds:three", "(i16, u64, u32)"),
            ("kinds:two", "(u64, u64)"),
        ];
        assert_eq!(types, expected, "{compiler} {flags:?}");
    }
    Ok(())
}
