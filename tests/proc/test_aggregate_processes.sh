#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_aggregate_processes.sh BIN_DIR: all processes of the aggregate example work on the
# same rows, also from a pipe and from a file that grows, and in two invocations, as on two
# machines (proc.test_ofi_programs runs them on two hosts). A process that dies ends the run
# with its reason. Lost output is an error.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C

bin=$(realpath "$1") aggregate=$1/aggregate
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

passed()
{
	n_checks=$((n_checks + 1))
}

run() # ARGUMENT...: the aggregate must succeed
{
	timeout $wait_limit "$aggregate" "$@" > out 2> err || fail "$*: exit status $?"
}

# --- One file for all ---------------------------------------------------------

printf 'city,price\na,1\nb,2\na,3\n' > f.csv
expected='a,2,4 b,1,2 '
check_rows() # WHAT
{
	[ "$(sed 1d out | sort | tr '\n' ' ')" = "$expected" ] ||
		fail "$1: $(sed 1d out | sort | tr '\n' ' '), not $expected"
	passed
}
items='select city, count(*), sum(price)'
run -p 3 "$items from /dev/stdin group by city" < <(cat f.csv)
check_rows "standard input"
run -p 3 "$items from /dev/fd/9 group by city" 9< <(cat f.csv)
check_rows "a descriptor"
mkfifo fifo
cat f.csv > fifo &
run -p 3 "$items from fifo group by city"
check_rows "a FIFO"
# Some programs get sockets for standard streams.
if command -v perl > /dev/null; then
	# shellcheck disable=SC2016
	perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die;
		if (fork) { close B; open STDIN, "<&A"; exec @ARGV; }
		close A; open F, "f.csv"; print B <F>;' \
		timeout $wait_limit "$aggregate" "$items from /dev/stdin group by city" \
		> out 2> err || fail "a socket: exit status $?"
	check_rows "a socket"
fi

# Rows are appended all the time; the result has the rows of one moment.
{
	echo id,value
	seq -f '%.0f,0' 100000
} > log.csv
(
	n=100000
	while [ ! -e stop ]; do
		seq -f '%.0f,0' $((n + 1)) $((n + 500)) >> log.csv
		n=$((n + 500))
	done
) &
writer=$!
for i in 1 2 3; do
	run -p 3 'select id, count(*) from log.csv group by id'
	sed 1d out | sort -t, -n > ids
	awk -F, '$1 != NR || $2 != 1 { print; exit 1 }' ids > hole ||
		fail "a file that grows: row $(cat hole) of $(wc -l < ids)"
	[ "$(wc -l < ids)" -ge 100000 ] || fail "a file that grows: too few rows"
	passed
done
touch stop
wait $writer

# --- Processes ----------------------------------------------------------------

# A late process changes nothing, nor does a parent that ignores SIGCHLD.
DFI_OPEN_TIMEOUT=1 run -p 8 "$items from f.csv group by city"
check_rows "a short timeout"
env --ignore-signal=CHLD timeout $wait_limit "$aggregate" \
	"$items from f.csv group by city" > out 2> err ||
	fail "SIGCHLD ignored: exit status $?"
check_rows "SIGCHLD ignored"

# A process that is killed ends the run, which says so.
{
	echo k,v
	seq -f '%.0f,1' 300000
} > many.csv
kill_one() # how the run ended is in the file status
{
	local pid child deadline=$((SECONDS + 60))

	"$aggregate" -p 3 'select k, count(*) from many.csv group by k' > out 2> err &
	pid=$!
	child=
	while [ -z "$child" ] && [ -e /proc/$pid/task ] && [ $SECONDS -lt $deadline ]; do
		read -r child _ < /proc/$pid/task/$pid/children || :
	done 2> /dev/null
	[ -z "$child" ] || kill -KILL "$child" || :
	ret=0
	wait $pid || ret=$?
}
for try in {1..20}; do
	kill_one
	[ $ret -eq 0 ] || break # else it had ended
done
[ $ret -eq 1 ] || fail "a process is killed: exit status $ret after $try tries"
grep -q '^aggregate: process [0-2] (pid [0-9]*) was killed by signal 9' err ||
	fail "a process is killed: no word of it"
[ ! -s out ] || fail "a process is killed: something was printed"
passed

# --- Two invocations ----------------------------------------------------------

refuse() # PATTERN ARGUMENT...
{
	ret=0
	"$aggregate" "${@:2}" > out 2> err || ret=$?
	[ $ret -eq 64 ] || fail "${*:2}: exit status $ret, not 64"
	grep -q -- "$1" err || fail "${*:2}: no '$1'"
	passed
}
refuse 'a name to meet under: --run' --first-process 1
refuse 'a name to meet under: --run' -p 2 --local-processes 1 "$items from f.csv"
refuse 'said on the first machine only' --run r --first-process 1 -p 2
refuse '3 is more than --processes 2' --run r --local-processes 3 "$items from f.csv"
refuse "'a/b' is no name" --run a/b "$items from f.csv"
refuse 'say --run as well' --registry unix:@x "$items from f.csv"

if [ -x "$bin/dfi-registry" ]; then
	"$bin/dfi-registry" --listen "unix:$tmp/registry" --print-address > address &
	await address
	export DFI_REGISTRY=unix:$tmp/registry
	for keys in 'group by city' ''; do
		query="select ${keys:+city,} count(*), sum(price), max(price) from f.csv $keys"
		"$aggregate" "$query" | sort > one
		timeout $wait_limit "$aggregate" --run two --first-process 1 \
			--local-processes 2 2> other.err &
		other=$!
		run --run two -p 3 --local-processes 1 --fan-in 2 "$query"
		wait $other || fail "the other machine: $(cat other.err)"
		sort out | cmp one - || fail "two invocations have other results"
		passed
	done
	# One that doesn't come, and a first one that doesn't.
	ret=0
	"$aggregate" --run absent -p 2 --local-processes 1 --timeout 1 \
		'select count(*) from f.csv' > out 2> err || ret=$?
	[ $ret -eq 1 ] && grep -q 'process 1 of another machine did not come' err ||
		fail "another machine is absent: exit status $ret"
	ret=0
	"$aggregate" --run absent --first-process 1 --timeout 1 > out 2> err || ret=$?
	[ $ret -eq 1 ] && grep -q "waiting for the first machine: .*nobody" err ||
		fail "the first machine is absent: exit status $ret"
	# The other invocation's processes are killed: the first one says so.
	lose_machine() # how the first one ended is in $ret
	{
		local other first

		rm -f other.err
		timeout $wait_limit env DFI_LOG=info "$aggregate" --run killed \
			--first-process 1 --local-processes 2 2> other.err &
		other=$!
		timeout $wait_limit "$aggregate" --run killed -p 3 --local-processes 1 \
			'select k, count(*) from many.csv group by k' > out 2> err &
		first=$!
		until grep -qs "'killed.results': source . of 3 is attached" other.err; do
			kill -0 $other 2> /dev/null || fail "another machine: $(cat other.err)"
			sleep 0.01
		done
		kill_below $other 2> /dev/null
		wait $other || :
		ret=0
		wait $first || ret=$?
	}
	for try in {1..20}; do
		lose_machine
		[ $ret -eq 0 ] || break # else they had ended
	done
	[ $ret -eq 1 ] || fail "another machine dies: exit status $ret after $try tries"
	grep -qE 'died or closed before|failed with status' err ||
		fail "another machine dies: no word of it"
	[ ! -s out ] || fail "another machine dies: something was printed"
	passed
	unset DFI_REGISTRY
fi

# A limit on file sizes, which counts shared memory.
ret=0
(
	ulimit -f 64
	timeout $wait_limit "$aggregate" 'select sum(v) from many.csv' > out 2> err
) || ret=$?
[ $ret -eq 1 ] || fail "a limit on files: exit status $ret"
grep -q 'the file.s rows: .* of memory: File too large: .*(ulimit -f)' err ||
	fail "a limit on files: no word of it"
passed

# --- Memory -------------------------------------------------------------------

# In a control group with too little memory for the rows, the values or the rings, the
# kernel kills no process.
limited() # MIB: the exit status goes to $ret; 1 if this machine can't
{
	local root group

	for root in /sys/fs/cgroup /sys/fs/cgroup/memory; do
		group=$root/dfi-test-aggregate-$$
		[ -w "$root/cgroup.procs" ] && mkdir "$group" 2> /dev/null || continue
		if ! echo $(($1 << 20)) 2> /dev/null > "$group/memory.max" &&
			! echo $(($1 << 20)) 2> /dev/null > "$group/memory.limit_in_bytes"; then
			rmdir "$group"
			continue
		fi
		ret=0
		(echo "$BASHPID" > "$group/cgroup.procs"
			exec timeout $wait_limit "$aggregate" "$query" > out 2> err) || ret=$?
		deadline=$((SECONDS + 60))
		until rmdir "$group" 2> /dev/null; do
			[ $SECONDS -lt $deadline ] || fail "$group stays in use"
		done
		return 0
	done
	return 1
}
query='select k, count(*), sum(v) from many.csv group by k'
# AddressSanitizer takes more than programs know of.
if ! grep -q __asan_init "$aggregate" && limited 1024; then
	[ $ret -eq 0 ] || fail "1024 MiB of memory: exit status $ret"
	for mib in 5 10 15 20 24; do
		limited $mib || fail "no control group of $mib MiB"
		[ $ret -eq 1 ] || fail "$mib MiB of memory: exit status $ret"
		grep -q 'need [0-9]* MiB of memory, but [0-9]* MiB are left in the control group' \
			err || fail "$mib MiB of memory: no word of it"
		passed
	done
else
	echo "not tried: a control group with a memory limit, which takes root"
fi

# --- Output -------------------------------------------------------------------

query='select k, count(*) from many.csv group by k'
ret=0
timeout $wait_limit "$aggregate" "$query" > /dev/full 2> err || ret=$?
[ $ret -eq 1 ] || fail "a full device: exit status $ret"
grep -q 'standard output: No space left' err || fail "a full device: no word of it"
passed
timeout $wait_limit "$aggregate" "$query" 2> err | head -n 1 > out || :
[ "$(wc -l < err)" -le 1 ] || fail "a closed pipe: $(wc -l < err) lines of complaint"
[ "$(cat out)" = 'k,count(*)' ] || fail "a closed pipe: $(cat out)"
passed
ret=0
timeout $wait_limit "$aggregate" "$query" >&- 2> err || ret=$?
[ $ret -eq 1 ] && [ -s err ] || fail "no standard output: exit status $ret"
passed

echo "$n_checks checks"
