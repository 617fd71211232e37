#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# chaos.sh BUILD_DIR [RUNS [SEED]]: random flows between three virtual machines. At a
# random moment one machine is powered off, or cut from the network for good or for a
# moment, or its process is killed. Each survivor must end in time. If the network came
# back, it has all its tuples. Otherwise it has an error that follows from that loss,
# directly or through the endpoints that the loss made fail. It never ends as if all
# tuples had come. Before that, processes in one machine run over verbs (tests/chaos),
# for 4 s for each of RUNS. The last line is "runs: N violations: M". RUNS is 4 by
# default; each takes some 15 s, with its share of the boots.
#
# chaos.sh BUILD_DIR open [RUNS [SEED [CELL]]]: instead RUNS of open flows between
# processes in one machine over verbs, whose members also join, leave and return; of
# cells (tests/chaos/open_cells.h) whose name contains CELL. Totals of each come last.
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

# How long a process may give no sign of life, and the retries of a queue pair: 6 of about
# 537 ms. Three machines share a few processors: one that starts may get none for
# seconds.
lease_ms=12000
retry_ms=3300
# The limit for each of three steps: reach the registry, open, find all sources.
open_ms=10000
# The limit from a known death to its report by an emulated machine, if this machine is
# not late (watch_lateness).
slack_ms=2000
# How long a source that closes waits for a target that is gone.
gone_ms=4000
# Runs for each boot of the machines: boots cost time.
batch=5

# ---- In a VM ---------------------------------------------------------------

# A process with endpoints.
worker() # NAME ARGUMENT...
{
	use_registry
	export DFI_OPEN_TIMEOUT=$open_ms
	record "$1" tests/proc/worker -f "$@" 2> "$SHARED/$1.log.$NODE"
}

# Runs as on the host, but without multicast, which has a test of its own, and
# with fewer tuples: the machine is slow.
processes() # SECONDS SEED
{
	export DFI_TEST_CHAOS_KIND=unicast DFI_TRANSPORT=verbs
	tests/chaos/chaos --seconds "$1" --seed "$2" \
		--wait-limit 60000 --open-timeout 6000 --volume 5
}

open_processes() # RUNS SEED CELL
{
	DFI_TRANSPORT=verbs tests/chaos/open_chaos --runs "$1" --seed "$2" \
		--cell "$3" --wait-limit 60000 --volume 20
}

# For an error report: what the machine's threads wait for, and whether packets and
# interrupts still come.
look() # NAME
{
	local pid thread

	pid=$(cat "$SHARED/$1.pid.$NODE" 2> /dev/null || true)
	for thread in /proc/"${pid:-none}"/task/*; do
		[ -d "$thread" ] || continue
		echo "$(cat "$thread/comm") $(cut -d' ' -f3,14,15 "$thread/stat")"
		cat "$thread/stack"
	done
	ip neigh
	for _ in 1 2; do
		date +%T.%N
		ip -s link show eth0
		grep virtio /proc/interrupts
		grep -H . /sys/class/infiniband/*/ports/1/hw_counters/* |
			sed 's,.*/,,; /:0$/d'
		sleep 1
	done
}

run_in_node "$@"

# ---- On the host, beside three VMs -----------------------------------------

# The first violation of a run comes with everything that may explain it.
violation()
{
	local k

	echo "VIOLATION $name ($plan): $*"
	violations=$((violations + 1))
	[ "$looked" != "$name" ] || return 0
	looked=$name
	tail -n +1 "$SHARED/$name".*
	for k in 0 1 2; do
		echo "== node $k"
		timeout 30 "$testbed" run $k -- \
			bash "$script" --node "$build" look "$name" || true
	done
}

# Draws a number from 0 to N - 1 into $drawn. A subshell would lose the generator's state.
draw() # N
{
	drawn=$((RANDOM % $1))
}

# Draws endpoints for nodes 0 to 2, at least one for each.
make_topology()
{
	local i node

	draw 3
	n_sources=$((drawn + 1))
	draw 3
	n_targets=$((drawn + 1))
	ends=("" "" "")
	for ((i = 0; i < n_sources + n_targets; i++)); do
		draw 3
		node=$drawn
		[ $i -ge 2 ] || node=$(((victim + i) % 3))
		if [ $i -lt $n_sources ]; then
			ends[node]+=" source:$i"
		else
			ends[node]+=" target:$((i - n_sources))"
		fi
	done
	nodes=()
	for ((i = 0; i < 3; i++)); do
		[ -z "${ends[i]}" ] || nodes+=("$i")
	done
}

start_workers()
{
	local k create=(-P -c "$n_sources:$n_targets")

	for k in "${nodes[@]}"; do
		# shellcheck disable=SC2086 # several words
		on "$k" worker "$name" "${create[@]}" -l $lease_ms \
			-t $open_ms -F -n "$tuples" ${ends[k]} &
		create=()
	done
}

all_open()
{
	local k

	for k in "${nodes[@]}"; do
		[ "$(cat "$SHARED/$name.$k" 2> /dev/null |
			grep -cE ' (open|ended)( |$)')" -ge \
			"$(wc -w <<< "${ends[k]}")" ] || return 1
	done
}

# The endpoints that are open now.
list_open()
{
	sed -nE 's/^(source|target) ([0-9]+) open.*/ \1:\2 /p' \
		"$SHARED/$name".[0-2] | tr -d '\n'
}

# Prints what the endpoints of survivors have reported so far: how each failed or ended,
# and how many ms after the strike.
listen()
{
	local k role index what rest end

	for k in "${nodes[@]}"; do
		[ "$k" != "$lost" ] || continue
		while read -r role index what rest; do
			end=$role:$index
			case $what in
			failed) told[$end]=${told[$end]-$(($(now_ms) - struck))} ;;
			ended)
				told[$end]=${told[$end]-$(($(now_ms) - struck))}
				ended[$end]=$rest
				;;
			esac
		done < <(cat "$SHARED/$name.$k" 2> /dev/null || true)
	done
}

# A process that never reached the registry has no endpoints.
survivors_told()
{
	local k end

	listen
	for k in "${nodes[@]}"; do
		if [ "$k" = "$lost" ] || [ -s "$SHARED/$name.status.$k" ]; then
			continue
		fi
		for end in ${ends[k]}; do
			[ -n "${told[$end]-}" ] || return 1
		done
	done
}

survivors_ended()
{
	local k

	for k in "${nodes[@]}"; do
		[ "$k" = "$lost" ] || [ -s "$SHARED/$name.status.$k" ] ||
			return 1
	done
	listen
}

strike()
{
	lost=$victim
	case $kind in
	kill) on "$victim" signal "$name" KILL ;;
	off) "$testbed" kill "$victim" ;;
	cut | unplug)
		# It survives, so it must learn of the loss as well.
		lost=
		"$testbed" net "$victim" "$kind"
		;;
	blink)
		lost=
		"$testbed" net "$victim" cut
		sleep "0.$((blink_ms / 100))"
		"$testbed" net "$victim" heal
		;;
	esac
}

# Whether the strike has parted two machines, or a machine and the registry.
parts() # NODE NODE
{
	[ "$1" != "$2" ] && { [ "$1" = "$victim" ] || [ "$2" = "$victim" ]; }
}

is_cut_off() # NODE
{
	[ "$1" = "$victim" ] && [[ $kind == @(cut|unplug) ]]
}

# Puts the endpoint that a text names, and its process if given, into $named.
name_process() # TEXT
{
	local node pid

	named=
	[[ $1 =~ (source|target)\ ([0-9]+)\ \(node\ [^,]*,\ host\ node([0-9]),\ pid\ ([0-9]+)\) ]] ||
		return 1
	node=${BASH_REMATCH[3]} pid=${BASH_REMATCH[4]}
	named=${BASH_REMATCH[1]}:${BASH_REMATCH[2]}
	[ "${home[$named]-}" = "$node" ] &&
		[ "$(cat "$SHARED/$name.pid.$node")" = "$pid" ]
}

never_open() # END
{
	! grep -q "^${1/:/ } open" "$SHARED/$name.${home[$1]}" 2> /dev/null
}

# Whether the error of an endpoint follows from the strike. With the names of endpoints
# whose errors follow: whether it follows from their errors.
follows() # END EXPLAINED
{
	local end=$1 explained=" $2 " k=${home[$1]} code text other

	read -r code _ text <<< "${ended[$end]}"
	case "$code $text" in
	"-104 "*" died or closed before the end of the flow" | \
		"-104 "*": the connection with "*" broke: "*)
		name_process "$text" || return 1
		parts "$k" "${home[$named]}" ||
			[[ $explained == *" $named "* ]]
		;;
	"-125 "*" aborted the flow"*)
		# An abort may arrive before the registry has said which endpoint aborted.
		if [[ $text =~ source\ ([0-9]+)\ aborted ]]; then
			named=source:${BASH_REMATCH[1]}
		else
			name_process "$text" || return 1
		fi
		[[ $named == source:* ]] && [[ $explained == *" $named "* ]]
		;;
	"-110 "*": no answer from "* | \
		"-110 "*" did not answer the request for ring "* | \
		"-113 "*": connecting to "*UNREACHABLE* | \
		"-113 "*": connecting to "*": nobody answers to its address")
		$attaching && name_process "$text" &&
			parts "$k" "${home[$named]}"
		;;
	"-110 "*": no answer in time" | "-107 "*"registry"*)
		$attaching && is_cut_off "$k"
		;;
	"-19 "*": no usable RDMA device: "*": its port is not active"*)
		$attaching && [ "$k $kind" = "$victim unplug" ]
		;;
	"-110 "*": nobody has created it")
		$attaching && parts "$k" "${nodes[0]}"
		;;
	"-110 "*": waiting for "*": nobody has opened "*)
		$attaching || return 1
		[[ $text =~ waiting\ for\ (source|target)\ ([0-9]+)\  ]] ||
			return 1
		other=${BASH_REMATCH[1]}:${BASH_REMATCH[2]}
		# No report reaches it.
		! is_cut_off "$k" || return 0
		# It may have attached after that endpoint had gone.
		never_open "$other" || [[ $opened != *" $end "* ]] || return 1
		parts "$k" "${home[$other]}" ||
			[[ $explained == *" $other "* ]]
		;;
	*) return 1 ;;
	esac
}

# Each endpoint of a flow that was cut short has an error with a reason.
check_lost()
{
	local explained='' before=none end

	while [ "$explained" != "$before" ]; do
		before=$explained
		for end in "${!ended[@]}"; do
			[[ " $explained " != *" $end "* ]] || continue
			! follows "$end" "$explained" || explained+=" $end"
		done
	done
	for end in "${!ended[@]}"; do
		[[ " $explained " == *" $end "* ]] ||
			violation "why: $end ended ${ended[$end]}"
	done
}

# Each endpoint has its tuples.
check_whole()
{
	local got

	if cat "$SHARED/$name".[0-2] | grep -q ' ended -'; then
		violation "a network that came back was taken for lost"
	fi
	got=$(cat "$SHARED/$name".[0-2] |
		awk '/^target .* ended/ { n += $5 } END { print n + 0 }')
	[ "$got" = $((tuples * n_sources)) ] || violation "$got tuples came"
}

# A machine that is cut off before it has reached the registry has an error.
has_not_begun() # NODE
{
	is_cut_off "$1" && $attaching && [ ! -s "$SHARED/$name.$1" ] &&
		grep -q '^worker: .*registry tcp:' "$SHARED/$name.log.$1"
}

check()
{
	local k status end

	for k in "${nodes[@]}"; do
		[ "$k" != "$lost" ] || continue
		status=$(cat "$SHARED/$name.status.$k" 2> /dev/null || true)
		if [ "$status" = 1 ] && has_not_begun "$k"; then
			continue
		fi
		[ "$status" = 0 ] ||
			violation "node $k: exit status '$status'"
		for end in ${ends[k]}; do
			[ -n "${ended[$end]-}" ] ||
				violation "$end did not end"
		done
	done
	if [ "$kind" = blink ]; then
		check_whole
	else
		check_lost
	fi
}

# The limits until all have learned of the strike, and then until all have left.
set_limits()
{
	told_limit=$slack_ms
	left_limit=$((gone_ms + slack_ms))
	case $kind in
	blink) told_limit=120000 ;;
	kill) ;;
	*) told_limit=$((told_limit + lease_ms + retry_ms)) ;;
	esac
	# No process can know that one that was attaching will never come.
	! $attaching || told_limit=$((told_limit + 2 * open_ms))
	# A machine that is cut off waits twice for the registry, which does not
	# answer: when it begins, and when it leaves.
	if [[ $kind == @(cut|unplug) ]]; then
		! $attaching || told_limit=$((told_limit + open_ms))
		left_limit=$((left_limit + open_ms))
	fi
}

# Prints the survivors' reports and their times.
report()
{
	local end when=

	for end in "${!told[@]}"; do
		when+=" $end ${told[$end]}"
	done
	echo "$plan$($attaching && echo ', attaching'): told after ms:$when;" \
		"left: $(($(now_ms) - struck)), this machine late: $(late_ms "$struck")"
}

run_once() # NUMBER KIND
{
	local struck left told_limit left_limit opened attaching=false k end
	local -A home=() told=() ended=()

	name=chaos-$1
	kind=$2
	draw 2
	victim=$((drawn + 1)) # node 0 has the registry
	make_topology
	for k in 0 1 2; do
		for end in ${ends[k]}; do
			home[$end]=$k
		done
	done
	draw 8
	blink_ms=$(((drawn + 1) * 100))
	tuples=500000
	[ "$kind" = blink ] || tuples=2000000000
	plan="$kind node $victim; node 0:${ends[0]}; 1:${ends[1]}; 2:${ends[2]}"
	start_workers
	# The strike may come while processes attach; they exist by then.
	draw 4
	if [ "$kind" = blink ] || [ $drawn -gt 0 ]; then
		within 90000 all_open || violation "they did not open"
	else
		within 30000 test -s "$SHARED/$name.pid.$victim" ||
			violation "it did not begin"
	fi
	draw 10
	sleep 0.$drawn
	all_open || attaching=true
	opened=$(list_open)
	struck=$(now_ms)
	strike
	# The host knows now when the machine has carried out the command.
	[ "$kind" != kill ] || struck=$(now_ms)
	set_limits
	in_time "$struck" "$told_limit" survivors_told ||
		violation "after $told_limit ms not all have been told"
	left=$(now_ms)
	in_time "$left" "$left_limit" survivors_ended ||
		violation "$left_limit ms later not all have left"
	report
	for k in "${nodes[@]}"; do
		if [ ! -s "$SHARED/$name.status.$k" ] && [ "$k" != "$lost" ]; then
			on "$k" signal "$name" KILL
		fi
	done
	[ "$kind" = kill ] || [ "$kind" = off ] || "$testbed" net "$victim" heal
	check
	[ "$kind" = off ] || wait_for_workers
	rm -f "$SHARED/$name".*
}

wait_for_workers()
{
	local job

	for job in $(jobs -p); do
		[ "$job" = $registry ] || [ "$job" = $watch ] ||
			wait "$job" || true
	done
}

# Does runs FIRST to LAST. The last run of a full batch takes a machine away.
run_batch() # FIRST LAST SEED
{
	local i kinds=(cut blink kill unplug)

	RANDOM=$(($3 + $1))
	violations=0 looked=
	lateness=$results/late
	watch_lateness &
	watch=$!
	start_registry
	for ((i = $1; i <= $2; i++)); do
		draw 4
		if [ $i = "$2" ]; then
			run_once $i off
		else
			run_once $i "${kinds[drawn]}"
		fi
	done
	echo $violations > "$results/$1"
	kill $registry $watch
	wait $registry $watch 2> /dev/null || true
}

build=$(realpath "$1")
if [ "${2-}" = --batch ]; then
	results=$3
	run_batch "$4" "$5" "$6"
	exit
fi

# ---- On the host -----------------------------------------------------------

if [ "${2-}" = open ]; then
	runs=${3:-4}
	exec "$testbed" up 1 --memory 3000 --cpus 2 \
		--timeout $((runs * 60 + 300)) -- bash "$script" \
		--node "$build" open_processes "$runs" "${4:-$(date +%s)}" "${5-}"
fi

runs=${2:-4}
seed=${3:-$(date +%s)}
seed=$((seed % 10000)) # a generator of 15 bits
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
echo "seed $seed"
total=0

"$testbed" up 1 --memory 3000 --cpus 2 --timeout $((runs * 4 + 300)) -- \
	bash "$script" --node "$build" processes $((runs * 4)) "$seed" |
	tee "$results/processes" || true
counts=$(tail -n 1 "$results/processes")
[[ $counts =~ ^runs:\ ([0-9]+)\ violations:\ ([0-9]+)$ ]] || {
	echo "no runs in one machine: $counts"
	exit 1
}
processes=${BASH_REMATCH[1]}
total=${BASH_REMATCH[2]}

for ((first = 1; first <= runs; first += batch)); do
	last=$((first + batch - 1))
	[ $last -le "$runs" ] || last=$runs
	"$testbed" drive 3 --timeout 600 -- bash "$script" "$build" --batch \
		"$results" $first $last "$seed" || true
	# A batch that did not reach its end counts as a violation.
	total=$((total + $(cat "$results/$first" 2> /dev/null || echo 1)))
done
echo "runs: $((runs + processes)) violations: $total"
[ $total -eq 0 ]
