//! What watching and tuning cost, as arithmetic: prices of hits, what they come to, shares. No clock, no file, no kernel: what is measured
//! is handed in (`kernel/gauge.rs` measures prices, `session/budget/costs.rs` counts), and what comes out is shown.
//!
//! The parts are those of MATE (Morajko, thesis, 3.2.1): T = T_Instr + T_Mon + T_Tun, with T_Mon the sum over all kinds of events of what
//! one costs times how often it occurred.

mod account;
mod budget;
mod price;
mod unwatched;

pub use account::{
    Account, AgentCost, CostView, Fullness, Held, OfLate, ProbeCost, Slowdown, TOO_MUCH, UnreadView,
    WindowsView,
};
pub use budget::{BudgetShare, Function, Load, Turn, Windows};
pub use price::{Measured, Prices, Probed, Returns, Source};
pub use unwatched::{Estimate, Moment, Unwatched, Window};
