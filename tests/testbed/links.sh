#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# links.sh BUILD_DIR: a flow between two virtual machines when a link goes down. If the link
# is back before the queue pairs give up, nothing is lost. If it stays down, or the device
# is removed, the connection breaks, and both ends say which and why. A connection that
# breaks while no flow uses it is replaced.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# The retries of a queue pair: 6 of about 537 ms.
retry_s=4

# ---- In a VM ---------------------------------------------------------------

# Wait until packets reach the registry: a link that has come up does not carry them at
# once.
reach_registry()
{
	local address

	address=$(sed 's,^tcp:\(.*\):\([0-9]*\)$,/dev/tcp/\1/\2,' \
		"$SHARED/address")
	for _ in $(seq 600); do
		! (: < "$address") 2> /dev/null || return 0
		sleep 0.1
	done
}

# Run a worker. Files get its lines and its log.
worker() # NAME ARGUMENT...
{
	use_registry
	export DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=30000
	reach_registry
	record "$1" tests/proc/worker -f "$@" 2> "$SHARED/$1.log.$NODE"
}

# Run two flows, one after the other. The second begins after go_on().
two_flows() # NAME
{
	use_registry
	export DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=60000 DFI_LOG=info
	held record "$1" tests/proc/setups "$NODE" 2 1 1 2 targets:2 \
		2> "$SHARED/$1.log.$NODE"
}

run_in_node "$@"

# ---- On the host, beside two VMs -------------------------------------------

logged() # K TEXT TIMES
{
	[ "$(grep -c "$2" "$SHARED/$case.log.$1")" = "$3" ]
}

# Start a source on node 1 that writes to a target on node 0.
start_flow() # CASE TUPLES
{
	case=$1
	on 0 worker "$case" -c 1:1 -n "$2" target:0 &
	on 1 worker "$case" -n "$2" source:0 &
	await "the source" 60000 says 1 open
	await "the target" 60000 says 0 open
}

# In a short run, the flow is shorter and the link goes down once.
short_breaks()
{
	local i n=3 tuples=24000000

	[ -z "${DFI_TEST_SHORT-}" ] || n=1 tuples=8000000
	start_flow short $tuples
	for ((i = 1; i <= n; i++)); do
		"$testbed" net 1 unplug
		await "its log" 60000 logged 1 "$device port 1: the link is down" $i
		"$testbed" net 1 heal
		await "its log" 60000 logged 1 "$device port 1: the link is up" $i
	done
	! says 1 ended || fail "it ended before the link went"
	await "the source's end" 100000 says 1 ended
	await "the target's end" 60000 says 0 ended
	says 0 "target 0 ended 0 $tuples" || fail "tuples are lost"
	says 1 "source 0 ended 0 $tuples" || fail "the source failed"
	if ! logged 1 "$device port 1: the link is down" $n ||
		! logged 1 "$device port 1: the link is up" $n; then
		fail "not each of $n breaks was logged once"
	fi
	echo "a link that was down $n times lost nothing"
}

# Whether node 1 finds node 0's address again.
network_is_back()
{
	# shellcheck disable=SC2016 # for the node's shell
	"$testbed" run 1 -- sh -c \
		'busybox ping -c 1 -W 2 "$ADDRESS_0" > /dev/null'
}

long_break()
{
	start_flow long 2000000000
	"$testbed" net 1 unplug
	# Segments or credits are under way. The link stays down for longer than the
	# device tries again.
	sleep $((retry_s + 6))
	"$testbed" net 1 heal
	# The registry's connection was also cut. Its backoff grows with each attempt.
	await "the source's end" 60000 says 1 'ended -104 '
	await "the target's end" 60000 says 0 'ended -104 '
	cat "$SHARED/$case".[01] | grep -q \
		"ended -104 .*$here: transport retry counter exceeded" ||
		fail "nobody says why"
	await "the network" 60000 network_is_back
	echo "a link that stayed down broke the connection"
}

# Both nodes have a connection of their first flow when the second one begins.
idle_break()
{
	local why="$here: transport retry counter exceeded" k

	case=idle
	for k in 0 1; do
		on $k two_flows $case &
	done
	for k in 0 1; do
		await "the targets" 60000 says $k targets:2
	done
	"$testbed" net 1 cut
	on 0 go_on $case
	await "the break" 60000 logs 0 "$why"
	! says 0 tuples || fail "it ended before the connection broke"
	"$testbed" net 1 heal
	on 1 go_on $case
	for k in 0 1; do
		await "the end" 60000 says $k tuples
	done
	[ "$(cat "$SHARED/$case".[01] |
		awk -F: '/^tuples/ { n += $2 } END { print n }')" = 80 ] ||
		fail "tuples are lost"
	echo "a connection that broke while it lay idle was replaced"
}

# This comes last, as the device does not come back.
removal()
{
	start_flow removal 2000000000
	# The command waits until no process has the device open.
	"$testbed" run 1 -- rdma link delete "$device" &
	await "the source's end" 60000 says 1 ended
	says 1 "ended -104 .*$here: the device was removed" ||
		fail "the source does not say why"
	await "the target's end" 60000 says 0 ended
	says 0 'ended -104 ' || fail "the target did not fail"
	wait $!
	echo "a device that was removed broke the connection"
}

build=$(realpath "$1")
device=rxe0
here="$device port 1, GID [0-9]* [0-9a-f:.]*"
[ $# -gt 1 ] || drive 2 --timeout 840

start_registry
short_breaks
long_break
idle_break
removal
kill $registry
wait $registry || true
