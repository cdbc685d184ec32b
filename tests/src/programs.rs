//! Compiles the programs of `tests/programs`, once per content.
//!
//! The file name of a program has a hash of its sources, of all headers beside them and of the compiler
//! command, so a stale program is never run and an unchanged one is not compiled again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::job::Mpi;
use crate::lines::succeed;
use crate::problem::Context;
use crate::{Outcome, wheels};

/// -O1 keeps functions recognisable. `symbols`, `get` and `set` read the debug information.
const FLAGS: [&str; 5] = ["-O1", "-g", "-Wall", "-Wextra", "-Werror"];

/// An MPI program for one MPI.
pub fn mpi(name: &str, mpi: Mpi) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), mpi.compiler(), &["-lm"])
}

/// An MPI program with the master/worker library `mw`.
pub fn master_worker(name: &str, mpi: Mpi) -> Outcome<PathBuf> {
    built(&[&format!("{name}.c"), "mw.c"], mpi.compiler(), &["-lm"])
}

/// As `master_worker`, without the shadow variable: the program reads the number of workers wherever it needs
/// it.
pub fn master_worker_without_shadow(name: &str, mpi: Mpi) -> Outcome<PathBuf> {
    let more = ["-lm", "-DMW_NO_SHADOW"];
    built(&[&format!("{name}.c"), "mw.c"], mpi.compiler(), &more)
}

/// An MPI program in C++.
pub fn mpi_cxx(name: &str, mpi: Mpi) -> Outcome<PathBuf> {
    // Excludes the C++ bindings, which the standard has removed but both MPIs still have.
    let flags = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"];
    compiled(&format!("{name}.cc"), mpi.compiler_of_cxx(), &flags)
}

/// An MPI program in Fortran, for the module `mpi` or for `mpi_f08`.
pub fn mpi_fortran(name: &str, mpi: Mpi, f08: bool) -> Outcome<PathBuf> {
    let flags = match (f08, mpi) {
        (true, _) => &["-DF08"][..],
        // MPICH's module has no interfaces for buffers, so the compiler reports mismatched argument types.
        (false, Mpi::Mpich) => &["-Wno-error"],
        (false, Mpi::OpenMpi) => &[],
    };
    compiled(&format!("{name}.F90"), mpi.compiler_of_fortran(), flags)
}

/// Path of a source file.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}

/// A C program without MPI.
pub fn c(name: &str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), "cc", &[])
}

/// A C program without MPI, with libm and threads.
pub fn c_with_math(name: &str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), "cc", &["-pthread", "-lm"])
}

/// As `c`, with a compiler flag such as `-DNAME`.
pub fn c_defining(name: &str, definition: &'static str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), "cc", &[definition])
}

/// As `c`, linked with `-static` or `-static-pie`, so that there is no dynamic linker at run time.
pub fn c_alone(name: &str, how: &'static str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), "cc", &[how])
}

/// A program in C++.
pub fn cxx(name: &str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.cc"), "c++", &[])
}

/// A C program with OpenMP.
pub fn openmp(name: &str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), "cc", &["-fopenmp"])
}

/// A shared library with OpenMP whose file has the name of the source, by which rules recognise it.
pub fn openmp_library(name: &str) -> Outcome<PathBuf> {
    let library = compiled(&format!("{name}.c"), "cc", &["-shared", "-fPIC", "-fopenmp"])?;
    let folder = library.with_extension("d");
    fs::create_dir_all(&folder).context(folder.display())?;
    let named = folder.join(format!("{name}.so"));
    match fs::hard_link(&library, &named) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error).context(named.display()),
        _ => Ok(named),
    }
}

/// A shared library. Each `copy` gives a different file.
pub fn library(name: &str, copy: u32) -> Outcome<PathBuf> {
    let copy = format!("-DCOPY={copy}");
    compiled(&format!("{name}.c"), "cc", &["-shared", "-fPIC", &copy])
}

/// Flags for a library between a program and its MPI. Lazy binding, because it may reference functions of
/// language bindings that the program does not have; these are never called.
const BETWEEN: [&str; 4] = ["-shared", "-fPIC", "-Wl,-z,lazy", "-ldl"];

/// A library between a program and its MPI. Each `copy` gives a different file.
pub fn mpi_library(name: &str, mpi: Mpi, copy: u32) -> Outcome<PathBuf> {
    let copy = format!("-DCOPY={copy}");
    let more = [&BETWEEN[..], &[copy.as_str()]].concat();
    compiled(&format!("{name}.c"), mpi.compiler(), &more)
}

/// The library that counts independently what MPI calls carry.
pub fn pmpi_truth(mpi: Mpi) -> Outcome<PathBuf> {
    let sources = ["pmpi_truth.c", "pmpi_truth_calls.c", "pmpi_truth_fortran.c"];
    built(&sources, mpi.compiler(), &BETWEEN)
}

/// An MPI program with MPICH linked statically. Debian has no static libraries of MPICH's network
/// dependencies.
pub fn mpi_linked_in(name: &str) -> Outcome<PathBuf> {
    let more: Vec<&str> = "-static-mpi -Wl,--no-as-needed -lhwloc -lucp -lucs -lm -ldl -pthread"
        .split(' ')
        .collect();
    compiled(&format!("{name}.c"), Mpi::Mpich.compiler(), &more)
}

/// A copy of a program without symbols.
pub fn stripped(program: &Path, folder: &Path) -> Outcome<PathBuf> {
    let copy = folder.join(program.file_name().unwrap_or_default());
    let mut strip = Command::new("strip");
    succeed(strip.args(["--strip-all", "-o"]).args([&*copy, program]))?;
    Ok(copy)
}

/// A C program with dlopen and threads.
pub fn threads(name: &str) -> Outcome<PathBuf> {
    compiled(&format!("{name}.c"), "cc", &["-pthread", "-ldl"])
}

/// As `openmp`, on LLVM's library, which also has the entry points of GNU's.
pub fn openmp_of_llvm(name: &str) -> Outcome<PathBuf> {
    compiled(
        &format!("{name}.c"),
        "cc",
        &["-fopenmp", "-Wl,--no-as-needed", "-l:libomp.so.5"],
    )
}

/// A C program that calls LLVM's library as code from LLVM's compiler does.
pub fn kmpc(name: &str) -> Outcome<PathBuf> {
    compiled(
        &format!("{name}.c"),
        "cc",
        &["-Wl,--no-as-needed", "-l:libomp.so.5"],
    )
}

/// A C program with the MKL from the Python Package Index.
pub fn mkl(name: &str) -> Outcome<PathBuf> {
    let library = wheels::MKL
        .file()
        .ok_or("MKL was not brought: cargo xtask setup")?;
    let libraries = library.parent().unwrap_or(&library).display();
    let folder = format!("-L{libraries}");
    // MKL uses this path for the libraries that it loads itself, too.
    let at_run_time = format!("-Wl,--disable-new-dtags,-rpath,{libraries}");
    let more = [folder.as_str(), "-l:libmkl_rt.so.2", &at_run_time];
    compiled(&format!("{name}.c"), "cc", &more)
}

/// A C program for an MPI from the Python Package Index.
pub fn mpi_of_wheel(name: &str, launcher: &Path) -> Outcome<PathBuf> {
    let compiler = launcher.with_file_name("mpicc");
    compiled(&format!("{name}.c"), &compiler.to_string_lossy(), &[])
}

/// A program of another crate's tests. Its source is named from the checkout.
pub fn elsewhere(source: &str, compiler: &str, more: &[&str]) -> Outcome<PathBuf> {
    compiled(&format!("../../{source}"), compiler, more)
}

fn compiled(source: &str, compiler: &str, more: &[&str]) -> Outcome<PathBuf> {
    built(&[source], compiler, more)
}

/// Compiles sources; the first one names the program.
fn built(sources: &[&str], compiler: &str, more: &[&str]) -> Outcome<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let sources: Vec<PathBuf> = sources.iter().map(|source| folder.join(source)).collect();
    let mut hasher = DefaultHasher::new();
    let beside = sources.first().and_then(|source| source.parent());
    let mut headers = headers(&folder)?;
    if let Some(own) = beside.filter(|own| *own != folder) {
        headers.extend(self::headers(own)?);
    }
    for file in sources.iter().chain(&headers) {
        fs::read(file).context(file.display())?.hash(&mut hasher);
    }
    (compiler, FLAGS, more).hash(&mut hasher);
    let folder = target_folder()?.join("programs");
    fs::create_dir_all(&folder).context(folder.display())?;
    let name = sources.first().and_then(|source| source.file_stem());
    let name = name.unwrap_or_default().to_string_lossy();
    let by = Path::new(compiler)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let program = folder.join(format!("{name}-{by}-{:016x}", hasher.finish()));
    if !program.exists() {
        compile(compiler, more, &sources, &program)?;
    }
    Ok(program)
}

fn headers(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut headers = Vec::new();
    for entry in fs::read_dir(folder).context(folder.display())? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "h") {
            headers.push(file);
        }
    }
    headers.sort();
    Ok(headers)
}

/// Compiles into a temporary file and renames it: tests compile at the same time, and an incomplete program
/// must not be run.
pub fn compile(compiler: &str, more: &[&str], sources: &[PathBuf], program: &Path) -> Outcome {
    let folder = program.parent().unwrap_or(Path::new("."));
    let draft = tempfile::Builder::new().prefix("draft").tempdir_in(folder)?;
    let output = draft.path().join("program");
    let mut command = Command::new(compiler);
    command.args(FLAGS).args(sources).args(more);
    succeed(command.arg("-o").arg(&output))?;
    fs::rename(&output, program).context(program.display())
}

/// Folder of the profile in the target directory. A test binary is in its `deps` folder, other binaries in
/// the folder itself.
pub fn target_folder() -> Outcome<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().ok_or("the test binary has no folder")?;
    let is_deps = folder.file_name().is_some_and(|name| name == "deps");
    Ok(if is_deps {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    }
    .to_path_buf())
}

/// Symbols of the rule `factoring`, with the names of the library `mw`.
pub const FACTORING_NAMES: [(&str, &str); 13] = [
    ("begin_iteration", "mw_begin_iteration"),
    ("end_iteration", "mw_end_iteration"),
    ("send_task", "mw_send"),
    ("compute_task", "mw_compute"),
    ("TheNumTuples", "mw_tasks"),
    ("nw", "mw_nw"),
    ("globalSizeFirst", "mw_first_chunk"),
    ("globalSizeChunk", "mw_later_chunk"),
    ("numtuples", "mw_sent_tasks"),
    ("chunk_size", "mw_chunk_tasks"),
    ("iteration", "mw_iteration"),
    ("CurrentIteration", "mw_current_iteration"),
    ("NroTasks", "mw_chunk_tasks"),
];

/// Symbols of the rule `network`, with the names of the library `mw`. A task is a byte of a message.
pub const NETWORK_NAMES: [(&str, &str); 8] = [
    ("global_sendreceive", "mw_iterate"),
    ("global_sendwork", "mw_send"),
    ("global_receivework", "mw_receive"),
    ("arcStepKernel", "mw_compute"),
    ("workerId", "mw_peer"),
    ("NTasks", "mw_message_bytes"),
    ("TheWorkSizeUnitBytes", "mw_byte"),
    ("iterId", "mw_current_iteration"),
];
