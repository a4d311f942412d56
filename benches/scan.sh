#!/usr/bin/env bash
# What looking for three among many dead letters on disk takes, and what others notice of it.
#   benches/scan.sh [PROGRAM] [MESSAGES] [BUDGET]   default: target/dist/coroner 10000000 4MiB
# Dead letters of 100 B, pushed out of a queue by its length limit, with three among them whose body
# says so: early, in the middle, and last. They are looked for by a filtered browse and by groups, both
# going on with `next` until the end, and by a dry run of a redrive, which stops after a million
# messages or ten seconds. Meanwhile two clients make round trips, 500/s each, one with transient, one
# with durable messages; before that they do the same alone. The time of each is printed, what the
# slowest percent of the round trips took in each window of ten seconds, and how long the vhost was
# held at most. Ends with 1 if the three are not found, or if a window of transient round trips has a
# p99 of 5 ms more than alone, or one of durable ones.
# Needs curl and python3; ten million take 4 GB on the disk and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/dist/coroner}
messages=${2:-10000000}
budget=${3:-4MiB}
window_s=10
. benches/broker.sh
fill() { # fill MESSAGES
    "$program" bench --url "$amqp" --keep --durable --size 100 --consumers 0 --use-existing --queue-prefix work- \
        --messages "$1" | grep 'per second'
}
needle() { "$program" publish --url "amqp://guest:guest@$amqp" --queue work-0 --durable 'the needle' >/dev/null; }

# beside NAME: both clients for one window; the p99 of each in microseconds, in NAME.transient and NAME.durable
beside() {
    local kind pids=()
    for kind in transient durable; do
        local flag=()
        [ $kind = transient ] || flag=(--durable)
        "$program" bench --url "$amqp" --queue-prefix "beside-$kind-" --rate 500 --duration "$window_s" "${flag[@]}" \
            >"$work/$1.$kind" &
        pids+=($!)
    done
    wait "${pids[@]}"
    echo "  $1: transient $(p99 "$1.transient") us, durable $(p99 "$1.durable") us"
}
p99() { python3 - "$work/$1" <<'PYTHON'
import re, sys
print(re.search(r"latency p99, us +([0-9]+)", open(sys.argv[1]).read())[1])
PYTHON
}

# scan KIND: looks for the three; says how long it took
scan() { python3 - "http://$http" "$1" "$messages" <<'PYTHON'
import base64, json, sys, time, urllib.request
url, kind, total = sys.argv[1], sys.argv[2], int(sys.argv[3])
login = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(), "Content-Type": "application/json"}
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/api/" + path, data, login), timeout=120) as answer:
        return json.load(answer)
begun, asked, found, scanned, place = time.monotonic(), 0, 0, None, "0"
if kind == "dry-run":
    answer = ask("redrives/%2F/dry-run", {"queue": "dead", "filter": {"body_contains": "the needle"}})
    asked, found, scanned = 1, answer["matched"], answer["scanned"]
else:
    scanned = 0
    while place is not None:
        if kind == "groups":
            answer = ask("queues/%2F/dead/groups?body_contains=the%20needle&from=" + place)
            found, scanned = found + answer["matched"], scanned + answer["scanned"]
        else:
            answer = ask("queues/%2F/dead/messages?body_contains=the%20needle&count=10&from=" + place)
            found += len(answer["messages"])
        place, asked = answer["next"], asked + 1
took = time.monotonic() - begun
looked_at = total if kind == "browse" else scanned
print("%s: %d found, %d looked at, %d requests, %.1f s, %d a second"
      % (kind, found, looked_at, asked, took, looked_at / took), flush=True)
sys.exit(kind != "dry-run" and found != 3)
PYTHON
}

# holds: the counts of how long the vhost was held, by bucket
holds() { curl -fsS "http://$http/metrics" | sed -n 's/^coroner_lock_hold_seconds_bucket{.*le="\([^"]*\)"} \(.*\)$/\1 \2/p'; }
# longest BEFORE: the bucket of the longest hold since
longest() { holds | paste - "$1" | awk '{ here = $2 - $4; if (here > last) { bucket = $1; last = here } }
    END { print "the longest hold: at most " bucket " s" }'; }

serve --data "$work/data" --memory-budget "$budget" --log warn
api PUT queues/%2F/dead '{"durable":true}'
api PUT queues/%2F/work-0 '{"durable":true,"arguments":{"x-max-length":1,"x-dead-letter-exchange":"",
    "x-dead-letter-routing-key":"dead"}}'
begun=$(now_ms)
fill $((messages / 10))
needle
fill $((messages / 2 - messages / 10))
needle
fill $((messages - messages / 2 - 3))
needle
fill 1
until [ "$(waiting dead)" = "$messages" ]; do sleep 0.2; done
echo "$messages dead letters after $((($(now_ms) - begun) / 1000)) s, $(du -sm "$work/data" | cut -f1) MB on disk," \
    "$(awk '/^VmRSS/ { printf "%d", $2 / 1024 }' "/proc/$broker/status") MiB in memory"

echo "== round trips alone"
beside alone
missed=0
for kind in browse groups dry-run; do
    echo "== $kind"
    holds >"$work/before"
    touch "$work/scanning"
    { scan "$kind" >"$work/said" || echo failed >>"$work/said"; rm -f "$work/scanning"; } &
    scanner=$!
    number=0
    while [ -e "$work/scanning" ]; do
        number=$((number + 1))
        beside "$kind-$number"
        for client in transient durable; do
            [ "$(p99 "$kind-$number.$client")" -lt $(($(p99 "alone.$client") + 5000)) ] || missed=1
        done
    done
    wait "$scanner"
    longest "$work/before"
    cat "$work/said"
    ! grep -q failed "$work/said" || missed=1
done
echo "most memory: $(awk '/^VmHWM/ { printf "%d", $2 / 1024 }' "/proc/$broker/status") MiB"
exit "$missed"
