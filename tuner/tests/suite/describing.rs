//! Contents of the debug information of a file: functions, variables, arguments, inlined calls. Damaged debug
//! information must cause errors only.

use tuneagent_e2e::require_or_return;
use tuner::catalog::{self, SymbolUse};
use tuner::dwarf::{self, ArgumentName, ValueKind};
use tuner::{Image, LinkAddress};

use crate::finding::paths;
use crate::programs::{Workshop, fails, source_path};

fn image(workshop: &Workshop, name: &str) -> Image {
    let path = workshop.path().join(name);
    let image = Image::read(std::fs::File::open(&path).unwrap()).unwrap();
    image.found_at(dwarf::Origin::here(&path))
}

#[test]
fn a_file_is_listed_with_types_and_what_can_be_done() {
    let workshop = or_skip!(Workshop::open());
    paths(&workshop, &[]);
    let image = image(&workshop, "paths");
    let entries = catalog::entries(&image, |name| !name.starts_with('_')).unwrap();
    let known = catalog::describe(&image, &entries).unwrap();
    let reported = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        let known = known.get(&entry.address);
        let type_name = known.map(|known| known.type_name.clone()).unwrap_or_default();
        (type_name, entry.size, entry.can(known))
    };
    let cases = [
        ("cfg", "config_t", 48, SymbolUse::Parts),
        ("limits", "int[4]", 16, SymbolUse::Parts),
        ("counter", "int *", 8, SymbolUse::Follow),
        ("mode", "enum mode", 4, SymbolUse::Set { state_type: true }),
        ("fixed", "const struct solver", 32, SymbolUse::Read("constant")),
        (
            "to_fixed",
            "const struct solver *const",
            8,
            SymbolUse::Read("constant"),
        ),
        ("own", "", 32, SymbolUse::Nothing("per thread")),
    ];
    for (name, type_name, size, can) in cases {
        assert_eq!(reported(name), (type_name.to_owned(), size, can), "{name}");
    }
    let (signature, _, can) = reported("step");
    assert_eq!(can, SymbolUse::Probe);
    assert_eq!(
        signature,
        "int (config_t *, int, double, struct node *, const char *)"
    );
    let statics = entries.iter().filter(|entry| entry.name == "limit");
    let sources: Vec<Option<&str>> = statics.map(|entry| entry.source.as_deref()).collect();
    assert!(
        sources.contains(&Some("paths.c")) && sources.contains(&Some("other.c")),
        "{sources:?}"
    );
}

#[test]
fn an_address_in_code_is_the_line_of_its_source_whatever_the_debug_information() {
    let workshop = or_skip!(Workshop::open());
    let source = std::fs::read_to_string(source_path("paths.c")).unwrap();
    let wanted = source
        .lines()
        .position(|line| line.contains("int step("))
        .unwrap() as u64
        + 1;
    for flag in ["-gdwarf-4", "-gdwarf-5", "-gsplit-dwarf"] {
        paths(&workshop, &[flag]);
        let image = image(&workshop, "paths");
        let entries = catalog::entries(&image, |name| name == "step").unwrap();
        let found = dwarf::lines(&image, &[entries[0].address, LinkAddress(1)]).unwrap();
        let [Some(line), None] = found.as_slice() else {
            panic!("{flag}: {found:?}");
        };
        // With optimisation the first line may be any of the first lines of the body.
        assert_eq!(line.file, "paths.c", "{flag}");
        assert!((wanted..wanted + 4).contains(&line.line), "{flag}: {line:?}");
    }
}

#[test]
fn arguments_lead_on_to_what_they_point_to() {
    let workshop = or_skip!(Workshop::open());
    paths(&workshop, &[]);
    let image = image(&workshop, "paths");
    let step = image.functions(&["step"]).unwrap().remove(0).address;
    let value = |argument: &str, steps: &str| {
        let argument = argument
            .parse()
            .map_or_else(|_| ArgumentName::Name(argument.to_owned()), ArgumentName::Number);
        dwarf::argument(&image, step, &argument, &tuner::steps(steps).unwrap())
    };
    let cases = [
        ("1", "", 1, vec![], ValueKind::Signed, 4),
        ("count", "", 1, vec![], ValueKind::Signed, 4),
        ("0", "", 0, vec![], ValueKind::Pointer, 8),
        ("0", "->first", 0, vec![0], ValueKind::Signed, 2),
        ("config", "->solver.chunk", 0, vec![16], ValueKind::Signed, 4),
        ("config", ".solver.tolerance", 0, vec![24], ValueKind::Float, 8),
        ("list", "->next->value", 2, vec![8, 0], ValueKind::Signed, 8),
        ("3", "[1].next", 2, vec![24], ValueKind::Pointer, 8),
    ];
    for (argument, steps, register, reads, kind, size) in cases {
        let found = value(argument, steps).unwrap();
        let leaf = found.leaf.of;
        assert_eq!(
            (found.register, found.reads, leaf.kind, leaf.size),
            (register, reads, kind, size),
            "{argument}{steps}"
        );
    }
    let name = value("config", "->solver.name").unwrap().leaf;
    assert_eq!((name.text_bytes, name.type_name.as_str()), (Some(8), "char[8]"));
    assert!(value("text", "[0]").unwrap().leaf.is_char);
    let refused = [
        (
            "7",
            "",
            "the function has no arg(7); it has config, count, weight, list, text",
        ),
        ("weight", "", "arg(weight) is a floating-point number"),
        ("count", "->x", "int is not a struct and has no field `x`"),
    ];
    for (argument, steps, expected) in refused {
        fails(value(argument, steps), expected);
    }
    let nothing = dwarf::argument(&image, LinkAddress(1), &ArgumentName::Number(0), &[]);
    assert!(nothing.unwrap_err().to_string().contains("no debug information"));
}

#[test]
fn fortran_arguments_are_addresses_and_cpp_references_are_followed() {
    require_or_return!(Fortran, Cxx);
    let workshop = or_skip!(Workshop::open());
    workshop.build("modules.f90", "modules", &["-g", "-fno-inline"]);
    workshop.build("classes.cc", "classes", &["-g"]);
    let found = |file: &str, function: &str, argument: &str, steps: &str| {
        let image = image(&workshop, file);
        let (_, functions) = image.functions_spelled(function).unwrap().unwrap();
        let steps = tuner::steps(steps).unwrap();
        let found = dwarf::argument(
            &image,
            functions[0].address,
            &ArgumentName::Name(argument.into()),
            &steps,
        );
        let found = found.unwrap();
        (
            found.register,
            found.reads,
            found.leaf.of.kind,
            found.leaf.of.size,
        )
    };
    assert_eq!(
        found("modules", "Config::Work", "COUNT", ""),
        (0, vec![0], ValueKind::Signed, 4)
    );
    assert_eq!(
        found("modules", "config::work", "weight", ""),
        (1, vec![0], ValueKind::Float, 8)
    );
    assert_eq!(
        found("classes", "free_function", "self", ".depth"),
        (0, vec![4], ValueKind::Signed, 4)
    );
    assert_eq!(
        found("classes", "Solver::step(int)", "this", "->depth"),
        (0, vec![4], ValueKind::Signed, 4)
    );
    assert_eq!(
        found("classes", "Solver::step(int)", "by", ""),
        (1, vec![], ValueKind::Signed, 4)
    );
}

#[test]
fn an_inlined_function_is_shown_with_the_call_and_what_can_be_probed() {
    let workshop = or_skip!(Workshop::open());
    for flags in [
        &["-O2", "-gdwarf-4"][..],
        &["-O2", "-gdwarf-5"],
        &["-O2", "-gsplit-dwarf"],
    ] {
        paths(&workshop, flags);
        let (places, count) = dwarf::inlined(&image(&workshop, "paths"), "half").unwrap();
        assert_eq!((places.len(), count), (1, 1), "{flags:?}");
        assert_eq!(
            (places[0].name.as_str(), places[0].into.as_str()),
            ("half", "step")
        );
        assert!(places[0].file.ends_with("paths.c"), "{places:?}");
        let text = std::fs::read_to_string(source_path("paths.c")).unwrap();
        let line = text.lines().nth(places[0].line as usize - 1).unwrap();
        assert!(line.contains("half(count)"), "{line}");
    }
    let nothing = dwarf::inlined(&image(&workshop, "paths"), "step").unwrap();
    assert_eq!(nothing, (vec![], 0));
}

/// Makes all queries on a file that may be damaged. Results and errors are correct; panics and endless loops
/// are not.
fn ask_everything(image: &Image) {
    let addresses: Vec<LinkAddress> = match catalog::entries(image, |_| true) {
        Ok(entries) => entries.iter().map(|entry| entry.address).take(200).collect(),
        Err(_) => return,
    };
    let _ = dwarf::describe(image, &addresses);
    let _ = dwarf::inlined(image, "half");
    let _ = dwarf::lines(image, &addresses);
    for address in addresses.iter().take(40) {
        for steps in ["", ".solver.chunk", "[1][2]", "->next->value", ".calls"] {
            let steps = tuner::steps(steps).unwrap();
            let _ = dwarf::trail(image, *address, &steps);
            let _ = dwarf::argument(image, *address, &ArgumentName::Number(0), &steps);
        }
    }
}

#[test]
fn damaged_files_are_answered_or_refused_and_never_make_us_panic_or_hang() {
    use proptest::test_runner::{Config, TestRunner};
    let workshop = or_skip!(Workshop::open());
    let mut whole = Vec::new();
    for flags in [
        &["-O2", "-gdwarf-4"][..],
        &["-O2", "-gdwarf-5"],
        &["-O2", "-gdwarf-5", "-gz"],
        &["-O2", "-gdwarf-4", "-fdebug-types-section"],
    ] {
        whole.push(std::fs::read(paths(&workshop, flags)).unwrap());
    }
    let config = Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    };
    let damage = proptest::collection::vec((0.0f64..1.0, proptest::num::u8::ANY), 1..30);
    let cut = proptest::option::weighted(0.2, 0.0f64..1.0);
    let began = std::time::Instant::now();
    TestRunner::new(config)
        .run(&(0..whole.len(), damage, cut), |(which, damage, cut)| {
            let mut bytes = whole[which].clone();
            for (place, byte) in damage {
                let at = (place * bytes.len() as f64) as usize;
                if let Some(target) = bytes.get_mut(at) {
                    *target = byte;
                }
            }
            bytes.truncate((cut.unwrap_or(1.0) * bytes.len() as f64) as usize);
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
            if let Ok(image) = Image::read(file) {
                ask_everything(&image);
            }
            Ok(())
        })
        .unwrap();
    assert!(
        began.elapsed() < std::time::Duration::from_secs(600),
        "{:?}",
        began.elapsed()
    );
}
