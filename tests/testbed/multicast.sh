#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# multicast.sh BUILD_DIR: replicate flows by multicast across three virtual machines, each
# with a source and a target. Each tuple arrives exactly once, in the order of its source.
# The network loses none, 1 % or 5 % of the packets that each machine sends. Some flows have
# one order for all targets, some notify of losses instead of repairing them. Then a source
# is killed, and a machine is cut off, loses power, or loses its device.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"
tuples=20000
least_order=1000 # bytes: as many tuples, or losses
segment=1000 # bytes: 62 tuples, so some thousand packets, of which some are lost
# How long a process may give no sign of life; the limit in which an emulated machine
# reports what it knows, if this machine is not late; and how long a source that closes
# waits for a target that is gone.
lease_ms=8000
slack_ms=2000
gone_ms=4000
# The limit until a target has received what a failed source had sent, on machines that may
# be late.
ends_ms=4000
# The lease where the network is idle; and how long it takes to notice that there is no
# answer.
cut_lease_ms=4000
silent_ms=6000

# ---- In a VM ---------------------------------------------------------------

# Run a worker. Files get its lines and its log.
worker() # NAME ARGUMENT...
{
	use_registry
	export DFI_OPEN_TIMEOUT=30000 DFI_LOG=info
	unset DFI_TRANSPORT
	record "$1" tests/proc/worker -f "$@" 2> "$SHARED/$1.log.$NODE"
}

run_in_node "$@"

# ---- On the host, beside the VMs -------------------------------------------

# Whether target K has recorded enough to compare.
has_order() # K
{
	local size

	size=$(stat -c %s "$SHARED/$case.order.$1" 2> /dev/null) &&
		[ "$size" -gt $least_order ]
}

# Check that the recorded orders of all targets begin alike, losses included.
same_order() # PATH TARGET...
{
	local path=$1 k size

	shift
	for k; do
		tr '\200-\217' '\000-\017' < "$path.$k" > "$path.all.$k"
	done
	for k in "${@:2}"; do
		size=$(stat -c %s "$path.all.$1" "$path.all.$k" |
			sort -n | head -n 1)
		[ "$size" -gt $least_order ] || fail "target $1 or $k has too little"
		cmp -n "$size" "$path.all.$1" "$path.all.$k" ||
			fail "targets $1 and $k had different orders"
	done
}

# Check that target K has all tuples, those included whose loss it was notified of.
has_all() # K TUPLES
{
	local got lost=0 gaps=0

	read -r got lost gaps < <(sed -n "s/^target $1 ended 0 \([0-9]*\) \(and \)*\([0-9]*\)[a-z ]*\([0-9]*\).*/\1 \3 \4/p" \
		"$SHARED/$case.$1")
	[ $((got + lost)) -eq "$2" ] || fail "target $1 has not got all"
	n_told=$((n_told + gaps))
}

# Replicate from all sources to all targets. Each target checks its tuples.
replicate() # LOSS ARGUMENT...
{
	local k n=0 n_told=0 workers=() arguments="${*:2}" orders

	case=loss-${1%\%}${arguments// /}
	orders=$SHARED/$case.order
	[ "$1" = 0% ] || "$testbed" net all loss "$1"
	on 0 worker "$case" -c 3:3 -M -g $segment -n $tuples -o "$orders" \
		"${@:2}" source:0 target:0 &
	workers+=($!)
	for k in 1 2; do
		on $k worker "$case" -n $tuples -o "$orders" \
			source:$k target:$k &
		workers+=($!)
	done
	wait "${workers[@]}"
	for k in 0 1 2; do
		says $k "source $k ended 0 $tuples" ||
			fail "source $k did not end well"
		has_all $k $((3 * tuples))
		[ "$(status $k)" = 0 ] || fail "node $k got what it should not"
		logs $k 'multicast to ' ||
			fail "node $k: that is no multicast"
	done
	[[ $arguments != *-O* ]] || same_order "$orders" 0 1 2
	if [[ $arguments = *-N* ]]; then
		[ $n_told -gt 0 ] || fail "nobody was told of a loss"
	else
		[ $n_told -eq 0 ] || fail "losses were told, not made good"
	fi
	if [ "$1" != 0% ]; then
		for k in 0 1 2; do
			n=$((n + $(on $k lost)))
		done
		[ "$n" -gt 0 ] || fail "no packet was lost"
	fi
	echo "$1 of the packets lost ($n, $n_told gaps told): all tuples came" \
		"everywhere, once and in order, with ${arguments:-no options}"
}

# Kill a source while all endpoints are busy and packets are lost. All targets receive the
# beginning of one order, and then an error that names the source.
killed_source() # ARGUMENT...
{
	local k struck arguments="$*" workers=()

	case=killed${arguments// /}
	on 0 worker "$case" -c 2:2 -M -g $segment -l $lease_ms -n 2000000000 \
		-o "$SHARED/$case.order" "$@" target:0 &
	workers+=($!)
	on 1 worker "$case" -l $lease_ms -n 2000000000 -o "$SHARED/$case.order" \
		source:0 target:1 &
	workers+=($!)
	on 2 worker "$case" -l $lease_ms -n 2000000000 source:1 &
	workers+=($!)
	for k in 0 1; do
		await "what target $k has to compare" 60000 has_order $k
	done
	await "the source that dies" 60000 says 2 'source 1 open'
	on 2 signal "$case" KILL || fail "the source has ended by itself"
	struck=$(now_ms)
	for k in 0 1; do
		must_come "target $k's end" "$struck" 20000 \
			says $k "target $k ended -"
		says $k "target $k ended -104 .*source 1 .*died" ||
			says $k "target $k ended -125 .*source 0 .*aborted" ||
			fail "target $k does not say who died"
	done
	grep -q 'ended -104 .*source 1 ' "$SHARED/$case".[01] ||
		fail "nobody names the source that died"
	echo "targets knew after at most $(($(now_ms) - struck)) ms, with" \
		"${arguments}"
	wait "${workers[@]}" || true
	! grep -qx 1 "$SHARED/$case.status".[01] ||
		fail "a target got what it should not"
	same_order "$SHARED/$case.order" 0 1
}

start_three() # ARGUMENT...
{
	local arguments="$*"

	case=power${arguments// /}
	on 0 worker "$case" -c 1:3 -M "$@" -F -g $segment -l $lease_ms \
		-n 2000000000 source:0 target:0 &
	on 1 held worker "$case" -l $lease_ms -p 1000 target:1 &
	on 2 worker "$case" -l $lease_ms target:2 &
	await "the slow target" 60000 says 1 'target 1 held 1000'
	await "the target that dies" 60000 says 2 'target 2 open'
}

must_come() # WHAT SINCE_MS LIMIT_MS COMMAND...
{
	in_time "${@:2}" ||
		fail "$1: it did not come in $3 ms, and the $(late_ms "$2") ms" \
			"that this machine was late"
}

# Check that the source fails with a reason, and that the remaining targets receive what was
# sent and then an error.
check_two_of_three() # CASE STRUCK_MS
{
	local k failed

	case=$1
	must_come "the source's failure" "$2" $((lease_ms + slack_ms)) \
		says 0 'source 0 failed -'
	failed=$(now_ms)
	says 0 'source 0 failed -104 .*target 2 .*died' ||
		fail "the source does not say who died"
	must_come "target 0's end" "$failed" $ends_ms \
		says 0 'target 0 ended -'
	on 1 go_on "$case"
	must_come "target 1's end" "$(now_ms)" $ends_ms \
		says 1 'target 1 ended -'
	must_come "the source's end" "$failed" $((gone_ms + slack_ms)) \
		says 0 'source 0 ended -104 '
	for k in 0 1; do
		says $k "target $k ended -125 .*aborted" ||
			says $k "target $k ended -104 .*source 0" ||
			fail "target $k does not say why"
		# More tuples than it had consumed when the machine died.
		says $k "target $k ended -[0-9]* [0-9]\\{4,\\} " ||
			fail "target $k has not got what was sent"
	done
	echo "$case: the source knew $((failed - $2)) ms after a machine had died," \
		"with a lease of $lease_ms ms, and the others got what was sent," \
		"and know that it is not all, $(($(now_ms) - failed)) ms later;" \
		"this machine was late by $(late_ms "$2") ms"
}

# Start a flow between two machines whose source waits for a target that is held.
start_held() # CASE COUNTS ENDS_HERE ENDS_THERE
{
	case=$1
	# shellcheck disable=SC2086 # several words
	{
		on 0 held worker "$case" -c "$2" -M -F -g $segment \
			-l $cut_lease_ms -p 1000 -n 2000000000 $3 &
		on 2 worker "$case" -F -l $cut_lease_ms -n 2000000000 $4 &
	}
	await "the slow target" 60000 says 0 'target 0 held 1000'
	await "the other machine" 60000 says 2 open
}

check_cut() # CASE STRUCK_MS WHAT
{
	case=$1
	must_come "$3 where the network is cut" "$2" \
		$((cut_lease_ms * 4 / 3 + silent_ms + slack_ms)) \
		says 2 "$3 -104 .* is lost to this process: .*answered"
	echo "$case: who was cut off knew after $(($(now_ms) - $2)) ms, with a" \
		"lease of $cut_lease_ms ms; this machine was late by" \
		"$(late_ms "$2") ms"
}

# Cut a machine off. Its processes have no connections to the other ends, so they learn of
# it only because the registry's machine doesn't answer.
cut_off()
{
	local struck name

	start_held cut-target 1:2 "source:0 target:0" target:1
	start_held cut-source 1:1 target:0 source:0
	struck=$(now_ms)
	"$testbed" net 2 cut
	check_cut cut-target "$struck" 'target 1 ended'
	check_cut cut-source "$struck" 'source 0 failed'
	for name in cut-target cut-source; do
		case=$name
		on 0 go_on $case
		must_come "target 0's end" "$(now_ms)" $slack_ms \
			says 0 'target 0 ended -'
	done
	"$testbed" net 2 heal
}

# A machine dies while sources wait for another, slow one. So the network is idle, and the
# other machines' signs of life are in time.
power_off()
{
	local struck name names=() checks=() check

	for name in "" -O; do
		# shellcheck disable=SC2086 # none, or one
		start_three $name
		names+=("$case")
	done
	struck=$(now_ms)
	"$testbed" kill 2
	for name in "${names[@]}"; do
		check_two_of_three "$name" "$struck" &
		checks+=($!)
	done
	for check in "${checks[@]}"; do
		wait "$check"
	done
}

# This comes last, as the device does not come back.
removal()
{
	case=removal
	on 0 worker $case -c 1:1 -M -g $segment -n 2000000000 target:0 &
	on 1 worker $case -n 2000000000 source:0 &
	await "the source" 60000 says 1 'source 0 open'
	# The command waits until no process has the device open.
	"$testbed" run 1 -- rdma link delete rxe0 &
	await "the source's end" 60000 says 1 'source 0 ended -'
	says 1 'source 0 ended -104 .*the device was removed' ||
		fail "the source does not say why"
	await "the target's end" 60000 says 0 'target 0 ended -'
	wait $!
	echo "a device that was removed ended the flow"
}

build=$(realpath "$1")
[ $# -gt 1 ] || drive 3 --timeout 840

lateness=$SHARED/late
watch_lateness &
watch=$!
start_registry
# The least loss and the most; the run in one order has a loss between them.
losses="0% 1% 5%"
[ -z "${DFI_TEST_SHORT-}" ] || losses="0% 5%"
for loss in $losses; do
	replicate $loss
done
replicate 1% -O
# Fewer tuples suffice where no packet is lost, or many are.
for arguments in "0% -O" "5% -O" "5% -O -N"; do
	# shellcheck disable=SC2086 # several words
	tuples=2000 replicate $arguments
done
killed_source -O -N
"$testbed" net all heal
cut_off
power_off
removal
kill $registry $watch
wait $registry $watch || true
