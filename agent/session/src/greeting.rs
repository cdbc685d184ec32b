//! The lines at the start of a session: what is watched, what is not, and what may be written.

use profile::format::plural;

/// The data of the greeting.
#[derive(Clone, Debug, Default)]
pub struct Greeting {
    /// The first line; `None` for a command, of which nothing is known yet.
    pub header: Option<String>,
    pub can_probe: bool,
    pub watched: usize,
    /// Number of watched MPI functions; `None` without MPI.
    pub of_mpi: Option<usize>,
    pub has_regions: bool,
    pub may_write: bool,
    /// Another session may write into the program, and only one may.
    pub is_locked: bool,
    pub is_of_command: bool,
    /// `Some` if probes are attached by tracefs. If kernel.perf_event_paranoid prevents changes at a place,
    /// it contains the level and the command that lowers it.
    pub tracefs: Option<Option<(i32, String)>>,
    /// The probed libraries whose probes every program here pays for that uses them.
    pub shared_libraries: Vec<String>,
    pub missing: Vec<String>,
    pub notes: Vec<String>,
}

impl Greeting {
    /// The lines, in this order.
    pub fn lines(self) -> Vec<String> {
        let armed = self.armed();
        let mut lines: Vec<String> = self.header.into_iter().collect();
        lines.push(armed);
        if let Some(paranoia) = self.tracefs {
            lines.extend(notes_of_tracefs(self.may_write, paranoia));
        }
        if !self.shared_libraries.is_empty() {
            lines.push(format!(
                "note: other programs here that use {} pay for the probes too, about 1 us a call",
                self.shared_libraries.join(" or ")
            ));
        }
        let missing = self.missing.iter().map(|missing| format!("missing: {missing}"));
        lines.extend(missing);
        lines.extend(self.notes);
        lines
    }

    fn armed(&self) -> String {
        let regions = if self.has_regions {
            ", and parallel regions"
        } else {
            ""
        };
        let what = match self.of_mpi {
            _ if !self.can_probe => "no function is watched; only the data of /proc are shown".to_owned(),
            _ if self.watched == 0 && self.has_regions => "parallel regions watched".to_owned(),
            Some(watched) => {
                format!("{watched} MPI functions watched (not local ones such as MPI_Wtime){regions}")
            }
            None if self.watched == 0 => "CPU use only (no MPI, no OpenMP, no --probe)".to_owned(),
            None => format!("{} watched{regions}", plural(self.watched, "function")),
        };
        let writes = match (self.may_write, self.is_locked) {
            (true, false) => "Rules may write",
            (true, true) => "Rules may not write before another writer ends",
            (false, _) => "Nothing is written",
        };
        let end = if self.is_of_command {
            "The command begins"
        } else {
            "Ctrl-C ends the session"
        };
        format!("armed: {what}. {writes}. {end}")
    }
}

/// What a session lacks if the kernel attaches probes by tracefs only; `paranoia` is the level at which that
/// is not sufficient, and the command that lowers it.
fn notes_of_tracefs(may_write: bool, paranoia: Option<(i32, String)>) -> Vec<String> {
    let mut notes = vec![
        "note: on this kernel (before 6.6) probes are attached at the start only: later programs and rules use \
         only those"
            .to_owned(),
    ];
    notes.extend(paranoia.filter(|_| may_write).map(|(level, lower)| {
        format!(
            "note: changes at a place in the program are refused: kernel.perf_event_paranoid is {level}, and CAP_SYS_ADMIN is given up; {lower}"
        )
    }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_tracefs_is_all_there_is_what_is_missing_is_said_at_the_start() {
        let lower = || "sudo sysctl kernel.perf_event_paranoid=2".to_owned();
        let of = |may_write, level: Option<i32>| {
            let paranoia = level.map(|level| (level, lower()));
            notes_of_tracefs(may_write, paranoia).join("\n")
        };
        assert!(of(false, Some(3)).contains("at the start only"));
        assert!(
            !of(false, Some(3)).contains("paranoid"),
            "who only looks changes nothing"
        );
        assert!(!of(true, None).contains("paranoid"));
        assert!(of(true, Some(3)).contains("sysctl kernel.perf_event_paranoid=2"));
    }

    #[test]
    fn the_greeting_says_what_is_watched_what_may_be_written_and_how_it_ends() {
        let probing = Greeting {
            can_probe: true,
            ..Greeting::default()
        };
        for (greeting, said) in [
            (
                Greeting::default(),
                "armed: no function is watched; only the data of /proc are shown. Nothing is written. Ctrl-C ends the session",
            ),
            (
                probing.clone(),
                "armed: CPU use only (no MPI, no OpenMP, no --probe). Nothing is written. Ctrl-C ends the session",
            ),
            (
                Greeting {
                    watched: 3,
                    ..probing.clone()
                },
                "armed: 3 functions watched. Nothing is written. Ctrl-C ends the session",
            ),
            (
                Greeting {
                    watched: 1,
                    may_write: true,
                    is_locked: true,
                    ..probing.clone()
                },
                "armed: 1 function watched. Rules may not write before another writer ends. Ctrl-C ends the session",
            ),
            (
                Greeting {
                    watched: 1,
                    may_write: true,
                    ..probing.clone()
                },
                "armed: 1 function watched. Rules may write. Ctrl-C ends the session",
            ),
            (
                Greeting {
                    has_regions: true,
                    ..probing.clone()
                },
                "armed: parallel regions watched. Nothing is written. Ctrl-C ends the session",
            ),
            (
                Greeting {
                    watched: 60,
                    of_mpi: Some(58),
                    is_of_command: true,
                    ..probing.clone()
                },
                "armed: 58 MPI functions watched (not local ones such as MPI_Wtime). Nothing is written. The command begins",
            ),
            (
                Greeting {
                    watched: 60,
                    of_mpi: Some(58),
                    has_regions: true,
                    ..probing.clone()
                },
                "armed: 58 MPI functions watched (not local ones such as MPI_Wtime), and parallel regions. Nothing is written. Ctrl-C ends the session",
            ),
        ] {
            assert_eq!(greeting.lines(), [said]);
        }
    }

    #[test]
    fn missing_parts_follow_watched_ones_and_notes_come_last() {
        let greeting = Greeting {
            header: Some("app, 4 ranks".to_owned()),
            can_probe: true,
            watched: 1,
            shared_libraries: ["libmpi.so.12", "libgomp.so.1"].map(str::to_owned).to_vec(),
            missing: vec!["process 7 is not watched: it has ended".to_owned()],
            notes: vec!["note: a reference".to_owned()],
            ..Greeting::default()
        };
        let lines = greeting.lines();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0], "app, 4 ranks");
        assert!(lines[1].starts_with("armed: "));
        assert_eq!(
            lines[2],
            "note: other programs here that use libmpi.so.12 or libgomp.so.1 pay for the probes too, about 1 us a call"
        );
        assert_eq!(
            lines[3..],
            [
                "missing: process 7 is not watched: it has ended",
                "note: a reference"
            ]
        );
    }
}
