#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# barriers.sh BUILD_DIR: a barrier holds its two participants, one in each of two virtual
# machines; the registry is in one of them. A participant that waits learns which other
# is lost: soon after its process is killed, and within the lease after its machine is
# powered off.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# How long a process may give no sign of life.
lease_ms=4000
# The limit from a known death to its report, on a machine that is not late (lateness.sh).
slack_ms=2000

# ---- In a VM ---------------------------------------------------------------

# Participant NODE of two. It arrives at once, or never.
member() # NAME ROUNDS arrives|waits
{
	local meeting

	use_registry
	export DFI_LEASE=$lease_ms DFI_OPEN_TIMEOUT=30000
	meeting=(tests/proc/meeting "$DFI_REGISTRY" "$1" 2 "$NODE" "$2")
	case $3 in
	arrives) record "$1" "${meeting[@]}" <<< c ;;
	waits) held record "$1" "${meeting[@]}" ;;
	esac
}

run_in_node "$@"

# ---- On the host, beside the VMs -------------------------------------------

rounds_are_held()
{
	local k

	case=rounds
	on 0 member $case 20 arrives &
	on 1 member $case 20 arrives &
	for k in 0 1; do
		await "the end of member $k" 60000 test -s "$SHARED/$case.status.$k"
		echo "$case: member $k: $(grep ended "$SHARED/$case.$k")"
		says $k '^ended 0 20 '
		[ "$(status $k)" = 0 ]
	done
}

# Participant 0 waits. COMMAND ends participant 1.
lose() # CASE LIMIT_MS COMMAND...
{
	local limit=$2 begin pid k

	case=$1
	shift 2
	on 0 member "$case" 20 arrives &
	on 1 member "$case" 20 waits &
	for k in 0 1; do
		await "member $k" 60000 says $k open
	done
	pid=$(cat "$SHARED/$case.pid.1")
	"$@"
	# The host knows now when the machine has carried out the command.
	begin=$(now_ms)
	in_time "$begin" "$limit" says 0 ended ||
		fail "member 0 was not told within $limit ms"
	echo "$case: after $(($(now_ms) - begin)) ms, of which this machine was" \
		"$(late_ms "$begin") late: $(grep ended "$SHARED/$case.0")"
	says 0 "^ended -104 0 barrier '$case': participant 1 (node .*pid $pid) died"
}

build=$(realpath "$1")
[ $# -gt 1 ] || drive 2 --timeout 840

lateness=$SHARED/late
watch_lateness &
watch=$!
start_registry
rounds_are_held
lose killed $slack_ms on 1 signal killed KILL
lose off $((lease_ms + slack_ms)) "$testbed" kill 1
kill $registry $watch
wait $registry $watch || true
echo "all members were told"
