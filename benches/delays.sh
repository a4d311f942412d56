#!/usr/bin/env bash
# How late delayed messages are delivered: a million whose times come evenly over 10 s, to consumers that
# wait (latency counts from the moment a message is due).
#   benches/delays.sh [PROGRAM]     default: target/dist/coroner; half a minute
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/dist/coroner}
messages=1000000
. benches/broker.sh
serve --in-memory --memory-budget 0
bench() { "$program" bench --url "$amqp" "$@" | grep -E 'finished|latency (p50|p99|p99.9|max)'; }

echo "== $messages due evenly over 10 s: how late"
bench --delay 12000 --messages "$messages" --rate 100000
