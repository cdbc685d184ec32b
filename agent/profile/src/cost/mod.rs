//! What watching and tuning cost, as arithmetic: prices of hits, what they come to, shares. No clock, no
//! file, no kernel: what is measured is handed in (`kernel/calibration.rs` measures prices,
//! `agent/session/src/budget/costs.rs` counts), and what comes out is shown.
//!
//! The parts are those of MATE (Morajko, thesis, 3.2.1): T = T_Instr + T_Mon + T_Tun, with T_Mon the sum over
//! all kinds of events of what one costs times how often it occurred.

mod account;
mod budget;
mod price;
mod unwatched;

pub use account::{
    Account, AgentCost, CostView, Fullness, HoldTotals, OfLate, ProbeCost, Slowdown, TOO_MUCH, UnreadView,
    WindowsView,
};
pub use budget::{BudgetFunction, BudgetShare, BudgetShareError, Load, Turn, Windows};
pub use price::{Measured, PriceSource, Prices, Probed, ReturnKind};
pub use unwatched::{CountTime, Estimate, Unwatched, Window};
