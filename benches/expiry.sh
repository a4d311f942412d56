#!/usr/bin/env bash
# How late messages expire into dead letters: a million whose times come evenly over 10 s and that are
# consumed at once (latency counts from the moment one is due), and a million due at the same moment
# while another client sends 5,000/s.
#   benches/expiry.sh [PROGRAM]     default: target/release/coroner; needs curl; a minute
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/release/coroner}
messages=1000000
ttl_ms=8000
work=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill "$broker" 2>/dev/null || true; rm -rf "$work"' EXIT
: >"$work/log"
"$program" serve --in-memory --memory-budget 0 --amqp 127.0.0.1:0 --http 127.0.0.1:0 >"$work/log" 2>&1 &
broker=$!
until grep -q '^listening http' "$work/log"; do sleep 0.05; done
amqp=$(sed -n 's/^listening amqp //p' "$work/log")
http=$(sed -n 's/^listening http //p' "$work/log")
now_ms() { echo $(($(date +%s%N) / 1000000)); }
bench() { "$program" bench --url "$amqp" "$@" | grep -E 'finished|latency (p50|p99|p99.9|max)'; }
dead() {
    curl -fsS -u guest:guest "http://$http/api/queues/%2F/bench-0-dead" |
        sed 's/.*"messages_ready":\([0-9]*\).*/\1/'
}

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
