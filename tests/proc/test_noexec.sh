#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_noexec.sh BIN_DIR NOEXEC: programs run where memory files must not be
# executable (noexec.c). Where the kernel can't be told that they are not, the
# error names the setting.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 noexec=$2
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

rc=0
"$noexec" /bin/true || rc=$?
[ $rc != 77 ] || exit 77
[ $rc = 0 ] || fail "/bin/true: exit status $rc"

# Since Linux 6.3.
known=$([ -e /proc/sys/vm/memfd_noexec ] && echo yes || echo no)

runs() # PROGRAM [ARGUMENT]...
{
	local rc=0

	timeout $wait_limit "$noexec" "$bin/$1" "${@:2}" > "$tmp/out" 2>&1 || rc=$?
	if [ $rc != 0 ]; then
		[ $known = no ] || fail "$*: exit status $rc: $(cat "$tmp/out")"
		grep -q 'vm\.memfd_noexec' "$tmp/out" ||
			fail "$*: no vm.memfd_noexec in: $(cat "$tmp/out")"
	fi
}

runs hello_flow
runs dfi-bench shuffle --procs 2 --tuple-size 16 --seconds 0.01 --repeat 1
seq 100 | sed '1i a' > "$tmp/table.csv"
runs radix_join --nodes 2 --inner-csv "$tmp/table.csv" --inner-key a \
	--outer-csv "$tmp/table.csv" --outer-key a
runs aggregate "select a, count(*) from \"$tmp/table.csv\" group by a"
