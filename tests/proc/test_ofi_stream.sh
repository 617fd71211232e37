#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_ofi_stream.sh BIN_DIR EXAMPLES_DIR: the example stream on two hosts without RDMA, with
# an etcd of three members as its registry. A producer and a consumer are killed, a member of
# etcd as well, others are stopped until they were put out, and others come; the results are
# those of a batch query. The store is in a folder that both hosts have.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
# shellcheck source=tests/proc/hosts_help.sh
. "$(dirname "$0")/hosts_help.sh"
# shellcheck source=tests/proc/hosts_etcd_help.sh
. "$(dirname "$0")/hosts_etcd_help.sh"
bin=$(realpath "$1") examples=$(realpath "$2")
command -v sqlite3 > /dev/null || skip "sqlite3 is not installed"
etcd_check
hosts_make
cd "$tmp"

fail() # TEXT...
{
	echo "FAILED: $*"
	tail -n 20 ./*.err 2> /dev/null || true
	exit 1
}

events=24000 rate=3000
declare -A pids
start() # NAME HOST PROGRAM ARGUMENT...
{
	at "$2" "${settings[@]}" -- "$bin/$3" "${@:4}" 2>> "$1.err" &
	pids[$1]=$!
}

producer() # HOST NUMBER
{
	start "producer$2" "$1" stream produce store "$2" $rate
}

consumer() # HOST NAME
{
	start "$2" "$1" stream consume store
}

stored() # EVENTS: at least so many are in the store
{
	[ "$("$bin/stream" results store | awk -F, '{ n += $3 } END { print n + 0 }')" -ge "$1" ]
}

# Whether a consumer has a seat: yes or no.
has_seat() # NAME ANSWER
{
	local answer=no

	(at a "${settings[@]}" -- "$bin/dfi-info" flows) > seats 2>> info.err || return
	! grep -q "^  [st].*pid ${pids[$1]}), " seats || answer=yes
	[ $answer = "$2" ]
}

killed() # NAME
{
	kill -KILL "${pids[$1]}" || fail "$1 has ended by itself"
	wait "${pids[$1]}" 2> /dev/null || :
}

etcd_start
settings+=(DFI_OFI_TIMEOUT=2000)
mkdir store
for i in 0 1; do
	"$bin/stream" generate store $i $events $rate
done
consumer a first
consumer b second
within 60000 has_seat first yes
within 60000 has_seat second yes
producer a 0
producer b 1

within 60000 stored 2000
killed second
killed producer0
kill -KILL "${members[2]}"
producer a 0 # which waits until its seat is free
consumer b third
within 60000 has_seat third yes

# Until others have its partitions. Then it goes on, is told, and comes again. So does a
# producer, if it has not ended by then.
kill -STOP "${pids[first]}" "${pids[producer1]}"
within 60000 has_seat first no
within 60000 has_seat producer1 no
kill -CONT "${pids[first]}" "${pids[producer1]}"
within 60000 has_seat first yes
member_start 2

for i in 0 1; do
	wait "${pids[producer$i]}" || fail "producer $i: exit status $?"
done
stored $((2 * events)) || fail "producers ended before all events were in the store"
for name in first third; do
	kill -TERM "${pids[$name]}"
	wait "${pids[$name]}" || fail "the consumer '$name': exit status $?"
done
for name in first third; do
	grep -q 'ofi: provider tcp' $name.err || fail "the consumer '$name' has no events by TCP"
done
"$examples/stream/check" store "$bin" > verdict 2> check.err || fail "$(cat verdict)"
cat verdict
