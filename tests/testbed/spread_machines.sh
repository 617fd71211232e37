#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# spread_machines.sh BUILD_DIR: rings between two virtual machines are spread over two
# soft-RoCE devices of each, which are in two IP networks: both devices of both machines
# carry segments, and all tuples come. (spread.sh tests, in one machine, what happens when a
# device is lost.)
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# ---- In a VM ---------------------------------------------------------------

second_device()
{
	ip addr add "10.88.0.$((NODE + 1))/24" dev eth1
	ip link set eth1 up
	rdma link add rxe1 type rxe netdev eth1
}

worker() # NAME ARGUMENT...
{
	use_registry
	export DFI_OPEN_TIMEOUT=60000 DFI_TRANSPORT=verbs DFI_VERBS_DEVICE=rxe0,rxe1
	record "$1" tests/proc/worker -f "$@" 2> "$SHARED/$1.log.$NODE"
}

sent() # DEVICE
{
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

run_in_node "$@"

# ---- On the host, beside two VMs -------------------------------------------

build=$(realpath "$1")
[ $# -gt 1 ] || drive 2 --nics 2 --memory 1024 --timeout 400

ends() # K PATTERN
{
	within 120000 says "$1" "$2" || fail "node $1: no '$2'"
}

case=spread
start_registry
for k in 0 1; do
	on $k second_device
done
on 1 worker $case -c 2:2 -n 20000 target:0 source:1 &
on 0 worker $case -n 20000 target:1 source:0 &
for k in 0 1; do
	ends $k "^source $k ended 0 20000"
	ends $k "^target $((1 - k)) ended 0 "
done
got=$(cat "$SHARED/$case".[01] | awk '/^target .* ended 0/ { n += $5 } END { print n }')
[ "$got" = 40000 ] || fail "$got tuples of 40000 came"
for k in 0 1; do
	for device in rxe0 rxe1; do
		n=$(on $k sent $device)
		[ "$n" -gt 20 ] || fail "$device of node $k has sent $n packets only"
		echo "node $k: $device has sent $n packets"
	done
done
kill $registry
wait || true
echo "both devices of both machines were used"
