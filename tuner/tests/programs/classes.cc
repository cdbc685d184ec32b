// Namespaces, static members, overloads, references. Prints its view for every input line.
#include <cstdio>
#include <vector>

namespace app {
struct Base { int id = 3; };
class Solver : public Base {
public:
    static int limit;
    int depth = 4;
    int step(int by);
    double step(double by);
    int size() const { return depth; }
};
int Solver::limit = 8;
__attribute__((noinline)) int Solver::step(int by) { return depth += by; }
__attribute__((noinline)) double Solver::step(double by) { return depth + by; }
int count = 2;
namespace { volatile int hidden = 11; }
}
namespace other { int count = 3; }
app::Solver solver;
app::Solver &alias = solver;
template <class T> __attribute__((noinline)) T twice(T value) { return value + value; }
__attribute__((noinline)) int free_function(app::Solver &self, int by) { return self.step(by); }
thread_local int own = 1;

int main()
{
    char line[64];
    int sum = free_function(solver, 1) + (int)solver.step(0.5) + twice(3) + solver.size() + own;
    solver.depth = 4;
    std::printf("ready\n");
    std::fflush(stdout);
    while (std::fgets(line, sizeof line, stdin)) {
        std::printf("limit=%d depth=%d count=%d other=%d hidden=%d id=%d\n", app::Solver::limit, solver.depth, app::count, other::count,
                    app::hidden, solver.id);
        std::fflush(stdout);
    }
    return sum == 0;
}
