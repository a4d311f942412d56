#!/usr/bin/env bash
# What many waiting messages take: the most memory of each phase beside its budget, the start after
# kill -9 and what it reads, and that all of them come out again.
#   benches/paging.sh [PROGRAM] [BUDGET] [ROW...]   default: target/dist/coroner 4MiB, the first two
# rows:
#   backlog    a million durable messages of 1 KiB
#   spilled    a million transient messages that expire at once into a headers exchange
#   histories  a million durable dead letters of 1 KiB, each with a history of three queues
#   ten        ten million durable messages of 100 B
#   rejected, rejected-error, rejected-own    a million durable messages of 100 B that one consumer rejects:
#              without an error, with the same one, with a description of its own each
# The most memory is VmHWM of /proc/PID/status, reset before each phase; 1 MB is a million bytes. Ends
# with 1 if a budget is missed.
# Needs curl. What a start reads from the device is only seen by root, who can drop the caches.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/dist/coroner}
budget=${2:-4MiB}
shift $(($# > 2 ? 2 : $#))
rows=("$@")
[ ${#rows[@]} -gt 0 ] || rows=(backlog spilled)
. benches/broker.sh
missed=0

begin() { serve --data "$work/data" --memory-budget "$budget" --stats-interval 1s; }
bench() { "$program" bench --url "$amqp" --keep "$@" | grep 'per second'; }
# memory PHASE: the most since the last call, and what it is now
memory() {
    local most now
    most=$(megabytes VmHWM) now=$(megabytes VmRSS)
    local verdict=kept
    [ "$most" -le "$most_allowed" ] || { verdict=MISSED && missed=1; }
    echo "memory $1: at most $most MB, now $now MB (budget $most_allowed MB: $verdict)"
    echo 5 >"/proc/$broker/clear_refs"
}
megabytes() { awk -v name="$1:" '$1 == name { printf "%d", $2 * 1024 / 1000000 }' "/proc/$broker/status"; }
restart() {
    end
    { sync && echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null || true
    local begun; begun=$(now_ms)
    begin
    echo "start after kill -9: $(($(now_ms) - begun)) ms"
    grep -E 'rchar|read_bytes' "/proc/$broker/io"
    memory starting
}
# drain QUEUE MESSAGES: takes so many, and there are no more
drain() {
    bench --producers 0 --use-existing --messages "$2" --queue-prefix "${1%0}"
    memory draining
    sleep 1
    echo "left afterwards: $(waiting "$1")"
    memory "with none left"
}

backlog() { # backlog MESSAGES SIZE
    bench --durable --size "$2" --consumers 0 --messages "$1"
    memory publishing
    sleep 3
    memory waiting
    restart
    echo "there: $(waiting bench-0)"
    drain bench-0 "$1"
}

spilled() {
    api PUT exchanges/%2F/letters '{"type":"headers","durable":true}'
    api PUT queues/%2F/dead '{"durable":true}'
    api POST bindings/%2F/e/letters/q/dead '{"arguments":{"x-match":"all"}}' >/dev/null
    bench --consumers 0 --messages 1000000
    memory publishing
    sleep 2
    memory waiting
    local begun; begun=$(now_ms)
    api PUT policies/%2F/die '{"pattern":"^bench","apply-to":"queues",
        "definition":{"dead-letter-exchange":"letters","message-ttl":1}}'
    until [ "$(waiting dead)" = 1000000 ]; do sleep 0.2; done
    echo "all are dead letters after $(($(now_ms) - begun)) ms"
    memory expiring
}

histories() {
    local to=dead-0
    api PUT "queues/%2F/$to" '{"durable":true}'
    for name in third second first-0; do
        api PUT "queues/%2F/$name" "{\"durable\":true,\"arguments\":{\"x-message-ttl\":1,
            \"x-dead-letter-exchange\":\"\",\"x-dead-letter-routing-key\":\"$to\"}}"
        to=$name
    done
    bench --durable --size 1024 --consumers 0 --messages 1000000 --use-existing --queue-prefix first-
    until [ "$(waiting dead-0)" = 1000000 ]; do sleep 0.2; done
    memory publishing
    sleep 3
    memory waiting
    restart
    echo "there: $(waiting dead-0)"
    drain dead-0 1000000
}

rejected() { # rejected ERROR
    api PUT queues/%2F/dead-0 '{"durable":true}'
    api PUT queues/%2F/bench-0 '{"durable":true,"arguments":{
        "x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead-0"}}'
    bench --durable --size 100 --messages 1000000 --use-existing --outcome reject --reject-with "$1"
    memory rejecting
    sleep 3
    memory waiting
    echo "journal: $(du -sm "$work/data" | cut -f1) MB for $(waiting dead-0) dead letters"
    "$program" --url "$http" deaths dead-0 --count 1
    restart
    echo "there: $(waiting dead-0)"
    drain dead-0 1000000
}

for row in "${rows[@]}"; do
    echo "== $row, --memory-budget $budget"
    most_allowed=$([ "$budget" = 128MiB ] && echo 200 || echo 64)
    [ "$row" != ten ] || most_allowed=450
    begin
    case $row in
        backlog) backlog 1000000 1024 ;;
        ten) backlog 10000000 100 ;;
        rejected) rejected none ;;
        rejected-*) rejected "${row#rejected-}" ;;
        spilled | histories) "$row" ;;
        *) echo "no such row: $row" >&2; exit 1 ;;
    esac
    end
    rm -rf "$work/data"
done
exit "$missed"
