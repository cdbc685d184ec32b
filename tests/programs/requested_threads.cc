// What rules probe and read in a program: a method, functions of one pattern, a span between two functions,
// members behind pointers, strings.
//
//   requested_threads DIRECTORY ROUNDS
//
// Prints {"event":"ready",...}, waits for DIRECTORY/go, works, prints {"event":"tally",...}, waits for
// DIRECTORY/end.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, used))

struct Task {
    int id;
    double weight;
    Task *next;
    char name[16];
};

Task tasks[3];
Task *queue = tasks;
// An invalid pointer, which must not be read as a number.
Task *volatile broken = reinterpret_cast<Task *>(64);
volatile long sink;

namespace model {
class Solver {
  public:
    static int level;
    int limit = 7;
    FUNCTION void step(int round) { sink = sink + round + limit; }
};
int Solver::level = 3;
} // namespace model

extern "C" {
FUNCTION long solve_fast(Task *task, int size) { return sink = sink + task->id + size; }
FUNCTION long solve_slow(Task *task, int size) { return sink = sink + 2 * task->id + size; }
FUNCTION long resolve(long value) { return sink = sink + value; }
FUNCTION void begin_work(int round) { sink = sink + round; }
FUNCTION void end_work(int round) { sink = sink - round; }
FUNCTION void begin_all(void) { sink = sink + 1; }
FUNCTION void end_all(void) { sink = sink - 1; }
}

static void wait_for(const std::string &gate)
{
    while (access(gate.c_str(), F_OK) != 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: asked DIRECTORY ROUNDS\n");
        return 2;
    }
    const std::string directory = argv[1];
    const int rounds = std::atoi(argv[2]);
    for (int index = 0; index < 3; index++) {
        tasks[index].id = index + 1;
        tasks[index].weight = index + 0.5;
        tasks[index].next = index < 2 ? &tasks[index + 1] : nullptr;
        std::snprintf(tasks[index].name, sizeof tasks[index].name, "task %d", index);
    }
    model::Solver solver;
    std::printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    std::fflush(stdout);
    wait_for(directory + "/go");
    begin_all();
    for (int round = 0; round < rounds; round++) {
        solver.step(round);
        solve_fast(&tasks[round % 3], round);
        if (round % 2 == 1)
            solve_slow(&tasks[round % 3], round);
        resolve(round);
        begin_work(round);
        end_work(round);
    }
    end_all();
    std::printf("{\"event\":\"tally\",\"rounds\":%d,\"sink\":%ld,\"broken\":%d}\n", rounds, sink, broken != nullptr);
    std::fflush(stdout);
    wait_for(directory + "/end");
    return 0;
}
