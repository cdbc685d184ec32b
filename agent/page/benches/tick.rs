//! How long it takes to make the page of a day with 16 and with 2 048 ranks, as a live page needs it each second.
//!
//! `cargo bench -p tuneagent-page`.

use divan::Bencher;

#[path = "../src/tests/large.rs"]
mod large;

fn main() {
    divan::main();
}

/// The data of the page.
#[divan::bench(args = [16, 2048])]
fn model(bencher: Bencher<'_, '_>, ranks: u32) {
    let snapshot = large::of_ranks(ranks, 0);
    bencher.bench_local(|| page::page(&snapshot));
}

/// All its sections as HTML.
#[divan::bench(args = [16, 2048])]
fn sections(bencher: Bencher<'_, '_>, ranks: u32) {
    let page = page::page(&large::of_ranks(ranks, 0));
    bencher.bench_local(|| page::sections(&page).expect("a page can be drawn"));
}
