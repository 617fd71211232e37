#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_join_files.sh BIN_DIR: the radix join example and files: results replace files as a
# whole or not at all, and inputs are never written. Frequent keys cost as much as their
# rows. Errors name limits. A signal ends all its processes at once.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"

join=$1/radix_join
tmp=$(mktemp -d)
trap 'end_children; umount -q "$tmp/small" || true; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

rows() # N TEXT: a CSV file of N rows with keys 1 to N
{
	awk -v n="$1" -v text="$2" 'BEGIN { print "k,v"
		for (i = 1; i <= n; i++) print i "," text i }'
}

# Join r.csv and s.csv; the exit status goes to $ret.
run() # ARGUMENT...
{
	command="radix_join $*"
	ret=0
	timeout $wait_limit "$join" --inner-csv r.csv --inner-key k \
		--outer-csv s.csv --outer-key k "$@" > out 2> err || ret=$?
	n_checks=$((n_checks + 1))
}

succeed() # ARGUMENT...
{
	run "$@"
	[ $ret -eq 0 ] || fail "$command: exit status $ret"
}

refuse() # PATTERN ARGUMENT...
{
	local pattern=$1
	shift
	run "$@"
	[ $ret -eq 1 ] || fail "$command: exit status $ret, not 1"
	grep -q -e "$pattern" err || fail "$command: no '$pattern'"
	if compgen -G ".radix_join*" > /dev/null; then
		fail "$command: a temporary file is left"
	fi
}

# --- Results -------------------------------------------------------------------

rows 50 x > r.csv
rows 50 y > s.csv
rows 50 x > kept.csv
mkdir folder
ln r.csv hard.csv
ln -s ../s.csv folder/link.csv
for output in r.csv ./folder/../r.csv hard.csv folder/link.csv s.csv; do
	refuse "is the input [rs].csv" --output "$output"
	cmp -s r.csv kept.csv || fail "$command: the input has changed"
done
refuse "is the input r.csv" --output /dev/fd/9 9>> r.csv
cmp -s r.csv kept.csv || fail "$command: the input has changed"

ret=0
timeout $wait_limit "$join" --inner-csv r.csv --inner-key k --outer-csv s.csv \
	--outer-key k >> s.csv 2> err || ret=$?
[ $ret -eq 1 ] || fail "a report into s.csv: exit status $ret"
grep -q 's.csv: standard output is this file' err || fail "a report into s.csv"
[ "$(wc -l < s.csv)" -eq 51 ] || fail "a report into s.csv: it has changed"

# A new file has the mode that the umask leaves, an old one keeps its own.
(umask 027; succeed --output new.csv --columns outer:k)
[ "$(stat -c %a new.csv)" = 640 ] || fail "new.csv: mode $(stat -c %a new.csv)"
[ "$(wc -l < new.csv)" -eq 51 ] || fail "new.csv: $(wc -l < new.csv) lines"
chmod 604 new.csv
ln -s ../new.csv folder/new.csv
echo old > new.csv
succeed --output folder/new.csv
[ -L folder/new.csv ] || fail "$command: the symbolic link is gone"
[ "$(stat -c %a new.csv)" = 604 ] || fail "$command: mode $(stat -c %a new.csv)"
[ "$(wc -l < new.csv)" -eq 51 ] || fail "$command: $(wc -l < new.csv) lines"
ln -s later.csv dangling.csv
succeed --output dangling.csv
[ -L dangling.csv ] && [ -s later.csv ] || fail "$command: no later.csv"

# A pipe or device gets the rows directly and nothing else: if rows go to standard output,
# the report goes to standard error.
for output in /dev/stdout /dev/fd/1 out; do
	for format in "" --json; do
		# shellcheck disable=SC2086
		succeed --output $output $format
		[ "$(wc -l < out)" -eq 51 ] && ! grep -qv '^".*"$' out ||
			fail "$command: not the rows alone: $(tail -n 1 out)"
		grep -q "matches" err || fail "$command: no report"
	done
done
mkfifo pipe
cat pipe > piped &
succeed --output pipe
wait $!
[ "$(wc -l < piped)" -eq 51 ] || fail "$command: $(wc -l < piped) lines"
refuse "No space left" --output /dev/full
refuse "Is a directory" --output folder
refuse "names no file" --output "new/"
refuse "cannot write to its folder" --output nowhere/new.csv

# A join that fails, or is killed, leaves the earlier result.
echo earlier > new.csv
echo 'k,v,w' > s.csv
echo '1,2' >> s.csv
refuse "the row has 2 fields" --output new.csv
[ "$(cat new.csv)" = earlier ] || fail "$command: the earlier result is gone"
if [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=256k x small; then
	rows 20000 x > r.csv
	rows 20000 y > s.csv
	echo earlier > small/new.csv
	refuse "No space left" --output small/new.csv
	[ "$(cat small/new.csv)" = earlier ] ||
		fail "$command: the earlier result is gone"
	[ "$(ls -A small)" = new.csv ] || fail "$command: left $(ls -A small)"
else
	echo "not tried: a full file system, which takes root"
fi

# --- Frequent keys -------------------------------------------------------------

# A key that is so frequent on both sides that there are 4e10 pairs.
# The same key as a text and as an integer, at the rows' end, with a sum.
for key in same 7; do
	awk -v key=$key 'BEGIN { print "k,v"
		for (i = 0; i < 200000; i++) print key ",3" }' > r.csv
	{ cat r.csv; echo 8,1; } > s.csv
	for how in "--nodes 2" "--nodes 1 --radix-bits 4" \
		"--nodes 2 --strategy replicate" "--nodes 2 --baseline local"
	do
		# shellcheck disable=SC2086
		succeed $how --sum outer:v
		grep -q '^matches *40000000000$' out ||
			fail "$command: $(grep matches out)"
		grep -q '^sum *120000000000 ' out || fail "$command: $(grep sum out)"
		grep -q '^verified: true' out || fail "$command: not verified"
	done
done

# --- An end from outside ---------------------------------------------------------

# With 4e10 rows of output, it runs until a signal ends it.
processes() # PID...: of them, those that run
{
	local pid name state rest
	for pid in "$@"; do
		read -r _ name state rest 2> /dev/null < "/proc/$pid/stat" ||
			continue
		[ "$state" = Z ] || echo "$pid $name"
	done
}

echo earlier > new.csv
for signal in INT TERM KILL; do
	command="radix_join --output new.csv, then SIG$signal"
	# A shell's background jobs ignore SIGINT; this one must not.
	(trap - INT; exec env --default-signal=INT "$join" --nodes 2 \
		--inner-csv r.csv --inner-key k --outer-csv s.csv \
		--outer-key k --output new.csv > out 2> err) &
	parent=$!
	deadline=$((SECONDS + 60)) nodes=()
	until [ ${#nodes[@]} -eq 2 ]; do
		[ $SECONDS -lt $deadline ] || fail "$command: no nodes came"
		read -r -a nodes < "/proc/$parent/task/$parent/children" || :
	done
	begin=$SECONDS
	kill -$signal $parent
	# They end at once, which takes a busy machine some seconds.
	until [ -z "$(processes $parent "${nodes[@]}")" ]; do
		[ $((SECONDS - begin)) -le 10 ] ||
			fail "$command: $(processes $parent "${nodes[@]}") is left"
	done
	ret=0
	wait $parent || ret=$?
	[ $ret -gt 128 ] || fail "$command: exit status $ret"
	[ "$(cat new.csv)" = earlier ] || fail "$command: an unfinished result"
	if compgen -G ".radix_join*" > /dev/null; then
		fail "$command: a temporary file is left"
	fi
	n_checks=$((n_checks + 1))
done

# --- The start -------------------------------------------------------------------

# A parent's setting of SIGCHLD makes no difference.
rows 50 x > r.csv
rows 50 y > s.csv
command="radix_join with SIGCHLD ignored"
timeout $wait_limit env --ignore-signal=CHLD "$join" --nodes 2 \
	--inner 1K --outer 1K > out 2> err || fail "$command: exit status $?"
grep -q '^verified: true' out || fail "$command: not verified"

# --timeout is for other machines, so the program waits for a slower node of this one: here
# the node is stopped for longer, right after its start.
command="radix_join --timeout 1 with a slow node"
slow_node()
{
	local parent node=

	"$join" --nodes 2 --inner 1K --outer 1K --timeout 1 > out 2> err &
	parent=$!
	until [ -n "$node" ]; do
		read -r node _ < "/proc/$parent/task/$parent/children" ||
			kill -0 $parent || fail "$command: it ended early"
	done
	kill -STOP "$node"
	sleep 2 # played: nothing shows that more than --timeout has gone by
	kill -CONT "$node"
	wait $parent
}
# The stop may come late, in a call: its deadline has then passed when the node goes on.
slow_node || { grep -qE 'no answer in time|this process was stopped' err && slow_node; } ||
	fail "$command: exit status $?"
n_checks=$((n_checks + 1))

# A misspelt argument is an error with a text.
refuse "no column is named 'nokey'" --outer-key nokey --output new.csv
refuse "no column is named 'nokey'" --inner-key nokey --output new.csv
refuse "no column is named 'nokey'" --sum inner:nokey --output new.csv
refuse "no column is named 'nokey'" --columns outer:nokey --output new.csv

# Cells do not drive the terminal.
printf 'k,v\n\033[2J\007,1\n' > r.csv
refuse '\\x1b\[2J\\a' --key-type integer
if grep -q $'\033' err; then
	fail "$command: an escape sequence of a cell is printed"
fi

# A pipe can be read once, so it can be only one of both inputs.
rows 50 x > r.csv
mv s.csv t.csv
mkfifo s.csv
cat t.csv > s.csv &
succeed
wait $!
grep -q '^matches *50$' out || fail "$command: $(grep matches out)"
refuse "can be read only once" --inner-csv /dev/stdin --outer-csv /dev/stdin \
	< <(cat t.csv)

# Standard output that does not take all rows is an error.
command="radix_join > /dev/full"
ret=0
"$join" --nodes 1 --inner 1K --outer 1K > /dev/full 2> err || ret=$?
[ $ret -eq 1 ] || fail "$command: exit status $ret"
grep -q "No space left" err || fail "$command: no word of it"

# --- Memory ----------------------------------------------------------------------

# The limit of a control group, or of an outer one, is an error as if memory were full.
limit_memory() # GROUP BYTES: 0, or 1 if this machine can't
{
	mkdir "$1" 2> /dev/null || return 1
	echo "$2" 2> /dev/null > "$1/memory.max" ||
		echo "$2" 2> /dev/null > "$1/memory.limit_in_bytes"
}

limited=
for root in /sys/fs/cgroup /sys/fs/cgroup/memory; do
	group=$root/dfi-test-join-$$
	[ -z "$limited" ] && [ -w "$root/cgroup.procs" ] || continue
	if limit_memory "$group" $((256 << 20)) && mkdir "$group/inner"; then
		limited=$group
		command="radix_join in a control group of 256 MiB"
		ret=0
		(echo "$BASHPID" > "$group/inner/cgroup.procs"
			exec timeout $wait_limit "$join" --nodes 2 --inner 16M \
				--outer 16M > out 2> err) || ret=$?
		rmdir "$group/inner"
	fi
	rmdir "$group" 2> /dev/null || :
done
if [ -n "$limited" ]; then
	[ $ret -eq 1 ] || fail "$command: exit status $ret"
	grep -q "MiB are left in the control group ($limited/memory" err ||
		fail "$command: no word of the limit"
	n_checks=$((n_checks + 1))
else
	echo "not tried: a control group with a memory limit, which takes root"
fi

echo "$n_checks checks passed"
