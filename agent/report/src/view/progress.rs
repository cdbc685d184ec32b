//! How far the program is, as text.

use profile::Snapshot;
use profile::format::{count, percent, time};
use profile::progress::{Eta, ProgressView};

/// "step 1 200 of 5 000 (24 %), 120/s   31.7 s left (29 s to 35 s with 90 % confidence)".
pub(super) fn line(snapshot: &Snapshot) -> Option<String> {
    snapshot.progress.as_ref().map(of)
}

fn of(view: &ProgressView) -> String {
    let share = match view.done {
        Some(done) if view.total > 0.0 => format!(" ({})", percent(done / view.total)),
        _ => String::new(),
    };
    let done = view.done.map_or_else(|| "unknown".to_owned(), count);
    let pace = view
        .steps_per_s
        .map_or_else(String::new, |pace| format!(", {}/s", count(pace)));
    let left = match &view.eta {
        Ok(eta) => left(eta),
        Err(without) => format!("time left unknown: {}", without.reason()),
    };
    let limit = limit(view).unwrap_or_default();
    format!(
        " step {done} of {}{share}{pace}   {left}{limit}",
        count(view.total)
    )
}

/// What is done when the batch system ends the job.
fn limit(view: &ProgressView) -> Option<String> {
    let limit = view.limit?;
    let time = time(limit);
    let done = view.step_at_limit()?;
    Some(match done < view.total {
        true => format!(
            "; the job's time limit in {time} comes first: about step {} by then",
            count(done.round())
        ),
        false => format!("; the job's time limit is in {time}"),
    })
}

fn left(eta: &Eta) -> String {
    match eta.most {
        Some(most) => {
            let (least, most) = (time(eta.least), time(most));
            format!(
                "{} left ({least} to {most} with 90 % confidence)",
                time(eta.remaining)
            )
        }
        None => format!(
            "{} left at the mean pace (at least {}; the pace varies too much for an upper bound)",
            time(eta.remaining),
            time(eta.least)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use profile::progress::WithoutEta;

    use super::*;

    #[test]
    fn progress_is_a_step_a_pace_and_the_time_that_is_left() {
        let view = ProgressView {
            done: Some(1_200.0),
            total: 5_000.0,
            steps_per_s: Some(120.0),
            eta: Ok(Eta {
                remaining: Duration::from_secs_f64(31.7),
                least: Duration::from_secs(29),
                most: Some(Duration::from_secs(35)),
            }),
            limit: None,
        };
        assert_eq!(
            of(&view),
            " step 1 200 of 5 000 (24 %), 120/s   31.7 s left (29 s to 35 s with 90 % confidence)"
        );
        let of_limit = |seconds| {
            let limit = Some(Duration::from_secs(seconds));
            of(&ProgressView { limit, ..view })
        };
        assert!(
            of_limit(10).ends_with("; the job's time limit in 10 s comes first: about step 2 400 by then")
        );
        assert!(of_limit(600).ends_with("; the job's time limit is in 10 min"));
        let stands = ProgressView {
            eta: Err(WithoutEta::Stands),
            ..view
        };
        assert!(of(&stands).ends_with("   time left unknown: the step does not advance"));
        let late = ProgressView::without_begin(5_000.0, Some(120.0), WithoutEta::BegunBefore);
        let expected =
            " step unknown of 5 000, 120/s   time left unknown: iterations before the session are unknown";
        assert!(of(&late).starts_with(expected));
    }
}
