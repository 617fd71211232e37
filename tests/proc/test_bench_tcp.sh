#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_tcp.sh BIN_DIR: dfi-bench tcp brings all tuples over libfabric and by each
# rival that is installed, and names those that are not.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

timeout "$wait_limit" "$bin/dfi-bench" tcp --wide --bytes 256K --iterations 100 --repeat 1 \
	> "$tmp/rows" 2> "$tmp/log" || fail "dfi-bench tcp: $(cat "$tmp/rows" "$tmp/log")"
for rival in fi_write iperf3 send zeromq fi_pingpong; do
	if grep -q "^# $rival: not installed, no row$" "$tmp/rows"; then
		! grep -q "/s .* $rival " "$tmp/rows" ||
			fail "$rival has a row, and is not installed: $(cat "$tmp/rows")"
	else
		grep -q "^ .* $rival .* yes$" "$tmp/rows" ||
			fail "$rival has no row that is right: $(cat "$tmp/rows")"
	fi
done
# That needs nothing but a compiler.
grep -q "^ .* send .* yes$" "$tmp/rows" || fail "no send(2): $(cat "$tmp/rows")"

# Without the programs in the PATH their rows are gone, and nothing else.
timeout "$wait_limit" env PATH="$tmp" "$bin/dfi-bench" tcp --measure segments --bytes 256K \
	--segment-size 8K --repeat 1 --json > "$tmp/rows" 2> "$tmp/log" ||
	fail "dfi-bench tcp without iperf3: $(cat "$tmp/log")"
! grep -q iperf3 "$tmp/rows" || fail "iperf3 runs without being there"
grep -q '"transport": "ofi"' "$tmp/rows" || fail "not over libfabric: $(cat "$tmp/rows")"

if "$bin/dfi-bench" tcp --measure nothing > /dev/null 2> "$tmp/log"; then
	fail "dfi-bench tcp measures nothing"
fi
grep -q -- '--measure' "$tmp/log" || fail "no word of --measure: $(cat "$tmp/log")"
