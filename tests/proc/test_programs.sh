#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_programs.sh BIN_DIR: the programs do what README says: hello_flow, the
# bench with its JSON, dfi-registry with dfi-info.
set -euo pipefail
bin=$1
tmp=$(mktemp -d)
registry=
trap '[ -z "$registry" ] || kill "$registry" 2>/dev/null; rm -rf "$tmp"' EXIT

fail()
{
	echo "test_programs: $*"
	exit 1
}

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

quick=(--seconds 0.01 --repeat 1 --json)
fields=('"host"' '"version"' '"rows"' '"value"' '"unit"' '"baseline"'
	'"baseline_value"' '"ratio"' '"min"' '"max"' '"repeats"'
	'"verified": true')
for procs in 1 2; do
	"$bin/dfi-bench" shuffle --procs $procs --tuple-size 16,24 --verify \
		"${quick[@]}" > "$tmp/shuffle" 2> "$tmp/log" ||
		fail "dfi-bench shuffle: $(cat "$tmp/log")"
	has "$tmp/shuffle" "${fields[@]}"
done
"$bin/dfi-bench" latency --repeat 1 --json > "$tmp/latency" 2> "$tmp/log" ||
	fail "dfi-bench latency: $(cat "$tmp/log")"
has "$tmp/latency" "${fields[@]}"
"$bin/dfi-bench" raw "${quick[@]}" > "$tmp/raw" 2> "$tmp/log" ||
	fail "dfi-bench raw: $(cat "$tmp/log")"
if "$bin/dfi-bench" shuffle --api nonsense > /dev/null 2>&1; then
	fail "dfi-bench takes an unknown api"
fi

"$bin/dfi-registry" --listen "unix:$tmp/socket" --print-address \
	> "$tmp/address" 2> "$tmp/log" &
registry=$!
for _ in $(seq 100); do
	[ -s "$tmp/address" ] && break
	sleep 0.05
done
has "$tmp/address" "unix:$tmp/socket"
export DFI_REGISTRY="unix:$tmp/socket"
"$bin/dfi-info" nodes > "$tmp/nodes"
has "$tmp/nodes" "dfi-info: host"
"$bin/dfi-info" nodes --json > "$tmp/nodes"
has "$tmp/nodes" '"nodes"' '"pid"' '"sources": 0'
"$bin/dfi-info" flows --json > "$tmp/flows"
has "$tmp/flows" '"flows": \[\]'

kill -TERM "$registry"
wait "$registry" || fail "dfi-registry ends with $? on SIGTERM"
registry=
[ ! -e "$tmp/socket" ] || fail "dfi-registry leaves its socket behind"
if "$bin/dfi-info" flows > /dev/null 2> "$tmp/log"; then
	fail "dfi-info finds flows without a registry"
fi
has "$tmp/log" "dfi-registry"
"$bin/dfi-registry" --listen tcp:0.0.0.0:7000 2> "$tmp/log" &&
	fail "dfi-registry takes a routable address"
has "$tmp/log" "loopback"
echo "all programs passed"
