"""The peer of bench_loader: torchvision's ImageFolder under a DataLoader, with the training transform of its references.

    torch_loader.py make FOLDER COUNT    JPEGs of 500x375 pixels in four classes, about as large as ImageNet's
    torch_loader.py rate FOLDER TURNS    pictures per second of one core, JSON
"""
import json
import pathlib
import resource
import sys


def make(folder, count):
    import numpy
    from PIL import Image, ImageDraw
    random = numpy.random.default_rng(0)
    width, height = 500, 375
    for i in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=numpy.uint8)).resize((width, height), Image.BICUBIC)
        draw = ImageDraw.Draw(coarse)
        for _ in range(12):
            x, y, size = random.integers(0, width), random.integers(0, height), random.integers(10, 120)
            shape = draw.ellipse if random.integers(2) else draw.rectangle
            shape((int(x), int(y), int(x + size), int(y + size)), fill=tuple(map(int, random.integers(0, 256, 3))))
        noisy = numpy.asarray(coarse, dtype=numpy.int16) + random.normal(0, 10, (height, width, 1)).astype(numpy.int16)
        place = pathlib.Path(folder) / str(i % 4)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy.clip(0, 255).astype(numpy.uint8)).save(place / f"{i:05}.jpg", quality=90)


def core_seconds():
    return sum(usage.ru_utime + usage.ru_stime
               for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))


def loaders(folder):
    import torch
    from torchvision import datasets, io
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    shared = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    normalised = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    kinds = {"Pillow": (datasets.folder.default_loader, v2.Compose([*shared, v2.ToImage(), *normalised])),
             "tensors": (lambda path: io.decode_image(path, mode="RGB"), v2.Compose([*shared, *normalised]))}
    for kind, (load, transform) in kinds.items():
        pictures = datasets.ImageFolder(folder, transform=transform, loader=load)
        for workers in (0, 1):
            yield f"{kind}, {workers} workers", len(pictures), torch.utils.data.DataLoader(
                pictures, batch_size=64, shuffle=True, num_workers=workers)


def load(loader):
    for _ in loader:
        pass


def rate(folder, turns):
    result = []
    for _ in range(turns):
        rates = {}
        for name, count, loader in loaders(folder):
            load(loader)  # imports, plug-ins and first allocations: bench_loader loads an untimed epoch, too
            before = core_seconds()
            load(loader)
            rates[name] = count / (core_seconds() - before)
        result.append(rates)
    print(json.dumps(result))


if __name__ == "__main__":
    {"make": make, "rate": rate}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
