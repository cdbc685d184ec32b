//! Time to assess contracts, by their number of variables: pipelines, and meshes whose streams are merged from
//! three senders and some of which go back.
//!
//! `cargo bench -p tuneagent-contract --bench contracts`. docs/performance.md has the figures.

use contract::Contract;
use divan::Bencher;

include!("generated/contracts.rs");

fn main() {
    divan::main();
}

fn parsed(source: &str) -> Contract {
    let parsed = Contract::parse(source);
    parsed.unwrap_or_else(|wrong| panic!("{}", syntax::diag::render("contract.yaml", source, &wrong[..1])))
}

#[divan::bench(args = [50, 100, 300, 1000, 2000], sample_count = 5, sample_size = 1)]
fn read_pipeline(bencher: Bencher<'_, '_>, modules: usize) {
    let source = pipeline(modules);
    bencher.bench(|| parsed(&source));
}

#[divan::bench(args = [50, 100, 300, 1000, 2000], sample_count = 5, sample_size = 1)]
fn assess_pipeline(bencher: Bencher<'_, '_>, modules: usize) {
    let contract = parsed(&pipeline(modules));
    bencher.bench(|| contract.assess().expect("it can be assessed"));
}

#[divan::bench(args = [50, 100, 300, 1000, 2000], sample_count = 5, sample_size = 1)]
fn read_mesh(bencher: Bencher<'_, '_>, modules: usize) {
    let source = mesh(modules);
    bencher.bench(|| parsed(&source));
}

#[divan::bench(args = [50, 100, 300, 1000, 2000], sample_count = 5, sample_size = 1)]
fn assess_mesh(bencher: Bencher<'_, '_>, modules: usize) {
    let contract = parsed(&mesh(modules));
    bencher.bench(|| contract.assess().expect("it can be assessed"));
}

#[divan::bench(args = [50, 1000], sample_count = 5, sample_size = 1)]
fn capacity_of_mesh(bencher: Bencher<'_, '_>, modules: usize) {
    let contract = parsed(&mesh(modules));
    bencher.bench(|| contract.capacity().expect("it can be assessed"));
}

#[divan::bench(args = [50], sample_count = 20, sample_size = 1)]
fn assess_mesh_again_after_a_changed_requirement(bencher: Bencher<'_, '_>, modules: usize) {
    let contract = parsed(&mesh(modules));
    bencher
        .with_inputs(|| contract.clone())
        .bench_local_values(|mut contract| {
            contract.require("M0 >= 2/s").expect("it is a requirement");
            contract.assess().expect("it can be assessed")
        });
}
