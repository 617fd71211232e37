#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# join.sh BUILD_DIR: the radix join across two and three virtual machines, over verbs. The
# script verifies its answers. Processes of one machine exchange tuples through shared
# memory, in the same flows. If a machine doesn't come, a process is killed or a machine is
# powered off, the others end soon and say why.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# In milliseconds: how long a machine may give no sign of life (LEASE_MS of the join), the
# retries of a queue pair, and the delay that a loaded machine may add.
lease_ms=10000
retry_ms=3300
slack_ms=15000

# ---- In a VM ---------------------------------------------------------------

# Run this machine's part. A file also gets its stderr.
part() # RUN ARGUMENT...
{
	use_registry
	unset DFI_TRANSPORT
	record "$1" bin/radix_join --run "$@" 2> "$SHARED/$1.log.$NODE"
}

run_in_node "$@"

# ---- On the host, beside three VMs -----------------------------------------

# Start a machine's part of the run, in the background.
join() # K ARGUMENT...
{
	on "$1" part "$case" "${@:2}" &
}

ends() # K STATUS MS [PATTERN]
{
	local is

	in_time "$(now_ms)" "$3" test -s "$SHARED/$case.status.$1" ||
		fail "machine $1 has not ended after $3 ms"
	is=$(status "$1")
	[ "$is" = "$2" ] || fail "machine $1 ended with $is, not $2"
	[ $# -lt 4 ] || grep -qE -- "$4" "$SHARED/$case.log.$1" ||
		fail "machine $1 doesn't say '$4'"
	echo "$case: machine $1: $(head -n 1 "$SHARED/$case.log.$1")"
}

member() # NAME
{
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" \
		"$SHARED/$case.0"
}

# Prints the packets that node K has sent over RDMA, and all packets of its network. RDMA
# within a machine does not pass the network.
packets() # K
{
	"$testbed" run "$1" -- sh -c '
		cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts \
			/sys/class/net/eth0/statistics/tx_packets' | tr '\n' ' '
}

# Check that all machines took part, that the answer is right, and that at least this share
# of the relations' bytes left machine 0, in packets of 4 KiB at most.
right() # MATCHES MACHINES MIN_BYTES
{
	local k rdma all before=$packets

	for k in $(seq 0 $(($2 - 1))); do
		ends "$k" 0 120000
	done
	[ "$(member verified)" = true ] || fail "not verified"
	[ "$(member matches)" = "$1" ] ||
		fail "$(member matches) matches, not $1"
	packets=$(packets 0)
	# shellcheck disable=SC2086
	set -- $before $packets $3
	rdma=$(($3 - $1)) all=$(($4 - $2))
	echo "$case: $rdma of $all packets of machine 0 were RDMA"
	[ $((rdma * 4096)) -ge "$5" ] || fail "fewer than $5 bytes"
	[ $rdma -le $all ] || fail "some did not leave the machine"
}

answers()
{
	packets=$(packets 0)
	case=two
	join 0 --nodes 2 --local-nodes 1 --inner 200K --outer 200K --json
	join 1 --first-node 1
	right 204800 2 $((200 * 1024 * 2 * 16 / 4))

	case=three
	join 2 --first-node 2
	join 0 --nodes 3 --local-nodes 1 --inner 100K --outer 200K --json \
		--selectivity 0.5 --zipf 0.9 --threads 2
	join 1 --first-node 1
	right 102400 3 $((300 * 1024 * 16 * 2 / 9))

	case=mixed
	join 0 --nodes 3 --local-nodes 2 --inner 200K --outer 200K --json
	join 1 --first-node 2
	right 204800 2 $((200 * 1024 * 2 * 16 * 2 / 9))
}

absent()
{
	case=absent
	join 0 --nodes 3 --local-nodes 1 --timeout 10
	join 1 --first-node 1 --timeout 15
	ends 0 1 $((10000 + slack_ms)) \
		'not all nodes came in 10 s.*target 2 of 3: nobody'
	ends 1 1 $((15000 + slack_ms)) "first process of run 'absent'.*nobody"
}

# Start a long join, wait until machine 1 has sent a part of it, and run a command there.
begin() # RUN COMMAND
{
	case=$1
	join 0 --nodes 3 --local-nodes 1 --inner 5M --outer 5M --no-verify
	join 1 --first-node 1
	join 2 --first-node 2
	"$testbed" run 1 -- sh -c '
		sent=/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
		enough=$(($(cat $sent) + 300)) i=0
		until [ "$(cat $sent)" -gt $enough ]; do
			[ $((i += 1)) -lt 6000 ] || exit 1
			sleep 0.02
		done
		'"$2" || fail "machine 1 has sent nothing"
}

killed()
{
	begin killed 'kill -KILL $(pgrep -x node-1)'
	ends 1 1 $slack_ms 'node 1 .pid [0-9]*. was killed by signal 9'
	others_end $slack_ms
}

# The first survivor names node 1; the second may name the first, which has ended.
others_end() # MS
{
	local gone='died or closed before the end|[)] broke: '

	ends 0 1 "$1" "$gone|aborted the flow"
	ends 2 1 "$1" "$gone|aborted the flow"
	grep -qE "node-1, .*($gone)" "$SHARED/$case.log".[02] ||
		fail "nobody says that node 1 is gone"
}

powered_off()
{
	begin powered-off ''
	"$testbed" kill 1
	others_end $((lease_ms + retry_ms + slack_ms))
}

build=$(realpath "$1")
[ $# -gt 1 ] || drive 3 --memory 768 --timeout 840

lateness=$SHARED/late
watch_lateness &
watch=$!
start_registry
answers
absent
killed
powered_off
kill $registry $watch
wait $registry $watch || true
echo "the joins are right, and those that can't be end"
