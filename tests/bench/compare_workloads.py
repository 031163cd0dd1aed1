"""What is compared: workloads, PyTorch's variants, and the bars."""
import dataclasses
import itertools
import pathlib

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

    @property
    def name_in_limits(self):
        """`limits --step` takes the precision apart."""
        return self.name.removesuffix("_bf16")

    def peer_variants(self):
        """Options of torch_ddp.py by the name that the table shows: all combinations."""
        switches = (("channels_last",) if self.has_convolutions else ()) + ("compile", "tuned")
        variants = {"+".join(chosen) or "eager": tuple(f"--{switch}" for switch in chosen)
                    for count in range(len(switches) + 1) for chosen in itertools.combinations(switches, count)}
        if self.amp == "off":
            return variants
        inside = {f"bf16 inside, {name}": ("--bf16_inside", *options) for name, options in variants.items()}
        return {name: ("--amp", self.amp, *options) for name, options in variants.items()} | inside


def bar(with_amx, without):
    """Of a bf16 workload: AMX multiplies bf16 several times as fast as AVX-512 does."""
    return with_amx if " amx_bf16 " in pathlib.Path("/proc/cpuinfo").read_text() else without


ADAM = ("--optimizer", "adam", "--lr", "1e-3")
MOMENTUM = ("--optimizer", "sgd", "--lr", "0.1", "--momentum", "0.9", "--weight-decay", "1e-4")
IMAGES = ("--num-classes", "10", "--image-shape")
ADAMW = ("--optimizer", "adamw", "--lr", "1e-3")
TRANSFORMER = (*ADAM, "--model-args", "positions=learned")
GPT_CHAR = (*ADAMW, "--model-args", "n_layer=4,n_head=4,n_embd=128,block_size=64,vocab_size=65,dropout=0")
GPT2 = (*ADAMW, "--model-args", "block_size=256,dropout=0")
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
    Workload("resnet18_bf16", 16, IMAGENET, 6, 10, bar(1.7, 1.3), bar(2.5, 1.8), model="resnet18", peer="resnet18",
             amp="bf16", has_convolutions=True, is_long=True, memory_must=0.6, memory_goal=0.4),
    Workload("resnet50", 8, IMAGENET, 5, 7, 1.3, 2, has_convolutions=True, is_long=True, memory_must=0.6,
             memory_goal=0.4),
    Workload("rnn", 32, ADAM, 150, 400, 2.5, 4),
    Workload("lstm", 32, ADAM, 15, 30, 1.5, 2),
    Workload("transformer", 16, TRANSFORMER, 12, 25, 1.5, 1.9),
    Workload("gpt_char", 12, GPT_CHAR, 100, 200, 1.7, 2.4, model="gpt2"),
    Workload("gpt2", 1, GPT2, 5, 8, 1.5, 2.5, is_long=True, memory_must=0.75, memory_goal=0.5),
    Workload("rnn_bf16", 32, ADAM, 150, 400, bar(2.5, 1.5), 4, model="rnn", peer="rnn", amp="bf16"),
    Workload("lstm_bf16", 32, ADAM, 15, 30, bar(2.2, 1.5), 4, model="lstm", peer="lstm", amp="bf16"),
    Workload("transformer_bf16", 16, TRANSFORMER, 12, 25, bar(3, 1.5), 5, model="transformer", peer="transformer",
             amp="bf16"),
    Workload("gpt_char_bf16", 12, GPT_CHAR, 100, 200, bar(3.5, 1.5), 6, model="gpt2", peer="gpt_char", amp="bf16"),
    Workload("gpt2_bf16", 1, GPT2, 5, 8, bar(2.2, 1.5), 4, model="gpt2", peer="gpt2", amp="bf16", is_long=True,
             memory_must=0.75, memory_goal=0.5),
)

STARTUP_MUST_MS, STARTUP_GOAL_MS = 100, 50  # `launch` typed to first step done, mlp, cache warm
