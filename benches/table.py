"""Medians of the runs that side_by_side.sh kept, with ratios to the other brokers and to the budgets."""

import collections
import json
import pathlib
import re
import statistics
import sys

BROKERS = ("coroner", "rabbitmq", "artemis", "broker-j")
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


def ratio(one, other, budget=None):
    if not one or not other:
        return "-"
    text = f"{one / other:.1f}"
    return f"{text} of {budget}" if budget else text


def line(cells):
    print("| " + " | ".join(cells) + " |")


def cost(kept):
    """messages a second and CPU of a message, in us"""
    return median(kept, "messages_per_second"), median(kept, "broker", "cpu_us_per_message")


def compare(brokers, rows, kept):
    """A row of the budgets in a line; what Coroner gives is in multiples of each other broker."""
    peers = [broker for broker in brokers if broker != "coroner"]
    head = ["row", "coroner: messages/s, CPU us"]
    for peer in peers:
        head += [f"{peer}: messages/s, CPU us", "rate", "CPU"]
    line(head)
    line(["---"] + ["---:"] * (len(head) - 1))
    for row in rows:
        own_rate, own_cpu = cost(kept["coroner", row])
        cells = [row, f"{figure(own_rate)}, {figure(own_cpu, 2)}" if own_rate else "-"]
        for peer in peers:
            rate, cpu = cost(kept[peer, row])
            budgets = BUDGETS.get(row, (None, None)) if peer == "rabbitmq" else (None, None)
            cells.append(f"{figure(rate)}, {figure(cpu, 2)}" if rate else "-")
            cells += [ratio(own_rate, rate, budgets[0]), ratio(cpu, own_cpu, budgets[1])]
        line(cells)


def details(brokers, rows, kept, folder):
    line(["row", "broker", "p50 us", "p99 us", "p99.9 us", "peak MiB", "lock held us, p99.99"])
    line(["---", "---"] + ["---:"] * 5)
    for row in rows:
        for broker in brokers:
            these = kept[broker, row]
            if not these:
                continue
            latencies = [figure(median(these, "latency_us", q)) for q in ("p50", "p99", "p999")]
            peak = median(these, "broker", "rss_peak_kib")
            held = figure(lock_hold_us(folder, row), 1) if broker == "coroner" else "-"
            line([row, broker, *latencies, figure(peak and peak / 1024), held])


def main():
    folder = pathlib.Path(sys.argv[1])
    names = [path.name.split(".") for path in folder.glob("*.jsonl")]
    rows = sorted({row for _, row, _ in names})
    reasons = {broker: folder / f"{broker}.reasons" for broker in BROKERS}
    measured = {broker for broker, _, _ in names}
    brokers = [name for name in BROKERS if name in measured or reasons[name].exists()]
    kept = {(broker, row): runs(folder, broker, row) for broker in BROKERS for row in rows}
    compare(brokers, rows, kept)
    print()
    details(brokers, rows, kept, folder)
    print()
    for broker in brokers:
        if reasons[broker].exists():
            for reason in reasons[broker].read_text().splitlines():
                print(f"{broker}: {reason}")


main()
