"""From results to a table."""
import os
import pathlib
import platform
import statistics

from compare_workloads import STARTUP_GOAL_MS, STARTUP_MUST_MS


def spread(values):
    """Median and range."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def machine(versions):
    model = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    load = os.getloadavg()[0]
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "load_before": round(load, 2), **versions}


def summarise(workload, variant, trial, peers, ours):
    """One row: `peers` and `ours` are results of the same alternations."""
    memory = statistics.median(o.peak_bytes for o in ours) / statistics.median(p.peak_bytes for p in peers)
    ratio = spread([p.step_ms / o.step_ms for p, o in zip(peers, ours)])
    return {
        "workload": workload.name, "batch": workload.batch, "variant": variant, "variants_step_ms": trial,
        "peer_step_ms": spread([p.step_ms for p in peers]), "our_step_ms": spread([o.step_ms for o in ours]),
        # A median hides rare long steps; throughput does not.
        "throughput_ratio": spread([o.samples_per_s / p.samples_per_s for p, o in zip(peers, ours)]),
        # What other users of the host take slows one run or another: the fastest of each side had the least of it.
        "fastest_ratio": min(p.step_ms for p in peers) / min(o.step_ms for o in ours),
        "ratio": ratio, "must": workload.must, "goal": workload.goal, "verdict": verdict(ratio["median"], trial, workload),
        "peer_loss": peers[-1].loss, "our_loss": ours[-1].loss,
        "peer_peak_bytes": spread([p.peak_bytes for p in peers]), "our_peak_bytes": spread([o.peak_bytes for o in ours]),
        "memory_ratio": memory,
        "memory_verdict": verdict_below(memory, workload.memory_must, workload.memory_goal),
        "peer_startup_ms": spread([p.startup_ms for p in peers]),
        "our_startup_ms": spread([o.startup_ms for o in ours]),
    }


def verdict(ratio, trial, workload):
    if None in trial.values():
        return "unknown"
    if ratio >= workload.goal:
        return "goal"
    return "must" if ratio >= workload.must else "MISSED"


def verdict_below(value, must, goal):
    if value <= goal:
        return "goal"
    return "must" if value <= must else "MISSED"


def text_of(figures, form):
    return f"{figures['median']:{form}} ({figures['low']:{form}}..{figures['high']:{form}})"


def megabytes(figures):
    return f"{figures['median'] / 1e6:.0f}"


def of_the_limit(row):
    return f"{row['limit_step_ms'] / row['our_step_ms']['median']:.2f}" if "limit_step_ms" in row else "-"


def row_of(row):
    return [
        f"{row['workload']} ({row['batch']})", f"{text_of(row['peer_step_ms'], '.3f')} {row['variant']}",
        text_of(row["our_step_ms"], ".3f"), text_of(row["ratio"], ".2f"), f"{row['fastest_ratio']:.2f}",
        text_of(row["throughput_ratio"], ".2f"),
        f"{row['must']:g} ({row['goal']:g})", of_the_limit(row),
        row["verdict"], f"{row['peer_loss']:.4f} / {row['our_loss']:.4f}",
        f"{megabytes(row['peer_peak_bytes'])} / {megabytes(row['our_peak_bytes'])}",
        f"{row['memory_ratio']:.3f} {row['memory_verdict']}",
        f"{row['peer_startup_ms']['median']:.0f} / {row['our_startup_ms']['median']:.0f}",
    ]


HEADINGS = ["workload", "PyTorch step ms", "ours step ms", "ratio", "of the fastest runs", "samples/s ratio", "must (goal)", "of the limit",
            "met", "loss", "peak MB", "memory ratio", "start-up ms"]


def table(headings, rows):
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in [headings, *rows]]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def startup_line(startup):
    met = verdict_below(startup["startup_ms"]["median"], STARTUP_MUST_MS, STARTUP_GOAL_MS)
    return (f"launch typed to first step done (mlp, {startup['dataset']}, cache warm): "
            f"{text_of(startup['startup_ms'], '.0f')} ms by its own clock, must {STARTUP_MUST_MS} "
            f"({STARTUP_GOAL_MS}): {met}; typed to exit: {text_of(startup['wall_ms'], '.0f')} ms from outside")


def text(report):
    header = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    parts = [header, table(HEADINGS, [row_of(row) for row in report["workloads"]])]
    parts.append("\n".join(f"{row['workload']}: PyTorch's variants in the trial, ms: "
                           + ", ".join(f"{name} failed" if ms is None else f"{name} {ms:.3f}"
                                       for name, ms in row["variants_step_ms"].items())
                           for row in report["workloads"]))
    if report.get("startup"):
        parts.append(startup_line(report["startup"]))
    parts.append("Pairs are PyTorch / ours; step times and ratios are medians (range) over the alternations; "
                 "losses are of each side's own random data; met is unknown where a variant of PyTorch, "
                 "perhaps its fastest, failed; of the fastest runs: the least step time of "
                 "each side, for hosts that do other work; of the limit: `limits --step` (each kernel alone "
                 "at its limit, no exchange, no loader) by ours; peak MB is the highest PSS of a rank.")
    return "\n\n".join(parts)
