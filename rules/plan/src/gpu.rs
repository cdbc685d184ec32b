//! Functions by which programs use a GPU: CUDA's run-time and driver, HIP, NCCL and RCCL.

/// The purpose of such a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuCall {
    Launch,
    Copy,
    /// Waits for the GPU, or polls whether it is ready.
    Wait,
    Collective,
}

/// Functions with one purpose.
struct FunctionSet {
    call: GpuCall,
    /// Its notation in rules.
    name: &'static str,
    /// Prefixes of function names, by library.
    libraries: &'static [&'static str],
    /// The rest of the names, separated by blanks; `*` marks a prefix.
    functions: &'static str,
}

const fn family(
    call: GpuCall,
    name: &'static str,
    libraries: &'static [&'static str],
    functions: &'static str,
) -> FunctionSet {
    FunctionSet {
        call,
        name,
        libraries,
        functions,
    }
}

const DEVICE: &[&str] = &["cuda", "cu", "hip"];

const LAUNCHES: &str = "LaunchKernel LaunchKernelEx LaunchKernelExC LaunchCooperativeKernel \
    LaunchCooperativeKernelMultiDevice GraphLaunch ModuleLaunchKernel ModuleLaunchCooperativeKernel \
    DrvLaunchKernelEx ExtLaunchKernel";

const WAITS: &str = "DeviceSynchronize CtxSynchronize ThreadSynchronize StreamSynchronize EventSynchronize \
    StreamQuery EventQuery";

const COLLECTIVES: &str = "AllReduce AllGather AlltoAll AllToAll AllToAllv Bcast Broadcast Gather Reduce \
    ReduceScatter Scatter Send Recv GroupEnd";

const FAMILIES: [FunctionSet; 4] = [
    family(GpuCall::Launch, "gpu.launch", DEVICE, LAUNCHES),
    family(GpuCall::Copy, "gpu.copy", DEVICE, "Memcpy* DrvMemcpy*"),
    family(GpuCall::Wait, "gpu.wait", DEVICE, WAITS),
    family(
        GpuCall::Collective,
        "gpu.collective",
        &["nccl", "pnccl"],
        COLLECTIVES,
    ),
];

/// HIP's C++ functions that launch kernels are recognized by their full names: rocBLAS calls this one.
const LAUNCH_OF_HIP: &str = "_Z24hipExtModuleLaunchKernel";

impl GpuCall {
    /// The purpose with this notation in rules.
    pub fn named(name: &str) -> Option<GpuCall> {
        let known = FAMILIES.iter().find(|family| family.name == name);
        known.map(|family| family.call)
    }

    /// Its notation in rules.
    pub fn name(self) -> &'static str {
        let known = FAMILIES.iter().find(|family| family.call == self);
        known.map_or("", |family| family.name)
    }

    /// The purpose of a function, by its linker name. Functions that compilers call have the prefix `__`;
    /// later versions of a function (`_v2`), versions for a per-thread default stream (`_ptsz`, `_ptds`,
    /// `_spt`), and NCCL functions with settings (`Config`) have a suffix.
    pub fn of(symbol: &str) -> Option<GpuCall> {
        if symbol.starts_with(LAUNCH_OF_HIP) {
            return Some(GpuCall::Launch);
        }
        let mut plain = symbol.trim_start_matches("__");
        for ending in ["_ptsz", "_ptds", "_spt", "_v2", "Config"] {
            plain = plain.strip_suffix(ending).unwrap_or(plain);
        }
        let known = FAMILIES.iter().find(|family| family.has(plain));
        known.map(|family| family.call)
    }
}

impl FunctionSet {
    fn has(&self, function: &str) -> bool {
        let fits = |stem: &str, known: &str| match known.strip_suffix('*') {
            Some(begin) => stem.starts_with(begin),
            None => stem == known,
        };
        let stems = self
            .libraries
            .iter()
            .filter_map(|library| function.strip_prefix(library));
        stems
            .into_iter()
            .any(|stem| self.functions.split(' ').any(|known| fits(stem, known)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_cuda_hip_and_nccl_are_known_by_the_names_that_their_libraries_export() {
        for (call, functions) in [
            (
                Some(GpuCall::Launch),
                "cudaLaunchKernel cudaLaunchKernel_ptsz __cudaLaunchKernel __cudaLaunchKernel_ptsz cudaLaunchKernelExC_ptsz \
                 cudaLaunchCooperativeKernel cudaGraphLaunch_ptsz cuLaunchKernel cuLaunchKernel_ptsz cuLaunchKernelEx_ptsz cuGraphLaunch \
                 hipLaunchKernel hipLaunchKernel_spt hipModuleLaunchKernel hipExtLaunchKernel hipGraphLaunch \
                 _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j",
            ),
            (
                Some(GpuCall::Copy),
                "cudaMemcpy cudaMemcpy_ptds cudaMemcpyAsync cudaMemcpyAsync_ptsz cudaMemcpy2DAsync_ptsz cudaMemcpyPeer cuMemcpyHtoD_v2 \
                 cuMemcpyDtoH_v2_ptds cuMemcpyHtoDAsync_v2_ptsz cuMemcpy3DPeerAsync hipMemcpy hipMemcpyDtoH hipMemcpyAsync_spt \
                 hipMemcpyWithStream hipDrvMemcpy3DAsync",
            ),
            (
                Some(GpuCall::Wait),
                "cudaDeviceSynchronize cudaStreamSynchronize_ptsz cudaEventSynchronize cudaEventQuery cudaStreamQuery_ptsz \
                 cudaThreadSynchronize cuCtxSynchronize cuStreamSynchronize_ptsz cuEventSynchronize hipDeviceSynchronize \
                 hipStreamSynchronize_spt hipEventQuery",
            ),
            (
                Some(GpuCall::Collective),
                "ncclAllReduce pncclAllReduce ncclAllGather ncclReduceScatter ncclBroadcast ncclSend ncclRecv ncclGroupEnd ncclAlltoAll \
                 ncclAllReduceConfig",
            ),
            (
                None,
                "cudaLaunchHostFunc cudaGraphAddMemcpyNode cudaMemset cudaStreamWaitEvent cudaMalloc cudaFree cuMemAlloc_v2 cuInit \
                 ncclCommInitRank ncclGroupStart ncclMemcpy cudaAllReduce memcpy LaunchKernel",
            ),
        ] {
            for function in functions.split_whitespace() {
                assert_eq!(GpuCall::of(function), call, "{function}");
            }
        }
    }
}
