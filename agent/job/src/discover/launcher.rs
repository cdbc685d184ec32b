//! Finds the process that started the job.

use super::table::ProcessTable;

/// Names of programs that start ranks, on any node, truncated at 15 bytes as by the kernel.
const LAUNCHERS: &str = "mpirun mpiexec orterun prterun prte orted prted mpirun.openmpi \
    mpiexec.openmpi mpirun.mpich mpiexec.mpich mpiexec.hydra hydra_pmi_proxy hydra_bstrap_pr \
    srun slurmstepd aprun jsrun palsd";

/// Whether the short name of a process is that of a launcher.
pub fn is_launcher(name: &str) -> bool {
    LAUNCHERS
        .split(' ')
        .any(|known| known == name.get(..15).unwrap_or(name))
}

/// The nearest launcher above a process or itself, and further up while launchers start launchers.
pub fn above(table: &ProcessTable, pid: i32) -> Option<i32> {
    let launchers = table
        .lineage(pid)
        .skip_while(|(_, entry)| !is_launcher(&entry.name));
    launchers
        .take_while(|(_, entry)| is_launcher(&entry.name))
        .last()
        .map(|(launcher, _)| launcher)
}

/// The launchers of a process: itself, the nearest one above it (and further up while launchers start
/// launchers, as mpiexec does its proxies), or those below it, if the process is a script around jobs. None
/// for process 1, which is the ancestor of everything.
pub(super) fn find(table: &ProcessTable, pid: i32) -> Vec<i32> {
    if let Some(launcher) = above(table, pid) {
        return vec![launcher];
    }
    if pid == 1 {
        return Vec::new();
    }
    let launches = |pid: &i32| table.get(*pid).is_some_and(|entry| is_launcher(&entry.name));
    let outermost = |pid: &i32| {
        launches(pid)
            && table
                .get(*pid)
                .and_then(|entry| table.get(entry.parent))
                .is_none_or(|up| !is_launcher(&up.name))
    };
    table.descendants(pid).into_iter().filter(outermost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ProcessTable {
        ProcessTable::of(&[
            (1, 0, "init"),
            (49, 1, "bash"),
            (50, 49, "bash"),
            (100, 50, "mpiexec.hydra"),
            (101, 100, "hydra_pmi_proxy"),
            (102, 101, "app"),
            (103, 101, "app"),
            (110, 49, "mpirun"),
            (200, 1, "slurmstepd"),
            (201, 200, "bash"),
            (202, 201, "mpirun"),
            (203, 202, "lmp"),
            (300, 1, "python3"),
        ])
    }

    #[test]
    fn the_launcher_is_found_from_a_rank_a_proxy_itself_and_a_script_around_it() {
        for (pid, launcher) in [
            (102, 100),
            (101, 100),
            (100, 100),
            (50, 100),
            (203, 202),
            (202, 202),
        ] {
            assert_eq!(find(&table(), pid), [launcher], "from {pid}");
        }
        // The step daemon started a script, and the script started the job.
        assert_eq!(find(&table(), 201), [200]);
        assert_eq!(find(&table(), 300), [0; 0]);
        assert_eq!(find(&table(), 1), [0; 0], "not everything");
        assert_eq!(find(&table(), 49), [110, 100], "a script around two jobs");
    }
}
