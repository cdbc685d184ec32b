//! Lists of hosts as users, Slurm and Open MPI write them (`n[1-4,7],b`), and the commands with which launchers start
//! their daemons on other hosts. All of it may be hostile: a list is bounded before it is expanded, and what is no host
//! name is refused, since it would become an argument of ssh.

use std::{collections::BTreeSet, str::FromStr};

use tuner::printable;

/// More machines are refused.
pub const HOSTS_MAX: usize = 512;
/// Characters of a host name, as of DNS.
const NAME_MAX: usize = 253;
/// Digits of a number in a host name.
const DIGITS_MAX: usize = 9;
/// Characters of a wrong entry that are shown.
const SHOWN_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    #[error("the list has more than {HOSTS_MAX} machines, which is the most that is supported")]
    TooMany,
    #[error(
        "{count} of {all} entries are no names of hosts, the first is `{first}`; a list is such as n[1-4,7],b"
    )]
    Wrong { count: usize, all: usize, first: String },
}

/// `--nodes`: which machines of a job are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeChoice {
    /// No machine but this one.
    Here,
    /// All machines of the job.
    All,
    /// These, and this one.
    Listed(Vec<String>),
}

impl FromStr for NodeChoice {
    type Err = HostsError;

    fn from_str(text: &str) -> Result<NodeChoice, HostsError> {
        match text {
            "here" => Ok(NodeChoice::Here),
            "all" => Ok(NodeChoice::All),
            list => parse(list).map(NodeChoice::Listed),
        }
    }
}

/// The hosts of a list, each once, in their order.
///
/// # Errors
/// If an entry is no name of a host, or there are too many.
pub(crate) fn parse(list: &str) -> Result<Vec<String>, HostsError> {
    let entries = entries(list);
    let (mut hosts, mut known) = (Vec::new(), BTreeSet::new());
    let (mut wrong, mut first, mut are_too_many) = (0, None, false);
    for entry in &entries {
        match expanded(entry) {
            Some(Ok(names)) => {
                let new = names.into_iter().filter(|name| known.insert(name.clone()));
                hosts.extend(new.take(HOSTS_MAX + 1 - hosts.len().min(HOSTS_MAX)));
            }
            Some(Err(TooManyNames)) => are_too_many = true,
            None => {
                wrong += 1;
                first = first.or(Some(*entry));
            }
        }
    }
    match first.or_else(|| entries.is_empty().then_some(list)) {
        Some(first) => Err(HostsError::Wrong {
            count: wrong.max(1),
            all: entries.len().max(1),
            first: printable(first).chars().take(SHOWN_MAX).collect(),
        }),
        None if are_too_many || hosts.len() > HOSTS_MAX => Err(HostsError::TooMany),
        None => Ok(hosts),
    }
}

/// The hosts of `orte_node_regex`, as in `n[2:1-3,5],login@0(5)`: names with the number of digits before the ranges, then
/// what is not about hosts.
pub(crate) fn of_orte(regex: &str) -> Result<Vec<String>, HostsError> {
    parse(regex.split('@').next().unwrap_or_default())
}

/// Whether a text may be the name or the address of a host, and nothing else.
pub(crate) fn is_host(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    name.len() <= NAME_MAX
        && name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Splits a list at commas and spaces outside of brackets.
fn entries(list: &str) -> Vec<&str> {
    let mut is_inside = false;
    let is_end = |c: char| {
        is_inside = (is_inside || c == '[') && c != ']';
        !is_inside && (c == ',' || c.is_whitespace())
    };
    list.split(is_end).filter(|entry| !entry.is_empty()).collect()
}

struct TooManyNames;

/// The names of an entry; `None` if one of them is no name of a host.
fn expanded(entry: &str) -> Option<Result<Vec<String>, TooManyNames>> {
    let mut names = vec![String::new()];
    let mut rest = entry;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, behind) = after.split_once(']')?;
        let Ok(numbers) = numbers(ranges)? else {
            return Some(Err(TooManyNames));
        };
        if names.len() * numbers.len() > HOSTS_MAX {
            return Some(Err(TooManyNames));
        }
        let each = |name: &String| {
            let all = numbers.iter().map(|number| format!("{name}{before}{number}"));
            all.collect::<Vec<_>>()
        };
        names = names.iter().flat_map(each).collect();
        rest = behind;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    names.iter().all(|name| is_host(name)).then_some(Ok(names))
}

/// The numbers of `1-4,07`, with as many digits as the first of each range; of `2:1-4`, with two.
fn numbers(ranges: &str) -> Option<Result<Vec<String>, TooManyNames>> {
    let (digits, ranges) = match ranges.split_once(':') {
        Some((digits, ranges)) => (
            digits.parse().ok().filter(|digits| *digits <= DIGITS_MAX)?,
            ranges,
        ),
        None => (0, ranges),
    };
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [low, high] = [first, last].map(|text| {
            let is_number = text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<usize>().ok()).flatten()
        });
        let (low, high) = (low?, high?);
        if low > high {
            return None;
        }
        if all.len() + (high - low) >= HOSTS_MAX {
            return Some(Err(TooManyNames));
        }
        let width = if first.starts_with('0') { first.len() } else { 0 }.max(digits);
        all.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Some(Ok(all))
}

/// The daemons that launchers start on other hosts: of ORTE, PRRTE and Hydra.
const DAEMONS: [&str; 4] = ["orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"];

/// The words before the host, and the host, if a command line is that of a launcher's remote shell:
/// `ssh -x HOST orted …`.
pub(crate) fn remote_shell(arguments: &[String]) -> Option<(&[String], &str)> {
    let is_daemon = |word: &String| DAEMONS.iter().any(|daemon| word.contains(daemon));
    let daemon = arguments.iter().position(is_daemon)?;
    let (host, words) = arguments.get(..daemon)?.split_last()?;
    (is_host(host) && !words.is_empty()).then_some((words, host.as_str()))
}

/// The value after one of these flags in a command line.
pub(crate) fn after<'a>(arguments: &'a [String], flags: &[&str]) -> Option<&'a str> {
    let mut pairs = arguments.windows(2);
    let found = pairs.find(|pair| flags.contains(&pair[0].as_str()))?;
    Some(found[1].as_str())
}

/// The value of ORTE's list of hosts in a command line, whose words may be one text for a remote shell.
pub(crate) fn orte_regex(arguments: &[String]) -> Option<String> {
    const NAME: &str = "orte_node_regex";
    let text = arguments.join(" ");
    let (_, behind) = text.split_once(NAME)?;
    let word = behind.split_whitespace().next()?;
    Some(word.trim_matches(|c| matches!(c, '"' | '\'')).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_as_slurm_and_open_mpi_write_them() {
        for (list, expected) in [
            ("b", "b"),
            ("n[1-3,7],b", "n1 n2 n3 n7 b"),
            ("n[08-10]", "n08 n09 n10"),
            (
                "r[1-2]n[1-2]-ib.site",
                "r1n1-ib.site r1n2-ib.site r2n1-ib.site r2n2-ib.site",
            ),
            ("a, b\na", "a b"),
            ("10.0.0.7,fe80::1,n_1", "10.0.0.7 fe80::1 n_1"),
        ] {
            assert_eq!(parse(list).unwrap().join(" "), expected, "{list}");
        }
        let hosts = of_orte("n[2:1-2,11],login-b@0(4)").unwrap();
        assert_eq!(hosts, ["n01", "n02", "n11", "login-b"]);
        assert_eq!("here".parse(), Ok(NodeChoice::Here));
        assert_eq!("all".parse(), Ok(NodeChoice::All));
        assert_eq!("b".parse(), Ok(NodeChoice::Listed(vec!["b".to_owned()])));
    }

    #[test]
    fn what_is_no_list_is_refused_in_one_short_line() {
        for list in [
            "",
            ",",
            "-oProxyCommand=x",
            "n[1-",
            "n[1-2]]",
            "n[2-1]",
            "n[a]",
            "n[]",
            "a;b",
            "n[1:x]",
            "\u{1b}[2J",
            "ann@b",
        ] {
            assert!(matches!(parse(list), Err(HostsError::Wrong { .. })), "{list}");
        }
        for list in [
            "n[1-999999999]",
            "n[1-400],m[1-400]",
            "n[1-30]m[1-30]",
            "n[1-99][1-99][1-99]",
        ] {
            assert_eq!(parse(list), Err(HostsError::TooMany), "{list}");
        }
        let long: Vec<String> = (0..10_000).map(|number| format!("n{number}!")).collect();
        let said = parse(&("n1,".to_owned() + &long.join(",")))
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("10000 of 10001 entries are no names of hosts, the first is `n0!`"),
            "{said}"
        );
        let said = parse(&"[".repeat(100_000)).unwrap_err().to_string();
        assert!(said.len() < 200, "{said}");
        assert!(parse(&"a".repeat(NAME_MAX + 1)).is_err());
    }

    #[test]
    fn the_remote_shell_of_each_launcher_is_recognised() {
        let words = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
        let orte = "ssh|-F|/c|-x|n2|PATH=/x:$PATH ; /opt/bin/orted -mca ess \"env\" -mca orte_node_regex \"n[1:1-2]@0(2)\" -mca plm \"rsh\"";
        for (line, expected) in [
            (orte, Some(("ssh -F /c -x", "n2"))),
            (
                "/usr/bin/ssh|-x|n2|\"/usr/bin/hydra_pmi_proxy\"|--control-port|n1:4",
                Some(("/usr/bin/ssh -x", "n2")),
            ),
            (
                "/bin/sh|/t/shell|n2|prted --prtemca ess env",
                Some(("/bin/sh /t/shell", "n2")),
            ),
            ("/usr/bin/hydra_pmi_proxy|--control-port|n1:4", None),
            ("ssh|-oProxyCommand=x|orted", None),
            ("orted|n2", None),
            ("ssh|n2|uptime", None),
        ] {
            let arguments = words(line);
            let found = remote_shell(&arguments).map(|(words, host)| (words.join(" "), host));
            let expected = expected.map(|(words, host)| (words.to_owned(), host));
            assert_eq!(found, expected, "{line}");
        }
        assert_eq!(orte_regex(&words(orte)).as_deref(), Some("n[1:1-2]@0(2)"));
        assert_eq!(
            after(&words("prog|--control-port|n1:4"), &["--control-port"]),
            Some("n1:4")
        );
    }
}
