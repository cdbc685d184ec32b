//! Who watched what, and what was refused: one structured entry each, in the native protocol of systemd's
//! journal, or as a line of syslog where there is no journal. The names of the fields are stable
//! (docs/admin.md).

use std::{
    io,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

/// Severity of an entry, as of syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Warning = 4,
    Notice = 5,
}

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuditEvent {
    Begin,
    End,
    Refused,
    Policy,
}

impl AuditEvent {
    /// Its value of `TUNEAGENT_EVENT`, and of `MESSAGE_ID`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            AuditEvent::Begin => ("begin", "5b1f3a0ce1f44f0f9a54a1d3c2b7e601"),
            AuditEvent::End => ("end", "5b1f3a0ce1f44f0f9a54a1d3c2b7e602"),
            AuditEvent::Refused => ("refused", "5b1f3a0ce1f44f0f9a54a1d3c2b7e603"),
            AuditEvent::Policy => ("policy", "5b1f3a0ce1f44f0f9a54a1d3c2b7e604"),
        }
    }

    fn priority(self) -> Priority {
        match self {
            AuditEvent::Refused => Priority::Warning,
            AuditEvent::Begin | AuditEvent::End | AuditEvent::Policy => Priority::Notice,
        }
    }
}

/// An entry of the log.
#[derive(Debug)]
pub(super) struct AuditEntry {
    event: AuditEvent,
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl AuditEntry {
    pub(super) fn new(event: AuditEvent, message: impl Into<String>) -> AuditEntry {
        AuditEntry {
            event,
            message: message.into(),
            fields: Vec::new(),
        }
    }

    /// Adds a field; `name` has capital letters and underscores only.
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> AuditEntry {
        self.fields.push((name, value.to_string()));
        self
    }

    /// The entry in the native protocol of the journal.
    fn native(&self) -> Vec<u8> {
        let (event, id) = self.event.names();
        let priority = (self.event.priority() as u8).to_string();
        let fixed = [
            ("MESSAGE", self.message.as_str()),
            ("MESSAGE_ID", id),
            ("PRIORITY", &priority),
            ("SYSLOG_IDENTIFIER", "tuneagent"),
            ("TUNEAGENT_EVENT", event),
        ];
        let own = self.fields.iter().map(|(name, value)| (*name, value.as_str()));
        let mut bytes = Vec::new();
        for (name, value) in fixed.into_iter().chain(own) {
            bytes.extend(name.as_bytes());
            if value.contains('\n') {
                bytes.push(b'\n');
                bytes.extend((value.len() as u64).to_le_bytes());
            } else {
                bytes.push(b'=');
            }
            bytes.extend(value.as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }

    /// The entry as a line of syslog, of the facility for daemons.
    fn line(&self) -> String {
        const DAEMON: u8 = 3;
        let priority = DAEMON << 3 | self.event.priority() as u8;
        let (event, _) = self.event.names();
        let fields: String = self
            .fields
            .iter()
            .map(|(name, value)| format!(" {name}={value:?}"))
            .collect();
        let message = self.message.replace('\n', " ");
        format!(
            "<{priority}>tuneagent[{}]: {event}: {message}{fields}",
            std::process::id()
        )
    }
}

/// Where entries go. Of those that could not be written only the number is known.
pub(super) struct AuditLog {
    socket: UnixDatagram,
    journal: PathBuf,
    syslog: PathBuf,
    lost: AtomicU64,
}

impl AuditLog {
    pub(super) fn new(journal: PathBuf, syslog: PathBuf) -> io::Result<AuditLog> {
        let socket = UnixDatagram::unbound()?;
        // A log that is full must not stop the service.
        socket.set_nonblocking(true)?;
        Ok(AuditLog {
            socket,
            journal,
            syslog,
            lost: AtomicU64::new(0),
        })
    }

    /// Writes an entry, or counts its loss.
    pub(super) fn write(&self, entry: &AuditEntry) {
        let sent = self.socket.send_to(&entry.native(), &self.journal);
        let sent = sent.or_else(|_| self.socket.send_to(entry.line().as_bytes(), &self.syslog));
        if sent.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of entries that could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AuditEntry {
        AuditEntry::new(AuditEvent::Refused, "two\nlines").with("TUNEAGENT_UID", 1000)
    }

    #[test]
    fn an_entry_goes_to_the_journal_else_to_syslog_and_else_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, syslog) = (folder.path().join("journal"), folder.path().join("syslog"));
        let log = AuditLog::new(journal.clone(), syslog.clone()).unwrap();
        log.write(&entry());
        assert_eq!(log.lost(), 1);
        let mut bytes = [0; 1000];
        let lines = UnixDatagram::bind(&syslog).unwrap();
        log.write(&entry());
        let count = lines.recv(&mut bytes).unwrap();
        let line = String::from_utf8_lossy(&bytes[..count]).into_owned();
        assert!(
            line.starts_with("<28>tuneagent[") && line.ends_with(" TUNEAGENT_UID=\"1000\""),
            "{line}"
        );
        assert!(line.contains("refused: two lines"), "{line}");
        let entries = UnixDatagram::bind(&journal).unwrap();
        log.write(&entry());
        let count = entries.recv(&mut bytes).unwrap();
        let expected = b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\n\
            MESSAGE_ID=5b1f3a0ce1f44f0f9a54a1d3c2b7e603\nPRIORITY=4\nSYSLOG_IDENTIFIER=tuneagent\n\
            TUNEAGENT_EVENT=refused\nTUNEAGENT_UID=1000\n";
        assert_eq!(&bytes[..count], expected);
        assert_eq!(log.lost(), 1);
    }
}
