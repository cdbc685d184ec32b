//! The way between the machines of a job. A session itself opens no connection and starts no program; two processes of its
//! own do: the carrier passes messages between it and those on the other machines, through a private NATS server, and
//! the node starter starts agents there by ssh or srun. On one machine nothing of this exists.
//!
//! What the messages say, and which agents are started, is decided in `agent/session/src/nodes`.

mod addresses;
mod carrier;
mod certificates;
mod link;
mod nats;
mod node_starter;
mod subprocess;
mod ticket;
mod user;

pub(crate) use addresses::own as own_addresses;
pub(crate) use carrier::{CarrierOrder, serve_carrier, start_carrier};
pub(crate) use link::{Carried, SubprocessLink};
pub(crate) use nats::{has_server, run_server};
pub(crate) use node_starter::{StartRequest, StartWay, serve_node_starter, start_node_starter};
pub(crate) use subprocess::Subprocess;
pub(crate) use ticket::Ticket;
pub(crate) use user::StartUser;
