#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# setups.sh BUILD_DIR: flows come and go between two processes of a virtual machine, each of
# which takes the other for a process of another machine. The numbers of file descriptors,
# queue pairs and memory regions do not grow, nor does memory. A process has as many queue
# pairs as it has sources and its peers have sources that write to it, however many flows
# ran.
set -euo pipefail

script=$(realpath "$0")

# The heap may grow by this much by chance, in 900 flows.
noise_kib=256
# The number of flows that come and go between the processes.
flows=1000
[ -z "${DFI_TEST_SHORT-}" ] || flows=200

if [ "${1-}" != --inside ]; then
	unset DFI_TEST_DEVICE
	exec "${script%/*}/testbed" up 1 --cpus 1 --timeout 840 -- \
		bash "$script" --inside "$(realpath "$1")"
fi

cd "$2"
scratch=$(mktemp -d)
unset DFI_TRANSPORT
export DFI_REGISTRY_INSECURE=1
export DFI_OPEN_TIMEOUT=30000
export DFI_RING_MEMORY=1M

# Prints how many queue pairs or regions the kernel has for process K, by the threads that
# made them.
resources() # K qp|mr
{
	rdma resource show "$2" |
		awk -v threads="$(echo "/proc/${pids[$1]}/task/"*)" '
		BEGIN { n = split(threads, names, " ")
			for (i = 1; i <= n; i++) {
				sub(".*/", "", names[i]); mine[names[i]] = 1 } }
		{ for (i = 1; i < NF; i++)
			if ($i == "pid" && $(i + 1) in mine) count++ }
		END { print count + 0 }'
}

sample() # K
{
	local files=("/proc/${pids[$1]}/fd/"*)

	[ -e "${files[0]}" ] || {
		echo "process $1 is gone" >&2
		return 1
	}
	echo "${#files[@]} $(resources "$1" qp) $(resources "$1" mr)"
}

memory() # K
{
	awk '/^RssAnon/ { print $2 }' "/proc/${pids[$1]}/status"
}

# Take samples until one matches a pattern: a peer's answer may take a moment.
await() # K WHAT PATTERN
{
	local deadline=$((SECONDS + 60)) is

	while :; do
		is=$(sample "$1") || exit 1
		# shellcheck disable=SC2053 # it is a pattern
		[[ $is != $3 ]] || break
		if [ $SECONDS -ge $deadline ]; then
			echo "$2: '$is' files, queue pairs and regions, not '$3'"
			exit 1
		fi
		sleep 0.2
	done
	echo "$2: $is files, queue pairs and regions, $(memory "$1") KiB"
}

# Take samples until several in a row are the same, and print that one.
settle() # K
{
	local deadline=$((SECONDS + 60)) before='' is same=0

	while [ $same -lt 4 ]; do
		is=$(sample "$1") || return 1
		[ "$is" = "$before" ] && same=$((same + 1)) || same=0
		[ $SECONDS -lt $deadline ] || {
			echo "process $1 does not settle: $is" >&2
			return 1
		}
		before=$is
		sleep 0.2
	done
	echo "$is"
}

# Start both processes, which stop where the ARGUMENTs say. Each sees its own boot ID, as on
# two machines, so they reach each other by RDMA only.
start() # ARGUMENT...
{
	local k

	for k in 0 1; do
		rm -f "$scratch/told.$k"
		mkfifo "$scratch/told.$k"
		echo "machine $k" > "$scratch/boot.$k"
		# shellcheck disable=SC2016 # for the other shell
		unshare --mount bash -c 'mount --bind "$0" \
			/proc/sys/kernel/random/boot_id && exec "$@"' \
			"$scratch/boot.$k" tests/proc/setups $k 2 "$@" \
			0<> "$scratch/told.$k" > "$scratch/says.$k" &
		pids[k]=$!
	done
}

# Wait until both processes have stopped at that point.
held() # WHEN
{
	local k

	for k in 0 1; do
		until grep -q "^$1\$" "$scratch/says.$k"; do
			kill -0 "${pids[k]}"
			sleep 0.1
		done
	done
}

go_on()
{
	# Opened for both directions, the pipe does not wait for a process that is gone.
	echo 1<> "$scratch/told.0"
	echo 1<> "$scratch/told.1"
}

both() # WHAT PATTERN
{
	await 0 "$@"
	await 1 "$@"
}

# Wait for both processes, and check the sum of their tuples.
finish() # TUPLES
{
	go_on
	wait "${pids[0]}"
	wait "${pids[1]}"
	awk -F: -v want="$1" '/^tuples/ { n += $2 }
		END { print n " tuples of " want; exit n != want }' \
		"$scratch"/says.?
}

bin/dfi-registry --listen "tcp:$NODE_ADDRESS:0" --insecure --print-address \
	> "$scratch/address" &
registry=$!
trap 'rm -rf "$scratch"; kill $registry' EXIT
until [ -s "$scratch/address" ]; do
	kill -0 $registry
	sleep 0.1
done
DFI_REGISTRY=$(cat "$scratch/address")
export DFI_REGISTRY

# Each source of either process has a queue pair to the other process.
start 4 4 64 open:1 open:64 after:64 end:0
held open:1
both "4 sources and 4 targets" '* 8 *'
go_on
held open:64
both "the 64th such flow" '* 8 *'
go_on
held after:64
both "after it" '* 8 *'
go_on
held end:0
both "without a context" '* 0 0'
finish $((2 * 4 * 64 * 20))

start 1 1 $flows after:100 after:$flows end:0
held after:100
for k in 0 1; do
	before[k]=$(settle $k)
	before_kib[k]=$(memory $k)
	await $k "after 100 flows" "${before[k]}"
done
go_on
held after:$flows
for k in 0 1; do
	await $k "after $flows flows" "${before[k]}"
	grown=$(($(memory $k) - before_kib[k]))
	[ $grown -le $noise_kib ] || {
		echo "the memory of process $k has grown by $grown KiB"
		exit 1
	}
done
go_on
held end:0
both "without a context" '* 0 0'
finish $((2 * flows * 20))
