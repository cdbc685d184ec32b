/* The wrappers of pmpi_truth: parameters, arguments, what is counted before the call, what is counted after
 * it. */
#include "pmpi_truth.h"

#define WRAP(function, parameters, arguments, before, after) \
    int function parameters \
    { \
        int result; \
        COUNTED(#function, before, result = P##function arguments, after) \
        return result; \
    }

#define SEND(function) \
    WRAP(function, (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm), \
         (buf, count, type, to, tag, comm), sends(e, bytes_of(count, type), to, comm), NOTHING)
#define ISEND(function) \
    WRAP(function, (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request), \
         (buf, count, type, to, tag, comm, request), sends(e, bytes_of(count, type), to, comm), NOTHING)
#define SEND_INIT(function) \
    WRAP(function, (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request), \
         (buf, count, type, to, tag, comm, request), NOTHING, makes((uintptr_t)*request, 1, bytes_of(count, type), to, comm))

SEND(MPI_Send)
SEND(MPI_Bsend)
SEND(MPI_Ssend)
SEND(MPI_Rsend)
ISEND(MPI_Isend)
ISEND(MPI_Ibsend)
ISEND(MPI_Issend)
ISEND(MPI_Irsend)
SEND_INIT(MPI_Send_init)
SEND_INIT(MPI_Bsend_init)
SEND_INIT(MPI_Ssend_init)
SEND_INIT(MPI_Rsend_init)
WRAP(MPI_Recv, (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status),
     (buf, count, type, from, tag, comm, status), posts(e, bytes_of(count, type), from),
     receives(bytes_of(count, type), from, comm, status))
WRAP(MPI_Irecv, (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
     (buf, count, type, from, tag, comm, request), posts(e, bytes_of(count, type), from),
     receives(bytes_of(count, type), from, comm, NULL))
WRAP(MPI_Recv_init, (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
     (buf, count, type, from, tag, comm, request), NOTHING, makes((uintptr_t)*request, 0, bytes_of(count, type), from, comm))
WRAP(MPI_Sendrecv,
     (const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in, int in_count, MPI_Datatype in_type,
      int from, int in_tag, MPI_Comm comm, MPI_Status *status),
     (out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status),
     sends(e, bytes_of(out_count, out_type), to, comm), receives(bytes_of(in_count, in_type), from, comm, status))
WRAP(MPI_Sendrecv_replace,
     (void *buf, int count, MPI_Datatype type, int to, int out_tag, int from, int in_tag, MPI_Comm comm, MPI_Status *status),
     (buf, count, type, to, out_tag, from, in_tag, comm, status), sends(e, bytes_of(count, type), to, comm),
     receives(bytes_of(count, type), from, comm, status))
WRAP(MPI_Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status), NOTHING, NOTHING)
WRAP(MPI_Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (from, tag, comm, flag, status), NOTHING,
     NOTHING)
WRAP(MPI_Mprobe, (int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status), (from, tag, comm, message, status),
     NOTHING, finds(*message, from, comm, status))
WRAP(MPI_Improbe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
     (from, tag, comm, flag, message, status), NOTHING, if (*flag) finds(*message, from, comm, status))
WRAP(MPI_Mrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
     (buf, count, type, message, status), receives_found(e, bytes_of(count, type), *message), NOTHING)
WRAP(MPI_Imrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
     (buf, count, type, message, request), receives_found(e, bytes_of(count, type), *message), NOTHING)

WRAP(MPI_Start, (MPI_Request *request), (request), starts(e, (uintptr_t)*request), NOTHING)
WRAP(MPI_Startall, (int count, MPI_Request list[]), (count, list), for (int k = 0; k < count; k++) starts(e, (uintptr_t)list[k]), NOTHING)
WRAP(MPI_Request_free, (MPI_Request *request), (request), frees((uintptr_t)*request), NOTHING)
WRAP(MPI_Wait, (MPI_Request *request, MPI_Status *status), (request, status), NOTHING, NOTHING)
WRAP(MPI_Waitall, (int count, MPI_Request list[], MPI_Status statuses[]), (count, list, statuses), NOTHING, NOTHING)
WRAP(MPI_Waitany, (int count, MPI_Request list[], int *index, MPI_Status *status), (count, list, index, status), NOTHING, NOTHING)
WRAP(MPI_Waitsome, (int count, MPI_Request list[], int *done, int indices[], MPI_Status statuses[]),
     (count, list, done, indices, statuses), NOTHING, NOTHING)
WRAP(MPI_Test, (MPI_Request *request, int *flag, MPI_Status *status), (request, flag, status), NOTHING, NOTHING)
WRAP(MPI_Testall, (int count, MPI_Request list[], int *flag, MPI_Status statuses[]), (count, list, flag, statuses), NOTHING,
     NOTHING)

WRAP(MPI_Barrier, (MPI_Comm comm), (comm), NOTHING, NOTHING)
WRAP(MPI_Bcast, (void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm), (buf, count, type, root, comm),
     carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_Reduce, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
     (out, in, count, type, op, root, comm), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_Iallreduce,
     (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),
     (out, in, count, type, op, comm, request), carries(e, bytes_of(count, type)), NOTHING)

#define REDUCED(function) \
    WRAP(function, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), \
         (out, in, count, type, op, comm), carries(e, bytes_of(count, type)), NOTHING)
REDUCED(MPI_Allreduce)
REDUCED(MPI_Scan)
REDUCED(MPI_Exscan)

#define IN_PLACE(buffer, then, otherwise) carries(e, (buffer) == MPI_IN_PLACE ? (then) : (otherwise))
WRAP(MPI_Gather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, root, comm), IN_PLACE(out, 0, bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Gatherv,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, const int counts_in[], const int places[],
      MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, counts_in, places, in_type, root, comm), IN_PLACE(out, 0, bytes_of(out_count, out_type)),
     NOTHING)
WRAP(MPI_Scatter,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, root, comm), IN_PLACE(in, 0, bytes_of(in_count, in_type)), NOTHING)
WRAP(MPI_Scatterv,
     (const void *out, const int counts_out[], const int places[], MPI_Datatype out_type, void *in, int in_count,
      MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, counts_out, places, out_type, in, in_count, in_type, root, comm), IN_PLACE(in, 0, bytes_of(in_count, in_type)), NOTHING)
WRAP(MPI_Allgather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm),
     IN_PLACE(out, bytes_of(in_count, in_type), bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Allgatherv,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, const int counts_in[], const int places[],
      MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, counts_in, places, in_type, comm),
     IN_PLACE(out, bytes_of(counts_in[rank_in(comm)], in_type), bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Alltoall,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm),
     IN_PLACE(out, ranks_of(comm) * bytes_of(in_count, in_type), ranks_of(comm) * bytes_of(out_count, out_type)), NOTHING)
WRAP(MPI_Alltoallv,
     (const void *out, const int counts_out[], const int places_out[], MPI_Datatype out_type, void *in, const int counts_in[],
      const int places_in[], MPI_Datatype in_type, MPI_Comm comm),
     (out, counts_out, places_out, out_type, in, counts_in, places_in, in_type, comm),
     IN_PLACE(out, bytes_of_all(counts_in, in_type, comm), bytes_of_all(counts_out, out_type, comm)), NOTHING)
WRAP(MPI_Alltoallw,
     (const void *out, const int counts_out[], const int places_out[], const MPI_Datatype types_out[], void *in,
      const int counts_in[], const int places_in[], const MPI_Datatype types_in[], MPI_Comm comm),
     (out, counts_out, places_out, types_out, in, counts_in, places_in, types_in, comm),
     IN_PLACE(out, bytes_of_types(counts_in, types_in, comm), bytes_of_types(counts_out, types_out, comm)), NOTHING)
WRAP(MPI_Reduce_scatter,
     (const void *out, void *in, const int counts_in[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (out, in, counts_in, type, op, comm), carries(e, bytes_of_all(counts_in, type, comm)), NOTHING)
WRAP(MPI_Reduce_scatter_block, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (out, in, count, type, op, comm), carries(e, ranks_of(comm) * bytes_of(count, type)), NOTHING)

#define ONE_SIDED(function, buffer) \
    WRAP(function, \
         (buffer origin, int count, MPI_Datatype type, int target, MPI_Aint place, int there, MPI_Datatype type_there, MPI_Win win), \
         (origin, count, type, target, place, there, type_there, win), carries(e, bytes_of(count, type)), NOTHING)
ONE_SIDED(MPI_Put, const void *)
ONE_SIDED(MPI_Get, void *)
WRAP(MPI_Accumulate,
     (const void *origin, int count, MPI_Datatype type, int target, MPI_Aint place, int there, MPI_Datatype type_there, MPI_Op op,
      MPI_Win win),
     (origin, count, type, target, place, there, type_there, op, win), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_Fetch_and_op, (const void *origin, void *in, MPI_Datatype type, int target, MPI_Aint place, MPI_Op op, MPI_Win win),
     (origin, in, type, target, place, op, win), carries(e, bytes_of(1, type)), NOTHING)
WRAP(MPI_Win_fence, (int assert, MPI_Win win), (assert, win), NOTHING, NOTHING)

WRAP(MPI_File_open, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file), (comm, name, mode, info, file),
     NOTHING, NOTHING)
WRAP(MPI_File_close, (MPI_File *file), (file), NOTHING, NOTHING)
WRAP(MPI_File_write, (MPI_File file, const void *buf, int count, MPI_Datatype type, MPI_Status *status),
     (file, buf, count, type, status), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_File_write_at_all, (MPI_File file, MPI_Offset at, const void *buf, int count, MPI_Datatype type, MPI_Status *status),
     (file, at, buf, count, type, status), carries(e, bytes_of(count, type)), NOTHING)
WRAP(MPI_File_read_at, (MPI_File file, MPI_Offset at, void *buf, int count, MPI_Datatype type, MPI_Status *status),
     (file, at, buf, count, type, status), carries(e, bytes_of(count, type)), NOTHING)

WRAP(MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made), NOTHING, NOTHING)
WRAP(MPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made), NOTHING, NOTHING)
WRAP(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made), NOTHING,
     NOTHING)
WRAP(MPI_Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made), NOTHING, NOTHING)
WRAP(MPI_Cart_create,
     (MPI_Comm comm, int dimensions, const int sizes[], const int periods[], int reorder, MPI_Comm *made),
     (comm, dimensions, sizes, periods, reorder, made), NOTHING, NOTHING)
WRAP(MPI_Cart_sub, (MPI_Comm comm, const int kept[], MPI_Comm *made), (comm, kept, made), NOTHING, NOTHING)
WRAP(MPI_Graph_create, (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *made),
     (comm, nodes, index, edges, reorder, made), NOTHING, NOTHING)
WRAP(MPI_Dist_graph_create_adjacent,
     (MPI_Comm comm, int from, const int sources[], const int weights_from[], int to, const int destinations[],
      const int weights_to[], MPI_Info info, int reorder, MPI_Comm *made),
     (comm, from, sources, weights_from, to, destinations, weights_to, info, reorder, made), NOTHING, NOTHING)
WRAP(MPI_Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made), NOTHING, NOTHING)
WRAP(MPI_Intercomm_create, (MPI_Comm local, int leader, MPI_Comm peers, int remote, int tag, MPI_Comm *made),
     (local, leader, peers, remote, tag, made), NOTHING, NOTHING)

void call_nothing(void)
{
    for (int k = 0; k < 200; k++) {
        usleep(50);
        MPI_Bsend(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    }
}
