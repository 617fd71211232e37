#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_tables.sh BIN_DIR: tables of dfi-bench fit 100 columns and have units; --wide
# has all columns; and the options that all its commands share.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bench=$1/dfi-bench
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"

runs() # ARGUMENT...: into out
{
	timeout $wait_limit "$bench" "$@" --timeout $wait_limit > out 2> err ||
		fail "dfi-bench $*: $(cat out)"
}

refused() # TEXT ARGUMENT...
{
	local rc=0

	timeout $wait_limit "$bench" "${@:2}" > out 2> err || rc=$?
	[ $rc = 64 ] || fail "${*:2}: status $rc"
	grep -q -- "$1" err || fail "no '$1' in: $(cat err)"
}

quick=(-D 2ms --repeat 1)
trips=(--iterations 100 --repeat 1 --tuple-size 16)
while read -r -a command; do
	runs "${command[@]}"
	# Its headings: on a busy machine a number may be wider than its column.
	[ "$(sed '/^#/d' out | head -n 1 | wc -L)" -le 100 ] ||
		fail "${command[*]} is too wide: $(cat out)"
	grep -q '\[[a-zA-Z%]' out || fail "${command[*]} has no unit: $(cat out)"
	! grep -q preempted out || fail "${command[*]} has all columns: $(cat out)"
done << END
shuffle ${quick[*]} --tuple-size 16
replicate ${quick[*]} --tuple-size 16 --targets 1
replicate --latency ${trips[*]} --targets 1
combine ${quick[*]} --sources 1 --groups 10
raw ${quick[*]} --tuple-size 16
latency ${trips[*]}
idle -D 50ms
sequencer --clients 1 --iterations 1000 --repeat 1
setup --iterations 10
rpc --clients 1,3 --think 1ms --joins 3 -D 20ms --repeat 2
memory
scale --counts 1 -D 2ms --repeat 1 --iterations 100
END
runs latency "${trips[@]}" --wide
for column in preempted verified '99.99 %\[ns\]'; do
	grep -q "$column" out || fail "--wide lacks $column: $(cat out)"
done

# All endpoints of all axes send, and the sums of what arrives are right.
for of in sources targets flows declared; do
	runs scale --of $of --counts 1,3 -D 2ms --repeat 1 --iterations 100 --verify --json
	[ "$(grep -c '"verified": true' out)" = 2 ] || fail "scale of $of: $(cat out)"
	grep -q '"count": 3,' out || fail "no three $of: $(cat out)"
done
grep -q '"open_us": [1-9]' out || fail "no time to open: $(cat out)"
grep -q '"procs": 2,' out || fail "not two processes: $(cat out)"
refused '--apart: only with' scale --of sources --apart
refused "--of 'nodes'" scale --of nodes
for option in '--procs 1' '--tuple-size 16' '--wait block' '--bytes 1M'; do
	# shellcheck disable=SC2086 # two words
	refused "${option% *}" scale $option
done
refused "--counts '1,4097'" scale --counts 1,4097

# Sizes, and durations.
runs shuffle -a --api claim --bytes 64K --repeat 1 --no-baseline --csv
[ "$(tail -n +2 out | wc -l)" = 17 ] || fail "-a has not 17 sizes: $(cat out)"
for duration in 50ms 0.05s 0.05 50000us; do
	runs idle --duration $duration --json
	grep -q '"seconds": 0.05,' out || fail "-D $duration: $(cat out)"
done
# Tuples that are smaller than a key, and of odd sizes, through all ways.
runs shuffle --sources 2 --targets 3 --tuple-size 1,3,7,21 --bytes 64K --repeat 1 --verify --json
[ "$(grep -c '"verified": true' out)" = 16 ] || fail "small tuples: $(cat out)"
while read -r rows command; do
	# shellcheck disable=SC2086 # several words
	runs $command --repeat 1 --json
	[ "$(grep -c '"verified": true' out)" = "$rows" ] || fail "$command: $(cat out)"
done << END
2 raw --tuple-size 1,6 -D 2ms
3 latency --tuple-size 1,2,5 --iterations 100
1 latency --vs-ring --tuple-size 3 --iterations 100
1 latency --bulk --procs 2 --tuple-size 5 --iterations 100
2 replicate --mode naive,multicast --targets 2 --api batch --tuple-size 3 --bytes 64K --verify
1 replicate --latency --mode naive --targets 2 --tuple-size 1 --iterations 100
1 open --measure keyed --tuple-size 6 -D 2ms
2 combine --sources 2 --groups 10 --tuple-size 17 -D 2ms
1 rpc --clients 2 --tuple-size 27 --joins 1 -D 5ms
2 peers --measure tuples,trips --peer pipe --tuple-size 3 -D 2ms
1 peers --measure tuples --peer mpich-put --tuple-size 5 --bytes 2K
7 setup --tuple-size 1 --iterations 10
1 idle --tuple-size 5 -D 5ms
END
refused "--tuple-size '0': 0 is not from 1" shuffle --tuple-size 0
# Each source has a target of its own; --verify finds tuples at another one.
runs shuffle --pairs 3 --tuple-size 16,77 --bytes 96K --repeat 1 --verify --json
[ "$(grep -c '"verified": true' out)" = 6 ] || fail "pairs are not verified: $(cat out)"
[ "$(grep -c '"paired": true' out)" = 6 ] || fail "pairs are not named: $(cat out)"
# Every other pair goes the other way.
runs shuffle --bidirectional --pairs 4 --api push,claim --tuple-size 16 --bytes 96K --repeat 1 \
	--verify --json
[ "$(grep -c '"verified": true' out)" = 2 ] || fail "both ways: $(cat out)"
[ "$(grep -c '"bidirectional": true' out)" = 2 ] || fail "both ways: $(cat out)"
for member in source_ns target_ns; do
	grep -q "\"$member\": [0-9.]*[1-9]" out || fail "no processor time: $(cat out)"
done
refused 'even number of --pairs' shuffle --bidirectional --pairs 3
refused 'without --role and --nodes' shuffle --bidirectional --nodes 2
refused 'not with --api batch' shuffle --pairs 2 --api batch
refused 'without --sources' shuffle --pairs 2 --sources 2
refused "--duration '5 s': not a time" idle -D '5 s'
refused "--duration '2h': not a time" idle -D 2h
refused "--seconds '-1': not a time" idle --seconds=-1
refused 'choose one' latency --wide --csv

# A line for each duration of each side; the counts are those of the trips.
for command in "latency" "replicate --latency --targets 1 --mode naive"; do
	# shellcheck disable=SC2086 # several words
	runs $command --iterations 100 --repeat 1 --tuple-size 16,64 --histogram trips
	[ "$(head -n 1 trips)" = side,tuple_size,targets,ns,count ] || fail "$(head trips)"
	for size in 16 64; do
		awk -F , -v size=$size '$2 == size && ($1 == "flow" || $1 == "naive") { n += $5 }
			END { exit n != 100 }' trips || fail "not 100 trips: $(cat trips)"
	done
done
# 1000 requests, half of them to warm up, of three sides in two rounds, at 2000 a second.
begin=$(date +%s%N)
runs latency --rate 2000 --iterations 500 --repeat 1 --json
[ $((($(date +%s%N) - begin) / 1000000)) -ge 3000 ] || fail "requests are not paced"
grep -q '"rate": 2000' out || fail "no rate: $(cat out)"
refused "--rate" latency --rate 0
# All requests of a window have their replies.
runs latency --window 8 --iterations 200 --repeat 1 --json
for text in '"window": 8' '"verified": true' '"message_rate": [0-9.e-]*[1-9]' '"baseline": null'; do
	grep -q "$text" out || fail "no $text: $(cat out)"
done
refused '--window, --rate: choose one' latency --window 2 --rate 1000
rc=0
"$bench" latency --window 4096 --segments 8 > out 2> err || rc=$?
[ $rc = 1 ] || fail "a window beyond the ring: status $rc"
grep -q "rings have 8 segments" err || fail "$(cat err)"
# Bulk data beside round trips arrives as well: its words are in the sums.
runs latency --bulk --procs 2 --iterations 200 --repeat 1 --tuple-size 16,24 --json
[ "$(grep -c '"verified": true' out)" = 2 ] || fail "bulk: $(cat out)"
[ "$(grep -c '"bulk_value": [0-9.e-]*[1-9]' out)" = 2 ] || fail "no bulk data: $(cat out)"
refused '--bulk: without' latency --bulk --window 2
# Hand-written rings carry the same tuples, whose sums are compared, several times round.
runs latency --vs-ring --segments 4 --iterations 200 --repeat 2 --tuple-size 16,48,64,77 --json
[ "$(grep -c '"baseline": "raw"' out)" = 4 ] || fail "no ring: $(cat out)"
[ "$(grep -c '"verified": true' out)" = 4 ] || fail "rings of tuples: $(cat out)"
refused '--vs-ring: without' latency --vs-ring --window 2
# Targets that sleep in poll() get all tuples.
runs latency --how fd --procs 2 --iterations 200 --repeat 1 --json
grep -q '"how": "fd"' out || fail "no way to wait: $(cat out)"
grep -q '"verified": true' out || fail "trips by descriptors: $(cat out)"
refused 'trips wait in consume or fd' latency --how group
for how in fd group; do
	runs shuffle --how $how --api push,claim --procs 2 --tuple-size 16,77 --bytes 96K \
		--repeat 1 --verify --json
	[ "$(grep -c '"verified": true' out)" = 4 ] || fail "--how $how: $(cat out)"
	[ "$(grep -c "\"how\": \"$how\"" out)" = 4 ] || fail "--how $how: $(cat out)"
done
refused '--how: without' shuffle --how fd --target-threads 1 --targets 2 --api batch
# The consumer of a hand-written ring gives back one segment at a time, or all.
for interval in 1 3 8; do
	runs raw --credit-interval $interval --segments 8 --tuple-size 16 -D 2ms --repeat 1 --json
	grep -q "\"credit_interval\": $interval" out || fail "no interval: $(cat out)"
	grep -q '"verified": true' out || fail "--credit-interval $interval: $(cat out)"
done
rc=0
"$bench" raw --credit-interval 9 --segments 8 > out 2> err || rc=$?
[ $rc = 1 ] || fail "more credits than segments: status $rc"
grep -q 'the ring has 8 segments' err || fail "$(cat err)"
refused 'choose one' raw --sweep --credit-interval 1
# Ends that are slow on purpose.
for slow in "--slow-source 3" "--slow-target 3"; do
	# shellcheck disable=SC2086 # two words
	runs shuffle $slow --targets 2 --api batch --tuple-size 16 --bytes 64K --repeat 1 \
		--verify --json
	grep -q "\"slow_${slow:7:6}\": 3" out || fail "$slow is not named: $(cat out)"
	grep -q '"verified": true' out || fail "$slow: $(cat out)"
done
refused 'only with --api batch' shuffle --slow-source 2
refused 'only with --latency' replicate --histogram trips
rc=0
"$bench" latency --histogram missing/trips > out 2> err || rc=$?
[ $rc = 1 ] || fail "a histogram in a missing folder: status $rc"
grep -q 'cannot write missing/trips' err || fail "$(cat err)"

# Two invocations take tuples of any size as well, and pairs.
"$1/dfi-registry" --listen "unix:$tmp/registry" --print-address > at &
registry=$!
await at
for command in "shuffle --pairs 2 --api push" "latency --iterations 100"; do
	# shellcheck disable=SC2086 # several words
	"$bench" ${command%% *} --role target --registry "unix:$tmp/registry" 2> err.target &
	target=$!
	# shellcheck disable=SC2086
	runs $command --role source --registry "unix:$tmp/registry" --tuple-size 21 \
		--bytes 64K --repeat 1 --verify --json
	wait $target || fail "$command --role target: $(cat err.target)"
	grep -q '"split": true' out || fail "$command is not split: $(cat out)"
done
kill $registry
wait $registry || :
