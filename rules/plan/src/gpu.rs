//! Functions by which programs use a GPU: of CUDA's run-time and driver, of HIP, of NCCL and RCCL.

/// What a program calls such a function for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuCall {
    Launch,
    Copy,
    /// Waits for the GPU, or looks whether it is ready.
    Wait,
    Collective,
}

/// Functions of one purpose.
struct Family {
    call: GpuCall,
    /// As rules write it.
    name: &'static str,
    /// What the names of its libraries begin with.
    libraries: &'static [&'static str],
    /// What follows; with `*`, how it begins.
    functions: &'static [&'static str],
}

const DEVICE: &[&str] = &["cuda", "cu", "hip"];

const FAMILIES: [Family; 4] = [
    Family {
        call: GpuCall::Launch,
        name: "gpu.launch",
        libraries: DEVICE,
        functions: &[
            "LaunchKernel",
            "LaunchKernelEx",
            "LaunchKernelExC",
            "LaunchCooperativeKernel",
            "LaunchCooperativeKernelMultiDevice",
            "GraphLaunch",
            "ModuleLaunchKernel",
            "ModuleLaunchCooperativeKernel",
            "DrvLaunchKernelEx",
            "ExtLaunchKernel",
        ],
    },
    Family {
        call: GpuCall::Copy,
        name: "gpu.copy",
        libraries: DEVICE,
        functions: &["Memcpy*", "DrvMemcpy*"],
    },
    Family {
        call: GpuCall::Wait,
        name: "gpu.wait",
        libraries: DEVICE,
        functions: &[
            "DeviceSynchronize",
            "CtxSynchronize",
            "ThreadSynchronize",
            "StreamSynchronize",
            "EventSynchronize",
            "StreamQuery",
            "EventQuery",
        ],
    },
    Family {
        call: GpuCall::Collective,
        name: "gpu.collective",
        libraries: &["nccl", "pnccl"],
        functions: &[
            "AllReduce",
            "AllGather",
            "AlltoAll",
            "AllToAll",
            "AllToAllv",
            "Bcast",
            "Broadcast",
            "Gather",
            "Reduce",
            "ReduceScatter",
            "Scatter",
            "Send",
            "Recv",
            "GroupEnd",
        ],
    },
];

/// C++ functions of HIP that launch kernels are known by their whole names: rocBLAS calls this one.
const LAUNCH_OF_HIP: &str = "_Z24hipExtModuleLaunchKernel";

impl GpuCall {
    /// The one that is written so in rules.
    pub fn named(name: &str) -> Option<GpuCall> {
        let known = FAMILIES.iter().find(|family| family.name == name);
        known.map(|family| family.call)
    }

    /// As rules write it.
    pub fn name(self) -> &'static str {
        let known = FAMILIES.iter().find(|family| family.call == self);
        known.map_or("", |family| family.name)
    }

    /// What a function is called for, by the linker's name. What compilers call for programs begins with
    /// `__`; later versions of a function (`_v2`), those for a default stream for each thread (`_ptsz`,
    /// `_ptds`, `_spt`), and of NCCL with settings (`Config`) have an ending.
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

impl Family {
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
            .any(|stem| self.functions.iter().any(|known| fits(stem, known)))
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
