//! Links: the time for attaching and detaching many probes.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use probe::kernel::{CallMoment, Kernel, LinkKind, LinkRequest, LoadOptions, ProbeSite};

use tuneagent_e2e::needs::{Need, has};
use tuneagent_e2e::require_or_return;
use tuner::{ExitFinder, FileOffset};

/// The probes of an entire MPI library: about 800, including the returns. One after the other they would wait for the
/// kernel 800 times, of which each takes some 10 ms; `cargo xtask bench attach` measures the time.
#[test]
fn eight_hundred_probes_attach_and_detach_together() {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";
    // The fastest of five, on a machine however busy.
    const ATTACH_MAX: Duration = Duration::from_secs(3);
    const DETACH_MAX: Duration = Duration::from_secs(3);
    require_or_return!(Root, OpenMpi);
    let image = tuner::Image::read(std::fs::File::open(LIBRARY).unwrap()).unwrap();
    let symbols = image.defined_symbols().unwrap();
    let names: Vec<&str> = symbols
        .iter()
        .map(|symbol| symbol.name.as_str())
        .filter(|name| name.starts_with("PMPI_"))
        .collect();
    let functions = image.functions(&names).unwrap();
    let site = |offset: FileOffset| ProbeSite::new(offset.0, 0);
    let entries: Vec<ProbeSite> = functions.iter().map(|function| site(function.offset)).collect();
    let returns = functions
        .iter()
        .filter_map(|function| Some(tuner::returns(&image, function).ok()?.instructions));
    let returns: Vec<ProbeSite> = returns.flatten().map(site).collect();
    let kernel = Kernel::load(LoadOptions::ONE_PROBE).unwrap();
    let mut times: Vec<(Duration, Duration)> = (0..5)
        .map(|_| {
            let began = Instant::now();
            let request =
                |at, sites: &[ProbeSite]| LinkRequest::new(LIBRARY.into(), sites.to_vec(), at, None);
            let links = [(CallMoment::EXIT, &returns), (CallMoment::Entry, &entries)];
            let links = links.map(|(at, sites)| kernel.attach(&request(at, sites)).unwrap());
            let attached = began.elapsed();
            let began = Instant::now();
            drop(links);
            (attached, began.elapsed())
        })
        .collect();
    times.sort();
    let (attached, _) = times[0];
    let detached = times.iter().map(|(_, detached)| *detached).min().unwrap();
    let worst = (
        times.iter().map(|t| t.0).max().unwrap(),
        times.iter().map(|t| t.1).max().unwrap(),
    );
    let count = entries.len() + returns.len();
    let _ = writeln!(
        std::io::stderr(),
        "{count} probes: attach {attached:?} (worst {:?}), detach {detached:?} (worst {:?}) of 5",
        worst.0,
        worst.1
    );
    assert!(count >= 800, "{count}");
    assert!(
        attached < ATTACH_MAX && detached < DETACH_MAX,
        "{attached:?} {detached:?}"
    );
}

/// A function timed at jumps costs a tenth of one timed at returns. Most MPI functions, and those called most
/// often, end in jumps.
#[test]
fn mpi_is_left_by_jumps_before_its_returns() {
    for (library, need) in [("libmpi.so.40", Need::OpenMpi), ("libmpich.so.12", Need::Mpich)] {
        let library = format!("/usr/lib/x86_64-linux-gnu/{library}");
        if !has(module_path!(), &[need]) {
            continue;
        }
        let image = tuner::Image::read(std::fs::File::open(&library).unwrap()).unwrap();
        let finder = ExitFinder::new(&image);
        let names: Vec<String> = profile::mpi::FUNCTIONS
            .iter()
            .map(|function| format!("P{}", function.name()))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut all, mut by_returns, mut unknown) = (0, Vec::new(), Vec::new());
        for function in image.functions(&names).unwrap() {
            let exits = finder.exits(&function).unwrap();
            let name = function.names[0].clone();
            all += 1;
            let ends = [&exits.own, &exits.elsewhere].map(|places| places.jumps.len() + places.returns.len());
            assert!(ends.iter().sum::<usize>() > 0, "{name} has no end");
            if exits.unknown > 0 {
                unknown.push(name.clone());
            }
            if exits.own.jumps.is_empty() && exits.elsewhere.jumps.is_empty() {
                by_returns.push(name);
            }
        }
        println!("{library}: {all}, by returns {by_returns:?}, not followed {unknown:?}");
        assert!(all > 100 && 2 * by_returns.len() < all, "{by_returns:?} of {all}");
        assert!(2 * unknown.len() < all, "{unknown:?} of {all}");
        for common in [
            "PMPI_Send",
            "PMPI_Recv",
            "PMPI_Isend",
            "PMPI_Wait",
            "PMPI_Waitall",
            "PMPI_Allreduce",
        ] {
            assert!(!by_returns.iter().any(|name| name == common), "{common}");
        }
    }
}

/// A session must not be refused because a process has ended.
#[test]
fn a_process_that_has_ended_is_distinguished_from_a_file_that_cannot_be_probed() {
    require_or_return!(Root);
    let kernel = Kernel::load(LoadOptions::ONE_PROBE).unwrap();
    if kernel.link_kind() != (LinkKind::UprobeMulti { by_process: true }) {
        return;
    }
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let request = |path: &str, pid| {
        LinkRequest::new(
            path.into(),
            vec![ProbeSite::new(0x1000, 0)],
            CallMoment::Entry,
            pid,
        )
    };
    let refusal = |path, pid| kernel.attach(&request(path, pid)).unwrap_err();
    assert!(refusal("/proc/self/exe", Some(pid)).is_of_no_process());
    assert!(!refusal("/proc", None).is_of_no_process());
}
