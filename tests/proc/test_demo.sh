#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_demo.sh BIN_DIR: the first part of the demo, the join of a package database, on
# unusual databases: packages without a size, with empty or odd fields, or no packages.
# Then the second part where memory is short. Exits with 77 if sqlite3 or dpkg-query is
# missing.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"

demo=$PWD/examples/radix_join/demo.sh
export BIN=$1
for program in sqlite3 dpkg-query; do
	if ! command -v $program > /dev/null; then
		echo "skipped: $program is not installed"
		exit 77
	fi
done
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

fail() # TEXT...
{
	echo "FAILED: $*"
	sed 's/^/  /' out
	exit 1
}

package() # NAME STATUS FIELD...: an entry of the database
{
	printf 'Package: %s\nStatus: %s\nMaintainer: nobody\n' "$1" "$2"
	printf 'Architecture: all\nVersion: 1.0\nDescription: none\n'
	[ $# -le 2 ] || printf '%s\n' "${@:3}"
	echo
}

# Run the demo on the database.
succeed() # WHAT PATTERN...: and expect lines in its output
{
	local what=$1 pattern

	timeout $wait_limit "$demo" --admindir "$tmp/db" 0 > out 2>&1 ||
		fail "$what: exit status $?"
	for pattern in "${@:2}"; do
		grep -q -e "$pattern" out || fail "$what: no '$pattern'"
	done
	n_checks=$((n_checks + 1))
}

installed='install ok installed'
mkdir -p db/info db/updates
: > db/available
{
	package libone "$installed" 'Installed-Size: 100' 'Section: libs'
	package libtwo "$installed"
	package three "$installed" 'Installed-Size: 7' \
		'Depends: libone (>= 1), libtwo | libone'
	package gone 'deinstall ok config-files' 'Installed-Size: 1000'
	package four "$installed" 'Depends: gone, libone'
} > db/status
succeed "a package without a size" 'packages *4 rows, 2 without a size' \
	'^radix_join.*: 4 matches, sum of their sizes 300 KiB' '^Equal'

{
	package libone "$installed" 'Installed-Size: many' \
		'Section: a "b", c' ' and	more'
	package libtwo "$installed" 'Installed-Size: 12.5' \
		"Section: $(printf 'caf\xe9')"
	package libten "$installed" 'Installed-Size: 0010' 'Section: grün'
	package five "$installed" 'Installed-Size: -5' \
		'Pre-Depends: libone:any, libtwo (<< 3)' \
		'Depends: libten, nobody | nothing'
} > db/status
succeed "odd fields" 'packages *4 rows, 3 without a size' \
	'^radix_join.*: 3 matches, sum of their sizes 10 KiB' '^Equal'

{
	package libone "$installed"
	package two "$installed" 'Depends: libone'
} > db/status
succeed "no sizes at all" 'packages *2 rows, 2 without a size' \
	'^radix_join.*: 1 matches, sum of their sizes 0 KiB' '^Equal'

package alone "$installed" 'Installed-Size: 5' > db/status
succeed "no dependencies" 'edges *0 rows' '0 matches' '^Equal'
: > db/status
succeed "no packages" 'packages *0 rows' '0 matches' '^Equal'

# --- Synthetic relations ---------------------------------------------------------

timeout $wait_limit "$demo" --admindir "$tmp/db" 10K > out 2>&1 ||
	fail "10K tuples: exit status $?"
grep -q '10240 matches, .*: verified in all runs' out || fail "10K tuples: not verified"

# The limit of an outer control group counts: no size fits in 64 MiB.
cat > below << END
for group in /sys/fs/cgroup/memory/dfi-test-$$ /sys/fs/cgroup/dfi-test-$$; do
	mkdir "\$group/below" 2> /dev/null && break
done
rc=0
(echo "\$BASHPID" > "\$group/below/cgroup.procs" && exec "\$@") || rc=\$?
until rmdir "\$group/below"; do sleep 0.1; done 2> /dev/null
exit \$rc
END
# AddressSanitizer takes more than programs know of.
rc=125
grep -q __asan_init "$BIN/radix_join" || in_memory $((64 << 20)) timeout $wait_limit \
	bash below "$demo" --admindir "$tmp/db" > out 2>&1
if [ $rc = 125 ]; then
	echo "not tried: a control group with a limit of memory, which takes root"
else
	[ $rc = 1 ] || fail "too little memory: exit status $rc"
	for size in 16M 4M 1M; do
		grep -q "^Only .*dfi-test-$$/memory.* is 64 MiB): too little for $size" out ||
			fail "too little memory for $size: no word of it"
	done
	grep -q '^demo: too little memory' out || fail "too little memory: no reason"
	n_checks=$((n_checks + 1))
fi

timeout $wait_limit "$demo" 0 > out 2>&1 || fail "this machine: exit status $?"
grep -q '^Equal' out || fail "this machine: no word of success"
echo "$((n_checks + 2)) checks passed"
