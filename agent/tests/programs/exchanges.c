/* MPI ranks that exchange data in the number of rounds given by each input line of rank 0: two sends and
 * receives of 100 ints in a ring, and a reduction. Rank 0 answers with the total number of rounds. An empty
 * line or 0 ends the job. */
#include <mpi.h>
#include <stdio.h>

enum { INTS = 100 };

int main(int arguments, char **argument) {
    MPI_Init(&arguments, &argument);
    int rank, ranks, wanted, rounds = 0, sent[INTS] = {0}, received[INTS];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) puts("ready");
    for (;;) {
        fflush(stdout);
        if (rank == 0 && scanf("%d", &wanted) != 1) wanted = 0;
        MPI_Bcast(&wanted, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (wanted <= 0) break;
        for (int round = 0; round < wanted; round++, rounds++) {
            for (int turn = 0; turn < 2; turn++) {
                MPI_Send(sent, INTS, MPI_INT, next, turn, MPI_COMM_WORLD);
                MPI_Recv(received, INTS, MPI_INT, last, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            int one = 1, all;
            MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        if (rank == 0) printf("%d\n", rounds);
    }
    MPI_Finalize();
    return 0;
}
