"""The benchmark's models in PyTorch, and the data and optimizer that each is measured with."""
import torch
from torch import nn
from torch.nn import functional as F


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


class ConvNet(nn.Module):
    """Two convolutions and two linear layers for 28x28 images."""

    def __init__(self, channels=3, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, num_classes)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class SimpleCNN(nn.Module):
    """One convolution and one linear layer; `size` is the side of its square images."""

    def __init__(self, channels=3, size=14):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1)
        self.fc = nn.Linear(16 * (size // 2) ** 2, 10)

    def forward(self, x):
        return self.fc(F.max_pool2d(torch.relu(self.conv1(x)), 2).flatten(1))


class RNNClassifier(nn.Module):
    def __init__(self, vocabulary=10000, embedding=128, hidden=256, classes=10):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.rnn = nn.RNN(embedding, hidden)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        _, hidden = self.rnn(self.embedding(x.t()))
        return self.fc(hidden.squeeze(0))


class LSTMGenerator(nn.Module):
    def __init__(self, vocabulary=10000, embedding=256, hidden=512, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, vocabulary)

    def forward(self, x):
        outputs, _ = self.lstm(self.embedding(x))
        return self.fc(outputs[:, -1, :])


class TransformerLM(nn.Module):
    """Encoder and decoder."""

    def __init__(self, vocabulary=10000, width=256, heads=4, layers=2, length=64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.pos = nn.Parameter(torch.zeros(length, width))
        self.tr = nn.Transformer(width, heads, layers, layers, 4 * width, 0.0, batch_first=True)
        self.fc = nn.Linear(width, vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        embedded = self.embedding(x) + self.pos
        # Without the hint PyTorch compares masks in each step, a branch on data that splits the compiled graph.
        return self.fc(self.tr(embedded, embedded, tgt_mask=self.mask, tgt_is_causal=True))


class Block(nn.Module):
    """A layer of GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(self.ln1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2 with tied embeddings and its initialisation."""

    def __init__(self, vocabulary=65, width=128, heads=4, layers=4, length=64):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Parameter(torch.zeros(length, width))
        self.b = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0, 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.wte(x) + self.wpe[: x.shape[1]]
        for block in self.b:
            x = block(x)
        return self.head(self.ln(x))


def language_model_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def images(batch, channels, size, classes):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, channels, size, size, generator=generator),
            torch.randint(0, classes, (batch,), generator=generator))


def tokens(batch, vocabulary, length):
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(0))


def next_tokens(batch, vocabulary, length):
    x = tokens(batch, vocabulary, length)
    return x, x.roll(-1, 1)


def torchvision_model(name, classes):
    from torchvision import models
    return getattr(models, name)(num_classes=classes)


def plain_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01)


def momentum_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)


def workload(name, batch, device_type):
    """Model, (inputs, targets), loss and the maker of its optimizer."""
    adam, cross_entropy = torch.optim.Adam, nn.CrossEntropyLoss()
    if name == "linear":
        return nn.Linear(10, 1), (torch.randn(batch, 10), torch.randn(batch, 1)), nn.MSELoss(), plain_sgd
    if name == "mlp":
        return mlp(), images(batch, 1, 28, 10), cross_entropy, adam
    if name == "convnet":
        return ConvNet(3), images(batch, 3, 28, 10), cross_entropy, adam
    if name == "simplecnn":
        return SimpleCNN(3), images(batch, 3, 14, 10), cross_entropy, adam
    if name in ("resnet18", "resnet50", "mobilenet_v3_small"):
        return torchvision_model(name, 1000), images(batch, 3, 224, 1000), cross_entropy, momentum_sgd
    if name == "mobilenet_v3_small_cifar10":
        return torchvision_model("mobilenet_v3_small", 10), images(batch, 3, 32, 10), cross_entropy, adam
    if name == "rnn":
        return RNNClassifier(), (tokens(batch, 10000, 64), torch.randint(0, 10, (batch,))), cross_entropy, adam
    if name == "lstm":
        return LSTMGenerator(), (tokens(batch, 10000, 64), torch.randint(0, 10000, (batch,))), cross_entropy, adam
    if name == "transformer":
        return TransformerLM(), next_tokens(batch, 10000, 64), language_model_loss, adam
    if name == "gpt_char":
        return GPT(), next_tokens(batch, 65, 64), language_model_loss, adamw
    if name == "gpt2":
        length = 1024 if device_type == "cuda" else 256
        return (GPT(50257, 768, 12, 12, length), next_tokens(batch, 50257, length), language_model_loss, adamw)
    raise SystemExit(f"unknown workload '{name}'")
