// Contracts of any size, for the bench of contracts and the test that counts operations.

/// 3 variables a module.
fn pipeline(modules: usize) -> String {
    let streams = (1..modules).map(|at| format!("  s{at}: {{from: M{}, to: M{at}}}\n", at - 1));
    let module = |at: usize| {
        let takes = if at > 0 {
            format!("takes: [s{at}], ")
        } else {
            String::new()
        };
        let gives = if at + 1 < modules {
            format!("s{}: 1", at + 1)
        } else {
            String::new()
        };
        format!("  M{at}: {{{takes}gives: {{{gives}}}, work: w}}\n")
    };
    format!(
        "contract: pipeline\nstreams:\n{}modules:\n{}work: {{w: {{time: 1s}}}}\nrequire: [M{} >= 1/s]\n",
        streams.collect::<String>(),
        (0..modules).map(module).collect::<String>(),
        modules - 1
    )
}

/// Layers of eight modules. The input of each is merged from three of the layer before, which share what they
/// send; every fifth module sends a tenth back to the layer before. About 5 variables a module.
fn mesh(modules: usize) -> String {
    const WIDTH: usize = 8;
    let mut gives = vec![Vec::new(); modules];
    let mut streams = String::new();
    for at in 1..modules {
        let layer = (at - 1) / WIDTH;
        let sender = |number: usize| match layer {
            0 => 0,
            layer => 1 + (layer - 1) * WIDTH + (at * (number + 1) + number * 3) % WIDTH,
        };
        let mut from: Vec<usize> = (0..3).map(sender).collect();
        if at + WIDTH < modules && at % 5 == 0 {
            from.push(at + WIDTH);
        }
        from.sort_unstable();
        from.dedup();
        for sender in &from {
            gives[*sender].push(format!("s{at}: {}", if *sender > at { "1/10" } else { "3/10" }));
        }
        let from: Vec<String> = from.iter().map(|sender| format!("M{sender}")).collect();
        streams += &format!("  s{at}: {{from: [{}], to: M{at}}}\n", from.join(", "));
    }
    let module = |at: usize| {
        let takes = if at > 0 {
            format!("takes: [s{at}], ")
        } else {
            String::new()
        };
        format!(
            "  M{at}: {{{takes}gives: {{{}}}, work: w}}\n",
            gives[at].join(", ")
        )
    };
    format!(
        "contract: mesh\nstreams:\n{streams}modules:\n{}work: {{w: {{time: 1s}}}}\nrequire: [M0 >= 1/s]\n",
        (0..modules).map(module).collect::<String>(),
    )
}
