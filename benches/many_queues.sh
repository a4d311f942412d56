#!/usr/bin/env bash
# 100,000 queues listed by page, sorted and filtered, beside 5,000 messages a second: their latency with
# and without, how long the lock was held, and what an idle queue takes.
#   benches/many_queues.sh [PROGRAM] [QUEUES] [SECONDS]    default: target/dist/coroner 100000 10
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/dist/coroner}
queues=${2:-100000}
seconds=${3:-10}
. benches/broker.sh
serve --in-memory
many() { python3 benches/queues.py "$1" "$http" "${@:2}"; }
traffic() { "$program" bench --url "$amqp" --pid "$broker" --rate 5000 --duration "$seconds"; }

before=$(many memory)
echo "== without: 5,000/s"
traffic
echo "== $queues queues"
many declare "$queues"
echo "== 5,000/s beside $queues queues that nobody looks at"
many holds "$work/idle"
traffic
many holds "$work/idle"
after=$(many memory) # by now what the import took is given back
echo "$(((after - before) / queues)) bytes an idle queue ($((before >> 20)) MiB before, $((after >> 20)) after)"
echo "== 5,000/s while they are listed"
many holds "$work/listed"
many list "$seconds" >"$work/pages" &
listing=$!
traffic
wait "$listing"
cat "$work/pages"
many holds "$work/listed"
