"""torchvision's resnet18 on Fashion-MNIST in PyTorch DDP; rank 0 prints the accuracy of the test set as JSON."""
import argparse
import gzip
import json
import pathlib
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
from torchvision import models

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read_split(name):
    """Pictures from 0 to 1, N x 1 x 28 x 28, and their classes."""
    pictures = gzip.decompress((FOLDER / f"{name}-images-idx3-ubyte.gz").read_bytes())[16:]
    classes = gzip.decompress((FOLDER / f"{name}-labels-idx1-ubyte.gz").read_bytes())[8:]
    pixels = torch.from_numpy(numpy.frombuffer(pictures, numpy.uint8).reshape(-1, 1, 28, 28).copy())
    return pixels / 255, torch.from_numpy(numpy.frombuffer(classes, numpy.uint8).astype(numpy.int64))


def resnet18_of_one_channel():
    model = models.resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")  # as torchvision's ResNet
    return model


def train(ddp, options):
    """Samples per second of this rank."""
    pictures, classes = read_split("train")
    sampler = DistributedSampler(range(len(pictures)), seed=options.seed)
    steps = options.epochs * -(-len(sampler) // options.batch_size)
    optimizer = torch.optim.SGD(ddp.parameters(), options.lr, options.momentum, weight_decay=options.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    start = time.perf_counter()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for batch in torch.tensor(list(sampler)).split(options.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(pictures[batch]), classes[batch]).backward()
            optimizer.step()
            schedule.step()
    return options.epochs * len(sampler) / (time.perf_counter() - start)


def accuracy_of(model):
    pictures, classes = read_split("t10k")
    model.eval()
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).sum().item() for x, y in zip(pictures.split(500), classes.split(500))]
    return sum(hits) / len(classes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    parser.add_argument("--weight-decay", type=float, required=True)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    ddp = DistributedDataParallel(resnet18_of_one_channel())
    samples_per_s = dist.get_world_size() * train(ddp, options)
    if dist.get_rank() == 0:
        print(json.dumps({"accuracy": accuracy_of(ddp.module), "samples_per_s": samples_per_s}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
