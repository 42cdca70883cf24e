"""The calls of CUDA and NCCL that the examples make, by ctypes.

They keep the libraries' names and are called from the example without a function of ours between: whoever looks at the
stack of such a call sees the line of the example that made it.  What is wrong with a call is raised after it.
"""
import collections
import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p, sizeof


def load(*sonames):
    """The first of these libraries that the loader finds where it always looks."""
    failures = []
    for soname in sonames:
        try:
            return ctypes.CDLL(soname)
        except OSError as failure:
            failures.append(str(failure))
    raise OSError("; ".join(failures))


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t of NCCL 2.28.  Older ones look at the size, take the fields they know and leave the rest."""
    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int),
                ("cgaClusterSize", c_int), ("minCTAs", c_int), ("maxCTAs", c_int), ("netName", c_char_p),
                ("splitShare", c_int), ("trafficClass", c_int), ("commName", c_char_p), ("collnetEnable", c_int),
                ("CTAPolicy", c_int), ("shrinkShare", c_int), ("nvlsCTAs", c_int), ("nChannelsPerNetPeer", c_int),
                ("nvlinkCentricSched", c_int)]

    def __init__(self, name):
        super().__init__(size=sizeof(Config), magic=0xCAFEBEEF, version=22800, commName=name.encode())
        for field, kind in self._fields_:
            if kind is c_int:
                setattr(self, field, -2**31)  # NCCL_CONFIG_UNDEF_INT


class Comm(c_void_p):
    """A communicator that knows its name and counts its collectives by (operation, caller, line)."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.config = Config(name)
        self.calls = collections.Counter()


cudaErrorNotReady = 600
cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost = 1, 2
ncclFloat32, ncclSum = 7, 0

cudart = load("libcudart.so.13", "libcudart.so.12")
nccl = load("libnccl.so.2")
cudart.cudaGetErrorString.restype = c_char_p
nccl.ncclGetErrorString.restype = c_char_p


def check_cuda(status, function, arguments):
    if status not in (0, cudaErrorNotReady):
        raise RuntimeError(f"{function.__name__}: {cudart.cudaGetErrorString(status).decode()}")
    return status


def check_nccl(status, function, arguments):
    if status:
        raise RuntimeError(f"{function.__name__}: {nccl.ncclGetErrorString(status).decode()}")
    return status


def count_collective(status, function, arguments):
    check_nccl(status, function, arguments)
    comm = next(argument for argument in arguments if isinstance(argument, Comm))
    caller = sys._getframe(1)
    comm.calls[function.__name__, caller.f_code.co_name, caller.f_lineno] += 1
    return status


def declare(library, check, name, *arguments):
    function = getattr(library, name)
    function.argtypes = arguments
    function.errcheck = check
    return function


Stream = c_void_p
cudaSetDevice = declare(cudart, check_cuda, "cudaSetDevice", c_int)
cudaMalloc = declare(cudart, check_cuda, "cudaMalloc", POINTER(c_void_p), c_size_t)
cudaFree = declare(cudart, check_cuda, "cudaFree", c_void_p)
cudaMemcpyAsync = declare(cudart, check_cuda, "cudaMemcpyAsync", c_void_p, c_void_p, c_size_t, c_int, Stream)
cudaStreamCreate = declare(cudart, check_cuda, "cudaStreamCreate", POINTER(Stream))
cudaStreamDestroy = declare(cudart, check_cuda, "cudaStreamDestroy", Stream)
cudaStreamQuery = declare(cudart, check_cuda, "cudaStreamQuery", Stream)
cudaStreamSynchronize = declare(cudart, check_cuda, "cudaStreamSynchronize", Stream)

ncclGetUniqueId = declare(nccl, check_nccl, "ncclGetUniqueId", POINTER(UniqueId))
ncclCommInitRankConfig = declare(nccl, check_nccl, "ncclCommInitRankConfig", POINTER(Comm), c_int, UniqueId, c_int,
                                 POINTER(Config))
ncclCommSplit = declare(nccl, check_nccl, "ncclCommSplit", Comm, c_int, c_int, POINTER(Comm), POINTER(Config))
ncclCommDestroy = declare(nccl, check_nccl, "ncclCommDestroy", Comm)
ncclAllReduce = declare(nccl, count_collective, "ncclAllReduce", c_void_p, c_void_p, c_size_t, c_int, c_int, Comm,
                        Stream)
HostFunction = ctypes.CFUNCTYPE(None, c_void_p)
cudaLaunchHostFunc = declare(cudart, check_cuda, "cudaLaunchHostFunc", Stream, HostFunction, c_void_p)
ncclReduceScatter = declare(nccl, count_collective, "ncclReduceScatter", c_void_p, c_void_p, c_size_t, c_int, c_int, Comm,
                            Stream)
ncclBroadcast = declare(nccl, count_collective, "ncclBroadcast", c_void_p, c_void_p, c_size_t, c_int, c_int, Comm,
                        Stream)
