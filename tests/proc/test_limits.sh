#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_limits.sh BIN_DIR: programs that meet a limit of theirs (ulimit) name it, at once.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

command -v prlimit > "$tmp/log" || exit 77
printf 'k,v\n1,2\n2,3\n' > "$tmp/r.csv"
query="SELECT k, SUM(v) FROM \"$tmp/r.csv\" GROUP BY k"
join=(--nodes 2 --inner-csv "$tmp/r.csv" --inner-key k --outer-csv "$tmp/r.csv"
	--outer-key k)

# Each thread has a stack of 1 GiB. The library's threads start first, so the limit grows
# until a thread of the program is the one without room.
short_of() # LIMIT OPTION PROGRAM [ARGUMENT]...
{
	local gb rc

	for gb in 1 2 3 4 5 6; do
		rc=0
		timeout 60 prlimit --stack=$((1 << 30)):$((1 << 30)) \
			"--$1=${gb}500000000" "$bin/$3" "${@:4}" > "$tmp/out" 2>&1 || rc=$?
		[ $rc = 1 ] || fail "$* ends with $rc: $(cat "$tmp/out")"
		! grep -q "cannot start a thread: its stack needs 1073741824 bytes of .*, but \
[0-9]* are left of ${gb}500000000: raise the limit (ulimit $2)" "$tmp/out" || return 0
		grep -q "thread '.*' needs .* are left .*(ulimit $2)" "$tmp/out" ||
			fail "$* says: $(cat "$tmp/out")"
	done
	fail "$* never starts a thread of its own"
}
short_of as -v aggregate "$query"
short_of as -v parameter_server 2 1000 2
short_of data -d parameter_server 2 1000 2
short_of as -v radix_join "${join[@]}" --threads 4
short_of as -v radix_join --baseline local --threads 8 --inner 1K --outer 1K
short_of as -v dfi-bench raw --procs 1 --seconds 0.01 --repeat 1

# 32 MiB in a column do not fit in 24 MiB, but a query that leaves the column out
# does not load it.
awk 'BEGIN { for (text = "x"; length(text) < 65536;) text = text text
	print "k,v,long"; for (i = 1; i <= 512; i++) print i ",2," text }' \
	> "$tmp/wide.csv"
wide() # STATUS PROGRAM [ARGUMENT]...
{
	local rc=0

	timeout 60 prlimit --stack=$((1 << 20)) --data=$((24 << 20)) "$bin/$2" \
		"${@:3}" > "$tmp/out" 2>&1 || rc=$?
	[ $rc = "$1" ] || fail "${*:2} ends with $rc: $(cut -c 1-300 "$tmp/out")"
	[ $rc = 0 ] || grep -q memory "$tmp/out" ||
		fail "${*:2} says: $(cut -c 1-300 "$tmp/out")"
}
wide 0 aggregate -p 1 "SELECT k, SUM(v) FROM \"$tmp/wide.csv\" GROUP BY k"
wide 1 aggregate -p 1 "SELECT k, COUNT(long) FROM \"$tmp/wide.csv\" GROUP BY k"
join_wide=(radix_join --nodes 1 --inner-csv "$tmp/wide.csv" --inner-key k
	--outer-csv "$tmp/r.csv" --outer-key k)
wide 0 "${join_wide[@]}" --sum inner:v
wide 0 "${join_wide[@]}" --output "$tmp/joined.csv" --columns inner:v,outer:v
wide 1 "${join_wide[@]}" --output "$tmp/joined.csv" --columns inner:long

# The kernel would end a process that fills more memory than its control group may.
no_room() # MIB ADVICE PROGRAM [ARGUMENT]...
{
	local status=1

	[ "$3" != dfi-kv ] || status=69
	in_memory $(($1 << 20)) timeout 60 "$bin/$3" "${@:4}" > "$tmp/out" 2>&1
	[ $rc != 125 ] || return 0
	[ $rc = $status ] || fail "in $1 MiB, ${*:3} ends with $rc: $(cat "$tmp/out")"
	grep -q "needs* [0-9]* MiB of memory, but [0-9]* MiB are left in the control group \
(.* is $1 MiB): choose .*$2" "$tmp/out" || fail "in $1 MiB, ${*:3} says: $(cat "$tmp/out")"
}
quick=(--seconds 0.01 --repeat 1)
no_room 96 --no-baseline dfi-bench combine --groups 1 "${quick[@]}"
no_room 24 --groups dfi-bench combine --groups 1000000 --bytes 1M "${quick[@]}"
no_room 24 --segments dfi-bench raw --sweep "${quick[@]}"
no_room 24 --segment-size dfi-bench shuffle --tuple-size 1M --api batch "${quick[@]}"
no_room 24 --targets dfi-bench replicate --segment-size 64K --segments 512 "${quick[@]}"
no_room 24 --iterations dfi-bench latency --iterations 10000000 --repeat 1
no_room 24 --iterations dfi-bench replicate --latency --iterations 10000000 --repeat 1
# Replicas of the store, whose logs fill while they run.
for mib in 12 24 48 96; do
	no_room $mib --memory dfi-kv-run --replicas 3 --clients 2 --workload a
done
DFI_REGISTRY=unix:$tmp/registry
export DFI_REGISTRY
"$bin/dfi-registry" --print-address --listen "$DFI_REGISTRY" > "$tmp/address" &
await "$tmp/address"
no_room 48 --memory dfi-kv --id 0 --replicas 3 --bootstrap
# Programs that fit run.
in_memory $((128 << 20)) timeout 60 "$bin/dfi-kv-run" --replicas 1 --memory 1 \
	--clients 1 --workload a --seconds 0.1 --warm-up 0.1 > "$tmp/out" 2>&1
[ $rc = 125 ] || [ $rc = 0 ] ||
	fail "dfi-kv-run ends with $rc where there is room: $(cat "$tmp/out")"
in_memory $((48 << 20)) timeout 60 "$bin/dfi-bench" combine --groups 1 --bytes 1M \
	"${quick[@]}" > "$tmp/out" 2>&1
[ $rc = 125 ] && echo "not tried: control groups with a limit of memory, which take root" ||
	[ $rc = 0 ] || fail "dfi-bench ends with $rc where there is room: $(cat "$tmp/out")"
