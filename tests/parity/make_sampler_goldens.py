"""Writes tests/unit/data/sampler_goldens.txt: what torch's DistributedSampler gives for many settings.

Usage: python3 make_sampler_goldens.py OUTPUT (made with PyTorch 2.15)
Each line: samples replicas seed epoch shuffle drop_last size first last hash, where first and last are indices of the
last rank (-1 if it has none) and hash folds the indices of all ranks, rank by rank.
"""

import itertools
import random
import sys

import torch
from torch.utils.data import DistributedSampler


def fold(indices, value):
    for index in indices:
        value = (value * 6364136223846793005 + index + 1) % 2**64
    return value


def golden(samples, replicas, seed, epoch, shuffle, drop_last):
    value = 0
    for rank in range(replicas):
        sampler = DistributedSampler(range(samples), replicas, rank, shuffle, seed, drop_last)
        sampler.set_epoch(epoch)
        indices = list(sampler)
        assert len(indices) == len(sampler)
        value = fold(indices, value)
    first, last = (indices[0], indices[-1]) if indices else (-1, -1)
    return len(indices), first, last, value


def main():
    samples = [1, 2, 3, 5, 7, 10, 63, 64, 65, 100, 1000, 4097]
    replicas = [1, 2, 3, 4, 7, 8, 16]
    settings = list(itertools.product(samples, replicas, [0, 1, 42, 2**32 + 5], [0, 1, 9], [True, False], [True, False]))
    random.Random(0).shuffle(settings)
    chosen = settings[:240] + [(60000, 2, 0, 0, True, False), (60000, 7, 3, 2, True, True), (50000, 8, 1, 90, True, False)]
    with open(sys.argv[1], "w") as out:
        for setting in sorted(chosen):
            numbers = [int(field) for field in setting + golden(*setting)]
            print(*numbers, file=out)
    print(f"PyTorch {torch.__version__}: {len(chosen)} cases")


if __name__ == "__main__":
    main()
