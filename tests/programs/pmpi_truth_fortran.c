/* The wrappers of pmpi_truth for Fortran. Open MPI's bindings call PMPI functions, so they need their own
 * wrappers. MPICH's bindings call the functions of pmpi_truth_calls.c, except those without a buffer in the
 * module mpi_f08. */
#define _GNU_SOURCE
#include "pmpi_truth.h"

#include <dlfcn.h>

#ifdef OPEN_MPI
#define TYPE(fortran) PMPI_Type_f2c(*(fortran))
#define COMM(fortran) PMPI_Comm_f2c(*(fortran))
#define REQUEST(fortran) (uintptr_t)PMPI_Request_f2c(*(fortran))

#define FORTRAN(function, profiled, label, parameters, arguments, before, after) \
    void profiled parameters; \
    void function parameters \
    { \
        COUNTED(label, before, profiled arguments, after) \
    }
#define BOTH(function, label, parameters, arguments, before, after) \
    FORTRAN(function##_, p##function##_, label, parameters, arguments, before, after) \
    FORTRAN(function##_f08_, p##function##_f08_, label, parameters, arguments, before, after)

#define STARTS(function, profiled) \
    void profiled(int *error); \
    void function(int *error) \
    { \
        depth++; \
        profiled(error); \
        depth--; \
        wait_for_go(); \
    }
STARTS(mpi_init_, pmpi_init_)
STARTS(mpi_init_f08_, pmpi_init_f08_)
#define ENDS(function, profiled) \
    void profiled(int *error); \
    void function(int *error) \
    { \
        call_nothing(); \
        depth++; \
        write_truth(); \
        profiled(error); \
    }
ENDS(mpi_finalize_, pmpi_finalize_)
ENDS(mpi_finalize_f08_, pmpi_finalize_f08_)

BOTH(mpi_send, "MPI_Send", (void *buf, int *count, int *type, int *to, int *tag, int *comm, int *error),
     (buf, count, type, to, tag, comm, error), sends(e, bytes_of(*count, TYPE(type)), *to, COMM(comm)), NOTHING)
BOTH(mpi_recv, "MPI_Recv", (void *buf, int *count, int *type, int *from, int *tag, int *comm, int *status, int *error),
     (buf, count, type, from, tag, comm, status, error), posts(e, bytes_of(*count, TYPE(type)), *from),
     receives(bytes_of(*count, TYPE(type)), *from, COMM(comm), *from == MPI_ANY_SOURCE ? (MPI_Status *)status : NULL))
BOTH(mpi_isend, "MPI_Isend", (void *buf, int *count, int *type, int *to, int *tag, int *comm, int *request, int *error),
     (buf, count, type, to, tag, comm, request, error), sends(e, bytes_of(*count, TYPE(type)), *to, COMM(comm)), NOTHING)
BOTH(mpi_irecv, "MPI_Irecv", (void *buf, int *count, int *type, int *from, int *tag, int *comm, int *request, int *error),
     (buf, count, type, from, tag, comm, request, error), posts(e, bytes_of(*count, TYPE(type)), *from),
     receives(bytes_of(*count, TYPE(type)), *from, COMM(comm), NULL))
BOTH(mpi_send_init, "MPI_Send_init", (void *buf, int *count, int *type, int *to, int *tag, int *comm, int *request, int *error),
     (buf, count, type, to, tag, comm, request, error), NOTHING,
     makes(REQUEST(request), 1, bytes_of(*count, TYPE(type)), *to, COMM(comm)))
BOTH(mpi_start, "MPI_Start", (int *request, int *error), (request, error), starts(e, REQUEST(request)), NOTHING)
BOTH(mpi_request_free, "MPI_Request_free", (int *request, int *error), (request, error), frees(REQUEST(request)), NOTHING)
BOTH(mpi_wait, "MPI_Wait", (int *request, int *status, int *error), (request, status, error), NOTHING, NOTHING)
BOTH(mpi_waitall, "MPI_Waitall", (int *count, int *list, int *statuses, int *error), (count, list, statuses, error), NOTHING,
     NOTHING)
BOTH(mpi_barrier, "MPI_Barrier", (int *comm, int *error), (comm, error), NOTHING, NOTHING)
BOTH(mpi_bcast, "MPI_Bcast", (void *buf, int *count, int *type, int *root, int *comm, int *error),
     (buf, count, type, root, comm, error), carries(e, bytes_of(*count, TYPE(type))), NOTHING)
BOTH(mpi_allreduce, "MPI_Allreduce", (void *out, void *in, int *count, int *type, int *op, int *comm, int *error),
     (out, in, count, type, op, comm, error), carries(e, bytes_of(*count, TYPE(type))), NOTHING)
BOTH(mpi_alltoall, "MPI_Alltoall",
     (void *out, int *out_count, int *out_type, void *in, int *in_count, int *in_type, int *comm, int *error),
     (out, out_count, out_type, in, in_count, in_type, comm, error),
     carries(e, ranks_of(COMM(comm)) * bytes_of(*out_count, TYPE(out_type))), NOTHING)
BOTH(mpi_comm_split, "MPI_Comm_split", (int *comm, int *color, int *key, int *made, int *error),
     (comm, color, key, made, error), NOTHING, NOTHING)
#endif

#ifdef MPICH
static void *following(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "pmpi_truth: nobody has %s\n", name);
        _exit(4);
    }
    return found;
}

/* A Fortran handle is the same integer as in C. */
#define FORTRAN_08(function, label, parameters, arguments, before) \
    void function parameters; \
    void function parameters \
    { \
        static void(*profiled) parameters; \
        if (!profiled) \
            profiled = following(#function); \
        COUNTED(label, before, profiled arguments, NOTHING) \
    }

FORTRAN_08(mpi_start_f08_, "MPI_Start", (MPI_Request *request, int *error), (request, error), starts(e, (uintptr_t)*request))
FORTRAN_08(mpi_request_free_f08_, "MPI_Request_free", (MPI_Request *request, int *error), (request, error),
           frees((uintptr_t)*request))
FORTRAN_08(mpi_wait_f08_, "MPI_Wait", (MPI_Request *request, MPI_Status *status, int *error), (request, status, error), NOTHING)
FORTRAN_08(mpi_waitall_f08_, "MPI_Waitall", (int *count, MPI_Request *list, MPI_Status *statuses, int *error),
           (count, list, statuses, error), NOTHING)
FORTRAN_08(mpi_barrier_f08_, "MPI_Barrier", (MPI_Comm *comm, int *error), (comm, error), NOTHING)
FORTRAN_08(mpi_comm_split_f08_, "MPI_Comm_split", (MPI_Comm *comm, int *color, int *key, MPI_Comm *made, int *error),
           (comm, color, key, made, error), NOTHING)

void mpi_init_f08_(int *error);
void mpi_init_f08_(int *error)
{
    void (*profiled)(int *) = following("mpi_init_f08_");
    depth++;
    profiled(error);
    depth--;
    wait_for_go();
}

void mpi_finalize_f08_(int *error);
void mpi_finalize_f08_(int *error)
{
    void (*profiled)(int *) = following("mpi_finalize_f08_");
    call_nothing();
    depth++;
    write_truth();
    profiled(error);
}
#endif
