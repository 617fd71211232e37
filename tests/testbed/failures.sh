#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# failures.sh BUILD_DIR [ofi]: what a process sees when its peer in another virtual machine
# dies during a flow: soon an error that names the peer, and no hang. If the peer's process
# is killed, its connections close. If its machine is powered off or cut off, the survivor
# learns it from the end of the registry's lease, or from a queue pair without answers.
# Five machines boot together, and four of them die one after the other.
#
# There is no error if only the last answer of a peer is lost that has received all tuples
# and leaves; if a process is stopped for a while, which its peers log and count; or if the
# registry is killed and started again during a flow.
#
# ofi: over libfabric's TCP instead of RDMA, without the cases of queue pairs and of a stop,
# which ends connections there.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# How long a process may give no sign of life, and the retries of a queue pair: 6 of about
# 537 ms. A device may wait four times as long; soft-RoCE does not.
lease_ms=4000
retry_ms=3300
# Over libfabric: a connection is silent for as long as five quarters of this.
ofi_timeout_ms=2600
# How long it takes until a target probes, and looks at the result.
sweep_ms=1500
# The limit from a known death to its report, on a machine that is not late (lateness.sh).
slack_ms=2000
# How long a source that closes waits for a target that is gone.
gone_ms=4000
# How long it takes to notice that an address does not answer, and to begin.
silent_ms=6000

# ---- In a VM ---------------------------------------------------------------

# Run a worker. An endpoint that it holds goes on when go_on() says so.
worker() # NAME ARGUMENT...
{
	use_registry
	export DFI_OPEN_TIMEOUT=30000
	held record "$1" tests/proc/worker -f "$@"
}

# Run a worker that logs into a file and has few segments in its rings.
logging_worker() # NAME ARGUMENT...
{
	DFI_LOG=info DFI_RING_MEMORY=64K worker "$@" \
		2> "$SHARED/$1.log.$NODE"
}

# Lose this node's RDMA packets until a moment after its worker has the end. A file says
# how many milliseconds that moment took at most.
lose_answers() # NAME
{
	local deadline=$((SECONDS + 60)) before

	tc qdisc add dev eth0 root handle 1: \
		prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
	tc qdisc add dev eth0 parent 1:2 netem loss 100%
	tc filter add dev eth0 parent 1: protocol ip \
		u32 match ip dport 4791 0xffff flowid 1:2
	touch "$SHARED/$1.losing"
	before=$EPOCHREALTIME
	until grep -q ' ended ' "$SHARED/$1.$NODE"; do
		[ "$SECONDS" -lt $deadline ] || break
		sleep 0.02
		before=$EPOCHREALTIME
	done
	sleep 0.1
	tc qdisc change dev eth0 parent 1:2 netem loss 0%
	echo $(((${EPOCHREALTIME/./} - ${before/./}) / 1000)) > "$SHARED/$1.longer"
	lost > "$SHARED/$1.lost"
	tc qdisc del dev eth0 root
}

run_in_node "$@"

# ---- On the host, beside the VMs -------------------------------------------

# Check that the workers of these nodes ended well and their targets had TUPLES in all.
end_well() # TUPLES NODE...
{
	local want=$1 k

	shift
	for k; do
		await "the end" 60000 test -s "$SHARED/$case.status.$k"
		[ "$(status "$k")" = 0 ] || fail "node $k's worker failed"
		! says "$k" ' ended -' || fail "node $k did not end well"
	done
	cat "$SHARED/$case".[0-9] | awk -v want="$want" -v name="$case" '
		/^target .* ended 0 / { n += $5 }
		END { print name ": " n " tuples of " want; exit n != want }' ||
		fail "that is not the number of tuples"
}

# Run a flow between the survivor on node 0 and the victim on node $node. COMMAND ends the
# victim.
lose() # CASE SURVIVOR VICTIM READY LIMIT_MS COMMAND...
{
	local survivor=$2 victim=$3 ready=$4 limit=$5 begin pid

	case=$1
	shift 5
	# shellcheck disable=SC2086 # both are several words
	{
		on 0 worker "$case" -c 1:1 -l $lease_ms $survivor &
		on "$node" worker "$case" -l $lease_ms $victim &
	}
	await "$ready" 60000 says "$node" "$ready"
	await "open" 60000 says 0 open
	pid=$(cat "$SHARED/$case.pid.$node")
	begin=$(now_ms)
	"$@"
	# The host knows now when the machine has carried out the command.
	[[ $1 != kill_* ]] || begin=$(now_ms)
	check_told "$begin" "$limit" "$pid"
}

# Check that the survivor has ended with an error that names PID, at most LIMIT_MS after
# BEGIN.
check_told() # BEGIN LIMIT_MS PID
{
	local begin=$1 limit=$2 pid=$3 took late line

	await "the end" 60000 says 0 ended
	took=$(($(now_ms) - begin))
	late=$(late_ms "$begin")
	line=$(grep ended "$SHARED/$case.0")
	echo "$case: after $took ms, of which this machine was $late late: $line"
	[[ $line == *" ended -104 "*"pid $pid)"* ]] ||
		fail "that is not -ECONNRESET from pid $pid"
	[ $((took - late)) -le "$limit" ] || fail "that is later than $limit ms"
	# The survivor leaves soon.
	in_time "$(now_ms)" $((gone_ms + slack_ms)) \
		test -s "$SHARED/$case.status.0" || fail "it has not left"
	[ "$(status 0)" = 0 ] || fail "the survivor failed"
}

kill_worker()
{
	on "$node" signal "$case" KILL
}

# Prints the number of connected queue pairs on the victim's node.
queue_pairs()
{
	"$testbed" run "$node" -- rdma resource show qp | grep -c 'type RC' || true
}

no_queue_pairs()
{
	[ "$(queue_pairs)" = 0 ]
}

# Kill a victim that has forked. Its child lives on.
kill_parent()
{
	[ "$(queue_pairs)" -gt 0 ] || fail "there is no queue pair"
	kill_worker
}

child_holds_nothing()
{
	in_time "$(now_ms)" $slack_ms no_queue_pairs ||
		fail "queue pairs are left"
	"$testbed" run "$node" -- pgrep -x worker > /dev/null ||
		fail "the child has not lived on"
}

power_off()
{
	"$testbed" kill "$node"
}

cut_off()
{
	"$testbed" net "$node" cut
}

signal_registry() # SIGNAL
{
	"$testbed" run 0 -- pkill "-$1" -x dfi-registry
}

cut_off_without_registry()
{
	signal_registry STOP
	cut_off
}

# Reconnect the machine, and end its process, which has survived the cut.
restore()
{
	"$testbed" net "$node" heal
	[ -s "$SHARED/$case.status.$node" ] || kill_worker ||
		test -s "$SHARED/$case.status.$node" || fail "it can't be ended"
}

# A target that is cut off waits for a source. It learns that none can come when the
# registry's machine has not answered for as long as the lease.
waiting_machine_is_cut_off()
{
	local limit_ms=$((lease_ms * 4 / 3 + silent_ms + slack_ms)) begin

	case=absent-source-cut
	on "$node" worker $case -c 2:1 -l $lease_ms -n 1000 source:0 target:0 &
	await "the target" 60000 says "$node" 'target 0 open'
	await "the source" 60000 says "$node" 'source 0 ended 0'
	cut_off
	begin=$(now_ms)
	in_time "$begin" $limit_ms says "$node" 'target 0 ended' ||
		fail "the target was not told within $limit_ms ms"
	echo "$case: after $(($(now_ms) - begin)) ms, of which this machine was" \
		"$(late_ms "$begin") late: $(grep 'target 0 ended' \
			"$SHARED/$case.$node")"
	says "$node" "target 0 ended -104 .*source 1 of 2 can't attach any more" ||
		fail "the target does not say who can't attach"
	in_time "$(now_ms)" $((gone_ms + slack_ms)) \
		test -s "$SHARED/$case.status.$node" || fail "it has not left"
	restore
}

# The target has received the end and leaves, but its answer is lost. The source's device
# asks again each half second, so the target's process must stay for two seconds to answer.
# Answers soon get through again. On a busy machine they may do so after these two seconds,
# or the source's device may ask later: then the source has an error, and the caller tries
# again.
last_answer_is_lost() # CASE
{
	local losing end longer

	case=$1
	DFI_VERBS_RETRY=3000 on 0 worker "$case" -c 1:1 -n 2001 -p 2000 \
		source:0 &
	DFI_VERBS_RETRY=6000 on "$node" worker "$case" target:0 &
	await "all tuples" 60000 says 0 held
	on "$node" lose_answers "$case" &
	losing=$!
	await "the loss" 60000 test -e "$SHARED/$case.losing"
	on 0 go_on "$case"
	wait $losing || fail "node $node could not lose packets"
	longer=$(cat "$SHARED/$case.longer")
	for end in 0 "$node"; do
		await "the end" 60000 test -s "$SHARED/$case.status.$end"
		echo "$case: answers were lost for $longer ms:" \
			"$(grep ended "$SHARED/$case.$end")"
	done
	# Without a loss, the test would show nothing.
	[ "$(cat "$SHARED/$case.lost")" -gt 0 ] || fail "nothing was lost"
	says "$node" ' ended 0 2001' || fail "the target did not end well"
	says 0 ' ended 0 2001'
}

# On a busy machine, at least one of three attempts succeeds.
last_answers_are_lost()
{
	last_answer_is_lost unanswered-end ||
		last_answer_is_lost unanswered-end-2 ||
		last_answer_is_lost unanswered-end-3 ||
		fail "the source was told thrice that its target is gone"
}

# Run a flow, and stop the process of its end on the other machine for a while.
stop_peer() # CASE ROLE PEERS_ROLE
{
	case=$1
	on 0 logging_worker "$case" -c 1:1 -g 1024 -l 20000 -S -n 20000 "$2:0" &
	on "$node" logging_worker "$case" -l 20000 -n 20000 -p 25 "$3:0" &
	await "its $3" 60000 says "$node" 'held 25'
	on "$node" signal "$case" STOP
	# The end goes on once its process continues.
	on "$node" go_on "$case"
}

# Continue the stopped process. Check that the survivor has counted the stall, and logged
# once, at level info, which peer it waited for.
continue_peer() # CASE ROLE TEXT
{
	case=$1
	! says 0 ' ended ' || fail "its peer has ended"
	on "$node" signal "$case" CONT
	end_well 20000 0 "$node"
	grep ' has waited ' "$SHARED/$case.log.0" || true
	logs 0 "info: flow '$case': $2 0 has waited [0-9]* ms for $3" ||
		fail "for whom it waits is not said"
	! logs 0 'dfi: warn: ' || fail "it warns"
	logs 0 "$2 0.* goes on after \([5-9]\|[0-9][0-9]\)[0-9]\{3\} ms" ||
		fail "how long it has waited is not said"
	says 0 "$2 0 long stalls [1-9]" || fail "that is not counted"
}

# A process can't see that its peer on another machine is stopped, so it waits.
stopped_process_goes_on()
{
	stop_peer stopped-source target source
	stop_peer stopped-target source target
	# The time is part of the test: the log must have one line with these seconds.
	sleep 5
	continue_peer stopped-source target \
		"data of source 0 (node node$node, .*)$"
	continue_peer stopped-target source \
		"target 0 (node node$node, .*), which gives no segments back"
}

# Tuples pass between two machines while there is no registry. When it is back, both
# processes publish themselves again, so that the second source can attach.
registry_is_restarted()
{
	local n=20000 k

	case=registry-restarted
	on 0 logging_worker $case -c 2:1 -g 1024 -l $lease_ms -p 1000 -n $n \
		target:0 &
	on "$node" logging_worker $case -l $lease_ms -p 500 -n $n source:0 &
	await "its source" 60000 says "$node" 'held 500'
	"$testbed" run 0 -- pkill -KILL -x dfi-registry
	wait $registry || true
	for k in 0 "$node"; do
		await "the loss" 60000 logs "$k" 'registry .* is lost'
	done
	on "$node" go_on $case
	await "the tuples" 60000 says 0 'held 1000'
	start_registry
	for k in 0 "$node"; do
		await "the return" 60000 logs "$k" 'registry .* is back'
	done
	! says "$node" ' ended ' || fail "the source has ended"
	on 2 logging_worker $case -l $lease_ms -n $n source:1 &
	await "the second source" 60000 says 2 open
	on 0 go_on $case
	end_well $((2 * n)) 0 "$node" 2
}

dead_ms=$slack_ms
off_ms=$((lease_ms + retry_ms + slack_ms))

process_dies()
{
	lose killed-source "target:0" "-n 2000 -p 1000 source:0" held \
		$dead_ms kill_worker
	lose killed-target "-n 9999999 source:0" "-p 1000 target:0" held \
		$dead_ms kill_worker
}

parent_dies()
{
	lease_ms=0 lose killed-parent "target:0" \
		"-k -n 2000 -p 1000 source:0" held $dead_ms kill_parent
	child_holds_nothing
}

# Without a lease, the source learns of the cut by its connection only: writes under way,
# or the probe of a source that waits, get no answer.
target_vanishes()
{
	local lease_ms=0 limit=$((retry_ms + slack_ms))

	lose target-cut "-n 9999999 source:0" "-p 1000 target:0" held \
		$limit cut_off
	restore
	lose reading-target-cut "-n 999999999 source:0" "target:0" open \
		$limit cut_off
	restore
}

# Likewise, a target that has no credit to give learns of it by a probe only: also before
# the first segment has come, and while the registry does not answer.
source_vanishes()
{
	local lease_ms=0 limit=$((retry_ms + sweep_ms + slack_ms))

	lose source-cut "target:0" "-n 2000 -p 1000 source:0" held $limit cut_off
	restore
	lose silent-source-cut "target:0" "-n 2000 -p 0 source:0" held $limit \
		cut_off_without_registry
	signal_registry CONT
	restore
}

source_dies()
{
	lose source-off "target:0" "-n 2000 -p 1000 source:0" held \
		$off_ms power_off
}

# The source waits for the target to read.
waiting_target_dies()
{
	lose target-off "-n 9999999 source:0" "-p 1000 target:0" held \
		$off_ms power_off
}

# The source has writes under way.
reading_target_dies()
{
	lose reading-target-off "-n 999999999 source:0" "target:0" open \
		$off_ms power_off
}

# The target's machine has lost power before the source connects, and the registry doesn't
# know yet. The connecting call ends when the registry does.
attached_target_dies()
{
	local lease_ms=8000 begin

	case=target-off-before
	on "$node" worker $case -P -c 1:1 -l $lease_ms target:0 &
	await "the target" 60000 says "$node" open
	power_off
	begin=$(now_ms)
	on 0 worker $case -l $lease_ms -n 1000 source:0 &
	check_told "$begin" $((lease_ms + slack_ms)) \
		"$(cat "$SHARED/$case.pid.$node")"
}

build=$(realpath "$1")
# A machine that loses power does not return. In a short run two machines lose it: one of
# a source, and one of a target to which a source attaches.
machines=5
[ -z "${DFI_TEST_SHORT-}" ] || machines=3
if [ "${2-}" = ofi ]; then
	export DFI_TRANSPORT=ofi DFI_OFI_TIMEOUT=$ofi_timeout_ms
fi
[ "${2-}" = drive ] || drive $machines --timeout 840

lateness=$SHARED/late
watch_lateness &
watch=$!
start_registry
node=1
if [ "${DFI_TRANSPORT-}" != ofi ]; then
	last_answers_are_lost
	stopped_process_goes_on
	parent_dies
fi
registry_is_restarted
process_dies
target_vanishes
source_vanishes
waiting_machine_is_cut_off
source_dies
node=2
attached_target_dies
if [ $machines -eq 5 ]; then
	node=3
	waiting_target_dies
	node=4
	reading_target_dies
fi
kill $registry $watch
wait $registry $watch || true
echo "all survivors were told"
