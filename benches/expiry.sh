#!/usr/bin/env bash
# How late messages expire: a million whose times come evenly over 10 s, and a million at once while
# another client sends 5,000/s. All of them are dead letters that are consumed; latency counts from
# the moment a message is due to its arrival.
#   benches/expiry.sh [PROGRAM]     default: target/release/coroner; about a minute
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/release/coroner}
work=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker" 2>/dev/null || true; rm -rf "$work"' EXIT
"$program" serve --in-memory --memory-budget 0 --amqp 127.0.0.1:0 --http off >"$work/log" 2>&1 &
broker=$!
until grep -q '^listening amqp' "$work/log"; do sleep 0.05; done
amqp=$(sed -n 's/^listening amqp //p' "$work/log")
bench() { "$program" bench --url "$amqp" "$@" | grep -E 'finished|latency (p50|p99|p99.9|max)'; }

echo "== 1,000,000 due evenly over 10 s: how late"
bench --dead-letter --ttl 12000 --messages 1000000 --rate 100000

echo "== 1,000,000 due at once: how late, and 5,000/s beside them"
bench --dead-letter --ttl 8000 --due-together --messages 1000000 >"$work/dead" &
dying=$!
sleep 5 # they are all there by now
bench --queue-prefix beside- --rate 5000 --duration 8
wait "$dying"
sed 's/^/due at once: /' "$work/dead"
