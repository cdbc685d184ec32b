//! `tuneagent rule plan`: what a rule needs before it can run, and what each of its probes costs: totals that the kernel side
//! keeps, or every hit. Attaches nothing.

use std::path::PathBuf;

use rules::{CheckedRule, Delivery, Dimension, Kind, Plan, PlannedProbe, Scope, Site, human};

use super::check;
use crate::exit::{Code, Failure, Outcome};

pub(super) fn run(files: &[PathBuf]) -> Outcome {
    let mut code = Code::Done;
    for path in files {
        let name = path.display().to_string();
        let text = check::text(path, &name)?;
        match CheckedRule::from_source(&text) {
            Ok(rule) => say!("{}", describe(rule.plan()).trim_end()),
            Err(wrong) => {
                check::refuse(&name, &text, &wrong);
                code = Code::No;
            }
        }
    }
    Ok::<_, Failure>(code)
}

fn describe(plan: &Plan) -> String {
    let mut out = format!("{}\n", plan.rule);
    let mut section = |title: &str, rows: Vec<(String, String)>| {
        if !rows.is_empty() {
            out += &format!("  {title}\n");
        }
        for (name, text) in rows {
            out += format!("    {name:<24} {text}").trim_end();
            out.push('\n');
        }
    };
    let windows = plan.windows.iter().map(|window| {
        let length = window
            .every
            .map(|ns| human(ns as f64 / 1e9, Dimension::TIME, false));
        let text = length.map_or("from hit to hit".to_owned(), |length| format!("every {length}"));
        (window.name.clone(), text)
    });
    section("windows", windows.collect());
    let measures = plan.measures.iter().map(|measure| {
        let of = match measure.scope() {
            Scope::Process => "of each process with a role",
            Scope::Node => "of the machine",
        };
        let kind = match measure.kind() {
            Kind::Counter => "total",
            Kind::Gauge => "level",
        };
        (measure.name().to_owned(), format!("{kind} {of}"))
    });
    section("measures", measures.collect());
    section(
        "probes",
        plan.probes
            .iter()
            .map(|probe| (probe.name.clone(), cost(probe)))
            .collect(),
    );
    let asked = plan
        .symbols
        .iter()
        .map(|name| (name.clone(), "a symbol".to_owned()));
    let asked = asked.chain(
        plan.libraries
            .iter()
            .map(|glob| (glob.clone(), "a library".to_owned())),
    );
    section("asked of each process", asked.collect());
    let written = plan.variables.iter().map(|variable| {
        let range = variable
            .range
            .as_ref()
            .map_or(String::new(), |range| format!(", only where {range}"));
        (
            variable.name.clone(),
            format!("in every {}{range}", variable.role),
        )
    });
    section("written", written.collect());
    out
}

fn cost(probe: &PlannedProbe) -> String {
    let site = match probe.site {
        Site::Entry => "entry",
        Site::Return => "return",
        Site::Span => "entry and return",
    };
    let sent = match (probe.delivers, probe.captures.len()) {
        (Delivery::Nothing, _) => "not armed: no formula uses it".to_owned(),
        (Delivery::Count, _) => "counted in the kernel, nothing sent".to_owned(),
        (Delivery::Durations, _) => "counted and timed in the kernel, nothing sent".to_owned(),
        (Delivery::EachHit, 0) => "each hit is sent".to_owned(),
        (Delivery::EachHit, captures) => {
            format!(
                "each hit is sent, with {}",
                crate::format::plural(captures, "value")
            )
        }
    };
    format!("{site} of {} in every {}: {sent}", probe.function, probe.role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_says_what_is_needed_and_what_is_sent() {
        let shipped = rules::library().iter().chain(rules::models());
        let rules = shipped.map(|(_, text)| CheckedRule::from_source(text).unwrap());
        let text: Vec<String> = rules.map(|rule| describe(rule.plan())).collect();
        insta::assert_snapshot!(text.join("\n"));
    }
}
