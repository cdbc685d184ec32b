// Properties of all texts read as a contract file. Included by the fuzz target and by the tests of `rules`.

/// Reading, solving, sizing and simulating do not panic and end. Every refusal has a message; what is assessed
/// has rates that are finite and not negative.
fn contract_file(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else {
        return;
    };
    let refused = |wrong: &[rules::Diagnostic]| assert_ne!(rules::render("contract.yaml", source, wrong), "");
    let contract = match contract::Contract::parse(source) {
        Ok(contract) => contract,
        Err(wrong) => return refused(&wrong),
    };
    match contract.capacity() {
        Ok((assessment, capacity)) => {
            for one in &assessment.features {
                assert!(one.rate.is_finite() && one.rate >= 0.0, "{one:?}");
            }
            assert_ne!(contract.dot(&assessment, &capacity), "");
            contract.exceeded(&capacity);
        }
        Err(wrong) => refused(&wrong),
    }
    if let Err(wrong) = contract.sizes() {
        refused(&wrong);
    }
    if let Err(wrong) = contract.mapping() {
        refused(&wrong);
    }
    for is_paced in [false, true] {
        let scenario = contract::Scenario {
            items: 50,
            duration_s: 1e6,
            buffer: 3,
            events_max: 20_000,
            is_paced,
            ..contract::Scenario::default()
        };
        match contract.simulate(&scenario) {
            Ok(simulation) => {
                assert!(simulation.end_s.is_finite() && simulation.measured_from_s <= simulation.end_s);
                for one in &simulation.rates {
                    assert!(one.measured >= 0.0, "{one:?}");
                }
            }
            Err(wrong) => refused(&wrong),
        }
    }
}
