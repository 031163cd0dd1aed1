"""Binds a rank of the peer to cores, as `launch` binds ours (slice_cores in kernels/base/cores.cpp)."""
import contextlib
import os
import pathlib


def group_by_core(cpus):
    """The hardware threads in `cpus` of each core, by lowest CPU number."""
    cores = {}
    for cpu in sorted(cpus):
        try:
            core = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            core = cpu
        cores.setdefault(core, []).append(cpu)
    return list(cores.values())


def slice_of(cores, rank, ranks):
    """CPUs of a contiguous slice of the cores; none for a lone rank, or where ranks outnumber cores."""
    if ranks < 2 or ranks > len(cores):
        return set()
    return {cpu for core in cores[rank * len(cores) // ranks:(rank + 1) * len(cores) // ranks] for cpu in core}


def bind_rank():
    """Binds the threads of this process, and those that they start."""
    cpus = slice_of(group_by_core(os.sched_getaffinity(0)), int(os.environ.get("LOCAL_RANK", 0)),
                    int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    for thread in os.listdir("/proc/self/task") if cpus else ():
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), cpus)
