#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# times.sh BUILD_A BUILD_B [PAIRS]: times of dfi-bench over RDMA between two virtual machines,
# of another build (A: the build folder of another commit) and of this one (B), in the order
# A B A B ..., 3 pairs by default. Prints for each row the median of B / A of the pairs, and
# of A / A of neighbours, with least and most. B differs from A if its median lies outside of
# the latter. It fails only if a run fails.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# What dfi-bench measures, and its options; both builds must have them.
rows=(
	"shuffle --api push --tuple-size 64 --no-baseline --seconds 0.5"
	"replicate --mode naive --targets 2 --api push --tuple-size 64 --no-baseline --seconds 0.5"
	"latency --tuple-size 64 --iterations 2000"
)

# ---- In a VM ---------------------------------------------------------------

registry_at() # PORT
{
	exec bin/dfi-registry --listen "tcp:$NODE_ADDRESS:$1" --key "$SHARED/key" \
		--print-address > "$SHARED/address.$1"
}

measure() # PORT ROLE ROW...
{
	DFI_REGISTRY=$(cat "$SHARED/address.$1")
	DFI_REGISTRY_KEY=$(mktemp)
	cat "$SHARED/key" > "$DFI_REGISTRY_KEY"
	export DFI_REGISTRY DFI_REGISTRY_KEY DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=60000
	bin/dfi-bench "${@:3}" --role "$2" --registry "$DFI_REGISTRY" --repeat 1 --json
}

run_in_node "$@"

# ---- On the host, beside the VMs -------------------------------------------

a=$(realpath "$1") b=$(realpath "$2") pairs=${3-3}

if [ "${4-}" != drive ]; then
	for build in "$a" "$b"; do
		for program in dfi-bench dfi-registry; do
			[ -x "$build/bin/$program" ] || {
				echo "times.sh: there is no $build/bin/$program" >&2
				exit 2
			}
		done
	done
	exec "$testbed" drive 2 --timeout 1800 -- bash "$script" "$a" "$b" "$pairs" drive
fi

# Prints what a run of a row gave.
run_row() # A|B ROW...
{
	local port=7001 target

	build=$a
	[ "$1" = A ] || { build=$b port=7002; }
	on 1 measure $port target "${@:2}" > "$SHARED/$case.target" 2>&1 &
	target=$!
	on 0 measure $port source "${@:2}" > "$SHARED/$case.source" 2> "$SHARED/$case.log" ||
		fail "the sources of $1"
	wait $target || fail "the targets of $1"
	sed -n 's/^ *"value": \([^,]*\),$/\1/p' "$SHARED/$case.source" | head -n 1
}

# Of values in the order in which they came, prints the ratios and how far they lie apart.
compare() # NAME UNIT VALUES: A and B in turns
{
	awk -v name="$1" -v unit="$2" -v values="$3" '
	function add(list, n, x) { # sorted
		for (; n > 0 && list[n] > x; n--)
			list[n + 1] = list[n]
		list[n + 1] = x
	}
	function show(list, n, half) {
		half = int((n + 1) / 2)
		return sprintf("%.3f (%.3f to %.3f)",
			(list[half] + list[n + 1 - half]) / 2, list[1], list[n])
	}
	BEGIN {
		n = split(values, v, " ")
		for (i = 1; i < n; i += 2) {
			add(a, n_a, v[i]); n_a++
			add(ba, n_ba, v[i + 1] / v[i]); n_ba++
			if (i > 1) { add(aa, n_aa, v[i] / v[i - 2]); n_aa++ }
		}
		printf "%-10s A %s %s, B / A %s, A / A %s\n", name, a[int((n_a + 1) / 2)],
			unit, show(ba, n_ba), show(aa, n_aa)
	}'
}

case=registry
(umask 077 && "$b/bin/dfi-registry" keygen "$SHARED/key")
build=$a on 0 registry_at 7001 &
build=$b on 0 registry_at 7002 &
for port in 7001 7002; do
	await "the address of a registry" 60000 test -s "$SHARED/address.$port"
done
for row in "${rows[@]}"; do
	case=${row%% *} values=
	for ((i = 0; i < pairs; i++)); do
		for which in A B; do
			# shellcheck disable=SC2086 # a row has several words
			values+=" $(run_row $which $row)"
		done
	done
	unit=$(sed -n 's/^ *"unit": "\([^"]*\)",$/\1/p' "$SHARED/$case.source" | head -n 1)
	echo "$case:$values $unit"
	compare "$case" "$unit" "$values" >> "$SHARED/table"
done
cat "$SHARED/table"
kill %1 %2 2> /dev/null || :
wait 2> /dev/null || :
