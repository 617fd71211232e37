#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# open_chaos.sh BUILD_DIR [RUNS [SEED [CELL]]]: RUNS (4) of open flows between processes on
# three virtual machines, of cells (tests/chaos/open_cells.h) whose name contains CELL.
# Members join, leave, are killed and stopped, and return. Meanwhile their machines are cut
# off the network for a moment, or for longer, or powered off and booted again. A fourth
# machine has the registry and judges. What members note lies in memory of this host that
# all machines map, so a power-off loses none of it. Totals of each cell come last, and then
# "runs: N violations: M".
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

build=$(realpath "$1")
runs=${2:-4}
seed=${3:-$(date +%s)}
cell=${4-}
program=$build/tests/chaos/open_chaos

if [ "${DFI_TESTBED-}" = "" ]; then
	exec "$testbed" drive 4 --board 32 --memory 700 --timeout $((runs * 120 + 300)) -- \
		bash "$script" "$build" "$runs" "$seed" "$cell"
fi

# ---- On the host, beside four VMs ------------------------------------------

(umask 077 && "$build/bin/dfi-registry" keygen "$SHARED/key")
export DFI_REGISTRY_KEY=$SHARED/key DFI_TRANSPORT=verbs DFI_LOG=error
"$program" host "$testbed" &
host=$!
status=0
"$testbed" run 0 --timeout $((runs * 120 + 300)) -- "$program" --machines "$NODES" \
	--runs "$runs" --seed "$seed" --cell "$cell" --wait-limit 60000 --volume 60 \
	${DFI_TEST_CHAOS_VERBOSE:+--verbose} || status=$?
kill $host
exit $status
