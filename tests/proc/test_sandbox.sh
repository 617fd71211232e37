#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_sandbox.sh BIN_DIR FORBID: programs in a sandbox that forbids calls (forbid.c) or has
# no /proc run without these, or say what is forbidden.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 forbid=$2
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

rc=0
"$forbid" faccessat2 EPERM /bin/true || rc=$?
[ $rc != 77 ] || exit 77
[ $rc = 0 ] || fail "/bin/true: exit status $rc"

printf 'k,v\n1,2\n2,3\n' > "$tmp/r.csv"
query="SELECT k, SUM(v) FROM \"$tmp/r.csv\" GROUP BY k"
join=(--nodes 2 --inner-csv "$tmp/r.csv" --inner-key k --outer-csv "$tmp/r.csv"
	--outer-key k)
bench=(shuffle --tuple-size 16 --api push --seconds 0.01 --repeat 1)

runs() # COMMAND...
{
	timeout 60 "$@" > "$tmp/out" 2>&1 || fail "$* ends with $?: $(cat "$tmp/out")"
}

says() # WORDS COMMAND...: they are in its error
{
	local rc=0

	timeout 60 "${@:2}" 2>&1 | cat > "$tmp/log" || rc=$?
	[ $rc = 1 ] || fail "${*:2} ends with $rc: $(cat "$tmp/log")"
	grep -q -- "$1" "$tmp/log" || fail "${*:2}: no '$1' in: $(cat "$tmp/log")"
}

# An existing result is replaced.
: > "$tmp/result.csv"
runs "$forbid" faccessat2 EPERM "$bin/radix_join" "${join[@]}" --output "$tmp/result.csv"
[ -s "$tmp/result.csv" ] || fail "radix_join --output wrote nothing"

# A file without a name can't be given one.
for error in EPERM ENOSYS; do
	rm "$tmp/result.csv"
	runs "$forbid" linkat $error "$bin/radix_join" "${join[@]}" --output "$tmp/result.csv"
	[ -s "$tmp/result.csv" ] || fail "radix_join --output wrote nothing without linkat"
	[ -z "$(find "$tmp" -name '.radix_join*')" ] || fail "radix_join leaves a file behind"
done

for error in EPERM ENOSYS; do
	says 'memfd_create.*seccomp' "$forbid" memfd_create $error "$bin/hello_flow"
	says 'rows: memfd_create: .*seccomp' "$forbid" memfd_create $error \
		"$bin/aggregate" "$query"
	says 'tables: memfd_create: .*seccomp' "$forbid" memfd_create $error \
		"$bin/radix_join" "${join[@]}"
	says 'board: memfd_create: .*seccomp' "$forbid" memfd_create $error \
		"$bin/dfi-bench" "${bench[@]}"
done
says 'fallocate.*seccomp' "$forbid" fallocate EPERM "$bin/hello_flow"
says 'dfi_open: mmap or madvise: Operation not permitted.*seccomp' "$forbid" madvise EPERM \
	"$bin/hello_flow"
if command -v prlimit > "$tmp/log"; then
	says 'ulimit -f' prlimit --fsize=100 "$bin/dfi-bench" "${bench[@]}"
fi

# A thread that fails ends the round, so the others do not wait for it.
says '^dfi-bench: target 0: .*seccomp' "$forbid" fallocate EPERM "$bin/dfi-bench" "${bench[@]}"
! grep -q 'nobody has opened' "$tmp/log" || fail "dfi-bench waits: $(cat "$tmp/log")"

if unshare --mount mount -t tmpfs none /proc 2> "$tmp/log"; then
	without_proc=(unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh)
	runs "${without_proc[@]}" "$bin/aggregate" "$query"
	runs "${without_proc[@]}" "$bin/radix_join" "${join[@]}"
	runs "${without_proc[@]}" "$bin/dfi-bench" "${bench[@]}"
fi
echo "programs in sandboxes passed"
