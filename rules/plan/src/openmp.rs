//! The functions by which compiled programs request the size of an OpenMP team (`num_threads`).

use crate::value::ValueType;

/// Index of the argument with the size, equal in all these functions.
pub const TEAM_SIZE_ARGUMENT: u8 = 2;

/// The functions that take the size, with its type; 0 leaves the size to the library. GCC's functions also
/// start the team (`_start`: GCC before 4.9); those of LLVM and Intel set the size of the next team that the
/// thread starts.
pub const TEAM_SIZES: &[(&str, ValueType)] = &[
    ("GOMP_parallel", ValueType::U32),
    ("GOMP_parallel_start", ValueType::U32),
    ("GOMP_parallel_loop_static", ValueType::U32),
    ("GOMP_parallel_loop_static_start", ValueType::U32),
    ("GOMP_parallel_loop_dynamic", ValueType::U32),
    ("GOMP_parallel_loop_dynamic_start", ValueType::U32),
    ("GOMP_parallel_loop_guided", ValueType::U32),
    ("GOMP_parallel_loop_guided_start", ValueType::U32),
    ("GOMP_parallel_loop_runtime", ValueType::U32),
    ("GOMP_parallel_loop_runtime_start", ValueType::U32),
    ("GOMP_parallel_loop_nonmonotonic_dynamic", ValueType::U32),
    ("GOMP_parallel_loop_nonmonotonic_guided", ValueType::U32),
    ("GOMP_parallel_loop_nonmonotonic_runtime", ValueType::U32),
    ("GOMP_parallel_loop_maybe_nonmonotonic_runtime", ValueType::U32),
    ("GOMP_parallel_sections", ValueType::U32),
    ("GOMP_parallel_sections_start", ValueType::U32),
    ("GOMP_parallel_reductions", ValueType::U32),
    ("__kmpc_push_num_threads", ValueType::I32),
];

/// Whether this function takes the size of a team.
pub fn takes_team_size(function: &str) -> bool {
    TEAM_SIZES.iter().any(|(name, _)| *name == function)
}
