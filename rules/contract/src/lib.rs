//! Contracts of stream programs: what a graph of modules and streams can deliver, by the steady-state model of
//! ASSIST (docs/sources.md, S3).
//!
//! A contract states how many items each module sends per activation, and lower bounds on rates. The rates of
//! a steady state satisfy a homogeneous linear system ([`Contract::assess`]).
//!
//! ```
//! use contract::Contract;
//!
//! let source = "
//! contract: packing
//! streams:
//!   pictures: {from: render, to: pack}
//!   groups: {from: pack, to: store}
//! modules:
//!   render: {gives: {pictures: 1}}
//!   pack: {takes: [pictures], gives: {groups: 1/12}}
//!   store: {takes: [groups]}
//! require:
//!   - groups >= 1/s
//! ";
//! let contract = Contract::parse(source).map_err(|wrong| syntax::diag::render("c.yaml", source, &wrong)).unwrap();
//! assert_eq!(contract.assess().unwrap().rate("render"), Some(12.0));
//! ```

#![forbid(unsafe_code)]

mod assess;
mod calibrate;
mod capacity;
mod choice;
mod deadlock;
mod dot;
mod error;
mod exact;
mod keys;
mod mapping;
mod model;
mod outline;
mod points;
mod read;
mod reduce;
mod remedy;
mod repair;
mod satisfy;
mod schema;
mod service;
mod simulate;
mod size;
mod svg;
mod system;
#[path = "../../src/file/tests/schemas.rs"]
#[cfg(test)]
mod tests;

pub use assess::{Arithmetic, Assessment, FeatureRate, Raise, Specification};
pub use calibrate::FittedWork;
pub use capacity::{Addition, Capacity, Resource};
pub use error::ContractError;
pub use mapping::MachineMap;
pub use model::{Contract, StatedNumber};
pub use outline::{ComputationOutline, ModuleOutline, StreamOutline};
pub use points::ModulePoint;
pub use remedy::{ContractStep, Remedy, WorkersStep};
pub use schema::schema;
pub use simulate::{Scenario, SimulatedRate, SimulatedUse, Simulation, SimulationEnd, Stall};
pub use size::Size;
pub use svg::SeenRates;
pub use syntax::fields::is_plain_name;
