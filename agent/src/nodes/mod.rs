//! The way between the machines of a job: a process of its own, the carrier, passes messages between a session and
//! those on the other machines, through a private NATS server. A session itself opens no connection. On one machine
//! nothing of this exists.
//!
//! What the messages say is decided in `agent/session/src/nodes`.

mod addresses;
mod carrier;
mod certificates;
mod link;
mod nats;
mod ticket;

pub(crate) use carrier::{Carrier, CarrierOrder, serve};
pub(crate) use link::{Carried, CarrierLink};
pub(crate) use nats::run_server;
pub(crate) use ticket::Ticket;
