//! Why a number of a contract cannot be changed, or a module not be assessed. Errors that have a place in the file of
//! a contract are diagnostics instead.

use syntax::diag::Diagnostic;

use super::model::Module;

/// Why a number of a contract cannot be changed, or what its modules need is not known.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContractError {
    /// The text of a change has another form than [`Contract::suppose`](super::Contract::suppose) reads.
    #[error(
        "`{written}` is not `MODULE.workers = N`, `MODULE.time = TIME`, `STREAM.item = SIZE` or `LINK.bandwidth = RATE`"
    )]
    NotAChange { written: String },
    #[error("there is no module `{module}`")]
    NoModule { module: String },
    #[error("there is no stream `{stream}`")]
    NoStream { stream: String },
    #[error("there is no link `{link}`")]
    NoLink { link: String },
    #[error("`{module}` does not send on `{stream}`")]
    NotSent { module: String, stream: String },

    #[error("`{written}` is no number of workers")]
    NotAWorkerCount { written: String },
    /// No positive constant, or one of another dimension.
    #[error("`{written}` is no {quantity}, such as `{example}`")]
    NotAQuantity {
        written: String,
        quantity: &'static str,
        example: &'static str,
    },
    #[error("{value} is no measured number")]
    NotMeasured { value: f64 },

    #[error("`{module}` has no `workers:`: add `workers: N`, the number that it has now, to the module")]
    NoWorkers { module: String },
    /// One number does not say which kind gets how many of the workers.
    #[error("`{module}` has machines of several kinds: change them in the file")]
    SeveralKinds { module: String },
    /// A measured time is that of all computations of a module together.
    #[error("`{module}` has several computations")]
    SeveralComputations { module: String },
    #[error("the contract states nothing to adapt in {module}")]
    NothingToAdapt { module: String },
    #[error("{module} has several computations, whose times are not measured")]
    TimesNotMeasured { module: String },
    #[error("the contract does not state the `workers` of {module}")]
    WorkersNotStated { module: String },

    #[error("the number of workers of `{module}` is not known: give the parameter `{parameter}` a value")]
    UnknownWorkers { module: String, parameter: String },
    #[error("the efficiency of `{module}` is known up to {workers} workers")]
    UnknownEfficiency { module: String, workers: u32 },
    #[error("no operating point of `{work}` holds")]
    NoPoint { work: String },
    #[error("no operating point of `{work}` holds on `{machine}`")]
    NoPointOn { work: String, machine: String },
    #[error("`{machine}` has no power for all metrics of `{work}`")]
    NoPower { machine: String, work: String },
    #[error("`{module}` has no machines to do `{work}` on")]
    NoMachines { module: String, work: String },

    #[error("`{module}` must run on `{host}`, not on `{machine}`")]
    OtherHost {
        module: String,
        host: String,
        machine: String,
    },
    #[error("`{machine}` is not in the domain that `{module}` must run in")]
    OtherDomain { machine: String, module: String },
    #[error("`{machine}` does not have `{lacks}`, which `{module}` needs")]
    Lacks {
        machine: String,
        lacks: String,
        module: String,
    },
    #[error("`{machine}` has less than `{module}` needs")]
    LessThanNeeded { machine: String, module: String },
    #[error("`{module}` has several works on machines of several kinds")]
    SeveralWorks { module: String },
    /// The integer program was given up; see `STEPS_MAX` in `choice.rs`.
    #[error("there are too many choices of machines for it")]
    TooManyChoices,

    #[error("the items that `{module}` sends per activation have too many digits to be simulated")]
    TooManyDigits { module: String },
    /// A simulation would not end: these modules are activated again and again at one moment.
    #[error("no time passes: {modules} take none and run without end")]
    Endless { modules: String },
}

/// What a module needs is not known.
pub(super) fn unknown(module: &Module, why: &ContractError) -> Diagnostic {
    Diagnostic::wrong("E0181", module.span, why.to_string())
}
