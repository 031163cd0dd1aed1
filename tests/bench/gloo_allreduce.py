#!/usr/bin/env python3
"""All-reduce of float32 by Gloo: median and best ms per size.

usage: torchrun --standalone --nproc_per_node=2 gloo_allreduce.py [--json]
"""
import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist

# The bytes of the all-reduce table; mpi_allreduce.cpp has the same.
SIZES = (64, 4 << 10, 400_000, 1_600_000, 4 << 20, 25 << 20, 64 << 20)


def repetitions(size):
    """About a second for each size, whatever the machine."""
    return max(10, min(2000, (256 << 20) // size))


def time_all_reduce(size):
    values = torch.ones(size // 4)
    seconds = []
    for i in range(repetitions(size) + 3):
        values.fill_(1.0)
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        if i >= 3:
            seconds.append(time.perf_counter() - begin)
    if not torch.all(values == dist.get_world_size()):
        raise SystemExit(f"the sum of {size} bytes is wrong")
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    figures = []
    for size in SIZES:
        seconds = time_all_reduce(size)
        figures.append({"bytes": size, "median_ms": statistics.median(seconds) * 1e3, "best_ms": min(seconds) * 1e3})
    if dist.get_rank() == 0 and options.json:
        print(json.dumps({"library": f"gloo (torch {torch.__version__})", "ranks": dist.get_world_size(),
                          "sizes": figures}))
    elif dist.get_rank() == 0:
        for row in figures:
            print(f"{row['bytes']:>10} bytes  median {row['median_ms']:9.4f} ms  best {row['best_ms']:9.4f} ms")
    dist.barrier()  # Gloo aborts a rank whose peer leaves first
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
