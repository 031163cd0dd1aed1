#!/usr/bin/env python3
"""A workload in PyTorch DDP: the peer that Lockstep is measured against.

usage: torchrun --nproc_per_node=2 torch_ddp.py --workload mlp --batch 64 --steps 1000 [--compile] [--channels_last]
Rank 0 prints one JSON line: step time (median over the timed steps), the same without exchange (no_sync), global
samples/s (over all timed steps), the loss after the timed steps, start-up (from --started, in seconds since the
epoch, to the first step done), and the highest proportional set size of a rank.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rank_cores import bind_rank
from torch_memory import MemoryWatch
from torch_models import workload


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--amp", choices=["off", "bf16"], default="off")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--bf16_inside", action="store_true", help="fp32 tensors, bf16 products inside oneDNN")
    parser.add_argument("--tuned", action="store_true",
                        help="fused optimizer, gradients as views of buckets, static graph")
    parser.add_argument("--bind", action="store_true", help="each rank to its slice of the cores, as launch does")
    parser.add_argument("--no_sync_steps", type=int, default=-1, help="default: half of --steps, at least 5")
    parser.add_argument("--started", type=float, default=time.time(), help="when the command was typed")
    return parser.parse_args()


def ddp_options(options):
    return {"gradient_as_bucket_view": True, "static_graph": True} if options.tuned else {}


class Training:
    """The model on its device, wrapped and compiled as the options say, with one fixed batch."""

    def __init__(self, options):
        cuda = torch.cuda.is_available()
        self.distributed = "RANK" in os.environ
        if self.distributed:
            dist.init_process_group("nccl" if cuda else "gloo")
        self.rank = dist.get_rank() if self.distributed else 0
        self.world_size = dist.get_world_size() if self.distributed else 1
        self.device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if cuda else "cpu")
        self.synchronize = torch.cuda.synchronize if cuda else lambda: None
        self.bf16 = options.amp == "bf16"

        torch.manual_seed(0)
        model, (x, y), self.loss, optimizer = workload(options.workload, options.batch, self.device.type)
        memory_format = torch.channels_last if options.channels_last else torch.preserve_format
        self.x, self.y = x.to(self.device, memory_format=memory_format), y.to(self.device)
        model = model.to(self.device, memory_format=memory_format)
        self.parameters = sum(p.numel() for p in model.parameters())
        self.optimizer = optimizer(model.parameters())
        self.net = DistributedDataParallel(model, **ddp_options(options)) if self.distributed else model
        if options.tuned:
            for group in self.optimizer.param_groups:
                group.update(fused=True, foreach=False)
        if options.compile:
            self.net = torch.compile(self.net)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def step_without_exchange(self):
        with self.net.no_sync():
            return self.step()

    def highest(self, number):
        """Of all ranks."""
        highest = torch.tensor(number, device=self.device)
        if self.distributed:
            dist.all_reduce(highest, dist.ReduceOp.MAX)
        return highest.item()

    def time_steps(self, step, count):
        """Seconds of each step, and the last loss. On a GPU their mean: a wait behind each would cost what no training waits."""
        seconds, loss = [], None
        self.synchronize()
        first = begin = time.perf_counter()
        for _ in range(count):
            loss = step()
            now = time.perf_counter()
            seconds.append(now - begin)
            begin = now
        self.synchronize()
        return ([(time.perf_counter() - first) / count] * count if self.device.type == "cuda" else seconds), loss


def main():
    options = parse_options()
    if options.bind:
        bind_rank()
    memory = MemoryWatch()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)  # as Lockstep's threads do
    torch.backends.cudnn.allow_tf32 = True  # its default, and Lockstep's on a GPU: --conv-precision tf32
    if options.bf16_inside:
        for part in ("matmul", "conv", "rnn"):
            getattr(torch.backends.mkldnn, part).fp32_precision = "bf16"
    training = Training(options)
    training.time_steps(training.step, 1)
    startup = time.time() - options.started
    training.time_steps(training.step, options.warmup)
    seconds, loss = training.time_steps(training.step, options.steps)
    median = statistics.median(seconds)
    result = {
        "workload": options.workload, "torch": torch.__version__, "world": training.world_size,
        "batch": options.batch, "amp": options.amp, "step_ms": round(median * 1e3, 4),
        "samples_s": round(training.world_size * options.batch / statistics.fmean(seconds), 2),
        "loss": round(loss.item(), 4),
        "params": training.parameters, "startup_ms": round(startup * 1e3, 1),
        "peak_memory_bytes": training.highest(memory.peak_bytes()),
    }
    no_sync_steps = max(5, options.steps // 2) if options.no_sync_steps < 0 else options.no_sync_steps
    if training.distributed and no_sync_steps:
        seconds, _ = training.time_steps(training.step_without_exchange, no_sync_steps)
        result["no_sync_ms"] = round(statistics.median(seconds) * 1e3, 4)
    if training.rank == 0:
        print(json.dumps(result), flush=True)
    if training.distributed:
        dist.barrier()
        os._exit(0)  # farewells of PyTorch 2.15 with Gloo end in SIGABRT now and then


if __name__ == "__main__":
    main()
