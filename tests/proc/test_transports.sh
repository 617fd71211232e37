#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_transports.sh BIN_DIR HOLDER LOOPBACK_DIR: the counters of a transport that
# dfi-info does not know. The holder finds a libdfi.so with one transport more.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 holder_program=$2 loopback=$3
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

has() # PATTERN...
{
	local pattern

	for pattern; do
		grep -q -- "$pattern" "$tmp/stat" ||
			fail "no '$pattern' in $(cat "$tmp/stat")"
	done
}

"$bin/dfi-registry" --listen "unix:$tmp/socket" --print-address > "$tmp/address" &
await "$tmp/address"
export DFI_REGISTRY="unix:$tmp/socket"
mkfifo "$tmp/hold"
LD_LIBRARY_PATH=$loopback DFI_TRANSPORT=verbs DFI_TEST_LOOPBACK=1 \
	"$holder_program" "the holder" < "$tmp/hold" > "$tmp/ready" &
exec 3> "$tmp/hold"
await "$tmp/ready"
echo r >&3

# Wait until the holder has written its tuples. dfi-info waits for 2 s, and a busy machine
# may be late by more.
deadline=$((SECONDS + 60))
until "$bin/dfi-info" stat > "$tmp/stat"
	grep -q "posted *[1-9][0-9]* writes of [1-9]" "$tmp/stat"; do
	[ $SECONDS -lt $deadline ] || fail "no writes in $(cat "$tmp/stat")"
	sleep 0.05
done
has "^  loopback    (this dfi-info does not know it) memory, loopback:" \
	"^    counters  additions [0-9]*$" "^    broken    0 connections$"
"$bin/dfi-info" stat --json > "$tmp/stat"
has '"transport": "loopback"' '"known": false' '"device": "memory"' \
	'"writes": [1-9]' '"counters": {' '"additions": [0-9]'
