//! The files for Prometheus and Grafana are valid, and every query in them returns data during a real run.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::knobs::{BEN, Running, User};
use tuneagent_e2e::problem::Context;
use tuneagent_e2e::prometheus::{Prometheus, free_address, get, promtool};
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, Problem, each, programs, require};

use crate::expected::{SOON, start_workers, with_folder};

/// Number of columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// Maximum time until every query has data: a change is made, judged and scraped.
const EVERYTHING: Duration = Duration::from_secs(300);

/// A dashboard with its file name.
struct Board {
    file: String,
    json: Value,
}

fn boards() -> Outcome<Vec<Board>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/grafana");
    let mut boards = Vec::new();
    for entry in fs::read_dir(&folder).context(folder.display())? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).context(path.display())?;
        let json = serde_json::from_str(&text).context(path.display())?;
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        boards.push(Board { file, json });
    }
    boards.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(boards)
}

impl Board {
    /// What its user chooses, and each query is about.
    fn subject(&self) -> &'static str {
        match self.file.as_str() {
            "contracts.json" => "contract",
            _ => "jobid",
        }
    }

    fn panels(&self) -> impl Iterator<Item = &Value> {
        each(&self.json["panels"])
    }

    fn variables(&self) -> impl Iterator<Item = &Value> {
        each(&self.json["templating"]["list"])
    }

    fn queries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.panels().flat_map(|panel| {
            let title = panel["title"].as_str().unwrap_or_default();
            let targets = each(&panel["targets"]);
            targets.map(move |target| (title, target["expr"].as_str().unwrap_or_default()))
        })
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Outcome<&'a str> {
    let text = value[key].as_str().filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| Problem::new(format!("no {key}")))
}

#[test]
fn every_panel_says_what_it_shows_in_which_unit_and_takes_the_data_source_that_was_chosen() -> Outcome {
    let boards = boards()?;
    let files: Vec<&str> = boards.iter().map(|board| board.file.as_str()).collect();
    assert_eq!(
        files,
        [
            "communication.json",
            "contracts.json",
            "openmp.json",
            "overview.json",
            "ranks.json",
            "tuning.json"
        ]
    );
    let mut uids = BTreeSet::new();
    for board in &boards {
        let file = &board.file;
        lint_board(board).context(file)?;
        assert!(
            uids.insert(text(&board.json, "uid")?),
            "{file}: its uid is another's"
        );
        let (mut ids, mut titles, mut taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for panel in board.panels() {
            let title = text(panel, "title").context(file)?;
            lint_panel(panel, board.subject()).context(format!("{file}, {title}"))?;
            assert!(
                ids.insert(panel["id"].as_u64()),
                "{file}, {title}: its id is another's"
            );
            assert!(titles.insert(title), "{file}: {title} twice");
            for cell in cells(panel) {
                assert!(cell.0 < COLUMNS, "{file}, {title}: right of the grid");
                assert!(taken.insert(cell), "{file}, {title}: lies over another panel");
            }
        }
    }
    Ok(())
}

fn lint_board(board: &Board) -> Outcome {
    let json = &board.json;
    for key in ["title", "description", "refresh"] {
        text(json, key)?;
    }
    let tagged = each(&json["tags"]);
    assert!(tagged.into_iter().any(|tag| tag == "tuneagent"), "no tag");
    assert!(json["schemaVersion"].as_u64() >= Some(36), "schema version");
    assert!(json.get("id").is_none(), "the id is given by whoever imports it");
    let names: Vec<&str> = board
        .variables()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    assert!(
        names.starts_with(&["datasource", board.subject()]),
        "variables {names:?}"
    );
    let queries: String = board.queries().map(|(_, query)| query).collect();
    for variable in board.variables() {
        let name = text(variable, "name")?;
        for key in ["label", "description"] {
            text(variable, key).context(name)?;
        }
        let is_used = name == "datasource" || queries.contains(&format!("${name}"));
        assert!(is_used, "no query takes the variable {name}");
    }
    Ok(())
}

fn lint_panel(panel: &Value, subject: &str) -> Outcome {
    let kinds = [
        "stat",
        "timeseries",
        "bargauge",
        "table",
        "state-timeline",
        "heatmap",
    ];
    let kind = text(panel, "type")?;
    assert!(kinds.contains(&kind), "{kind} is no panel that we know");
    text(panel, "description")?;
    text(&panel["fieldConfig"]["defaults"], "unit")?;
    assert_eq!(panel["datasource"]["uid"], "${datasource}");
    let targets = panel["targets"].as_array().ok_or("no queries")?;
    assert!(!targets.is_empty(), "no queries");
    let mut seen = BTreeSet::new();
    for target in targets {
        assert!(seen.insert(text(target, "refId")?), "two queries of one name");
        assert_eq!(target["datasource"]["uid"], "${datasource}");
        let query = text(target, "expr")?;
        assert!(
            query.contains(&format!("{subject}=~\"${subject}\"")),
            "{query} is not about the chosen {subject}"
        );
        assert!(
            !query.contains("[1m]"),
            "{query} has a fixed span: $__rate_interval"
        );
        if kind == "heatmap" {
            // With another format Grafana would draw a line for each bucket.
            assert_eq!(target["format"], "heatmap");
            assert_eq!(panel["options"]["calculate"], false);
        }
        if kind != "table" {
            text(target, "legendFormat")?;
        }
    }
    Ok(())
}

/// Cells of the grid that a panel covers.
fn cells(panel: &Value) -> Vec<(u64, u64)> {
    let of = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_default();
    let columns = of("x")..of("x") + of("w");
    columns
        .flat_map(|x| (of("y")..of("y") + of("h")).map(move |y| (x, y)))
        .collect()
}

#[test]
fn promtool_finds_nothing_wrong_and_every_alert_fires_where_it_should_and_nowhere_else() -> Outcome {
    require!(Prometheus);
    promtool(&["check", "config", "prometheus.yml"], "")?;
    promtool(&["check", "rules", "recording.rules.yml", "alerts.rules.yml"], "")?;
    let reported = promtool(&["test", "rules", "tests.yml"], "")?;
    assert!(reported.contains("SUCCESS"), "{reported}");
    // Every alert must have a test.
    let folder = tuneagent_e2e::prometheus::folder();
    let alerts = fs::read_to_string(folder.join("alerts.rules.yml"))?;
    let tests = fs::read_to_string(folder.join("tests.yml"))?;
    for line in alerts.lines() {
        if let Some(name) = line.trim().strip_prefix("- alert: ") {
            let tried = ["jobid", "contract"].map(|subject| format!("alertname=\"{name}\", {subject}=\"1\""));
            assert!(
                tried.iter().any(|tried| tests.contains(tried)),
                "{name} is not tried"
            );
        }
    }
    Ok(())
}

/// A query after Grafana's substitution of variables and intervals, for a scrape interval of 1 s.
fn filled(query: &str, variables: &[(String, String)]) -> String {
    let mut query = query
        .replace("$__rate_interval", "10s")
        .replace("$__range", "60s");
    for (name, value) in variables {
        query = query.replace(&format!("${name}"), value);
    }
    query
}

/// Values that Grafana offers for the variables of a dashboard.
fn variables(board: &Board, prometheus: &Prometheus) -> Outcome<Vec<(String, String)>> {
    let mut filled = Vec::new();
    for variable in board.variables().filter(|variable| variable["type"] == "query") {
        let query = text(variable, "definition")?;
        let inner = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = inner.and_then(|inner| inner.split_once(", ")).ok_or(query)?;
        let values = prometheus.label_values(metric, label)?;
        if values.is_empty() {
            return Err(Problem::new(format!("{query} offers nothing")));
        }
        filled.push((text(variable, "name")?.to_owned(), values.join("|")));
    }
    Ok(filled)
}

/// Queries that return no data now, with their panels.
fn unanswered(boards: &[Board], prometheus: &Prometheus) -> Outcome<Vec<String>> {
    let mut without = Vec::new();
    for board in boards {
        let variables = match variables(board, prometheus) {
            Ok(variables) => variables,
            Err(problem) => {
                without.push(format!("{}: {problem}", board.file));
                continue;
            }
        };
        for (title, query) in board.queries() {
            let query = filled(query, &variables);
            if prometheus.query(&query)?.is_empty() {
                without.push(format!("{}, {title}: {query}", board.file));
            }
        }
    }
    for rule in rules(prometheus)? {
        let query = text(&rule, "query")?;
        // For an alert, the compared expression: most alerts must not fire here.
        let compared = query.rsplit_once(" > ").or(query.rsplit_once(" < "));
        let query = match (text(&rule, "type")?, compared) {
            ("alerting", Some((left, right))) => {
                right.parse::<f64>().context(query)?;
                left
            }
            ("alerting", None) => return Err(Problem::new(format!("{query} compares nothing"))),
            _ => query,
        };
        if rule["health"] != "ok" || prometheus.query(query)?.is_empty() {
            without.push(format!("{} ({}): {query}", rule["name"], rule["health"]));
        }
        if rule["type"] == "recording" && prometheus.query(text(&rule, "name")?)?.is_empty() {
            without.push(format!("{} is not recorded", rule["name"]));
        }
    }
    Ok(without)
}

fn rules(prometheus: &Prometheus) -> Outcome<Vec<Value>> {
    let data = prometheus.get("/api/v1/rules")?;
    let groups = data["groups"].as_array().cloned().unwrap_or_default();
    let rules = groups.iter().flat_map(|group| each(&group["rules"]));
    Ok(rules.cloned().collect())
}

/// Starts a program with a loop of two sends, and a session that watches it.
fn watch_stencil() -> Outcome<(Job, Agent, SocketAddr)> {
    let program = programs::mpi("stencil", Mpi::Mpich)?;
    // More steps than the test needs.
    let given = ["steps=1000000000", "step_us=2000"];
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, 2, &program, |folder| {
        with_folder(folder, given.map(String::from).to_vec())
    })?;
    job.open("go")?;
    job.events("iteration", 1, SOON)?;
    let address = free_address()?;
    let agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--metrics", &address.to_string()])?;
    Ok((job, agent, address))
}

/// A program of parallel regions with two threads. In every second region one thread works three times as
/// long as the other.
fn watch_regions() -> Outcome<(Job, Agent, SocketAddr)> {
    let job = crate::openmp::start(&programs::openmp("uneven")?, "10 10 30 10")?;
    let address = free_address()?;
    let agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--metrics", &address.to_string()])?;
    Ok((job, agent, address))
}

/// A pipeline of a user's shell, which is compared with its contract.
fn watch_contract(ben: &User) -> Outcome<(Running, Running, SocketAddr)> {
    let shell = ben.script("seq 1000000000 | gzip -1 | cat > /dev/null")?;
    let contract = ben.file(
        "numbers.yaml",
        "contract: numbers\n\
         streams: {lines: {from: seq, to: gzip, item: 1KB}, packed: {from: gzip, to: cat, item: 1B}}\n\
         modules: {seq: {gives: {lines: 1}}, gzip: {takes: [lines], gives: {packed: 10}}, cat: {takes: [packed]}}\n\
         require: [gzip >= 1/s]\n",
    )?;
    let (pid, address) = (shell.pid().to_string(), free_address()?);
    let watch = ["contract", "watch", &contract, &pid, "--duration", "10min"];
    let watching = ben.start(&[&watch[..], &["--metrics", &address.to_string()]].concat())?;
    Ok((shell, watching, address))
}

/// On the program of the workers model, which has messages, functions probed by a rule, a change and a
/// verdict.
#[test]
fn every_query_of_every_panel_and_alert_has_data_during_a_run() -> Outcome {
    let _machine = require!(shared: Root, Mpich, Prometheus);
    let mut job = start_workers(13, ["100000", "2000", "2"])?;
    let address = free_address()?;
    let mut agent = Agent::attach_armed(
        job.pid(),
        &format!("--rules none optimal-workers --apply --metrics {address}")
            .split(' ')
            .collect::<Vec<_>>(),
    )?;
    let (stencil, watching, other) = watch_stencil()?;
    let (regions, watching_regions, of_regions) = watch_regions()?;
    let ben = User::new(BEN, &[])?;
    let (_pipeline, watching_pipeline, of_pipeline) = watch_contract(&ben)?;
    let prometheus = Prometheus::start(&[address, other, of_regions, of_pipeline])?;
    let boards = boards()?;
    let mut without = Vec::new();
    wait_until("data for every panel", EVERYTHING, || {
        without = unanswered(&boards, &prometheus)?;
        Ok(without.is_empty())
    })
    .map_err(|problem| {
        let (printed, said) = (agent.lines.text(), prometheus.said());
        let of_contract = watching_pipeline.lines.text();
        Problem::new(format!(
            "{problem}; none for:\n{}\n{printed}\n{of_contract}\n{said}",
            without.join("\n")
        ))
    })?;
    check_values(&prometheus, job.pid())?;
    drop((watching, stencil, watching_regions, regions));
    let (head, page) = get(address, "/metrics")?;
    assert!(head.contains("version=0.0.4"), "{head}");
    promtool(&["check", "metrics"], &page)?;
    agent.signal(Signal::INT)?;
    // The verdict on a busy machine is not part of this test.
    let report = agent.finish_with(SOON, &[0, 1])?;
    assert_eq!(
        report["changes"][0]["rule"],
        "optimal-workers",
        "{}",
        agent.lines.text()
    );
    job.open("stop")?;
    job.finish(SOON)
}

/// Checks values that are known in advance.
fn check_values(prometheus: &Prometheus, launcher: u32) -> Outcome {
    let value = |query: &str| -> Outcome<f64> {
        let query = query.replace("JOB", &format!("jobid=\"{launcher}\""));
        let query = query.replace(
            "IN_REGIONS",
            "and on (jobid) tuneagent_job_info{program=~\"uneven.*\"}",
        );
        let query = query.replace(
            "IN_STENCIL",
            "and on (jobid) tuneagent_job_info{program=~\"stencil.*\"}",
        );
        // After a scrape that was not answered in time, a query gives nothing until the next one.
        let mut series = Vec::new();
        wait_until(&query, SOON, || {
            series = prometheus.query(&query)?;
            Ok(!series.is_empty())
        })?;
        let [one] = series.as_slice() else {
            return Err(Problem::new(format!("{query} gives {series:?}")));
        };
        let value = one["value"][1].as_str().and_then(|value| value.parse().ok());
        value.ok_or_else(|| Problem::new(format!("{query} gives {one}")))
    };
    assert!(value("tuneagent_job_info{JOB, mpi=\"MPICH\"}")? == 1.0);
    assert!(value("tuneagent_processes{JOB}")? == 13.0);
    // The session clock advances by one second per second. On a busy machine some scrapes get late answers.
    wait_until("a second of the session's clock a second", SOON, || {
        let pace = value("deriv(tuneagent_session_seconds_total{JOB}[20s])")?;
        Ok((0.5..2.0).contains(&pace))
    })?;
    // Calls by function and calls by rank must have the same sum. One query reads both from one scrape.
    let by = |label: &str| format!("sum(tuneagent_mpi_{label}_calls_total{{JOB}})");
    let ratio = value(&format!("{} / {}", by("function"), by("rank")))?;
    assert!(
        (ratio - 1.0).abs() < 0.05,
        "{ratio} calls by function for each by rank"
    );
    // Two ranks send their results to each other, so each message is in one row and one column of the matrix.
    assert!(value("sum(tuneagent_mpi_point_to_point_pairs IN_STENCIL)")? == 2.0);
    let of = |direction: &str| {
        let messages = "tuneagent_mpi_point_to_point_messages_total";
        format!("sum({messages}{{direction=\"{direction}\"}} IN_STENCIL)")
    };
    let ratio = value(&format!("{} / {}", of("sent"), of("posted")))?;
    assert!((ratio - 1.0).abs() < 0.05, "{ratio} sent for each posted");
    // By the program's own times: 60 of 2 × (10 + 30) ms of its threads are work.
    assert!(value("jobid:tuneagent_openmp_team_threads:mean1m IN_REGIONS")? == 2.0);
    let balance = value("jobid:tuneagent_openmp_load_balance:ratio1m IN_REGIONS")?;
    assert!((0.6..0.95).contains(&balance), "{balance}");
    let inside = value("jobid:tuneagent_openmp_region_seconds:share1m IN_REGIONS")?;
    assert!((0.6..0.95).contains(&inside), "{inside}");
    Ok(())
}
