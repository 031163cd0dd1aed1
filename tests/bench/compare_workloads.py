"""What is compared: workloads, PyTorch's variants, and the bars."""
import dataclasses

RANKS = 2


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    batch: int  # per rank
    trainer_options: tuple
    peer_steps: int
    our_steps: int
    must: float  # our speed as a multiple of the peer's best
    goal: float
    has_convolutions: bool = False

    def peer_variants(self):
        variants = {"eager": (), "compile": ("--compile",)}
        if self.has_convolutions:
            variants["channels_last"] = ("--channels_last",)
            variants["channels_last+compile"] = ("--channels_last", "--compile")
        return variants


ADAM = ("--optimizer", "adam", "--lr", "1e-3")
IMAGES = ("--num-classes", "10", "--image-shape")
WORKLOADS = (
    Workload("linear", 32, ("--optimizer", "sgd", "--lr", "0.01"), 2000, 20000, 15, 40),
    Workload("mlp", 64, (*ADAM, *IMAGES, "1x28x28"), 1000, 4000, 4, 8),
    Workload("simplecnn", 16, (*ADAM, *IMAGES, "3x14x14"), 1000, 4000, 5, 15, has_convolutions=True),
    Workload("convnet", 64, (*ADAM, *IMAGES, "3x28x28"), 60, 120, 2.2, 3.5, has_convolutions=True),
)

MEMORY_MUST, MEMORY_GOAL = 1 / 3, 1 / 10  # our peak as a part of the peer's
STARTUP_MUST_MS, STARTUP_GOAL_MS = 100, 50  # `launch` typed to first step done, mlp, cache warm
