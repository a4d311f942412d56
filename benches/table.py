"""Medians of the runs that side_by_side.sh kept, with ratios to RabbitMQ and to the budget."""

import collections
import json
import pathlib
import re
import statistics
import sys

# Row: budget of the rate and of the CPU a message, as multiples of RabbitMQ's.
BUDGETS = {
    "transient": (15, 40),
    "ten-queues": (25, None),
    "dead-letter": (20, 60),
    "fixed-rate": (None, 4),
    "durable-quorum": (8, 20),
    "durable-classic": (8, None),
    "durable-behind": (8, 20),
    "durable-fill": (8, 20),
    "durable-dead-letter": (12, None),
}


def runs(folder, broker, row):
    path = folder / f"{broker}.{row}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def median(runs, *path):
    values = []
    for run in runs:
        for key in path:
            run = run and run[key]
        if run is not None:
            values.append(run)
    return statistics.median(values) if values else None


def lock_hold_us(folder, row):
    """What 9,999 of 10,000 holds of the core's lock did not exceed, over all runs of a row, in us."""
    path = folder / f"{row}.holds"
    if not path.exists():
        return None
    below = collections.Counter()
    for line in path.read_text().splitlines():
        when, bound, count = re.match(r'(\w+) .*le="([^"]+)"} (\d+)', line).groups()
        below[float(bound)] += int(count) * (1 if when == "after" else -1)
    holds = below[float("inf")]
    enough = (bound for bound in sorted(below) if holds and below[bound] >= 0.9999 * holds)
    return next((bound * 1e6 for bound in enough), None)


def figure(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def ratio(one, other, budget):
    if not one or not other:
        return "-"
    text = f"{one / other:.1f}"
    return f"{text} of {budget}" if budget else text


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = sorted({path.name.split(".")[1] for path in folder.glob("*.jsonl")})
    print("| row | broker | messages/s | CPU us a message | p50 us | p99 us | p99.9 us | peak MiB "
          "| lock held us, p99.99 |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        medians = {}
        for broker in ("rabbitmq", "coroner"):
            kept = runs(folder, broker, row)
            if not kept:
                continue
            rate = median(kept, "messages_per_second")
            cpu = median(kept, "broker", "cpu_us_per_message")
            peak = median(kept, "broker", "rss_peak_kib")
            medians[broker] = rate, cpu
            held = figure(lock_hold_us(folder, row), 1) if broker == "coroner" else "-"
            latencies = (figure(median(kept, "latency_us", q)) for q in ("p50", "p99", "p999"))
            print(
                f"| {row} | {broker} | {figure(rate)} | {figure(cpu, 2)} | "
                f"{' | '.join(latencies)} | {figure(peak / 1024)} | {held} |"
            )
        if len(medians) == 2:
            (rabbit_rate, rabbit_cpu), (rate, cpu) = medians["rabbitmq"], medians["coroner"]
            budget_rate, budget_cpu = BUDGETS.get(row, (None, None))
            print(
                f"| {row} | ratio | {ratio(rate, rabbit_rate, budget_rate)} | "
                f"{ratio(rabbit_cpu, cpu, budget_cpu)} | | | | | |"
            )


main()
