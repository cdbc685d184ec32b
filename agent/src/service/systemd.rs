//! Reports the state of the service to systemd (sd_notify(3)), if that has started it.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

pub(super) struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    /// The one that `NOTIFY_SOCKET` names.
    pub(super) fn of_environment() -> io::Result<Notifier> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Notifier(None));
        };
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        Ok(Notifier(Some((UnixDatagram::unbound()?, address))))
    }

    /// Sends `KEY=value` lines. It is only information, so a failure is not reported.
    pub(super) fn report(&self, lines: &str) {
        if let Some((socket, address)) = &self.0 {
            let _ = socket.send_to_addr(lines.as_bytes(), address);
        }
    }
}
