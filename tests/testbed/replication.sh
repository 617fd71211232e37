#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# replication.sh BUILD_DIR [MBITS]: what replicate flows deliver over a link, naive and by
# multicast. Node 0 of two virtual machines sends to 1, 2, 4 and 8 targets on node 1, over a
# link of MBITS (40) million bits a second. Prints what all targets together get, in times
# of the link's rate. It fails only if a run fails.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# ---- In a VM ---------------------------------------------------------------

ends() # ROLE
{
	use_registry
	export DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=60000
	bin/dfi-bench replicate --role "$1" --mode naive,multicast --targets 1,2,4,8 \
		--api claim --wait block --tuple-size 64 --bytes 1M --repeat 3 --timeout 200 --csv
}

run_in_node "$@"

# ---- On the host, beside the VMs -------------------------------------------

build=$(realpath "${1:?BUILD_DIR}") mbits=${2-40} case=multicast
if [ "${3-}" != drive ]; then
	exec "$testbed" drive 2 --timeout 900 -- bash "$script" "$build" "$mbits" drive
fi

start_registry
"$testbed" net 0 rate "${mbits}mbit" limit 10000
on 1 ends target > "$SHARED/$case.target" 2>&1 &
target=$!
on 0 ends source > "$SHARED/rows" 2> "$SHARED/$case.log" || fail "the source"
wait $target || fail "the targets"
kill "$registry"
wait "$registry" || true
# The rate counts headers too, and payload is what rows count.
awk -F , -v rate="$mbits" '
	NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i
		printf "%9s  %7s  %15s  %14s\n", "mode", "targets", "delivered[MB/s]", "to link[times]"
		next }
	{ got = $at["delivered"] * 1000
		printf "%9s  %7s  %15.2f  %14.2f\n", $at["mode"], $at["targets"], got, got * 8 / rate }
	' "$SHARED/rows"
