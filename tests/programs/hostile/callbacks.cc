// Programs with callbacks that MPI calls and that do not return to it. MODE is CALLBACK-WAY.
//
// CALLBACK is the callback: the error handler of a communicator or of a file, an operation (of a collective
// if there are several ranks), the copy or delete function of an attribute, or the query, free or cancel
// function of a generalised request. WAY is how it is left: a C++ exception; longjmp; a switch to another
// fiber, which comes back later; in a separate thread, pthread_exit, or pthread_cancel while the callback
// runs.
#include "fibers.h"
#include "hostile.h"

#include <csetjmp>
#include <mpi.h>
#include <pthread.h>

namespace {

struct Left {};
enum Way { THROW, JUMP, FIBER, EXIT, CANCEL, WAYS } way;

bool leaving;
jmp_buf back;
long started, left, destroyed, cleaned;
int copied_key, deleted_key;
MPI_Op operation;
const char *callback;

// Called in a callback, so inside MPI.
void leave()
{
    if (!leaving)
        return;
    switch (way) {
    case THROW:
        throw Left();
    case JUMP:
        longjmp(back, 1);
    case FIBER:
        leave_fiber();
        break;
    case EXIT:
        pthread_exit(nullptr);
    case CANCEL:
        pthread_cancel(pthread_self());
        pthread_testcancel();
        break;
    case WAYS:
        break;
    }
}

void on_error(MPI_Comm *, int *, ...) { leave(); }
void on_file_error(MPI_File *, int *, ...) { leave(); }
int on_copy(MPI_Comm, int, void *, void *, void *, int *flag)
{
    *flag = 0;
    leave();
    return MPI_SUCCESS;
}
int on_delete(MPI_Datatype, int, void *, void *)
{
    leave();
    return MPI_SUCCESS;
}
int on_query(void *, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    if (strcmp(callback, "query") == 0)
        leave();
    return MPI_SUCCESS;
}
int on_free(void *)
{
    if (strcmp(callback, "free") == 0)
        leave();
    return MPI_SUCCESS;
}
int on_cancel(void *, int)
{
    leave();
    return MPI_SUCCESS;
}
void on_operation(void *in, void *inout, int *count, MPI_Datatype *)
{
    for (int i = 0; i < *count; i++)
        static_cast<int *>(inout)[i] += static_cast<int *>(in)[i];
    leave();
}

bool calls(const char *which) { return strcmp(callback, which) == 0; }

void reduce()
{
    int size, one = 1, sum = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD);
    else
        MPI_Reduce_local(&one, &sum, 1, MPI_INT, operation);
}

void make_request()
{
    MPI_Request request;
    MPI_Grequest_start(on_query, on_free, on_cancel, nullptr, &request);
    if (calls("cancel")) {
        MPI_Cancel(&request);
        return;
    }
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Calls the MPI function that calls the callback.
void cross()
{
    if (calls("error")) {
        int one = 1;
        MPI_Send(&one, 1, MPI_INT, 9999, 0, MPI_COMM_WORLD);
    } else if (calls("file-error")) {
        MPI_File file;
        MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    } else if (calls("operation")) {
        reduce();
    } else if (calls("copy")) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_SELF, &copy);
        MPI_Comm_free(&copy);
    } else if (calls("delete")) {
        MPI_Datatype type;
        MPI_Type_contiguous(2, MPI_INT, &type);
        MPI_Type_set_attr(type, deleted_key, &deleted_key);
        MPI_Type_free(&type);
    } else {
        make_request();
    }
}

struct Guard {
    ~Guard() { destroyed++; }
};

void on_cleanup(void *) { cleaned++; }

KEEP void guarded_cross()
{
    Guard guard;
    cross();
}

void *in_a_thread(void *)
{
    pthread_cleanup_push(on_cleanup, nullptr);
    guarded_cross();
    pthread_cleanup_pop(0);
    wrong("came back from %s", callback);
    return nullptr;
}

void fiber()
{
    for (;;) {
        cross();
        finished[current]++;
        leave_fiber();
    }
}

void once()
{
    started++;
    leaving = true;
    if (way == THROW) {
        try {
            guarded_cross();
            wrong("came back from %s", callback);
        } catch (const Left &) {
            left++;
        }
    } else if (way == JUMP) {
        if (setjmp(back) == 0) {
            cross();
            wrong("came back from %s", callback);
        }
        left++;
    } else if (way == EXIT || way == CANCEL) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, in_a_thread, nullptr) != 0)
            wrong("no thread");
        pthread_join(thread, nullptr);
        left++;
    } else {
        switch_fibers();
        switch_fibers();
        left++;
    }
    leaving = false;
    const bool is_thread = way == EXIT || way == CANCEL, has_guards = is_thread || way == THROW;
    if (left != started || (has_guards && destroyed != started) || (is_thread && cleaned != started))
        wrong("%ld calls, %ld left, %ld destructors, %ld cleaned", started, left, destroyed, cleaned);
    if (way == FIBER && (finished[0] != started || finished[1] != started))
        wrong("%ld rounds, the fibers finished %ld and %ld", started, finished[0], finished[1]);
}

// Checks that messages still arrive and that reductions are correct.
void still_works()
{
    int rank, size, mine, theirs = -1, sum = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine = rank + static_cast<int>(started % 1000);
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 7, &theirs, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (theirs != (rank + size - 1) % size + static_cast<int>(started % 1000) || sum != size * (size - 1) / 2)
        wrong("received %d, the sum is %d", theirs, sum);
}

void register_all()
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_File_create_errhandler(on_file_error, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_Comm_create_keyval(on_copy, MPI_COMM_NULL_DELETE_FN, &copied_key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, copied_key, &copied_key);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_delete, &deleted_key, nullptr);
    MPI_Op_create(on_operation, 1, &operation);
}

} // namespace

int main(int argc, char **argv)
{
    begin(argc, argv);
    static char word[64];
    snprintf(word, sizeof word, "%s", mode);
    char *dash = strrchr(word, '-');
    if (!dash)
        wrong("the mode is CALLBACK-WAY");
    *dash = 0;
    callback = word;
    const char *ways[WAYS] = {"throw", "jump", "fiber", "exit", "cancel"};
    int chosen = 0;
    while (chosen < WAYS && strcmp(dash + 1, ways[chosen]) != 0)
        chosen++;
    if (chosen == WAYS)
        wrong("what is %s", mode);
    way = static_cast<Way>(chosen);
    int provided, rank, go = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    register_all();
    make_fibers(fiber);
    while (go) {
        once();
        still_works();
        rest();
        // Only the first rank knows when to end.
        check(started);
        go = rank == 0 ? goes_on() : 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    ends_well("MPI was left every time and went on");
    return 0;
}
