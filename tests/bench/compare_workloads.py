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
    model: str = ""  # ours, where it is not called as the workload
    peer: str = ""  # PyTorch's name of it in torch_models.py, likewise
    amp: str = "off"
    has_convolutions: bool = False
    is_long: bool = False  # seconds a step: few steps, and few to get warm
    memory_must: float = 1 / 3  # our peak as a part of the peer's
    memory_goal: float = 1 / 10

    @property
    def our_model(self):
        return self.model or self.name

    @property
    def peer_workload(self):
        return self.peer or self.name

    def peer_variants(self):
        """Options of torch_ddp.py by the name that the table shows."""
        variants = {"eager": (), "compile": ("--compile",), "tuned": ("--tuned",)}
        if self.has_convolutions:
            variants["channels_last"] = ("--channels_last",)
            variants["channels_last+compile"] = ("--channels_last", "--compile")
            variants["channels_last+tuned"] = ("--channels_last", "--tuned")
        if self.amp == "off":
            return variants
        inside = {f"bf16 inside, {name}": ("--bf16_inside", *options) for name, options in variants.items()
                  if "--compile" not in options}
        return {name: ("--amp", self.amp, *options) for name, options in variants.items()} | inside


ADAM = ("--optimizer", "adam", "--lr", "1e-3")
MOMENTUM = ("--optimizer", "sgd", "--lr", "0.1", "--momentum", "0.9", "--weight-decay", "1e-4")
IMAGES = ("--num-classes", "10", "--image-shape")
IMAGENET = (*MOMENTUM, "--num-classes", "1000", "--image-shape", "3x224x224")
# oneDNN 3 dropped Winograd from its convolutions on CPUs; with 2.6 resnet18 in fp32 has to reach 1.8.
WORKLOADS = (
    Workload("linear", 32, ("--optimizer", "sgd", "--lr", "0.01"), 2000, 20000, 15, 40),
    Workload("mlp", 64, (*ADAM, *IMAGES, "1x28x28"), 1000, 4000, 4, 8),
    Workload("simplecnn", 16, (*ADAM, *IMAGES, "3x14x14"), 1000, 4000, 5, 15, has_convolutions=True),
    Workload("convnet", 64, (*ADAM, *IMAGES, "3x28x28"), 60, 120, 2.2, 3.5, has_convolutions=True),
    Workload("mobilenet_v3_small_32", 64, (*ADAM, *IMAGES, "3x32x32"), 60, 150, 2.5, 4,
             model="mobilenet_v3_small", peer="mobilenet_v3_small_cifar10", has_convolutions=True, memory_must=0.6),
    Workload("resnet18", 16, IMAGENET, 6, 10, 1.8, 2.2, has_convolutions=True, is_long=True, memory_must=0.6,
             memory_goal=0.4),
    Workload("resnet18_bf16", 16, IMAGENET, 6, 10, 1.3, 1.8, model="resnet18", peer="resnet18", amp="bf16",
             has_convolutions=True, is_long=True, memory_must=0.6, memory_goal=0.4),
    Workload("resnet50", 8, IMAGENET, 5, 7, 1.3, 2, has_convolutions=True, is_long=True, memory_must=0.6,
             memory_goal=0.4),
)

STARTUP_MUST_MS, STARTUP_GOAL_MS = 100, 50  # `launch` typed to first step done, mlp, cache warm
