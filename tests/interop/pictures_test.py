"""A folder of JPEGs: what torchvision's ImageFolder and transforms score with a model that Lockstep trained, and `trainer eval`."""
import json
import pathlib
import tempfile
import unittest

import numpy
import torch
from PIL import Image, ImageFile
from safetensors.torch import load_file
from torchvision import datasets, models, transforms

from programs import LAUNCH, TRAINER, run_well

CLASSES = ("checks", "rings", "rows", "slopes")
RESIZE, CROP = 56, 48
# Sums of float32 in another order through 18 layers; seen: 1e-5.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
ImageFile.MAXBLOCK = 1 << 22  # a progressive JPEG of noise has more bytes than Pillow's buffer for it
NORMALISE = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def pattern(name, x, y, pitch):
    """From -1 to 1."""
    if name == "checks":
        return numpy.sin(x / pitch) * numpy.sin(y / pitch)
    if name == "rings":
        return numpy.sin(numpy.hypot(x - x.mean(), y - y.mean()) / pitch)
    return numpy.sin((y if name == "rows" else x + y) / pitch)


def picture(name, sides, random):
    """With sides in that range, of a bright and a dark colour, in noise that hides the pattern of some."""
    width, height = random.integers(*sides, 2)
    y, x = numpy.mgrid[0:height, 0:width]
    shown = pattern(name, x, y, random.uniform(0.04, 0.08) * min(width, height))
    shown = random.uniform(0.1, 1) * shown + random.normal(0, 0.3, shown.shape)
    share = (numpy.clip(shown, -1, 1)[..., None] + 1) / 2
    bright, dark = random.uniform(170, 255, 3), random.uniform(0, 85, 3)
    return Image.fromarray((share * bright + (1 - share) * dark).astype(numpy.uint8))


def write_pictures(folder, count, sides, random):
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
    for i in range(count):
        name = CLASSES[i % len(CLASSES)]
        image = picture(name, sides, random)
        if i % 11 == 0:
            image = image.convert("L")
        image.save(folder / name / f"{i:04}.jpg", quality=int(random.integers(60, 96)), progressive=i % 5 == 0,
                   subsampling=int(random.integers(0, 3)))


class Pictures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-pictures-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        random = numpy.random.default_rng(1)
        write_pictures(self.folder / "pictures" / "train", 240, (60, 110), random)
        write_pictures(self.folder / "pictures" / "val", 400, (60, 110), random)
        write_pictures(self.folder / "large", 100, (120, 500), random)

    def train(self):
        run = self.folder / "run"
        run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "--model", "resnet18", "--dataset", self.folder / "pictures",
                  "--transform", f"resize={RESIZE},crop={CROP},flip,normalise=imagenet",
                  "--eval-transform", f"resize={RESIZE},crop={CROP},normalise=imagenet", "--lr", 3e-4, "--batch-size", 8,
                  "--epochs", 8, "--eval-every", 0, "--threads", 1, "--quiet", "--run-dir", run])
        return run

    def evaluate_in_torchvision(self, run, folder):
        model = models.resnet18(num_classes=len(CLASSES))
        model.load_state_dict(load_file(run / "model.safetensors"), strict=True)
        model.eval()
        steps = [transforms.Resize(RESIZE), transforms.CenterCrop(CROP), transforms.ToTensor(), NORMALISE]
        samples = datasets.ImageFolder(folder, transforms.Compose(steps))
        with torch.no_grad():
            logits = [model(inputs) for inputs, _ in torch.utils.data.DataLoader(samples, batch_size=50)]
        return torch.cat(logits), torch.tensor(samples.targets)

    def check_logits(self, run, logits):
        ours = self.folder / "logits.safetensors"
        run_well([TRAINER, "predict", run, "--output", ours])
        torch.testing.assert_close(load_file(ours)["logits"], logits, **CLOSE)

    def check_scores(self, run, data, logits, targets):
        scores = json.loads(run_well([LAUNCH, "--nproc_per_node=2", TRAINER, "eval", run, *data]).stdout)
        accuracy = (logits.argmax(1) == targets).float().mean().item()
        self.assertEqual(scores["samples"], len(targets))
        self.assertTrue(0.4 < accuracy < 0.98, accuracy)  # neither blind nor without fault
        self.assertAlmostEqual(scores["accuracy"], accuracy, places=6)

    def test_the_same_accuracy_as_torchvisions_image_folder(self):
        run = self.train()
        logits, targets = self.evaluate_in_torchvision(run, self.folder / "pictures" / "val")
        self.check_logits(run, logits)
        self.check_scores(run, [], logits, targets)
        large = self.folder / "large"
        self.check_scores(run, ["--data-dir", large], *self.evaluate_in_torchvision(run, large))


if __name__ == "__main__":
    unittest.main()
