#!/usr/bin/env bash
# Measures Coroner and other brokers with the same load generator, alternating, and prints medians.
# usage: benches/side_by_side.sh [ROUNDS] [ROW...]     default 3 rounds, all rows
# rows: transient ten-queues dead-letter fixed-rate stall, and with messages of 1 KiB on disk
#   durable-quorum durable-classic durable-behind durable-fill durable-dead-letter durable-rate
# environment: SECONDS_EACH (5), CORONER_PORT (5673), RABBITMQ_PORT (5692), RABBITMQ_HTTP_PORT (10000
#   more), RABBITMQ_DIR, ARTEMIS_PORT (5694), BROKER_J_PORT (5696), OUT (a directory that keeps each
#   run's JSON), ONLY (some of 'coroner rabbitmq artemis broker-j'), LISTED_QUEUES (20000)
# RabbitMQ comes from ../shared/bench/rabbitmq-up, a RabbitMQ 4.0 in a chroot. Where that is missing
# start any RabbitMQ 4 with user guest on 127.0.0.1:$RABBITMQ_PORT, for instance
#   docker run --rm --network host -e RABBITMQ_NODE_PORT=5692 rabbitmq:4.0
# and it is used as it is. Apache ActiveMQ Artemis and Apache Qpid Broker-J come from Maven Central
# (benches/peers/start; Java 17 and Maven). Who cannot be had is left out, with the reason below the
# table.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
shift || true
rows=("$@")
[ ${#rows[@]} -gt 0 ] || rows=(transient ten-queues dead-letter fixed-rate stall
  durable-quorum durable-classic durable-behind durable-fill durable-dead-letter durable-rate)
seconds_each=${SECONDS_EACH:-5}
coroner_port=${CORONER_PORT:-5673}
rabbitmq_port=${RABBITMQ_PORT:-5692}
rabbitmq_http_port=${RABBITMQ_HTTP_PORT:-$((rabbitmq_port + 10000))}
listed_queues=${LISTED_QUEUES:-20000}
rabbitmq_dir=${RABBITMQ_DIR:-../peer-rabbitmq}
artemis_port=${ARTEMIS_PORT:-5694}
broker_j_port=${BROKER_J_PORT:-5696}
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
coroner=${CORONER:-target/dist/coroner}
[ -x "$coroner" ] || cargo build --profile dist
unset CORONER_PORT # the broker takes all of CORONER_* for settings

listens() { (echo >"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
# The process that listens on a port.
listener() { ss -ltnpH "sport = :$1" | sed -n 's/.*pid=\([0-9]*\).*/\1/p' | head -1; }

started=()
data=$(mktemp -d "$PWD/target/side-by-side-XXXXXX")
stop_all() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$data"
}
trap stop_all EXIT

# start_coroner PORT OPTION...: one broker.
start_coroner() {
  local port=$1; shift
  listens "$port" && { echo "port $port is taken; set CORONER_PORT" >&2; exit 1; }
  "$coroner" serve --amqp "127.0.0.1:$port" --http 127.0.0.1:0 "$@" >"$out/coroner-$port.log" 2>&1 &
  started+=($!)
  for _ in $(seq 50); do listens "$port" && return; sleep 0.1; done
  echo "Coroner did not come up; see $out/coroner-$port.log" >&2
  exit 1
}

start_rabbitmq() {
  listens "$rabbitmq_port" && return
  [ -x ../shared/bench/rabbitmq-up ] || return 1
  ../shared/bench/rabbitmq-up "$rabbitmq_dir" "$rabbitmq_port" >&2
  started+=("$(listener "$rabbitmq_port")")
}

# why BROKER ROW REASON: what the table says about a row that was not measured.
why() {
  echo "$1: $2: $3" >&2
  grep -qsxF "$2: $3" "$out/$1.reasons" || echo "$2: $3" >>"$out/$1.reasons"
}

# start_java NAME: Artemis or Broker-J, if it can be had here. It runs a while before it is measured.
start_java() {
  local name=$1 port log=$out/$1.log; port=$(port_of "$1" "")
  listens "$port" && { why "$name" 'all rows' "port $port is taken"; return 1; }
  benches/peers/start "$name" "$data/$name" "$port" >"$log" 2>&1 &
  local pid=$!
  started+=("$pid")
  for _ in $(seq 400); do
    kill -0 "$pid" 2>/dev/null || break
    if grep -q '^listening' "$log"; then
      bench "$name" --duration "$seconds_each" >/dev/null ||
        { why "$name" 'all rows' 'it cannot be loaded'; return 1; }
      return
    fi
    sleep 1
  done
  kill "$pid" 2>/dev/null || true
  why "$name" 'all rows' "$(tail -1 "$log")"
  return 1
}

# The broker with a data directory has the next port.
port_of() {
  case $1.$2 in
    coroner.durable*) echo $((coroner_port + 1)) ;;
    coroner.*) echo "$coroner_port" ;;
    rabbitmq.*) echo "$rabbitmq_port" ;;
    artemis.*) echo "$artemis_port" ;;
    broker-j.*) echo "$broker_j_port" ;;
  esac
}

# queues BROKER COMMAND ARGUMENT...: queues and policies over HTTP.
queues() {
  local broker=$1 command=$2 http=127.0.0.1:$rabbitmq_http_port; shift 2
  [ "$broker" = rabbitmq ] ||
    http=$(sed -n 's/^listening http //p' "$out/coroner-$coroner_port.log")
  python3 benches/queues.py "$command" "$http" "$@"
}

# Whether a broker is one of those in Java: their queues are there from the start, see
# benches/peers/start.
is_java() { [ "$1" = artemis ] || [ "$1" = broker-j ]; }

# bench BROKER OPTION...: one run against a broker, for the row $row.
bench() {
  local port queues=(); port=$(port_of "$1" "${row:-}")
  if is_java "$1"; then queues=(--no-declare --queue-address '{name}'); fi
  shift
  "$coroner" bench --url "127.0.0.1:$port" --pid "$(listener "$port")" --json "${queues[@]}" "$@"
}

# lock_holds BROKER ROW WHEN: how long each vhost was held so far; only Coroner tells.
lock_holds() {
  [ "$1" = coroner ] || return 0
  local http
  http=$(sed -n 's/^listening http .*://p' "$out/coroner-$(port_of "$1" "$2").log")
  exec 3<>"/dev/tcp/127.0.0.1/$http"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  sed -n "s/^coroner_lock_hold_seconds_bucket/$3 &/p" <&3 >>"$out/$2.holds"
  exec 3<&-
}

# measure BROKER ROW OPTION...: one run, kept.
measure() {
  local broker=$1 row=$2; shift 2
  lock_holds "$broker" "$row" before
  if ! bench "$broker" "$@" >>"$out/$broker.$row.jsonl" 2>"$out/error"; then
    why "$broker" "$row" "failed: $(tail -1 "$out/error")"
  fi
  lock_holds "$broker" "$row" after
}

# drain BROKER ROW: takes what the last run of a row left, where the queue cannot be deleted.
drain() {
  local messages
  messages=$(tail -1 "$out/$1.$2.jsonl" | sed -n 's/.*"confirmed":\([0-9]*\).*/\1/p')
  [ "${messages:-0}" = 0 ] || bench "$1" --producers 0 --messages "$messages" >/dev/null
}

# stall BROKER ROW COMMAND...: 5,000 messages a second while COMMAND runs.
stall() {
  local broker=$1 row=$2; shift 2
  measure "$broker" "stall-$row" --rate 5000 --duration 8 &
  local run=$!
  sleep 2
  "$@" >/dev/null || echo "$broker: stall-$row: the disturbance failed" >&2
  wait "$run"
}

stall_rows() {
  local broker=$1
  stall "$broker" nothing true
  bench "$broker" --queue-prefix stall- --consumers 0 --messages 2000000 --keep >/dev/null
  stall "$broker" delete-2M bench "$broker" --queue-prefix stall- --delete-only
  # A policy moves the end of 2 million messages, and then has come to it: all of them expire.
  bench "$broker" --queue-prefix stall- --consumers 0 --messages 2000000 --keep >/dev/null
  stall "$broker" policy-2M queues "$broker" policy 3600000
  stall "$broker" expire-2M queues "$broker" policy 1
  queues "$broker" no-policy
  bench "$broker" --queue-prefix stall- --delete-only
  queues "$broker" declare "$listed_queues" >/dev/null
  stall "$broker" list queues "$broker" list 6
  queues "$broker" delete "$listed_queues"
  # A session holds at most 65,535 deliveries: two consumers of one process hold the 100,000.
  bench "$broker" --queue-prefix stall- --consumers 0 --messages 100000 --keep >/dev/null
  stall "$broker" drop-100k bench "$broker" --queue-prefix stall- --producers 0 --consumers 2 \
    --credit 50000 --outcome hold --messages 100000 --use-existing
  bench "$broker" --queue-prefix stall- --delete-only
  # RabbitMQ takes at most 16 MiB unless told otherwise.
  local size=67108864
  [ "$broker" = coroner ] || size=16000000
  stall "$broker" large bench "$broker" --queue-prefix stall- --size "$size" --messages 8 --credit 1
}

wanted() { [ -z "${ONLY:-}" ] || [[ " $ONLY " = *" $1 "* ]]; }

brokers=()
if wanted coroner; then
  start_coroner "$coroner_port" --in-memory --max-message-size 128MiB
  start_coroner $((coroner_port + 1)) --data "$data"
  brokers+=(coroner)
fi
if wanted rabbitmq; then
  if start_rabbitmq; then brokers+=(rabbitmq)
  else why rabbitmq 'all rows' "nobody listens on port $rabbitmq_port: see the top of $0"; fi
fi
for broker in artemis broker-j; do
  if wanted "$broker" && start_java "$broker"; then brokers+=("$broker"); fi
done

for _ in $(seq "$rounds"); do
  for row in "${rows[@]}"; do
    for broker in "${brokers[@]}"; do
      case $broker.$row in
        artemis.stall | broker-j.stall)
          why "$broker" "$row" 'its queues are there from the start, not declared, listed or deleted'
          continue ;;
        artemis.durable-quorum | broker-j.durable-quorum)
          why "$broker" "$row" 'it has one type of durable queue: see durable-classic'
          continue ;;
      esac
      case $row in
        transient) measure "$broker" "$row" --duration "$seconds_each" ;;
        ten-queues)
          measure "$broker" "$row" --queues 10 --producers 10 --consumers 10 \
            --duration "$seconds_each" ;;
        dead-letter) measure "$broker" "$row" --dead-letter --duration "$seconds_each" ;;
        fixed-rate) measure "$broker" "$row" --rate 5000 --duration "$seconds_each" ;;
        durable-quorum | durable-classic)
          measure "$broker" "$row" --durable --size 1024 --queue-type "${row#durable-}" \
            --duration "$seconds_each" ;;
        durable-behind) # what is consumed has been written before
          measure "$broker" "$row" --durable --size 1024 --queue-type quorum --behind 10000 \
            --duration "$seconds_each" ;;
        durable-fill) # nobody consumes, so that every message is written
          measure "$broker" "$row" --durable --size 1024 --queue-type quorum --consumers 0 \
            --duration "$seconds_each"
          if is_java "$broker"; then drain "$broker" "$row"; fi ;;
        durable-dead-letter)
          measure "$broker" "$row" --durable --size 1024 --queue-type quorum --dead-letter \
            --at-least-once --duration "$seconds_each" ;;
        durable-rate)
          measure "$broker" "$row" --durable --size 1024 --queue-type quorum --rate 1000 \
            --duration "$seconds_each" ;;
        stall) stall_rows "$broker" ;;
        *) echo "no such row: $row" >&2; exit 1 ;;
      esac
    done
  done
done

python3 benches/table.py "$out"
echo "Each run: $out"
