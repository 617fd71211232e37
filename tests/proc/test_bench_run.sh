#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_run.sh BIN_DIR: dfi-bench list shows the experiments, and dfi-bench run writes a
# file for each, goes on after a stop, and refuses what it can't do.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
bench=$bin/dfi-bench
quick=(--seconds 0.001 --repeat 1)

runs() # ARGUMENT...: into out
{
	timeout $wait_limit "$bench" run "$@" > "$tmp/out" 2> "$tmp/err" ||
		fail "run $*: $(cat "$tmp/out" "$tmp/err")"
}

refused() # STATUS TEXT ARGUMENT...
{
	local rc=0

	timeout $wait_limit "$bench" "${@:3}" > "$tmp/out" 2> "$tmp/err" || rc=$?
	[ $rc = "$1" ] || fail "${*:3}: status $rc"
	grep -q -- "$2" "$tmp/err" || fail "no '$2' in: $(cat "$tmp/err")"
}

"$bench" list > "$tmp/list"
for number in $(seq 16); do
	grep -q "^E$number  *[a-z]" "$tmp/list" || fail "list lacks E$number"
done
[ "$(wc -L < "$tmp/list")" -le 100 ] || fail "list has more than 100 columns"
"$bench" list e10 > "$tmp/list"
grep -q 'runs *dfi-bench shuffle ' "$tmp/list" || fail "list e10: $(cat "$tmp/list")"

# Each file has the rows of its commands, as these print them.
runs E8 sequencer --out "$tmp/results" "${quick[@]}"
grep -q '^E8 .* agrees$' "$tmp/out" || fail "E8: $(cat "$tmp/out")"
# Without the programs that it needs beside it, an experiment is skipped.
mkdir "$tmp/alone"
cp "$bench" "$tmp/alone"
timeout $wait_limit "$tmp/alone/dfi-bench" run E16 \
	--out "$tmp/results" "${quick[@]}" > "$tmp/out" 2> "$tmp/err" ||
	fail "E16 alone: $(cat "$tmp/out" "$tmp/err")"
grep -q '^E16 .* skipped$' "$tmp/out" || fail "E16: $(cat "$tmp/out")"
grep -q 'dfi-kv-run is not in the folder' "$tmp/out" || fail "E16: $(cat "$tmp/out")"
cd "$tmp/results"
ls > "$tmp/files"
printf '%s\n' B6-sequencer.json E16-replicated-store.json E8-memory.json |
	diff - "$tmp/files" || fail "not these files"
for word in '"rows"' '"host"' '"version"' '"series": "one by one"' '"baseline_value"' \
	'"verified": true' '"commands"' '"verdict"'; do
	grep -q -- "$word" B6-sequencer.json || fail "B6 lacks $word"
done
grep -q '"skipped": "' E16-replicated-store.json || fail "E16 lacks its reason"
if command -v jq > "$tmp/jq"; then
	for file in *; do
		jq -e '.rows | type == "array"' "$file" > "$tmp/jq" || fail "$file is no JSON"
	done
	jq -e '.rows | length == 4 and all(.verified)' B6-sequencer.json > "$tmp/jq" ||
		fail "B6 has not a row for each number of threads"
fi

# With them it is run, though a file says that it was skipped; each load has its row.
runs E16 --out . "${quick[@]}"
! grep -q '"skipped": "' E16-replicated-store.json || fail "E16 is skipped"
for store in paxos nopaxos; do
	[ "$(grep -c "\"store\": \"$store\"" E16-replicated-store.json)" = 4 ] ||
		fail "E16 has not four loads of $store: $(cat E16-replicated-store.json)"
done
[ "$(grep -c '"p95_us": [0-9.e+]*[1-9]' E16-replicated-store.json)" = 8 ] ||
	fail "E16 has no latencies: $(cat E16-replicated-store.json)"
! grep -q 'no such rows' E16-replicated-store.json || fail "a statement of E16 has no rows"
# A machine that can't run it keeps the results of one that could.
timeout $wait_limit "$tmp/alone/dfi-bench" run E16 --again --out . "${quick[@]}" > "$tmp/out" 2>&1 ||
	fail "E16 alone: $(cat "$tmp/out")"
! grep -q '"skipped": "' E16-replicated-store.json || fail "the results of E16 are lost"
[ "$(grep -c '"store": ' E16-replicated-store.json)" = 8 ] || fail "rows of E16 are lost"

# A build without the transport on libfabric has nothing to compare over TCP.
if [ ! -e "$bin/../lib/libdfi-ofi.so" ]; then
	runs B10 --out "$tmp/tcp" "${quick[@]}"
	grep -q '^B10 .* skipped$' "$tmp/out" || fail "B10: $(cat "$tmp/out")"
	grep -q 'DFI_OFI' "$tmp/out" || fail "B10 has no reason: $(cat "$tmp/out")"
	"$bench" list B11 | grep -q 'not here .*DFI_OFI' || fail "B11 has flows over TCP"
fi

# The joins by each MPI that is installed find what the join over flows finds.
runs E14 --out "$tmp/join" --repeat 1
for mpi in openmpi mpich; do
	if [ -e "$bin/radix_join_$mpi" ] && command -v mpirun.$mpi > "$tmp/mpirun"; then
		for name in $mpi $mpi-ready; do
			grep -q "\"baseline\": \"$name\"" "$tmp/join/E14-join-radix.json" ||
				fail "E14 has no row beside $name"
		done
	fi
done

# Nodes are processes with some of the sources and of the targets.
"$bench" shuffle --nodes 3 --sources 4 --targets 3 --api push,batch,claim --tuple-size 16 \
	--bytes 64K --repeat 1 --verify --timeout "$wait_limit" --json > "$tmp/nodes" ||
	fail "shuffle --nodes: $(cat "$tmp/nodes")"
[ "$(grep -c '"verified": true' "$tmp/nodes")" = 3 ] || fail "nodes: $(cat "$tmp/nodes")"
refused 64 '--nodes 3: with as many' shuffle --nodes 3 --sources 4 --targets 2
refused 64 '--nodes: without' shuffle --nodes 2 --procs 2

# No node sends more than its modelled link carries, nor do all of them.
link=(--link-bandwidth 10M --api batch --wait block --tuple-size 64 --bytes 1M --repeat 1
	--timeout "$wait_limit" --json)
for command in "shuffle --nodes 2" "shuffle --targets 3 --link-latency 200us" \
	"replicate --targets 2 --link-latency 1ms"; do
	read -ra words <<< "$command"
	"$bench" "${words[@]}" "${link[@]}" > "$tmp/link" || fail "$command: $(cat "$tmp/link")"
	grep -q '"baseline": "modelled link"' "$tmp/link" || fail "$command has no link"
	! grep -q '"verified": false' "$tmp/link" || fail "$command: $(cat "$tmp/link")"
	sed -n 's/ *"ratio": \(.*\),/\1/p' "$tmp/link" |
		awk '$1 <= 0 || $1 > 1.02 { bad = 1 } END { exit bad || !NR }' || fail "$command: $(cat "$tmp/link")"
done
"$bench" shuffle --link-latency 200us "${link[@]/--json/--wide}" > "$tmp/link" ||
	fail "a link in a table: $(cat "$tmp/link")"
grep -q ' link 10 MiB/s, 200 us ' "$tmp/link" || fail "a row lacks its link: $(cat "$tmp/link")"
refused 64 '--link-latency: with --link-bandwidth' shuffle --link-latency 1ms
refused 64 '--link-latency: with --link-bandwidth or --latency' replicate --link-latency 1ms
refused 64 "--link-latency '2s': more than a second" latency --link-latency 2s
# Nothing arrives before its latency has passed: in bytes by time, and in both ways of a trip.
"$bench" shuffle --link-latency 50ms "${link[@]/1M/64K}" > "$tmp/link" || fail "$(cat "$tmp/link")"
sed -n 's/^ *"value": \(.*\),/\1/p' "$tmp/link" |
	awk '$1 > 65536 / 0.05 * 1e-9 { bad = 1 } END { exit bad || !NR }' ||
	fail "64 KiB in less than 50 ms: $(cat "$tmp/link")"
for command in latency "replicate --latency --targets 2 --mode naive"; do
	read -ra words <<< "$command"
	"$bench" "${words[@]}" --link-latency 100us --iterations 20 --repeat 1 --tuple-size 16 --json \
		--timeout "$wait_limit" > "$tmp/link" || fail "$command: $(cat "$tmp/link")"
	sed -n 's/^ *"min": \(.*\),/\1/p' "$tmp/link" |
		awk '$1 < 200000 { bad = 1 } END { exit bad || !NR }' ||
		fail "$command is faster than its link: $(cat "$tmp/link")"
done
refused 64 '--link-bandwidth: only with --api batch' shuffle --link-bandwidth 1M
refused 64 "--link-bandwidth '10': not a number" shuffle --link-bandwidth 10

# What is finished stays. What a stop has left, and other rounds, are run.
before=$(stat -c %i B6-sequencer.json)
echo '{"rows": [' > E8-memory.json
: > B6-sequencer.json.part
runs E8 B6 --out . "${quick[@]}"
[ "$(stat -c %i B6-sequencer.json)" = "$before" ] || fail "B6 was run again"
grep -q '"verified": true' E8-memory.json || fail "E8 was not run again"
runs B6 --out . "${quick[@]}" --again
[ "$(stat -c %i B6-sequencer.json)" != "$before" ] || fail "--again did not run B6"
before=$(stat -c %i B6-sequencer.json)
runs B6 --out . --seconds 0.002 --repeat 1
[ "$(stat -c %i B6-sequencer.json)" != "$before" ] || fail "B6 has other rounds' results"
# Statements of what stays are those of this program, found in the rows that are there.
before=$(grep -c '"repeats"' B6-sequencer.json)
sed -i -e 's/"finding": "[^"]*"/"finding": "old"/' -e 's/"title": "[^"]*"/"title": "old"/' \
	B6-sequencer.json
runs B6 --out . --seconds 0.002 --repeat 1
! grep -q '"old"' B6-sequencer.json || fail "an old statement stays"
[ "$(grep -c '"repeats"' B6-sequencer.json)" = "$before" ] || fail "rows of B6 are lost"
# A row that is not verified is no result.
sed -i '0,/"verified": true/s//"verified": false/' B6-sequencer.json
runs B6 --out . --seconds 0.002 --repeat 1
! grep -q '"verified": false' B6-sequencer.json || fail "B6 keeps a wrong result"

# A command that fails fails its experiment, but the others are run.
rc=0
DFI_RING_MEMORY_LIMIT=1 timeout $wait_limit "$bench" run B4 E8 --out "$tmp/failed" "${quick[@]}" \
	> "$tmp/out" 2> "$tmp/err" || rc=$?
[ $rc = 1 ] || fail "a failure ends with $rc: $(cat "$tmp/out" "$tmp/err")"
grep -q '^B4 .* FAILED$' "$tmp/out" || fail "B4: $(cat "$tmp/out")"
grep -q '^E8 ' "$tmp/out" || fail "after B4: $(cat "$tmp/out")"

# A terminal, and only a terminal, shows the progress of what takes more than two seconds.
if command -v script > "$tmp/out"; then
	script -qec "$bench run B5 --out progress" /dev/null > "$tmp/out" 2> "$tmp/err" ||
		fail "run on a terminal: $(cat "$tmp/out")"
	grep -q '1 of 1, [0-9]* s left: B5 idle, ' "$tmp/out" ||
		fail "no progress: $(cat "$tmp/out")"
fi
! grep -q 'left: ' "$tmp/err" || fail "progress without a terminal"

refused 64 'nearest is sequencer' run sequencr --out .
refused 64 '--out DIR' run E8
refused 64 'name experiments' run --out .
refused 64 'name experiments' run E8 --all --out .
refused 64 "no experiment 'E99'" list E99
refused 64 "--nodes '2x'" memory --nodes 2x
refused 64 "--nodes '64x65'" memory --nodes 64x65
refused 1 'a file has this name' run E8 --out E8-memory.json
