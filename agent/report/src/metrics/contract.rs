//! The metrics of a contract.

use profile::streams::{ModuleVerdict, WatchedWindow};

use super::page::Page;
use super::{cut, values_max};

/// The metrics of a contract that is watched.
pub fn render(window: &WatchedWindow) -> prometheus::Result<String> {
    let page = Page::new()?;
    fill(&page, "", window);
    page.text()
}

pub(super) fn fill(page: &Page, job: &str, window: &WatchedWindow) {
    let name = cut(&window.contract);
    let contract = ("contract", name.as_str());
    let most = values_max("feature");
    let more = |all: usize| all.saturating_sub(most);
    let unpublished = more(window.rates.len()) + more(window.modules.len());
    let kind = [("jobid", job), ("kind", "features")];
    page.add("tuneagent_unpublished", &kind, unpublished as f64);
    for rate in window.rates.iter().take(most) {
        let feature = cut(&rate.feature);
        let labels = [contract, ("feature", feature.as_str())];
        page.add("tuneagent_contract_target", &labels, rate.target);
        if let Some(rate) = rate.rate {
            page.add("tuneagent_contract_rate", &labels, rate);
        }
    }
    for module in window.modules.iter().take(most) {
        let feature = cut(&module.module);
        let labels = [contract, ("feature", feature.as_str())];
        page.add("tuneagent_contract_utilisation", &labels, module.shares.holds());
        for verdict in ModuleVerdict::ALL {
            let labels = [labels[0], labels[1], ("verdict", verdict.words())];
            let is_so = f64::from(u8::from(module.verdict == verdict));
            page.add("tuneagent_contract_verdict", &labels, is_so);
        }
    }
}
