#!/usr/bin/env bash
# How late messages expire into dead letters: a million whose times come evenly over 10 s and that are
# consumed at once (latency counts from the moment one is due), and a million due at the same moment
# while another client sends 5,000/s.
#   benches/expiry.sh [PROGRAM]     default: target/dist/coroner; needs curl; a minute
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/dist/coroner}
messages=1000000
ttl_ms=8000
. benches/broker.sh
serve --in-memory --memory-budget 0
bench() { "$program" bench --url "$amqp" "$@" | grep -E 'finished|latency (p50|p99|p99.9|max)'; }
dead() { waiting bench-0-dead; }

echo "== $messages due evenly over 10 s: how late"
bench --dead-letter --ttl 12000 --messages "$messages" --rate 100000

echo "== $messages due at once, and 5,000/s beside them"
due_ms=$(($(now_ms) + ttl_ms))
bench --dead-letter --ttl "$ttl_ms" --due-together --messages "$messages" --consumers 0 --keep >/dev/null
echo "waiting before: $((messages - $(dead)))"
bench --queue-prefix beside- --rate 5000 --duration 8 >"$work/beside" &
beside=$!
until [ "$(dead)" = "$messages" ]; do sleep 0.05; done
echo "all are dead letters $(($(now_ms) - due_ms)) ms after they were due"
wait "$beside"
sed 's/^/beside: /' "$work/beside"
