//! Why the hits of a probe are not aggregated at the probe.

/// Why a probe delivers each hit instead of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSummed {
    /// It stands for two probes, and has no calls of its own.
    IsPair,
    TotalsAreEnough,
    IsOfSpans,
    IsSwitched,
    HasText,
    BetweenTotals,
    IsPaired,
    TriggersTune,
    TooManyValues,
    IsBoundary,
    IsLookedAt,
    NeedsClose,
    IsOfLoop,
    NoEndAlone,
    NotFolded,
    SeveralKeys,
    KeyIsNoInteger,
    IsOfOtherProcess,
    HasKey,
    OtherReduction,
    HasCondition,
    OtherRows,
    OtherValue,
}

impl NotSummed {
    /// As it is shown beside a fold of a rule.
    pub(super) fn reason(self) -> &'static str {
        match self {
            NotSummed::IsPair => "it is a pair of hits",
            NotSummed::TotalsAreEnough => "the totals of the probe are enough",
            NotSummed::IsOfSpans => "the two ends of its spans are paired one by one",
            NotSummed::IsSwitched => "its probe is switched on and off",
            NotSummed::HasText => "a text is read at its hits",
            NotSummed::BetweenTotals => "its hits are those between the totals at both ends of the window",
            NotSummed::IsPaired => "its hits are paired",
            NotSummed::TriggersTune => "a tune is evaluated at each of its hits",
            NotSummed::TooManyValues => "more values of its hits are folded than can be aggregated",
            NotSummed::IsBoundary => "its hits are boundaries",
            NotSummed::IsLookedAt => "its hits are looked at before the window closes",
            NotSummed::NeedsClose => "it needs what is known only when the window closes",
            NotSummed::IsOfLoop => "iterations of the detected loop are known later than its hits",
            NotSummed::NoEndAlone => "its window does not close with a hit of its end alone",
            NotSummed::NotFolded => "no window folds its hits",
            NotSummed::SeveralKeys => "its hits have a key for each of several windows",
            NotSummed::KeyIsNoInteger => "its key is not read as an integer",
            NotSummed::IsOfOtherProcess => {
                "its hits are placed by time, between boundaries in another process"
            }
            NotSummed::HasKey => "its hits have a key, and are placed in the order of all hits",
            NotSummed::OtherReduction => "the kernel has counts, sums, sums of squares, minima and maxima",
            NotSummed::HasCondition => "it has a condition",
            NotSummed::OtherRows => "the kernel has rows by process",
            NotSummed::OtherValue => "the kernel folds durations and integers as they are read",
        }
    }
}
