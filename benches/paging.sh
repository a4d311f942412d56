#!/usr/bin/env bash
# What a million waiting messages take: memory over the budget, start after kill -9, and a million
# that are spilled and expire at once into a headers exchange.
#   benches/paging.sh [PROGRAM] [BUDGET]      default: target/release/coroner 4MiB; needs curl
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/release/coroner}
budget=${2:-4MiB}
messages=1000000
work=$(mktemp -d)
broker=
trap '[ -z "$broker" ] || kill -9 "$broker" 2>/dev/null || true; rm -rf "$work"' EXIT

serve() {
    : >"$work/log" # what is waited for must be of this start
    "$program" serve --data "$work/data" --memory-budget "$budget" --amqp 127.0.0.1:0 \
        --http 127.0.0.1:0 --stats-interval 1s >"$work/log" 2>&1 &
    broker=$!
    until grep -q '^listening http' "$work/log"; do sleep 0.05; done
    amqp=$(sed -n 's/^listening amqp //p' "$work/log")
    http=$(sed -n 's/^listening http //p' "$work/log")
}
bench() { "$program" bench --url "$amqp" --keep --messages "$messages" "$@" | grep 'per second'; }
memory() { grep -E 'VmHWM|VmRSS' "/proc/$broker/status"; }
put() {
    curl -fsS -u guest:guest -H 'content-type: application/json' -X "$1" "http://$http/api/$2" -d "$3"
}

echo "== $messages durable messages of 1 KiB, budget $budget"
serve
bench --durable --size 1024 --consumers 0
sleep 3
memory
kill -9 "$broker"
wait "$broker" 2>/dev/null || true
begun=$(date +%s%N)
serve
echo "start after kill -9: $((($(date +%s%N) - begun) / 1000000)) ms"
bench --producers 0 --use-existing
memory
"$program" bench --url "$amqp" --delete-only >/dev/null

echo "== $messages transient messages expire into a headers exchange"
put PUT exchanges/%2F/letters '{"type":"headers","durable":true}'
put PUT queues/%2F/dead '{"durable":true}'
put POST bindings/%2F/e/letters/q/dead '{"arguments":{"x-match":"all"}}' >/dev/null
bench --consumers 0
sleep 2
memory
begun=$(date +%s%N)
put PUT policies/%2F/die '{"pattern":"^bench","apply-to":"queues",
    "definition":{"dead-letter-exchange":"letters","message-ttl":1}}'
until put GET queues/%2F/dead '' | grep -q "\"messages_ready\":$messages"; do sleep 0.2; done
echo "all are dead letters after $((($(date +%s%N) - begun) / 1000000)) ms"
memory
