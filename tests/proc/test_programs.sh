#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_programs.sh BIN_DIR HOLDER: hello_flow, dfi-bench with its JSON, and dfi-registry
# with dfi-info do what README says, while HOLDER (holder.c) has a flow.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 holder_program=$2
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

has() # FILE WORD...
{
	local file=$1 word

	shift
	for word in "$@"; do
		grep -q -- "$word" "$file" || {
			cat "$file"
			fail "no '$word' in this"
		}
	done
}

"$bin/hello_flow" > "$tmp/hello" || fail "hello_flow: $(cat "$tmp/hello")"
# Room for the stacks of a few threads only, of the library's or the program's own.
# Address space that is limited leaves AddressSanitizer none.
if command -v prlimit > "$tmp/log" && ! grep -q __asan_init "$bin/hello_flow"; then
	for stacks in 1 2 3 4 5 6; do
		timeout $wait_limit prlimit --stack=$((256 << 20)) \
			--as=$(((100 + 256 * stacks) << 20)) "$bin/hello_flow" \
			>> "$tmp/hello" 2>> "$tmp/few" || :
	done
	grep -q '^hello_flow: cannot start a thread: Resource temp' "$tmp/few" ||
		fail "hello_flow with few threads: $(cat "$tmp/few")"
	! grep 'waiting for' "$tmp/few" || fail "hello_flow waits for threads"
fi

# Windows of a combiner flow, with weights that don't fill a tuple.
for arguments in "1 7 9" "3 20000 12" "2 20000 5 3"; do
	# shellcheck disable=SC2086 # several words
	timeout $wait_limit "$bin/parameter_server" $arguments > "$tmp/weights" 2>&1 ||
		fail "parameter_server $arguments: $(cat "$tmp/weights")"
	has "$tmp/weights" 'the weights are right'
done
# 193 copies of 100,000,000 weights are refused before the kernel kills a process.
if [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -lt 150000000 ]; then
	if timeout $wait_limit "$bin/parameter_server" 64 100000000 1 64 \
		> "$tmp/weights" 2>&1; then
		fail "parameter_server has more weights than memory"
	fi
	has "$tmp/weights" 'need [0-9]* MiB of memory, but [0-9]* MiB are left'
fi

quick=(--seconds 0.01 --repeat 1 --json)
fields=('"host"' '"version"' '"rows"' '"value"' '"unit"' '"baseline"'
	'"baseline_value"' '"ratio"' '"min"' '"max"' '"repeats"'
	'"verified": true')
# In a short run only the size that no word divides.
sizes=16,24,77
[ -z "${DFI_TEST_SHORT-}" ] || sizes=77
for procs in 1 2; do
	"$bin/dfi-bench" shuffle --procs $procs --tuple-size $sizes --verify \
		"${quick[@]}" > "$tmp/shuffle" 2> "$tmp/log" ||
		fail "dfi-bench shuffle: $(cat "$tmp/log")"
	has "$tmp/shuffle" "${fields[@]}"
done
# A parent that ignores SIGCHLD, as some supervisors do, changes nothing.
env --ignore-signal=CHLD "$bin/dfi-bench" shuffle --procs 2 --tuple-size 16 \
	--api push "${quick[@]}" > "$tmp/shuffle" 2> "$tmp/log" ||
	fail "dfi-bench with SIGCHLD ignored: $(cat "$tmp/log")"
has "$tmp/shuffle" "${fields[@]}"
# The sources in one invocation, the targets in another one.
"$bin/dfi-registry" --listen "unix:$tmp/bench" --print-address > "$tmp/bench.at" &
registry=$!
await "$tmp/bench.at"
for command in "shuffle --sources 2 --targets 2" "latency --iterations 100" \
	"replicate --targets 2 --bytes 256K" \
	"replicate --targets 2 --latency --iterations 100 --wait block"; do
	# shellcheck disable=SC2086 # several words
	"$bin/dfi-bench" ${command%% *} --role target \
		--registry "unix:$tmp/bench" 2> "$tmp/log.target" &
	holder=$!
	# shellcheck disable=SC2086
	"$bin/dfi-bench" $command --role source --registry "unix:$tmp/bench" \
		--tuple-size 16 "${quick[@]}" > "$tmp/split" 2> "$tmp/log" ||
		fail "$command --role: $(cat "$tmp/log" "$tmp/log.target")"
	wait $holder || fail "$command --role target: $(cat "$tmp/log.target")"
	has "$tmp/split" '"split": true' '"transport": "shm"' \
		'"verified": true' '"baseline": null'
done
if "$bin/dfi-bench" raw --role source > /dev/null 2>&1; then
	fail "dfi-bench raw takes a role"
fi
# Without flows there is no transport to choose.
for command in raw sequencer; do
	if "$bin/dfi-bench" $command --transport shm > /dev/null 2> "$tmp/log"; then
		fail "dfi-bench $command takes a transport"
	fi
	has "$tmp/log" '--transport: there are no flows'
done
"$bin/dfi-bench" sequencer --clients 2 --iterations 1000 --repeat 1 --json \
	> "$tmp/sequencer" 2> "$tmp/log" ||
	fail "dfi-bench sequencer: $(cat "$tmp/log")"
has "$tmp/sequencer" "${fields[@]}" '"transport": "shm"' '"device": "-"'
kill $registry
wait $registry || :

# Waiting ends leave the processor to others, however they wait. On a busy machine each
# wake-up may cost more: the limit is one second of ten.
idles() # HOW
{
	for _ in $(seq 10); do
		"$bin/dfi-bench" idle --how "$1" --seconds 1 --json > "$tmp/idle" \
			2> "$tmp/log" || fail "dfi-bench idle --how $1: $(cat "$tmp/log")"
		has "$tmp/idle" "\"how\": \"$1\"" '"verified": true'
		! grep -qE '"value": 0(\.[0-9]+)?(,|$)' "$tmp/idle" || return 0
	done
	fail "a target that waits uses 1 % of a processor: $(cat "$tmp/idle")"
}
# With a sanitizer, the share of the processor would be the sanitizer's.
if ! grep -q __asan_init "$bin/dfi-bench"; then
	for how in consume fd group; do
		idles $how
	done
fi

# Replication: one copy, or one more for each target; and the replies of all.
"$bin/dfi-bench" replicate --targets 1,3 --tuple-size 16,24 --verify \
	--bytes 256K --repeat 1 --json > "$tmp/replicate" 2> "$tmp/log" ||
	fail "dfi-bench replicate: $(cat "$tmp/log")"
has "$tmp/replicate" "${fields[@]}" '"source_ns": [0-9]' '"source_ratio": [0-9]' \
	'"naive_ratio": [0-9]'
# mode, tuple size, targets, bytes copied for a tuple; of each way in
rows=$("$bin/dfi-bench" replicate --targets 1,3 --tuple-size 16,24 --no-baseline \
	--bytes 256K --repeat 1 --csv 2> "$tmp/log" | awk -F, '
	NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
	{ print $column["mode"], $column["tuple_size"], $column["targets"],
		$column["copied_bytes"] }' | sort | uniq -c | tr -s ' \n' ' ')
[ "$rows" = " 4 multicast 16 1 16 4 multicast 16 3 16 4 multicast 24 1 24\
 4 multicast 24 3 24 4 naive 16 1 32 4 naive 16 3 64 4 naive 24 1 48 4 naive 24 3 96 " ] ||
	fail "bytes copied: $rows $(cat "$tmp/log")"
# Four threads that spin on two processors would take a minute.
"$bin/dfi-bench" replicate --latency --targets 1,3 --iterations 200 --repeat 1 \
	--wait block --json > "$tmp/replicate" 2> "$tmp/log" ||
	fail "dfi-bench replicate --latency: $(cat "$tmp/log")"
has "$tmp/replicate" "${fields[@]}" '"targets": 3' '"baseline": ".*words"'
"$bin/dfi-bench" replicate --mode ordered --targets 3 --bytes 256K --repeat 1 \
	--verify --json > "$tmp/replicate" 2> "$tmp/log" ||
	fail "dfi-bench replicate --mode ordered: $(cat "$tmp/log")"
has "$tmp/replicate" "${fields[@]}" '"mode": "ordered"'
if "$bin/dfi-bench" replicate --targets 9 > /dev/null 2>&1; then
	fail "dfi-bench replicate takes 9 targets"
fi

# Sums by key, of no, some and many groups, in a table that grows.
"$bin/dfi-bench" combine --sources 3 --groups 0,7,20000 --tuple-size 16,43 --verify \
	--fan-in 0,2 --bytes 1M --repeat 1 --json > "$tmp/combine" 2> "$tmp/log" ||
	fail "dfi-bench combine: $(cat "$tmp/log")"
has "$tmp/combine" "${fields[@]}" '"groups": 20000' '"target_bytes": [0-9]' \
	'"shuffle_ratio": [0-9]' '"content_checked": true' '"source_combining": "off"' \
	'"source_combining": "on"' '"off_share": [0-9]' '"fan_in": 2' \
	'"combiners": 2' '"plain_share": [0-9]'
if grep -q '"verified": false' "$tmp/combine"; then
	fail "dfi-bench combine: $(cat "$tmp/combine")"
fi
if "$bin/dfi-bench" combine --tuple-size 8 > /dev/null 2>&1; then
	fail "dfi-bench combine takes tuples without a value"
fi

"$bin/dfi-bench" latency --iterations 2000 --repeat 1 --json > "$tmp/latency" 2> "$tmp/log" ||
	fail "dfi-bench latency: $(cat "$tmp/log")"
has "$tmp/latency" "${fields[@]}"
# With one processor for both ends, the baseline yields; to spin would take minutes.
cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
for where in "taskset -c $cpu $bin/dfi-bench latency" "$bin/dfi-bench latency --pin $cpu,$cpu"; do
	# shellcheck disable=SC2086 # several words
	$where --iterations 500 --tuple-size 13 --repeat 1 --json > "$tmp/latency" \
		2> "$tmp/log" || fail "$where: $(cat "$tmp/log")"
	has "$tmp/latency" '"one_core": true' '"baseline": "yield-ping-pong"' \
		'"verified": true'
	# shellcheck disable=SC2086
	if $where --wait spin > /dev/null 2> "$tmp/log"; then
		fail "$where spins on one processor"
	fi
	has "$tmp/log" "--wait spin: both ends run on one processor"
done
"$bin/dfi-bench" raw --tuple-size 16,21 "${quick[@]}" > "$tmp/raw" 2> "$tmp/log" ||
	fail "dfi-bench raw: $(cat "$tmp/log")"
# Errors name the wrong value and the allowed ones.
refuses() # WORD ARGUMENT...
{
	if "$bin/dfi-bench" "${@:2}" > /dev/null 2> "$tmp/log"; then
		fail "dfi-bench ${*:2} succeeds"
	fi
	has "$tmp/log" "$1"
}
refuses "--api 'nonsense': choose from push, cursor, batch, claim" shuffle --api nonsense
refuses "--tuple-size '16,0': 0 is not from 1" shuffle --tuple-size 16,0
refuses "--targets '9': 9 is not from 1 to 8" replicate --targets 9
refuses "--repeat 'x': not a number from 1" raw --repeat x

# An error names the nearest name to a misspelt one.
misspelt() # NEAREST COMMAND...
{
	if "${@:2}" > /dev/null 2> "$tmp/log"; then
		fail "${*:2} succeeds"
	fi
	has "$tmp/log" "the nearest is $1"
}
misspelt shuffle "$bin/dfi-bench" shufle
misspelt --targets "$bin/dfi-bench" shuffle --targts 1
misspelt --seconds "$bin/dfi-bench" raw --second1 1
misspelt nodes "$bin/dfi-info" nodess
misspelt --registry "$bin/dfi-info" --registri x nodes
misspelt --listen "$bin/dfi-registry" --lisen x

# Each program reports output that can't be written.
lost() # COMMAND...
{
	if "$@" > /dev/full 2> "$tmp/log"; then
		fail "$* succeeds though nothing can be written"
	fi
	has "$tmp/log" "No space left"
}
lost "$bin/hello_flow"
lost "$bin/dfi-bench" raw --tuple-size 16 --seconds 0.01 --repeat 1
lost "$bin/dfi-bench" --help
lost "$bin/dfi-info" config
lost "$bin/dfi-info" config --json
lost "$bin/dfi-info" --version
lost "$bin/dfi-registry" --help
lost "$bin/dfi-registry" --version
for program in dfi-kv dfi-kv-client dfi-kv-load dfi-kv-run; do
	lost "$bin/$program" --help
done
echo 0 > "$tmp/count"
lost "$bin/dfi-turns" 1 1 1 "$tmp/count" counter "while :; do
	echo \$((i += 1000)) > '$tmp/next'; mv '$tmp/next' '$tmp/count'; done"

"$bin/dfi-registry" --listen "unix:$tmp/socket" --print-address \
	> "$tmp/address" 2> "$tmp/log" &
registry=$!
await "$tmp/address"
has "$tmp/address" "unix:$tmp/socket"
export DFI_REGISTRY="unix:$tmp/socket"
"$bin/dfi-info" nodes > "$tmp/nodes"
has "$tmp/nodes" "dfi-info: host"
"$bin/dfi-info" nodes --json > "$tmp/nodes"
has "$tmp/nodes" '"nodes"' '"pid"' '"sources": 0'
"$bin/dfi-info" flows --json > "$tmp/flows"
has "$tmp/flows" '"flows": \[\]'
"$bin/dfi-info" flows > "$tmp/flows"
has "$tmp/flows" "^no flows are published$"
"$bin/dfi-info" stat > "$tmp/stat"
has "$tmp/stat" "^no other processes are members of this registry$"

# A flow with one of its five endpoints attached.
mkfifo "$tmp/hold"
"$holder_program" "the holder" < "$tmp/hold" > "$tmp/ready" &
holder=$!
exec 3> "$tmp/hold"
await "$tmp/ready"
"$bin/dfi-info" flows > "$tmp/flows"
has "$tmp/flows" "^held: shuffle, bandwidth, hash of number$" \
	"schema .*key:uint64@0 source:uint32@8 number:uint32@12 (16 bytes)" \
	"sources *0 of 3 attached; missing: 0-2$" \
	"targets *1 of 2 attached; missing: [01]$" \
	"rings *5 x 1600 bytes" "creator *the holder (host .*, pid $holder)" \
	"^held-by-all: replicate, bandwidth, multicast, transport shm$" \
	"^held-in-parts: combine, bandwidth, group by key$" \
	"combiners *0 of 5 attached; missing: 0-4$" "tree *fan-in 2$"
"$bin/dfi-info" flows --json > "$tmp/flows"
has "$tmp/flows" '"name": "held"' '"kind": "shuffle"' '"goal": "bandwidth"' \
	'"routing": "hash"' '"key": "number"' '"persistent": false' \
	'"transport": "default"' '"verify": "none"' '"replication": "none"' \
	'"loss_policy": "none"' '"gap_timeout_us": 0' \
	'"sources": 3' '"attached_sources": 0' '"targets": 2' \
	'"attached_targets": 1' '"tuple_size": 16' '"segment_size": 1600' \
	'"segment_count": 5' '"ring_bytes": [1-9]' '"instance": "[0-9a-f]*"' \
	'"schema": "key:uint64@0 ' \
	"\"creator\": \"the holder (host .*, pid $holder)\"" \
	'"kind": "replicate"' '"routing": "all"' '"replication": "multicast"' \
	'"ordered": false' \
	'"loss_policy": "recover"' '"gap_timeout_us": 10000' \
	'"fan_in": 2' '"combiners": 5' '"attached_combiners": 0' '"fan_in": 0' \
	'"missing_sources": "0-2"' '"missing_combiners": "0-4"'
"$bin/dfi-info" nodes > "$tmp/nodes"
has "$tmp/nodes" "^the holder: host .*, pid $holder, 0 sources, 1 targets, id "
"$bin/dfi-info" nodes --json > "$tmp/nodes"
has "$tmp/nodes" '"name": "the holder"' "\"pid\": $holder" '"targets": 1'
# Repeat a command until all processes have answered; its output is in the file stat.
# dfi-info waits for 2 s, and a busy machine may be late by more.
all_answer() # COMMAND...
{
	local deadline=$((SECONDS + 60))

	until "$@" > "$tmp/stat" || fail "$*"
		! grep -q "doesn't answer" "$tmp/stat"; do
		[ $SECONDS -lt $deadline ] || fail "$*: $(cat "$tmp/stat")"
	done
}
# It goes on until its reader ends.
watch() # LINES ARGUMENT...
{
	"$bin/dfi-info" stat "${@:2}" 2> "$tmp/log" | head -n "$1" || :
}
all_answer "$bin/dfi-info" stat
has "$tmp/stat" "^the holder: host .*, pid $holder, id " \
	"^  target 1 of flow 'held': 0 tuples, 0 bytes, 0 segments$" \
	"^    waits     0 for data, .* polls, 0 yields, 0 sleeps$"
! grep -q "dfi-info" "$tmp/stat" || fail "dfi-info lists itself"
all_answer "$bin/dfi-info" stat --json
has "$tmp/stat" '"name": "the holder"' "\"pid\": $holder" '"error": null' \
	'"flow": "held"' '"role": "target"' '"index": 1' '"tuples": 0' \
	'"gaps": 0' '"lost_segments": 0' \
	'"long_stalls": 0' '"waits_for": null' '"errors": \[\]' '"time_ns": [1-9]'
# In separate PID namespaces, both have the same number.
if unshare --pid --fork --kill-child true 2> "$tmp/log"; then
	unshare --pid --fork --kill-child "$bin/dfi-info" stat --watch=1 \
		> "$tmp/ready-apart" &
	apart=$!
	await "$tmp/ready-apart"
	unshare --pid --fork "$bin/dfi-info" stat > "$tmp/stat"
	kill -KILL "$apart"
	wait "$apart" 2> "$tmp/log" || :
	[ "$(grep -c "^dfi-info: host .*, pid 1, id " "$tmp/stat")" = 1 ] ||
		fail "dfi-info stat doesn't list another: $(cat "$tmp/stat")"
fi
all_answer watch 3 --json --watch=0.05
[ "$(grep -c '^{"stat":\[{.*"flow":"held"' "$tmp/stat")" = 3 ] ||
	fail "dfi-info stat --watch prints $(cat "$tmp/stat" "$tmp/log")"
all_answer watch 8 --watch=0.05
has "$tmp/stat" "tuples, 0 bytes, 0 segments, 0 tuples/s, 0.000 MB/s$"
# A target that cancels has taken less than it had before.
"$bin/dfi-info" stat --watch=0.05 > "$tmp/watched" &
watcher=$!
watched() # PATTERN: a line of it is there
{
	local deadline=$((SECONDS + wait_limit))

	until grep -q "target 0 of flow 'cancelled': $1" "$tmp/watched"; do
		[ $SECONDS -lt $deadline ] || fail "no $1 is watched"
		sleep 0.05
	done
}
echo r >&3
watched "100 tuples.* 0 tuples/s"
echo c >&3
watched "1 tuples"
kill "$watcher"
wait "$watcher" || :
if grep "[0-9]\{9\} tuples/s" "$tmp/watched"; then
	fail "dfi-info stat --watch shows what nobody does"
fi
# Addresses at which there can be no registry.
no_registry() # ADDRESS TEXT
{
	if env -u DFI_REGISTRY "$bin/dfi-info" ${1:+-r "$1"} nodes 2> "$tmp/log"; then
		fail "dfi-info finds a registry at '$1'"
	fi
	has "$tmp/log" "$2"
}
no_registry "" "no registry is named: .* --registry"
no_registry local: "private to each process"
no_registry unix:/ "a directory is there, no socket"
no_registry "unix:$tmp" "a directory is there, no socket"
no_registry "unix:$tmp/log" "a regular file is there, no socket"
for wrong in "nodes --watch" "stat --watch=0" "stat --watch=often" "stats"; do
	# shellcheck disable=SC2086 # several words
	if "$bin/dfi-info" $wrong > /dev/null 2> "$tmp/log"; then
		fail "dfi-info takes '$wrong'"
	fi
done
# A process that doesn't answer is shown as such.
kill -STOP "$holder"
"$bin/dfi-info" stat > "$tmp/stat"
kill -CONT "$holder"
has "$tmp/stat" "^the holder: host .*, pid $holder, id " \
	"^  no counters: .* doesn't answer$"

for format in "" --json; do
	if "$bin/dfi-info" flows $format > /dev/full 2> "$tmp/log"; then
		fail "dfi-info $format says nothing of a full disk"
	fi
	has "$tmp/log" "standard output: No space left"
done
exec 3>&-
wait "$holder" || fail "holder ends with $?"
if "$holder_program" "$(printf 'two\nlines')" > /dev/null 2> "$tmp/log"; then
	fail "a node name may have two lines"
fi
has "$tmp/log" "node_name"

# Without a registry, and with or without a device.
for format in "" --json; do
	env -u DFI_REGISTRY "$bin/dfi-info" devices $format > "$tmp/devices" ||
		fail "dfi-info devices $format ends with $?"
	if [ "${DFI_TEST_DEVICE-}" ]; then
		has "$tmp/devices" "$DFI_TEST_DEVICE"
	elif [ "$format" ]; then
		has "$tmp/devices" '"transport": "verbs"' '"transport": "ofi"'
	elif ! [ -e /sys/class/infiniband ]; then
		has "$tmp/devices" "^no RDMA devices: .*rdma link"
	fi
done
if env -u DFI_REGISTRY "$bin/dfi-info" devices > "$tmp/devices" &&
	! grep -q '^no libfabric: ' "$tmp/devices"; then
	has "$tmp/devices" "^tcp by libfabric, 127.0.0.1 on lo: usable, chosen" \
		"reaches this host only"
	# No host has this address, and no packet is sent.
	DFI_REGISTRY=tcp:127.0.0.1:7000 DFI_OFI_ADDRESS=127.0.0.2 "$bin/dfi-info" devices \
		> "$tmp/devices" || fail "dfi-info devices: $?"
	has "$tmp/devices" "^tcp by libfabric, 127.0.0.2 "
fi

# Settings: values, origins, mistakes.
env -u DFI_WAIT DFI_LOG=error DFI_RING_MEMORY=2M "$bin/dfi-info" config \
	> "$tmp/config" || fail "dfi-info config ends with $?"
has "$tmp/config" "^DFI_WAIT *adaptive *default$" \
	"^DFI_RING_MEMORY *2M *environment$" \
	"^DFI_REGISTRY *unix:$tmp/socket *environment$" \
	"^DFI_REGISTRY_CA *- *default$"
DFI_LOG=error "$bin/dfi-info" config --json -r unix:@x > "$tmp/config"
has "$tmp/config" '"config": \[' '"variable": "DFI_LOG"' '"value": "error"' \
	'"value": "unix:@x"' '"origin": "attribute"' '"default": null' \
	'"error": null'
if DFI_WAIT=often DFI_WIAT=spin "$bin/dfi-info" config > "$tmp/config" \
	2> "$tmp/log"; then
	fail "dfi-info config accepts DFI_WAIT=often"
fi
has "$tmp/config" "^DFI_WAIT *often *environment, not valid$" \
	"adaptive, spin or block" "^DFI_OPEN_TIMEOUT "
has "$tmp/log" "DFI_WIAT is no setting.*DFI_WAIT" "setting is not valid"

kill -TERM "$registry"
wait "$registry" || fail "dfi-registry ends with $? on SIGTERM"
[ ! -e "$tmp/socket" ] || fail "dfi-registry leaves its socket behind"
if "$bin/dfi-info" flows > /dev/null 2> "$tmp/log"; then
	fail "dfi-info finds flows without a registry"
fi
has "$tmp/log" "dfi-registry"
"$bin/dfi-registry" --listen tcp:0.0.0.0:7000 2> "$tmp/log" &&
	fail "dfi-registry takes a routable address"
has "$tmp/log" "loopback"
echo "all programs passed"
