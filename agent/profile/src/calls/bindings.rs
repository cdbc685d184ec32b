//! Libraries of language bindings of MPI, in which `mpi_barrier_` calls `MPI_Barrier`. A call site within
//! such a library is of no use to a user; its caller is.

/// Parts of the names of such libraries, in addition to `mpi`: libmpi_mpifh, libmpi_usempif08,
/// libmpi_usempi_ignore_tkr, libmpi_cxx of Open MPI; libmpichfort, libmpichf90, libmpicxx, libfmpich of
/// MPICH; libmpifort of Intel MPI and MVAPICH.
const LANGUAGES: [&str; 7] = ["mpifh", "usempi", "fort", "f77", "f90", "fmpi", "cxx"];

/// Whether the file contains only language bindings of MPI.
pub fn is_library_of_bindings(file_name: &str) -> bool {
    let is_library = file_name.starts_with("lib") && file_name.contains("mpi");
    is_library && LANGUAGES.iter().any(|language| file_name.contains(language))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_bindings_are_known_by_their_names() {
        for (file_name, is_one) in [
            ("libmpi_mpifh.so.40", true),
            ("libmpi_mpifh-gfortran.so.40.30.0", true),
            ("libmpi_usempif08.so.40", true),
            ("libmpi_usempi_ignore_tkr-gfortran.so.40.30.0", true),
            ("libmpi_cxx.so.40", true),
            ("libmpichfort.so.12.2.2", true),
            ("libmpifort.so.12.0.0", true),
            ("libmpi.so.40.30.4", false),
            ("libmpich.so.12.2.2", false),
            ("libgfortran.so.5.0.0", false),
            ("mpi_solver_f90", false),
        ] {
            assert_eq!(is_library_of_bindings(file_name), is_one, "{file_name}");
        }
    }
}
