#!/usr/bin/env bash
# Durable messages of 1 KiB on a disk whose every sync takes 5 ms: how long until `accepted` at
# 1,000/s, and how many a second at full rate, consumed at once, later, and not at all. The disk is
# memory where there is /dev/shm (about 1 GiB), so that nothing but the 5 ms counts.
#   benches/slow_disk.sh [PROGRAM]     default: target/dist/coroner; needs cc; half a minute
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-target/dist/coroner}
[ ! -w /dev/shm ] || work_in=/dev/shm
. benches/broker.sh
cat >"$work/slow.c" <<'C'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
int fdatasync(int fd) {
    int result = syscall(SYS_fdatasync, fd);
    usleep(5000);
    return result;
}
C
cc -shared -fPIC -o "$work/slow.so" "$work/slow.c"
LD_PRELOAD="$work/slow.so" serve --data "$work/data"
bench() { "$program" bench --url "$amqp" --durable --size 1024 --queue-type quorum "$@"; }

echo "== 1,000/s"
bench --rate 1000 --duration 10 | grep -E 'per second|accepted'
echo "== full rate, consumed at once"
bench --duration 3 | grep 'per second'
echo "== full rate, consumers 10,000 behind"
bench --duration 3 --behind 10000 | grep 'per second'
echo "== full rate, nobody consumes"
bench --duration 3 --consumers 0 | grep 'per second'
