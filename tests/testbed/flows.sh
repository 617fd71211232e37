#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# flows.sh BUILD_DIR [PART]: the tests of flows and of processes over verbs, in
# one virtual machine with soft-RoCE, or with DFI_TEST_DEVICE on this host's
# device. Parts, by default all in one machine:
#	threads	tests of waiting, once for each way in which a target learns of
#		segments, and stress tests of threads, on two processors
#	odd, even	half of the other tests each, on one processor: an emulated machine
#		with two spends much of its time on interrupts between them. Both
#		parts have the tests that depend on how a target learns of segments,
#		with one or two of the ways
#	above	tests of code above the transports, on one processor
set -euo pipefail

script=$(realpath "$0")

if [ "${1-}" != --inside ]; then
	build=$(realpath "$1")
	part=${2-all}
	case $part in
	all | threads) cpus=2 memory=3072 ;;
	odd | even | above) cpus=1 memory=2048 ;;
	*)
		echo "$0: there is no part '$part'" >&2
		exit 2
		;;
	esac
	exec "${script%/*}/testbed" up 1 --memory $memory --cpus $cpus \
		--timeout 840 -- bash "$script" --inside "$build" "$part"
fi

cd "$2"
part=$3
export DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=20000
# Small rings, for hundreds of flows: an emulated processor has no caches that they could use.
export DFI_RING_MEMORY=1M
status=0

# Packets of all RDMA devices, where they count them: soft-RoCE does.
packets()
{
	cat /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts \
		2> /dev/null | awk '{ n += $1 } END { print n + 0 }'
}

before=$(packets)

run() # TEST ARGUMENT...
{
	local begin=$SECONDS

	echo "== $1, DFI_VERBS_NOTIFY=$DFI_VERBS_NOTIFY"
	timeout 300 "tests/$1" -j1 "${@:2}" || status=1
	echo "== $1 took $((SECONDS - begin)) s"
}

# Each program of tests/flow is in one of these lists, or in the list of programs that
# would test nothing here.
waiting=test_polling
twice=(test_marks test_transport test_verify)
# Tests that do not depend on the way of arrival. Each half has every second one; both
# halves take about as long.
once=(test_align test_computing test_counters test_datagram_marks test_estimate test_filter test_groups test_hygiene
	test_idle test_keyed test_keyed_push test_leaving test_linger test_open test_open_combine
	test_open_groups test_open_linger test_open_order test_open_replicate test_open_sets test_order test_property test_replay test_replay_marks
	test_replay_ways test_replicate test_share test_shuffle test_sequencer test_open_calls
	test_spill)
# Tests of code above the transports. Other parts sample it: random flows in test_property,
# trees in proc/test_trees, windows in proc/test_windows; and the tests ofi.* run most of it
# over libfabric.
above=(test_api test_combine test_combine_source test_copy test_errors test_handles
	test_interrupts test_moving test_partition test_registry_tcp test_tree test_window)
declare -A without=(
	[test_barrier]="a barrier opens no endpoint, so no transport is used; see barriers.sh"
	[test_null]="arguments are checked before a transport is used"
	[test_spare]="its flows are made for shared memory, whose spares it tests"
	[test_order_marks]="its flows are for shared memory in this version"
	[test_open_shared]="its flows are made for shared memory, whose shared rings it tests"
	[test_open_breaks]="it breaks TCP connections of libfabric"
	[test_stopped]="closing needs no control thread, whatever the transport; unit/test_multicast stops it over RDMA"
)
# Its threads share one processor on every machine.
crowd=test_crowd
# It depends on the machine's huge pages, and runs last.
shadows=test_shadow_rings

for path in tests/flow/test_*; do
	test=${path##*/}
	if [ "${without[$test]-}" ]; then
		echo "== flow/$test is left out: ${without[$test]}"
	elif [[ " $waiting ${twice[*]} ${once[*]} ${above[*]} $crowd $shadows " != \
		*" $test "* ]]; then
		echo "flow/$test is in no list of $script"
		status=1
	fi
done

# The same cases as on the host, with fewer repetitions and tuples. These seeds have
# all ways of routing, both goals, lingering and checksums among them.
export DFI_TEST_SEEDS=24 DFI_TEST_GROUP_SEED=5 DFI_TEST_GROUP_SEEDS=2
export DFI_TEST_WINDOW_SEEDS=2 DFI_TEST_MARK_SEEDS=6
export DFI_TEST_TREE_SEEDS=1 DFI_TEST_DIVISOR=8
export DFI_TEST_ORDER_TUPLES=100 DFI_TEST_KILLS=2 DFI_TEST_PARTITION_SIZES=3

threads()
{
	local test ways="footer checksum"

	# A target that polls footers also polls those with checksums.
	[ -z "${DFI_TEST_SHORT-}" ] || ways=checksum
	export DFI_VERBS_NOTIFY=imm
	run flow/$waiting
	for DFI_VERBS_NOTIFY in $ways; do
		# Timeouts do not depend on the way, and take long.
		run flow/$waiting '--filter=!(group/has_timeouts)'
	done
	# Races between threads, and leaks.
	echo "== stress/stress_lifecycle"
	timeout 300 tests/stress/stress_lifecycle || status=1
	# Threads wait for each other's segments or credits: no wake-up is lost.
	DFI_VERBS_NOTIFY=auto
	for test in stress_waking stress_polling; do
		echo "== stress/$test"
		timeout 300 tests/stress/$test 300 || status=1
	done
}

# Over a network, what the library chooses for replicate flows is naive.
declare -A arguments=([flow/test_replicate]="--filter=!(chosen)/*"
	[flow/test_groups]="--filter=groups/*")
# Once more by checksummed footers, what depends on them: segments from a stage have
# theirs from elsewhere, and those without tuples have their payload as well.
declare -A footers=(
	[flow/test_replicate]="--filter=naive/@(several_*|rings_of_*|for_latency|with_*|ends_*|lingering_segments_*)"
	[flow/test_groups]="--filter=groups_naive/@(random_*|largest_*|set_*|*cursor*|*span*)")
others=(unit/test_multicast "${once[@]/#/flow/}"
	proc/test_{messages,order,processes,replicate,stalls,sequencers,trees,windows}
	"flow/$shadows" "flow/$crowd")

half() # FIRST WAY...
{
	local i test

	for DFI_VERBS_NOTIFY in "${@:2}"; do
		export DFI_VERBS_NOTIFY
		for test in "${twice[@]}"; do
			run "flow/$test"
		done
	done
	for ((i = $1; i < ${#others[@]}; i += 2)); do
		test=${others[i]}
		export DFI_VERBS_NOTIFY=auto
		run "$test" ${arguments[$test]+"${arguments[$test]}"}
		[ "${footers[$test]-}" ] || continue
		DFI_VERBS_NOTIFY=checksum run "$test" "${footers[$test]}"
	done
}

# Open replicate flows once more, by datagrams, and with processes that die.
datagrams()
{
	export DFI_VERBS_NOTIFY=auto DFI_TEST_REPLICATION=2
	run flow/test_open_replicate
	run flow/test_open_sets
	run flow/test_datagram_marks
	run proc/test_open_replicate
	unset DFI_TEST_REPLICATION
}

above()
{
	local test

	export DFI_VERBS_NOTIFY=auto
	for test in "${above[@]}"; do
		run "flow/$test"
	done
}

case $part in
all)
	threads
	half 0 footer
	half 1 imm checksum
	datagrams
	above
	;;
above) above ;;
threads) threads ;;
odd)
	half 0 footer
	datagrams
	;;
even) half 1 imm checksum ;;
esac

# Huge pages are reserved for the whole machine, so only in a VM.
if [[ $part == @(all|even) && $(hostname) == node0 ]]; then
	sysctl -qw vm.nr_hugepages=16
	run flow/$shadows
	sysctl -qw vm.nr_hugepages=0
fi

if [ "$(ls /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts \
	2> /dev/null)" ]; then
	sent=$(($(packets) - before))
	echo "$sent packets were sent"
	# Hundreds of thousands of tuples went over RDMA.
	[ $sent -gt 10000 ] || status=1
fi
exit $status
