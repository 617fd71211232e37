#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_aggregate.sh BIN_DIR: the aggregate example has the results of sqlite3 for the same
# query, on a table of this machine's packages and on fields that need quotes. Its errors
# name the line. Exits with 77 if sqlite3 or dpkg-query is not installed.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C

aggregate=$1/aggregate
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

# Compare the sorted rows with those of sqlite3, whose tables get types first.
same() # QUERY [ARGUMENT...]
{
	local query=$1
	shift
	timeout $wait_limit "$aggregate" "$query" "$@" > out 2> err ||
		fail "$query: exit status $?"
	# Both go through sqlite3's own CSV, which quotes more fields.
	sqlite3 data.db 'drop table if exists got' '.mode csv' '.import out got'
	sqlite3 -csv data.db 'select * from got' | sort > got
	sqlite3 -csv data.db "${query//.csv/}" | sort > expected
	cmp got expected > err 2>&1 || {
		diff got expected | sed 21q > err || :
		fail "$query"
	}
	n_checks=$((n_checks + 1))
}

refuse() # STATUS PATTERN ARGUMENT...
{
	local status=$1 pattern=$2 ret=0
	shift 2
	timeout $wait_limit "$aggregate" "$@" > out 2> err || ret=$?
	[ $ret -eq "$status" ] || fail "$*: exit status $ret, not $status"
	grep -qE -- "$pattern" err || fail "$*: stderr doesn't match '$pattern'"
	[ ! -s out ] || fail "$*: something was printed"
	n_checks=$((n_checks + 1))
}

# --- Real data ---------------------------------------------------------------

# A field of several lines, such as a description, stays one field.
{
	printf 'package,section,priority,architecture,size,half,summary\n'
	dpkg-query --show --showformat '${db:Status-Status}\t${Package}\t${Section}\t${Priority}\t${Architecture}\t${Installed-Size}\t${binary:Summary}\n' |
		awk -F '\t' '$1 == "installed" && $6 ~ /^[0-9]+$/ {
			gsub(/"/, "\"\"", $7)
			printf "%s,\"%s\",%s,%s,%s,%s,\"%s\"\n", $2, $3, $4,
				$5, $6, $6 / 2, $7
		}'
} > packages.csv
rows=$(($(wc -l < packages.csv) - 1))
[ $rows -ge 50 ] || fail "only $rows packages are installed"

# Quotes, commas, line ends, spaces, nothing, and numbers as texts.
printf '%s\r\n' 'name,code,"the ""value"""' '"a, b",007,-3' '"c ""d""",7,9' \
	'"two
lines",7,1' '"a, b",007,9000000000' ' a,,2' 'a,7,3' '"",7,4' '"",,5' > odd.csv

sqlite3 data.db 'create table packages (package text, section text, priority text,
	architecture text, size integer, half real, summary text);
	create table odd (name text, code text, "the ""value""" integer);'
sqlite3 data.db '.mode csv' '.import --skip 1 packages.csv packages' \
	'.import --skip 1 odd.csv odd'

same 'select section, count(*), sum(size), min(size), max(size) from packages.csv group by section'
same 'select architecture, priority, section, max(half), sum(half), count(*) from packages.csv group by section, priority, architecture' --processes 3 --threads 3
same 'select summary, count(*) from packages.csv group by summary' --processes 2 --threads 4
same 'select size, count(*) from packages.csv group by size' --processes 4 --threads 1
same 'select section, avg(size), sum(size), min(half) from packages.csv group by section' --processes 3 --threads 3 --fan-in 2
same 'select summary, count(*), max(size) from packages.csv group by summary' --threads 4 --fan-in 4
same 'select count(*), sum(size), min(half), max(size) from packages.csv' --processes 3
same 'SELECT priority, AVG(size) AS mean FROM packages.csv GROUP BY priority;' --processes 1 --threads 1
[ "$(head -n 1 out)" = priority,mean ] || fail "the header is $(head -n 1 out)"
same 'select name, sum("the ""value"""), count(*) from odd.csv group by name'
same 'select code, max("the ""value"""), count(*) from odd.csv group by code'

printf 'code,n\n' > none.csv
timeout $wait_limit "$aggregate" 'select code, count(*) from none.csv group by code' > out 2> err ||
	fail "no rows"
[ "$(cat out)" = 'code,count(*)' ] || fail "no rows: $(cat out)"

# 7 and 007 are one number, if the file says that they are numbers.
printf 'code,n\n7,1\n007,2\n' > codes.csv
timeout $wait_limit "$aggregate" 'select sum(code), sum(n) from codes.csv' > out 2> err ||
	fail "numbers"
[ "$(sed 1d out)" = 14,3 ] || fail "numbers: $(cat out)"

# --- Errors ------------------------------------------------------------------

printf 'a,b\n1,2\n"x\ny",3\n4\n' > short.csv
refuse 1 '^aggregate: short.csv:5: the row has 1 field' 'select sum(b) from short.csv'
printf 'a,b\n1,2\n3,"4\n' > open.csv
refuse 1 'open.csv:3: a quoted field has no end' 'select sum(b) from open.csv'
printf 'a,b\n1,2\n3,4x\n' > word.csv
refuse 1 "word.csv:3: column 'b': '4x' is not a number" 'select sum(b) from word.csv'
printf 'a,b\n1,2.5\n3,4\n' > real.csv
refuse 1 "real.csv:2: column 'b': '2.5' is not an integer" \
	'select sum(b) from real.csv' --types b=integer
printf 'a,b\n1,9223372036854775807\n1,1\n' > large.csv
refuse 1 "sum of column 'b', of a '1', doesn't fit 64 bits" 'select a, sum(b) from large.csv group by a'
refuse 1 "no column is named 'c'" 'select sum(c) from word.csv'
refuse 1 'nothing.csv: No such file' 'select sum(c) from nothing.csv'
refuse 64 "column 'a' is not in GROUP BY" 'select a, sum(b) from word.csv'
refuse 64 'column 8: expected a column' 'select * from word.csv'
for name in "'word.csv'" '~/word.csv' '*.csv' 'wo*.csv' 'word(1).csv'; do
	refuse 64 'a file.s name goes in double quotes' "select sum(b) from $name"
done
refuse 64 'column 25: expected GROUP BY' 'select sum(b) from word order by b'
refuse 1 "column 'a' is not in the query" 'select sum(b) from word.csv' --types a=text

echo "$n_checks checks, $rows packages"
