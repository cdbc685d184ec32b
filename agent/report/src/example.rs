//! Parts of snapshots for tests, each with what most tests want.

use profile::{
    CallSiteView, Efficiencies, EfficienciesView, FindingView, JobView, RuleView, SourcePlace, Split,
    Standing,
};

/// Ranks of LAMMPS under Open MPI.
pub(crate) fn job(size: Option<usize>) -> JobView {
    JobView {
        program: "lmp".into(),
        user: "ana".into(),
        size,
        mpi: Some(("Open MPI".into(), Some("4.1.4".into()))),
        ..JobView::default()
    }
}

/// Of ranks on one node with these useful shares, over complete iterations.
pub(crate) fn efficiencies<const N: usize>(useful: [f64; N]) -> EfficienciesView {
    EfficienciesView {
        of: Efficiencies::of(&[useful.to_vec()]).unwrap(),
        between_nodes: Some(1.0),
        ranks: N,
        nodes: 1,
        over_iterations: true,
        ..EfficienciesView::default()
    }
}

pub(crate) fn split(collectives: u64) -> Split {
    Split {
        serialisation: 0.8,
        transfer: 0.75,
        waiting: 0.3,
        transferring: 0.25,
        collectives,
    }
}

/// Calls of MPI in the exchange of LAMMPS.
pub(crate) fn call_site(function: &str, line: u64, calls: u64, seconds: u64, ranks: u64) -> CallSiteView {
    CallSiteView {
        function: function.into(),
        place: SourcePlace {
            module: Some("lmp".into()),
            function: Some("LAMMPS_NS::CommBrick::forward_comm(int)".into()),
            file: Some("comm_brick.cpp".into()),
            line: Some(line),
        },
        calls,
        time_ns: seconds * 1_000_000_000,
        ranks,
    }
}

pub(crate) fn rule(name: &str, standing: Standing, state: &str) -> RuleView {
    RuleView {
        name: name.into(),
        mode: plan::Mode::Advising,
        state: state.into(),
        standing,
        ..RuleView::default()
    }
}

pub(crate) fn finding(rule: &str, text: &str) -> FindingView {
    FindingView {
        rule: rule.into(),
        text: text.into(),
        ..FindingView::default()
    }
}
