#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_aggregate_values.sh BIN_DIR: the aggregate example has exact integers, sums that do
# not depend on how the work is spread, and nulls as in SQL. It refuses queries that it
# can't answer, in the user's words.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C

aggregate=$1/aggregate
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

# A file x.csv with one column x of these values.
values() # VALUE...
{
	printf '%s\n' x "$@" > x.csv
}

# The sorted rows of a result, with blanks between them.
gives() # ROWS QUERY [ARGUMENT...]
{
	local rows=$1
	shift
	timeout $wait_limit "$aggregate" -p 1 -t 2 "$@" > out 2> err ||
		fail "$1: exit status $?"
	[ "$(sed 1d out | sort | tr '\n' ' ')" = "$rows " ] ||
		fail "$*: $(sed 1d out | sort | tr '\n' ' '), not $rows"
	n_checks=$((n_checks + 1))
}

refuse() # STATUS PATTERN QUERY [ARGUMENT...]
{
	local status=$1 pattern=$2 ret=0
	shift 2
	timeout $wait_limit "$aggregate" -p 1 -t 2 "$@" > out 2> err || ret=$?
	[ $ret -eq "$status" ] || fail "$*: exit status $ret, not $status"
	grep -qE -- "$pattern" err || fail "$*: stderr doesn't match '$pattern'"
	! grep -qE "DFI_|flag|'?[cks][0-9]+'" err || fail "$*: not the user's words"
	[ ! -s out ] || fail "$*: something was printed"
	n_checks=$((n_checks + 1))
}

# --- Integers -------------------------------------------------------------------

values 9223372036854775807 1 -1
for how in '-t 1' '-t 2' '-t 3 -p 3' '-t 8 --fan-in 2'; do
	# shellcheck disable=SC2086
	gives 9223372036854775807 'select sum(x) from x.csv' $how
done
values 18446744073709551615 9007199254740993
gives 9007199254740993,18446744073709551615 'select min(x), max(x) from x.csv'
refuse 1 "sum of column 'x', of all rows, doesn't fit 64 bits" 'select sum(x) from x.csv'
values 18446744073709551615
gives 18446744073709551615 'select sum(x) from x.csv'
values 9223372036854775807 1
refuse 1 "sum of column 'x'.* 64 bits; --types x=real" 'select sum(x) from x.csv'
gives 9.22337203685478e+18 'select sum(x) from x.csv' --types x=real
gives 4.61168601842739e+18 'select avg(x) from x.csv'
values 18446744073709551615 -1
refuse 1 "x.csv:2: .* line 3 has a negative" 'select max(x) from x.csv'
values 18446744073709551616
refuse 1 'x.csv:2: .*integer that 64 bits do not hold; --types x=real' 'select max(x) from x.csv'
values "$(printf '1234567890%.0s' 1 2 3 4 5 6 7)" 1
refuse 1 "x.csv:2: .*\.\.\.' is an integer that 64 bits" 'select max(x) from x.csv'
gives 1.2345678901234567e+69 'select max(x) from x.csv' --types x=real

# --- Reals ----------------------------------------------------------------------

# One real among integers makes all real: then integers must fit.
values 9007199254740993 9007199254740995 1.0
refuse 1 "x.csv:[23]: .*more digits than a real holds, and line 4" 'select sum(x) from x.csv'
values 9007199254740992 1 1.0
gives 9007199254740994.0 'select sum(x) from x.csv'
values 0.1234567890123456 1.7976931348623157e308
gives 0.1234567890123456,1.7976931348623157e+308 'select min(x), max(x) from x.csv'
values 1e308 1e308
refuse 1 "sum of column 'x'.* larger than a real" 'select sum(x) from x.csv'
gives 1e+308 'select avg(x) from x.csv'
values 1 1e400
refuse 1 "x.csv:3: column 'x': '1e400' is larger than a real" 'select max(x) from x.csv'
values 1 -1e-400
refuse 1 "x.csv:3: column 'x': '-1e-400' is nearer to 0" 'select max(x) from x.csv'
for value in '" 5"' 1_000 0x10 inf nan '"1,5"' '""' '"1 "'; do
	values 1 "$value"
	refuse 1 "x.csv:3: column 'x': '.*' is not a number" 'select max(x) from x.csv'
done

# A sum of reals is the same however the rows are spread, and rounded once.
awk 'BEGIN { print "k,x"; for (i = 1; i <= 20000; i++)
	printf "%d,%.17g\n", i % 3, (i * 7919 % 10007) / 97 * 10 ^ (i % 17 - 8) }' > many.csv
expected=
for how in '-p 1 -t 1' '-p 1 -t 5' '-p 3 -t 2' '-p 2 -t 4 --fan-in 2'; do
	# shellcheck disable=SC2086
	timeout $wait_limit "$aggregate" $how \
		'select k, sum(x), avg(x), min(x) from many.csv group by k' > out 2> err ||
		fail "sums of reals: exit status $?"
	got=$(sort out)
	[ "$got" = "${expected:=$got}" ] || fail "sums of reals with $how: $got, not $expected"
	n_checks=$((n_checks + 1))
done

# --- Nulls ----------------------------------------------------------------------

printf '%s\n' k,n,r,t a,1,0.5,x a,,,'""' b,,, ,3,1.5,y '"",4,,' > null.csv
gives '"",1,4,4.0,0 ,1,3,3.0,1 a,2,1,1.0,2 b,1,,,0' \
	'select k, count(*), sum(n), avg(n), count(t) from null.csv group by k'
gives '"",,,0,1 ,1.5,1.5,1,1 a,0.5,0.5,1,1 b,,,0,0' \
	'select k, min(r), max(r), count(r), count(n) from null.csv group by k' -p 3
gives '5,3,8,1,4,2.66666666666667' \
	'select count(*), count(n), sum(n), min(n), max(n), avg(n) from null.csv' -p 1 -t 1
gives '4' 'select count(k) from null.csv' --fan-in 2
printf 'a,x\n1,\n2,\n' > only.csv
gives '2,0,,,,' 'select count(*), count(x), sum(x), min(x), max(x), avg(x) from only.csv'
printf 'a,x\n1,-5\n2,\n' > low.csv
gives -5,-5 'select min(x), max(x) from low.csv' -t 1
printf 'a,x\n1,18446744073709551615\n2,\n' > high.csv
gives 18446744073709551615,18446744073709551615 'select min(x), max(x) from high.csv' -t 1
printf 'a,x\n' > none.csv
gives 0,0,,, 'select count(*), count(x), sum(x), min(x), avg(x) from none.csv'

# --- Groups ---------------------------------------------------------------------

printf '%s\n' city,price,code a,1.50,007 a,2.25,008 b,1.5,7 > f.csv
gives 'a,2 b,1' 'select city, count(*) from f.csv group by city, city'
gives 'a,a b,b' 'select city, city as town from f.csv group by city'
gives '1.5,1.5 1.50,1.5 2.25,2.25' 'select price, max(price) from f.csv group by price'
gives '1.5,1.5 1.50,1.5 2.25,2.25' 'select price, max(price) from f.csv group by price' \
	--types price=text
gives '1.5,2 2.25,1' 'select price, count(*) from f.csv group by price' --types price=real
gives '007,7 008,8 7,7' 'select code, max(code) from f.csv group by code'
gives '7,2 8,1' 'select code, count(*) from f.csv group by code' --types code=integer
refuse 1 "f.csv:2: column 'city': 'a' is not a number" \
	'select city, count(*) from f.csv group by city' --types city=real
# A text longer than any tuple makes no other longer.
{
	echo k,v
	seq -f '%g,1' 2000
	printf '%2000000s,1\n' ''
} > long.csv
DFI_RING_MEMORY_LIMIT=64M timeout $wait_limit "$aggregate" \
	'select k, sum(v) from long.csv group by k' > out 2> err || fail "a long text"
[ "$(wc -l < out)" -eq 2002 ] && [ "$(awk 'length > 2000000' out | wc -l)" -eq 1 ] ||
	fail "a long text: $(wc < out)"
n_checks=$((n_checks + 1))

# --- Queries and options --------------------------------------------------------

refuse 64 "no function is called 'median': there are COUNT, SUM, MIN, MAX and AVG" \
	'select median(x) from x.csv'
refuse 64 'GROUP BY has more than 8 columns' \
	'select count(*) from x.csv group by a, b, c, d, e, f, g, h, i'
refuse 64 "column 'b' is not in GROUP BY" 'select b from x.csv'
refuse 64 'query, column 8: the quote has no end' 'select "a from x.csv'
refuse 64 'but the query ends here' 'select sum(x'
refuse 64 'there is no option --proceses: the nearest is --processes' --proceses=3 \
	'select count(*) from x.csv'
refuse 64 "^aggregate: --processes: '0' is not a whole number from 1 to 64" --processes 0 \
	'select count(*) from x.csv'
refuse 64 "^aggregate: --fan-in: '1' is not a whole number from 2 to 4096" --fan-in 1 \
	'select count(*) from x.csv'
refuse 1 "'int' is no type: there are integer, real and text" --types x=int \
	'select sum(x) from x.csv'
refuse 1 "column 'y' is not in the query, which has 'x'" --types y=real \
	'select sum(x) from x.csv'
refuse 1 "column 'x' is aggregated, so it is integer or real" --types x=text \
	'select sum(x) from x.csv'

echo "$n_checks checks"
