"""How much of this machine's processors others took (what Linux calls steal): why a turn on a shared host was slow."""
import pathlib


def processor_times():
    """(stolen, all) since the machine started, in ticks of all processors."""
    first_line = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0]
    ticks = list(map(int, first_line.split()[1:9]))  # what follows, the time of guests, is in these
    return ticks[7], sum(ticks)


class StolenShares:
    """Of each turn."""

    def __init__(self):
        self.percents = []
        self.before = processor_times()

    def end_turn(self):
        now = processor_times()
        stolen, ticks = (after - before for after, before in zip(now, self.before))
        self.percents.append(100 * stolen / ticks)
        self.before = now

    def __str__(self):
        return f"{min(self.percents):.0f} to {max(self.percents):.0f} %"
