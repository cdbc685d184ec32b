// Exceptions that pass through functions which may be probed. A return probe on them would abort the program.
//
//   thrower DIRECTORY ROUNDS
//
// Prints {"event":"ready",...}, waits for DIRECTORY/go, throws through pass_through every second round,
// prints {"event":"tally",...}, waits for DIRECTORY/end.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>

extern "C" {
long passed_calls, thrown, caught;

__attribute__((noinline)) void throw_if_even(long round)
{
    if (round % 2 == 0) {
        thrown++;
        throw std::runtime_error("even");
    }
}

__attribute__((noinline)) long pass_through(long round)
{
    passed_calls++;
    throw_if_even(round);
    return round + passed_calls;
}
}

static void wait_for(const std::string &gate)
{
    while (access(gate.c_str(), F_OK) != 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: thrower DIRECTORY ROUNDS\n");
        return 2;
    }
    const std::string directory = argv[1];
    const long rounds = std::atol(argv[2]);
    std::printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    std::fflush(stdout);
    wait_for(directory + "/go");
    for (long round = 0; round < rounds; round++) {
        try {
            pass_through(round);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    std::printf("{\"event\":\"tally\",\"pass_through\":%ld,\"thrown\":%ld,\"caught\":%ld}\n", passed_calls, thrown, caught);
    std::fflush(stdout);
    wait_for(directory + "/end");
    return 0;
}
