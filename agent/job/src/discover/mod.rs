//! From a process number to the job: its launcher, its ranks, its MPI. Reads /proc and the files that the
//! processes have mapped; attaches nothing and writes nothing.

mod discovery;
mod family;
mod job;
mod job_id;
mod job_selector;
mod launcher;
mod machines;
mod name;
mod still;
mod table;
mod target;
mod variables;

pub use discovery::{DiscoverError, Discovery};
pub use job::{Job, Member, WatchedSite};
pub use job_id::{end_time_s, job_id};
pub use launcher::{above as launcher_above, is_launcher};
pub use machines::Machines;
pub use name::name_of;
pub(crate) use name::script_of;
pub use table::ProcessTable;
pub use target::{TargetError, resolve};
pub use variables::Variables;

pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
