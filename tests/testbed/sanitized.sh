#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sanitized.sh BUILD_DIR: two programs of a build with sanitizers over verbs, in one virtual
# machine. One moves data in all ways. In the other, endpoints leave early, so connections
# break. flows.sh runs more programs, of a build without sanitizers.
set -euo pipefail

script=$(realpath "$0")

if [ "${1-}" != --inside ]; then
	exec "${script%/*}/testbed" up 1 --memory 3000 --cpus 1 --timeout 840 -- \
		bash "$script" --inside "$(realpath "$1")"
fi

cd "$2"
export DFI_TRANSPORT=verbs DFI_OPEN_TIMEOUT=20000 DFI_RING_MEMORY=1M
status=0
for test in test_transport test_leaving; do
	echo "== flow/$test"
	"tests/flow/$test" -j1 || status=1
done
exit $status
