"""The memory of the peer's process, watched as Lockstep's is (runtime/output/metrics.cpp): both pay the same for it."""
import pathlib
import threading


class MemoryWatch(threading.Thread):
    """Samples this process's proportional set size, at growing intervals."""
    FIRST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 3.2

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.stopped = 0, threading.Event()
        self.start()

    def run(self):
        interval = self.FIRST_INTERVAL_S
        while not self.stopped.wait(interval):
            self.sample()
            interval = min(2 * interval, self.LONGEST_INTERVAL_S)

    def sample(self):
        self.peak = max(self.peak, proportional_set_size())

    def peak_bytes(self):
        """Also of this moment, the last."""
        self.stopped.set()
        self.join()
        self.sample()
        return self.peak


def proportional_set_size():
    """Bytes; 0 where the kernel does not tell."""
    try:
        lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
