#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# links.sh BUILD_DIR: what becomes of a flow between two virtual machines when a
# link goes down. One that is back before the queue pairs have given up loses
# nothing; one that stays down, or a device that is removed, breaks the
# connection, and both ends say which and why. One that broke while nobody used
# it is replaced.
set -euo pipefail

script=$(realpath "$0")
testbed=${script%/*}/testbed
port=7000

# The retries of a queue pair: 6 of about 537 ms.
retry_s=4

# ---- In a VM ---------------------------------------------------------------

registry()
{
	bin/dfi-registry --listen "tcp:$NODE_ADDRESS:$port" \
		--key "$SHARED/key" --print-address > "$SHARED/address.new"
}

# A link that is up again does not carry packets at once.
reach_registry()
{
	local address

	address=$(sed 's,^tcp:\(.*\):\([0-9]*\)$,/dev/tcp/\1/\2,' \
		"$SHARED/address")
	for _ in $(seq 100); do
		! (: < "$address") 2> /dev/null || return 0
		sleep 0.1
	done
}

# A worker with one endpoint; its lines and what it logs are in files.
worker() # NAME ARGUMENT...
{
	local name=$1 key

	shift
	key=$(mktemp)
	cp "$SHARED/key" "$key"
	export DFI_REGISTRY_KEY=$key DFI_OPEN_TIMEOUT=30000 DFI_TRANSPORT=verbs
	reach_registry
	tests/proc/worker -r "$(cat "$SHARED/address")" -f "$name" "$@" \
		> "$SHARED/$name.$NODE" 2> "$SHARED/$name.log.$NODE" || true
}

# Two flows, one after the other; goes on when its pipe is written to.
two_flows()
{
	local key

	key=$(mktemp)
	cp "$SHARED/key" "$key"
	export DFI_REGISTRY_KEY=$key DFI_OPEN_TIMEOUT=60000 DFI_TRANSPORT=verbs
	DFI_REGISTRY=$(cat "$SHARED/address")
	export DFI_REGISTRY DFI_LOG=info
	mkfifo /tmp/told
	tests/proc/setups "$NODE" 2 1 1 2 targets:2 0<> /tmp/told \
		> "$SHARED/idle.$NODE" 2> "$SHARED/idle.log.$NODE" || true
}

if [ "${1-}" = --node ]; then
	cd "$2"
	shift 2
	"$@"
	exit
fi

# ---- On the host, beside two VMs -------------------------------------------

fail()
{
	echo "$case: $*"
	tail -n +1 "$SHARED/$case".*
	exit 1
}

await() # WHAT SECONDS COMMAND...
{
	local what=$1 deadline=$((SECONDS + $2))

	shift 2
	until "$@"; do
		[ $SECONDS -lt $deadline ] || fail "$what: it did not come"
		sleep 0.05
	done
}

on() # K COMMAND...
{
	local k=$1

	shift
	"$testbed" run "$k" -- bash "$script" --node "$build" "$@"
}

says() # K TEXT
{
	grep -q "$2" "$SHARED/$case.$1" 2> /dev/null
}

logs() # K TEXT: how often
{
	grep -c "$2" "$SHARED/$case.log.$1" || true
}

logged() # K TEXT TIMES
{
	[ "$(logs "$1" "$2")" = "$3" ]
}

# A source on node 1 writes to a target on node 0.
start_flow() # CASE TUPLES
{
	case=$1
	on 0 worker "$case" -c 1:1 -n "$2" target:0 &
	on 1 worker "$case" -n "$2" source:0 &
	await "the source" 30 says 1 open
	await "the target" 30 says 0 open
}

short_breaks()
{
	local i n=3

	start_flow short 24000000
	for ((i = 1; i <= n; i++)); do
		"$testbed" net 1 unplug
		await "its log" 20 logged 1 "$device port 1: the link is down" $i
		"$testbed" net 1 heal
		await "its log" 20 logged 1 "$device port 1: the link is up" $i
	done
	! says 1 ended || fail "it ended before the link went"
	await "the source's end" 100 says 1 ended
	await "the target's end" 20 says 0 ended
	says 0 'target 0 ended 0 24000000' || fail "tuples are lost"
	says 1 'source 0 ended 0 24000000' || fail "the source failed"
	if ! logged 1 "$device port 1: the link is down" $n ||
		! logged 1 "$device port 1: the link is up" $n; then
		fail "not each of $n breaks was logged once"
	fi
	echo "a link that was down $n times lost nothing"
}

# Node 1 may have given up asking for node 0's address while its link was down.
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
	# Segments are under way, or credits are, or both.
	sleep $((retry_s + 2))
	"$testbed" net 1 heal
	# The registry's connection was cut, too, and waits longer and longer.
	await "the source's end" 60 says 1 'ended -104 '
	await "the target's end" 60 says 0 'ended -104 '
	cat "$SHARED/$case".[01] | grep -q \
		"ended -104 .*$here: transport retry counter exceeded" ||
		fail "nobody says why"
	await "the network" 60 network_is_back
	echo "a link that stayed down broke the connection"
}

go_on() # K
{
	"$testbed" run "$1" -- sh -c 'echo > /tmp/told'
}

# Each has a connection of its first flow when the second one begins.
idle_break()
{
	local why="$here: transport retry counter exceeded" k

	case=idle
	for k in 0 1; do
		on $k two_flows &
	done
	for k in 0 1; do
		await "the targets" 60 says $k targets:2
	done
	"$testbed" net 1 cut
	go_on 0
	await "the break" 60 grep -q "$why" "$SHARED/idle.log.0"
	! says 0 tuples || fail "it ended before the connection broke"
	"$testbed" net 1 heal
	go_on 1
	for k in 0 1; do
		await "the end" 60 says $k tuples
	done
	[ "$(cat "$SHARED/idle".[01] |
		awk -F: '/^tuples/ { n += $2 } END { print n }')" = 80 ] ||
		fail "tuples are lost"
	echo "a connection that broke while it lay idle was replaced"
}

# Last: the device does not come back.
removal()
{
	start_flow removal 2000000000
	# Waits until nobody has it open.
	"$testbed" run 1 -- rdma link delete "$device" &
	await "the source's end" 20 says 1 ended
	says 1 "ended -104 .*$here: the device was removed" ||
		fail "the source does not say why"
	await "the target's end" 20 says 0 ended
	says 0 'ended -104 ' || fail "the target did not fail"
	wait $!
	echo "a device that was removed broke the connection"
}

build=$(realpath "$1")
device=rxe0
here="$device port 1, GID [0-9]* [0-9a-f:.]*"
if [ $# -eq 1 ]; then
	exec "$testbed" drive 2 --timeout 300 -- bash "$script" "$build" inside
fi

(umask 077 && "$build/bin/dfi-registry" keygen "$SHARED/key")
case=registry
on 0 registry &
registry=$!
await "its address" 20 test -s "$SHARED/address.new"
mv "$SHARED/address.new" "$SHARED/address"
short_breaks
long_break
idle_break
removal
kill $registry
wait $registry || true
