#!/usr/bin/env python3
"""tests/parity/make_picture_goldens.py > tests/unit/data/picture_goldens.txt

What torchvision makes of pictures that are known by a formula. A line each:
  resize <width> <height> <channels> <width> <height> <SHA-256 of the bytes>          Pillow's bilinear resize
  transform <width> <height> <list as for --transform> <SHA-256 of the floats, CHW>   torchvision.transforms
"""
import hashlib

import numpy
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(width, height, channels):
    y, x, c = numpy.meshgrid(range(height), range(width), range(channels), indexing="ij")
    pixels = ((x * 7 + y * 13 + c * 29 + x * y // 5 + (x * x + 3 * y) % 17 * 9) % 256).astype(numpy.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)


def resize(width, height, channels, to_width, to_height):
    result = picture(width, height, channels).resize((to_width, to_height), Image.Resampling.BILINEAR)
    print("resize", width, height, channels, to_width, to_height, hashlib.sha256(result.tobytes()).hexdigest())


def transform(width, height, name, *steps):
    floats = transforms.Compose([*steps, transforms.ToTensor()])(picture(width, height, 3))
    if "normalise" in name:
        floats = functional.normalize(floats, MEAN, DEVIATION)
    digest = hashlib.sha256(floats.contiguous().numpy().astype("<f4").tobytes()).hexdigest()
    print("transform", width, height, name, digest)


for channels in (1, 3):
    for sizes in ((40, 30, 20, 15), (37, 53, 24, 24), (500, 375, 224, 224), (17, 9, 64, 40), (100, 80, 100, 33),
                  (100, 80, 33, 80), (33, 47, 1, 1), (1, 1, 8, 8), (300, 2, 299, 3)):
        resize(*sizes[:2], channels, *sizes[2:])
transform(100, 75, "none")
transform(100, 75, "normalise=imagenet")
for width, height in ((100, 75), (75, 101), (64, 64), (41, 90)):
    transform(width, height, "resize=64,crop=56,normalise=imagenet", transforms.Resize(64), transforms.CenterCrop(56))
    transform(width, height, "crop=80x70", transforms.CenterCrop((80, 70)))
    transform(width, height, "resize=48x40", transforms.Resize((48, 40)))
