#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_join.sh BIN_DIR: the radix join example gives right answers: synthetic
# relations against their closed form, CSV files against sqlite3, and errors with
# the right exit status. Exits with 77 if sqlite3 is not installed.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"

join=$1/radix_join
if ! command -v sqlite3 > /dev/null; then
	echo "skipped: sqlite3 is not installed"
	exit 77
fi
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

# A member of the JSON object on the first level.
member() # NAME
{
	sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" json
}

expect() # NAME VALUE
{
	local got
	got=$(member "$1")
	[ "$got" = "$2" ] || fail "$command: $1 is '$got', not '$2'"
}

# Run a join that must succeed; its report goes to the file json.
run() # ARGUMENT...
{
	command="radix_join $*"
	timeout $wait_limit "$join" --json "$@" > json 2> err ||
		fail "$command: exit status $?"
	expect verified true
	n_checks=$((n_checks + 1))
}

# Run one that must fail, with a text that matches a pattern.
refuse() # STATUS PATTERN ARGUMENT...
{
	local status=$1 pattern=$2 ret=0
	shift 2
	command="radix_join $*"
	timeout $wait_limit "$join" "$@" > out 2> err || ret=$?
	[ "$ret" -eq "$status" ] ||
		fail "$command: exit status $ret, not $status"
	grep -qE -- "$pattern" err ||
		fail "$command: stderr doesn't match '$pattern'"
	n_checks=$((n_checks + 1))
}

# --- Synthetic relations -----------------------------------------------------

# The number of matches follows from the arguments. The same relations have the same
# checksum with any number of workers, through flows or without. A given number of bits
# makes partitions, even for few inner tuples. DFI_TEST_WAYS: the number of ways for each
# pair of relations, at least two. Each pair takes the next ways, so that all are used.
ways=("--nodes 1" "--nodes 2" "--nodes 2 --loopback"
	"--nodes 3 --threads 2" "--nodes 1 --threads 5 --loopback"
	"--nodes 2 --radix-bits 5" "--nodes 3 --radix-bits 4 --strategy replicate"
	"--nodes 2 --baseline local" "--nodes 2 --strategy replicate"
	"--nodes 3 --threads 2 --strategy replicate --loopback")
first_way=0
n_ways=${DFI_TEST_WAYS:-5}
[ "$n_ways" -ge 2 ] || fail "DFI_TEST_WAYS=$n_ways compares nothing"

synthetic() # INNER OUTER SELECTIVITY MATCHES ARGUMENT...
{
	local inner=$1 outer=$2 selectivity=$3 matches=$4 sum="" i
	shift 4
	for ((i = 0; i < n_ways; i++)); do
		# shellcheck disable=SC2086
		run --inner "$inner" --outer "$outer" \
			--selectivity "$selectivity" \
			${ways[(first_way + i) % ${#ways[@]}]} "$@"
		expect matches "$matches"
		[ -z "$sum" ] || expect checksum "$sum"
		sum=$(member checksum)
	done
	first_way=$((first_way + i))
}

synthetic 0 0 1 0
synthetic 0 1000 1 0
synthetic 1000 0 1 0
synthetic 1 1 1 1
synthetic 3 1K 1 1024
synthetic 1K 7 0 0
synthetic 10000 30001 0.5 15001
synthetic 65536 65536 1 65536 --seed 7
synthetic 200K 300K 0.25 76800 --zipf 0.9
synthetic 50000 200000 1 200000 --zipf 1
synthetic 2 100000 0.75 75000 --zipf 2.5
# DFI_TEST_DIVISOR divides the size of the largest relations.
divisor=${DFI_TEST_DIVISOR:-1}
outer=$(((2 << 20) / divisor))
synthetic $(((1 << 20) / divisor)) $outer 1 $outer

# All workers together have sent everything, with --loopback.
run --inner 100K --outer 100K --nodes 2 --loopback
sent=$(awk '/"sent_bytes"/ { n += $2 } END { print n }' json)
[ "$sent" -eq $((200 * 1024 * 16)) ] || fail "$command: $sent bytes were sent"
run --inner 10K --outer 10K --no-pin --verify
expect strategy repartition

# The inner relation goes to all workers once; the outer one stays.
run --inner 1K --outer 300K --nodes 3 --strategy replicate
expect strategy replicate
sent=$(awk '/"sent_bytes"/ { n += $2 } END { print n }' json)
[ "$sent" -eq $((1024 * 16)) ] || fail "$command: $sent bytes were sent"

# auto: 2 W I < (I + O) (W - 1) / W + I, here 4000 < (1000 + O) / 2 + 1000
run --inner 1000 --outer 5000 --nodes 2 --strategy auto
expect strategy repartition
run --inner 1000 --outer 5002 --nodes 2 --strategy auto
expect strategy replicate
run --inner 1000 --outer 100000 --nodes 1 --strategy auto
expect strategy repartition
timeout $wait_limit "$join" --inner 10K --outer 10K --no-verify > out ||
	fail "text report: exit status $?"
grep -q "not checked" out || fail "--no-verify: no word of it in the report"

# --- A registry that others also use ------------------------------------------

"$1/dfi-registry" --listen "unix:$tmp/registry" --print-address \
	> address 2> err &
registry=$!
await address
timeout $wait_limit "$join" --inner 100K --outer 100K --registry "unix:$tmp/registry" \
	> other 2>&1 &
other=$!
run --inner 200K --outer 50K --nodes 2 --threads 2 \
	--registry "unix:$tmp/registry"
wait $other || fail "the other join: $(cat other)"
grep -q "verified: true" other || fail "the other join is not verified"
kill $registry
wait $registry || fail "dfi-registry: exit status $?"

# --- Tables ------------------------------------------------------------------

# Join by sqlite3 on the given columns of r (inner) and s (outer). An empty key is no key.
by_sqlite() # INNER OUTER INNER_KEY OUTER_KEY COLUMNS
{
	sqlite3 :memory: ".mode csv" ".import $1 r" ".import $2 s" \
		".mode list" "select $5 from r join s
		 on r.\"$3\" = s.\"$4\" where r.\"$3\" <> '' order by 1"
}

files() # INNER INNER_KEY OUTER OUTER_KEY
{
	echo --inner-csv "$1" --inner-key "$2" --outer-csv "$3" --outer-key "$4"
}

table_ways=("--nodes 1" "--nodes 2" "--nodes 3 --threads 2"
	"--nodes 2 --radix-bits 4" "--nodes 2 --baseline local")

# Check that all ways of joining two files have the same count, sum and rows.
tables() # INNER INNER_KEY OUTER OUTER_KEY SUM_COLUMN ARGUMENT...
{
	local inner=$1 inner_key=$2 outer=$3 outer_key=$4 sum=$5 how i
	shift 5
	local files=(--inner-csv "$inner" --inner-key "$inner_key"
		--outer-csv "$outer" --outer-key "$outer_key" "$@")
	local count total
	count=$(by_sqlite "$inner" "$outer" "$inner_key" "$outer_key" "count(*)")
	total=$(by_sqlite "$inner" "$outer" "$inner_key" "$outer_key" \
		"coalesce(sum(s.\"$sum\"), 0)")
	for ((i = 0; i < n_ways; i++)); do
		how=${table_ways[first_way++ % ${#table_ways[@]}]}
		# shellcheck disable=SC2086
		run "${files[@]}" $how --sum "outer:$sum"
		expect matches "$count"
		expect sum "${total%.0}"
	done
	# shellcheck disable=SC2086
	run "${files[@]}" $how
	expect matches "$count"
	run "${files[@]}" --nodes 2 --sum "outer:$sum" --strategy replicate
	expect matches "$count"
	expect sum "${total%.0}"

	run "${files[@]}" --nodes 2 --output rows.csv
	expect matches "$count"
	by_sqlite "$inner" "$outer" "$inner_key" "$outer_key" \
		"hex(r.\"$inner_key\") || ' ' || hex(s.\"$outer_key\") || ' ' ||
		 hex(s.\"$sum\")" | sort > expected
	sqlite3 :memory: ".mode csv" ".import rows.csv t" ".mode list" \
		"select hex(\"inner.$inner_key\") || ' ' ||
		 hex(\"outer.$outer_key\") || ' ' || hex(\"outer.$sum\") from t" |
		sort > got
	cmp -s expected got || fail "$command: rows differ from sqlite3's"
}

# Quotes, commas, line ends, spaces, no key, duplicates on both sides, CRLF,
# UTF-8 with and without a mark, a last line without an end.
printf '%s\r\n' 'id,"key, quoted",note' '1,alpha,x' '2,"be,ta","a ""b"" c"' \
	'3,"two
lines",y' '4,,no key' '5," spaces ",z' '6,alpha,again' '7,grün,ü' \
	'8,"q""uote",' '9,"",no key either' > awkward_r.csv
printf '\xef\xbb\xbfk,qty,text\nalpha,1,\nalpha,2,"1,2"\n"be,ta",10,\n' > awkward_s.csv
printf '"two\r\nlines",100,x\n"two\nlines",1000,\n,5,none\n' >> awkward_s.csv
printf '" spaces ",20,\nspaces,30,\ngrün,-7,\n"q""uote",,\nzeta,9,' >> awkward_s.csv
tables awkward_r.csv 'key, quoted' awkward_s.csv k qty
tables awkward_r.csv 'key, quoted' awkward_s.csv k qty --key-type string
run --inner-csv awkward_r.csv --inner-key "key, quoted" \
	--outer-csv awkward_s.csv --outer-key k --output some.csv \
	--columns outer:qty,inner:id
head -n 1 some.csv | grep -qx '"outer.qty","inner.id"' ||
	fail "$command: header $(head -n 1 some.csv)"

# A null stays a null, and an empty text one.
printf 'k,a,b\n1,,""\n' > nulls.csv
# shellcheck disable=SC2046
{
run $(files nulls.csv k nulls.csv k) --output some.csv --columns inner:a,outer:b,inner:k
[ "$(tail -n 1 some.csv)" = ',"","1"' ] || fail "$command: $(cat some.csv)"
run $(files nulls.csv k nulls.csv k) --output some.csv --columns outer:a
[ "$(cat some.csv; echo .)" = $'"outer.a"\n\n.' ] || fail "$command: $(cat some.csv)"
# In one column nulls are empty lines, of which none is the last line.
printf 'k,a\n1,x\n2,\n3,y\n4,""\n5,\n' > nulls.csv
run $(files nulls.csv k nulls.csv k) --output some.csv --columns outer:a
[ "$(sort some.csv | tr '\n' ' ')" = '  "" "outer.a" "x" "y" ' ] ||
	fail "$command: $(cat some.csv)"
[ -n "$(tail -n 1 some.csv)" ] || fail "$command: the last line is empty"
run --inner-csv some.csv --inner-key outer.a --outer-csv nulls.csv --outer-key a
[[ $(tr -d ' \n' < json) == *'"rows_without_key":{"inner":3,"outer":3}'* ]] ||
	fail "$command: $(cat json)"
}

# Integers: equal as integers and as texts only in their shortest form.
printf 'k\n1\n-5\n0\n9223372036854775807\n-9223372036854775808\n1\n""\n' > int_r.csv
printf 'k,v\n1,1\n-5,2\n+1,3\n01,4\n0,5\n-0,6\n' > int_s.csv
printf '9223372036854775807,7\n-9223372036854775808,8\n' >> int_s.csv
tables int_r.csv k int_s.csv k v
run --inner-csv int_r.csv --inner-key k --outer-csv int_s.csv --outer-key k \
	--key-type integer --sum outer:v
expect matches 11
expect sum 44
tables int_r.csv k int_r.csv k k
grep -q '"inner": 1,$' json || fail "$command: the empty key is not counted"

# Empty lines don't count.
printf 'k,v\n\na,1\r\n\r\n\nb,2\n\n' > lines.csv
run --inner-csv lines.csv --inner-key k --outer-csv lines.csv --outer-key k \
	--sum inner:v
expect matches 2
expect sum 3

# Only a header; nothing in common.
printf 'k,v\n' > none.csv
printf 'k,v\na,1\nb,2\n' > ab.csv
printf 'k,v\nc,1\nd,2\n' > cd.csv
tables none.csv k ab.csv k v
tables ab.csv k none.csv k v
tables none.csv k none.csv k v
tables ab.csv k cd.csv k v

# Many rows, one key: a chain of thousands, and a million matches.
awk 'BEGIN { print "k,v"; for (i = 0; i < 1000; i++) print "same,3"
	print "other,1" }' > same.csv
tables same.csv k same.csv k v
expect matches 1000001

# Many rows with few and many duplicates; keys that need quotes.
awk 'BEGIN { srand(1); print "k,v"; for (i = 0; i < 30000; i++)
	printf "\"k,%d\"\"\",%d\n", int(rand() * rand() * 20000), i }' > many_r.csv
awk 'BEGIN { srand(2); print "k,v"; for (i = 0; i < 60000; i++)
	printf "\"k,%d\"\"\",%d\n", int(rand() * 40000), i - 30000 }' > many_s.csv
tables many_r.csv k many_s.csv k v

# --- Errors ------------------------------------------------------------------

# shellcheck disable=SC2046
{
refuse 1 'missing.csv: No such file' $(files missing.csv k ab.csv k)
refuse 1 'ab.csv: no column is named .x.' $(files ab.csv k ab.csv x)
refuse 1 'no column is named .w.' $(files ab.csv k ab.csv k) --sum inner:w
printf 'k,v,k\n1,2,3\n' > twice.csv
refuse 1 'two columns are named .k.' $(files twice.csv k ab.csv k)
: > empty.csv
refuse 1 'empty.csv:1: there is no header' $(files empty.csv k ab.csv k)
printf 'k,v\na,1\nb"c,2\n' > quote.csv
refuse 1 'quote.csv:3: a quote at the wrong place' $(files ab.csv k quote.csv k)
printf 'k,v\na,1\n"b"c,2\n' > after.csv
refuse 1 'after.csv:3: a quote at the wrong place' $(files ab.csv k after.csv k)
printf 'k,v\na,1\n\n"b,2\nc,3\n' > open.csv
refuse 1 'open.csv:4: a quoted field has no end' $(files open.csv k ab.csv k)
printf 'k,v\na,1\n"b\nc",2\nd\n' > short.csv
refuse 1 'short.csv:5: the row has 1 field, but the header 2' $(files short.csv k ab.csv k)
printf 'k,v\na,1,2\n' > long.csv
refuse 1 'long.csv:2: the row has 3 fields, but the header 2' $(files long.csv k ab.csv k)
refuse 1 "ab.csv:2: column 'k': 'a' is no 64-bit integer" \
	$(files ab.csv k ab.csv k) --key-type integer
printf 'k,v\na,1\nb,1.5\n' > real.csv
refuse 1 "real.csv:3: column 'v': '1.5' is no" $(files ab.csv k real.csv k) \
	--sum outer:v
printf 'k,v\na,9223372036854775807\na,1\n' > large.csv
refuse 1 "sum of column 'v' exceeds 64 bits" $(files ab.csv k large.csv k) --sum outer:v
refuse 1 '/none/rows.csv: .*No such' $(files ab.csv k ab.csv k) \
	--output /none/rows.csv
for baseline in "" "--baseline local"; do
	refuse 1 'tuples need [0-9]* MiB of memory, but [0-9]* MiB are left' \
		--inner 1000G --outer 24G $baseline
done
workers='4000 workers with rings need .* choose fewer --nodes or --threads'
refuse 1 "$workers" --nodes 1000 --threads 4 --inner 1K --outer 1K
refuse 1 "$workers" --nodes 1000 --threads 4 $(files ab.csv k ab.csv k)
refuse 1 'registry' --registry unix:@nobody-listens-here --inner 1K --outer 1K
refuse 2 'belong together' --inner-csv ab.csv
refuse 2 'either synthetic .* or from files' $(files ab.csv k ab.csv k) --inner 5
refuse 2 '--columns needs --output' $(files ab.csv k ab.csv k) \
	--columns inner:k
refuse 2 'not inner:COLUMN or outer:COLUMN' $(files ab.csv k ab.csv k) \
	--sum v
}
refuse 2 'is no number' --inner -5
refuse 2 'is no number' --inner 5X
refuse 2 'is no number' --inner 99999999999G
refuse 2 'is no number' --selectivity 1.5
refuse 2 'is no number' --nodes 0
refuse 2 'not local or none' --baseline remote
refuse 2 'not repartition, replicate or auto' --strategy fragment
refuse 2 '--baseline joins without flows' --baseline local --strategy auto
refuse 2 'is no option' 16M
refuse 2 '--outre.*--outer' --outre 5

# --- A node dies -------------------------------------------------------------

# The process of node 1, a child of the given one, while that one runs.
find_node() # PARENT
{
	local directory name rest
	while kill -0 "$1" 2> /dev/null; do
		for directory in /proc/[0-9]*; do
			{ read -r _ name _ rest < "$directory/stat"; } \
				2> /dev/null || continue
			if [ "$name" = "(node-1)" ] && [ "${rest%% *}" = "$1" ]
			then
				echo "${directory#/proc/}"
				return
			fi
		done
	done
}

# A node dies at any time: the others end, nothing hangs, and the report names it.
killed=0
for delay in 0 0.05 0.2 0.4 0.6 0.8; do
	command="radix_join, node 1 killed after $delay s"
	"$join" --nodes 3 --inner 8M --outer 8M > out 2> err &
	parent=$!
	node=$(find_node $parent)
	sleep "$delay"
	[ -z "$node" ] || kill -9 "$node" 2> /dev/null || true
	ret=0
	wait $parent || ret=$?
	# The join may have been faster.
	[ "$ret" -ne 0 ] || continue
	[ "$ret" -eq 1 ] || fail "$command: exit status $ret"
	grep -q "node 1 (pid $node) was killed by signal 9" err ||
		fail "$command: stderr doesn't say so"
	killed=$((killed + 1))
	n_checks=$((n_checks + 1))
done
[ "$killed" -gt 0 ] || fail "no node could be killed in time"

echo "$n_checks checks passed"
