"""Numbers that both sides of a parity test compute for themselves (specified in README.md; C++: formula.h)."""
import numpy as np

PROJECTIONS = 8
_STREAM_STEP = np.uint64(0x9E3779B97F4A7C15)


def fnv1a(name):
    """64-bit FNV-1a of the name's UTF-8 bytes."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def words(name, count):
    """The first `count` outputs of splitmix64 seeded with the name's hash."""
    z = np.full(count, fnv1a(name), dtype=np.uint64) + np.arange(1, count + 1, dtype=np.uint64) * _STREAM_STEP
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(name, shape, scale=1.0):
    """float32 in [-scale, scale): 24 bits, so that every step but the last product is exact."""
    top = (words(name, int(np.prod(shape))) >> np.uint64(40)).astype(np.int64) - 2**23
    return (top.astype(np.float32) * np.float32(2.0**-23) * np.float32(scale)).reshape(shape)


def integers(name, shape, bound):
    """int64 in [0, bound)."""
    return ((words(name, int(np.prod(shape))) >> np.uint64(33)) % np.uint64(bound)).astype(np.int64).reshape(shape)


def digest(values):
    """Norm, sum and projections on random signs, in double: what a golden keeps of a tensor."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    top = words("projection", flat.size) >> np.uint64(56)
    projections = []
    for bit in range(PROJECTIONS):
        signs = np.where((top >> np.uint64(bit)) & np.uint64(1), 1.0, -1.0)
        projections.append(float(signs @ flat))
    return {"norm": float(np.linalg.norm(flat)), "sum": float(flat.sum()), "projections": projections}
