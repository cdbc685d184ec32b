// MPI in modern C++: templates over the C functions, containers as buffers, requests in a vector. To be run
// with pmpi_truth preloaded.
#include <mpi.h>
#include <cstdio>
#include <map>
#include <numeric>
#include <vector>

namespace {

template <typename T> MPI_Datatype type_of();
template <> MPI_Datatype type_of<double>() { return MPI_DOUBLE; }
template <> MPI_Datatype type_of<long>() { return MPI_LONG; }

/* A duplicate of MPI_COMM_WORLD, as libraries use it. */
class World {
public:
    explicit World(MPI_Comm of)
    {
        MPI_Comm_dup(of, &comm);
        PMPI_Comm_rank(comm, &rank);
        PMPI_Comm_size(comm, &size);
    }
    ~World() { PMPI_Comm_free(&comm); }
    World(const World &) = delete;

    template <typename T> void exchange(const std::map<int, std::vector<T>> &out, std::map<int, std::vector<T>> &in)
    {
        std::vector<MPI_Request> requests;
        for (auto &[from, room] : in)
            MPI_Irecv(room.data(), static_cast<int>(room.size()), type_of<T>(), from, 1, comm, &requests.emplace_back());
        for (auto &[to, what] : out)
            MPI_Isend(what.data(), static_cast<int>(what.size()), type_of<T>(), to, 1, comm, &requests.emplace_back());
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    }

    template <typename T> T sum(T mine)
    {
        T all{};
        MPI_Allreduce(&mine, &all, 1, type_of<T>(), MPI_SUM, comm);
        return all;
    }

    int rank = 0, size = 0;

private:
    MPI_Comm comm = MPI_COMM_NULL;
};

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    bool is_right = true;
    {
        World world(MPI_COMM_WORLD);
        for (int step = 1; step <= 20; step++) {
            std::map<int, std::vector<double>> out, in;
            for (int other = 0; other < world.size; other++) {
                out[other].assign(step + other, world.rank);
                in[other].resize(step + world.rank);
            }
            world.exchange(out, in);
            for (auto &[from, values] : in)
                is_right = is_right && std::accumulate(values.begin(), values.end(), 0.0) == from * (step + world.rank);
            is_right = is_right && world.sum<long>(1) == world.size;
        }
    }
    MPI_Finalize();
    return is_right ? 0 : 3;
}
