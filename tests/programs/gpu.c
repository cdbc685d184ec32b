/* Launches GPU kernels: repeats ten launches, a copy and a wait, until it is ended.
 *
 *   gpu DIRECTORY LIBRARY HOST_US
 *
 * LIBRARY is a stub of CUDA's runtime (gpu_library.c). Between two launches the host computes for HOST_US
 * microseconds. Prints {"event":"ready",...}, and ends when DIRECTORY/stop exists. */
#include "gates.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    unsigned x, y, z;
} dim3;

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: gpu DIRECTORY LIBRARY HOST_US\n");
        return 2;
    }
    void *library = dlopen(argv[2], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*launch)(const void *, dim3, dim3, void **, size_t, void *) = dlsym(library, "cudaLaunchKernel");
    int (*copy)(void *, const void *, size_t, int, void *) = dlsym(library, "cudaMemcpyAsync");
    int (*wait)(void *) = dlsym(library, "cudaStreamSynchronize");
    long host_ns = 1000 * atol(argv[3]);
    char on_host[4096] = "", on_device[sizeof on_host];
    dim3 one = {1, 1, 1};
    printf("{\"event\":\"ready\",\"pid\":%d}\n", getpid());
    fflush(stdout);
    while (!exists(argv[1], "stop")) {
        copy(on_device, on_host, sizeof on_host, 1, NULL);
        for (int kernel = 0; kernel < 10; kernel++) {
            for (long begin = now_ns(); now_ns() - begin < host_ns;)
                ;
            launch(main, one, one, NULL, 0, NULL);
        }
        wait(NULL);
    }
    return 0;
}
