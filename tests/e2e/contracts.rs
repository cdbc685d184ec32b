//! Contracts of pipelines of Debian's own tools, learned by a user without rights.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tuneagent_e2e::knobs::{BEN, Running, User};
use tuneagent_e2e::wait::wait_for;
use tuneagent_e2e::{Outcome, each, require};

/// A loaded machine may take the CPUs from the slow stage for a while: then it is looked at again.
const OFTEN: Duration = Duration::from_secs(100);

/// Starts `zstd -dc | awk FILTER | COMPRESSOR` on numbers, as this user.
fn pipeline(ben: &User, filter: &str, compressor: &str) -> Outcome<Running> {
    ben.script(&format!(
        "seq 3000000 | zstd -q > numbers.zst
        zstd -dc $(yes numbers.zst | head -1000) | awk '{filter}' | {compressor} > /dev/null"
    ))
}

/// Slow compression, and slow filtering.
const XZ: (&str, &str) = ("{print $0, $1 * 2}", "xz -T1 -4");
const AWK: (&str, &str) = ("{for (i = 0; i < 60; i++) s += i; print}", "gzip -1");

#[test]
fn the_stage_that_holds_a_pipeline_up_is_learned_without_root_and_probes() -> Outcome {
    let _machine = require!(shared: Root);
    let ben = User::new(BEN, &[])?;
    for ((filter, compressor), name) in [(XZ, "xz"), (AWK, "awk")] {
        let shell = pipeline(&ben, filter, compressor)?;
        let pid = shell.pid().to_string();
        let file = format!("{}/learned.yaml", ben.own());
        let learn = ["contract", "learn", &pid, "--duration", "3s", "-o", &file];
        let head = format!("{name} holds the pipeline up: busy ");
        let mut seen = String::new();
        let learned = wait_for(&format!("`{head}`"), OFTEN, || {
            let (code, text) = ben.run(&learn)?;
            seen.clone_from(&text);
            Ok((code == 0 && text.starts_with(&head)).then_some(text))
        });
        let printed = learned.map_err(|problem| format!("{problem}; last:\n{seen}"))?;
        assert_has!(printed, "; zstd is blocked writing to awk", "written: ");
        let text = fs::read_to_string(&file)?;
        let stream = if name == "xz" { "awk_to_xz" } else { "awk_to_gzip" };
        assert_has!(
            text,
            "zstd_to_awk: {from: zstd, to: awk, item: 1",
            stream,
            "the two counts differ by"
        );
        assert_has!(
            text,
            "# Learned by `tuneagent contract learn`",
            &head,
            "-dc numbers.zst"
        );
        let (code, text) = ben.run(&["contract", "check", &file])?;
        assert_eq!(code, 0, "{text}");
        assert_has!(text, "1 degree of freedom", "can hold");
        let (code, text) = ben.run(&["contract", "max", &file])?;
        assert_eq!(code, 0, "{text}");
        assert_has!(text, &format!("bound by {name}"));
    }
    Ok(())
}

#[test]
fn a_pipeline_is_compared_with_its_contract_and_who_has_to_act_is_named() -> Outcome {
    let _machine = require!(shared: Root);
    let ben = User::new(BEN, &[])?;
    let shell = pipeline(&ben, XZ.0, XZ.1)?;
    let pid = shell.pid().to_string();
    let file = format!("{}/watched.yaml", ben.own());
    let learn = ["contract", "learn", &pid, "--duration", "2s", "-o", &file];
    wait_for(
        "a contract",
        OFTEN,
        || Ok((ben.run(&learn)?.0 == 0).then_some(())),
    )?;

    let watch = |least: &str, json: &[&str]| {
        let require = format!("--require=xz >= {least}/s");
        ben.run(
            &[
                &["contract", "watch", &file, &pid, "--duration", "5s", &require],
                json,
            ]
            .concat(),
        )
    };
    let (code, text) = watch("0.0001", &[])?;
    assert_eq!(code, 0, "{text}");
    assert_has!(text, "more than required", "the contract zstd-awk-xz holds");

    let holds_up = wait_for("the verdict on xz", OFTEN, || {
        let (code, text) = watch("10000", &[])?;
        assert_eq!(code, 1, "{text}");
        assert_has!(
            text,
            "of 10000/s, violated",
            "violated in",
            "the contract zstd-awk-xz does not hold"
        );
        Ok(text.contains("xz holds the pipeline up: busy ").then_some(text))
    })?;
    assert_has!(holds_up, "awk is blocked writing to xz", "blocked: busy");

    let (code, text) = watch("10000", &["--json"])?;
    let summary: serde_json::Value =
        serde_json::from_str(&text[text.find('{').ok_or("no JSON")?..=text.rfind('}').ok_or("no end")?])?;
    assert_eq!(
        (code, &summary["holds"]),
        (1, &serde_json::json!(false)),
        "{text}"
    );
    let xz = each(&summary["rates"])
        .find(|rate| rate["feature"] == "xz")
        .ok_or("no xz")?;
    assert_eq!(
        (&xz["target"], &xz["is_violated"]),
        (&serde_json::json!(10000.0), &serde_json::json!(true))
    );

    // A contract of another program is not compared with this one.
    let other = ben.file(
        "other.yaml",
        "contract: other\nstreams: {s: {from: a, to: b, item: 1B}}\n\
         modules: {a: {gives: {s: 1}}, b: {takes: [s]}}\n",
    )?;
    let (code, text) = ben.run(&["contract", "watch", &other, &pid, "--duration", "3s"])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "the contract is about another program: it has a to b");
    Ok(())
}

#[test]
fn what_is_no_pipeline_of_ones_own_is_refused_and_nothing_is_written() -> Outcome {
    require!(Root);
    let ben = User::new(BEN, &[])?;
    let file = format!("{}/refused.yaml", ben.own());
    let alone = ben.script("echo begun; exec sleep 100")?;
    alone.lines.wait_for_line("begun", tuneagent_e2e::wait::SOON)?;
    let ours = std::process::id().to_string();
    let rows = [
        (
            alone.pid().to_string(),
            2,
            "has no pipe to another process, and started none that have",
        ),
        (ours, 3, "may not be read: it is another user's"),
        ("999999999".to_owned(), 2, "no process 999999999 runs here"),
    ];
    for (target, expected, part) in rows {
        let (code, text) = ben.run(&["contract", "learn", &target, "-o", &file])?;
        assert_eq!(code, expected, "{text}");
        assert_has!(text, part);
    }
    // It takes everything before it sends anything.
    let sorted = ben.script("yes | sort | cat > /dev/null")?;
    let target = sorted.pid().to_string();
    let learn = ["contract", "learn", &target, "--duration", "1s", "-o", &file];
    let refused = wait_for("the pipes of the shell", OFTEN, || {
        let (code, text) = ben.run(&learn)?;
        Ok((code == 1).then_some(text))
    })?;
    assert_has!(refused, "nothing arrived at the end of the pipeline in 1 s");
    assert!(!Path::new(&file).exists());
    Ok(())
}
