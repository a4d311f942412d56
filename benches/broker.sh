# A broker for a bench: sourced by those that start one. `program` names the binary, `work` is a
# directory that goes with the bench, `broker` the process.

work=$(mktemp -d -p "${work_in:-${TMPDIR:-/tmp}}")
broker=
trap '[ -z "$broker" ] || kill -9 "$broker" 2>/dev/null || true; rm -rf "$work"' EXIT

# serve OPTION...: starts it on free ports, sets `amqp` and `http` to where it listens
serve() {
    : >"$work/log" # what is waited for must be of this start
    "$program" serve --amqp 127.0.0.1:0 --http 127.0.0.1:0 "$@" >"$work/log" 2>&1 &
    broker=$!
    until grep -q '^listening http' "$work/log"; do
        kill -0 "$broker" || { cat "$work/log" >&2; exit 1; }
        sleep 0.02
    done
    amqp=$(sed -n 's/^listening amqp //p' "$work/log")
    http=$(sed -n 's/^listening http //p' "$work/log")
}

# end: as a power cut would
end() {
    kill -9 "$broker"
    wait "$broker" 2>/dev/null || true
    broker=
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# api METHOD PATH BODY
api() {
    curl -fsS -u guest:guest -H 'content-type: application/json' -X "$1" "http://$http/api/$2" -d "$3"
}

# waiting QUEUE: messages in it
waiting() { api GET "queues/%2F/$1" '' | sed 's/.*"messages_ready":\([0-9]*\).*/\1/'; }
