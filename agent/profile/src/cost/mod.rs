//! Computes the cost of watching and tuning: prices of hits, their sums, shares. No clock, file or kernel:
//! measured values are passed in (`kernel/calibration.rs` measures prices,
//! `agent/session/src/budget/costs.rs` counts), and the results are shown.
//!
//! The parts are those of MATE (Morajko, thesis, 3.2.1): T = T_Instr + T_Mon + T_Tun, where T_Mon is the sum
//! over all kinds of events of the cost of one event times the number of events.

mod account;
mod budget;
mod price;
mod unwatched;

pub use account::{
    AboveBudget, Account, AgentCost, CostView, Fullness, HoldTotals, ProbeCost, RecentCost, Slowdown,
    TOO_MUCH, UnreadView, WindowsView,
};
pub use budget::{BudgetFunction, BudgetShare, BudgetShareError, Load, SamplingStep, Windows};
pub use price::{Measured, PriceSource, Prices, ProbeTimes, Probed, ReturnKind};
pub use unwatched::{CountTime, Estimate, ProcessWindow, Unwatched};
