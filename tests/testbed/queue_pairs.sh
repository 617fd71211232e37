#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# queue_pairs.sh BUILD_DIR [FOLDER]: experiment B23 of dfi-bench, queue pairs against flows, in
# a virtual machine with soft-RoCE. Its statements about queue pairs have to agree; those about
# speed depend on what else the host does. FOLDER gets the file of results.
set -euo pipefail

build=$(realpath "$1") folder=${2-}
script=$(realpath "$0")
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# Handshakes of an emulated machine take seconds on a busy host.
DFI_OPEN_TIMEOUT=60000 "${script%/*}/testbed" up 1 --cpus 2 --memory 1500 --timeout 840 -- \
	bash -euc "$build/bin/dfi-bench run B23 --seconds 0.05 --repeat 3 --out \$SHARED/b23
		cat \$SHARED/b23/B23-queue-pairs.json" > "$out" || {
	cat "$out"
	exit 1
}
grep '^B23' "$out"
sed -n '/^{/,$p' "$out" > "$out.json"
trap 'rm -f "$out" "$out.json"' EXIT
[ "$(grep -A2 '"text": "64 [a-z ]* have \(the queue pairs\|those\) of one"' "$out.json" |
	grep -c '"verdict": "agrees"')" = 2 ] || {
	cat "$out.json"
	exit 1
}
[ "$(grep -c '"device": "rxe0 (soft-RoCE in a VM)"' "$out.json")" = 12 ]
[ "$(grep -c '"verified": true' "$out.json")" = 12 ]
[ -z "$folder" ] || cp "$out.json" "$folder/B23-queue-pairs.json"
