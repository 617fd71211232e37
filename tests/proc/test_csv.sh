#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_csv.sh BIN_DIR: the examples read CSV files, here aggregate: byte order marks, nulls,
# and damaged files. Errors say what is wrong and where, in the user's words.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C

aggregate=$1/aggregate
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
n_checks=0

# The sorted rows of a result, with blanks between them.
gives() # ROWS QUERY [ARGUMENT...]
{
	local rows=$1
	shift
	timeout $wait_limit "$aggregate" -p 1 "$@" > out 2> err ||
		fail "$1: exit status $?"
	[ "$(sed 1d out | sort | tr '\n' ' ')" = "$rows " ] ||
		fail "$1: $(sed 1d out | sort | tr '\n' ' '), not $rows"
	n_checks=$((n_checks + 1))
}

refuse() # PATTERN QUERY [ARGUMENT...]
{
	local pattern=$1 ret=0
	shift
	timeout $wait_limit "$aggregate" -p 1 "$@" > out 2> err || ret=$?
	[ $ret -eq 1 ] || fail "$1: exit status $ret, not 1"
	grep -qE -- "$pattern" err || fail "$1: stderr doesn't match '$pattern'"
	! grep -q $'[\001-\011\013-\037\177\233]' err ||
		fail "$1: control bytes in an error"
	[ "$(wc -l < err)" -eq 1 ] || fail "$1: more than one line of complaint"
	[ ! -s out ] || fail "$1: something was printed"
	n_checks=$((n_checks + 1))
}

# --- Good files ---------------------------------------------------------------

# A mark before a header in quotes, and before one without.
printf '\xef\xbb\xbf"city","price"\r\n"a","1"\r\n"b","2"\r\n' > mark.csv
gives 'a,1 b,2' 'select city, sum(price) from mark.csv group by city'
printf '\xef\xbb\xbfcity,price\na,1\n' > mark.csv
gives 'a,1' 'select city, sum(price) from mark.csv group by city'
# A line end at 64 KiB, which two pieces of the file share.
{
	printf 'a,b\r\n'
	printf '%65523s,1\r\nx,2\r\n' ''
} > border.csv
[ "$(head -c 65536 border.csv | tail -c 1 | od -An -tx1)" = ' 0d' ] ||
	fail "border.csv has no line end at 64 KiB"
gives '2,3' 'select count(*), sum(b) from border.csv'

# In a table of one column an empty line is a row with a null. The last empty line is not,
# because many files end so, unless there are no other values. Empty lines at the beginning
# are no header.
query='select count(*), count(x) from f.csv'
for rows in '2,1 \n7\n' '2,1 \r\n7\r\n' '2,1 \n7' '1,1 7\n\n' '1,1 7\r\n\r\n' \
	'2,1 7\n\n\n' '3,2 7\r\n\r\n""' '2,0 \n\n' '1,1 "\n\n"\n' '0,0 '; do
	printf "x\n${rows#* }" > f.csv
	gives "${rows% *}" "$query"
	printf "\nx\r\n${rows#* }" > f.csv
	gives "${rows% *}" "$query"
done
# Line ends that two pieces of the file share: one of a row and one of a null.
for row in '%65532s\r\n7\r\n' '%65530s\r\n\r\n7\r\n'; do
	# shellcheck disable=SC2059
	printf "x\r\n$row" x > f.csv
	[ "$(head -c 65536 f.csv | tail -c 1 | od -An -tx1)" = ' 0d' ] ||
		fail "f.csv has no line end at 64 KiB"
	nulls=$(grep -c $'^\r$' f.csv || :)
	gives "$((2 + nulls)),2" "$query"
done
printf 'x,y\n\n7,8\n\n' > f.csv
gives '1,1' "$query"
# Output can be read again: nulls come first, and may be the only rows.
printf 'k,v,w\n1,,\n2,x,\n3,,\n4,y,\n' > nulls.csv
for query in '3,2 select v as x from nulls.csv group by v' \
	'4,0 select max(w) as x from nulls.csv group by k' \
	'1,0 select sum(w) as x from nulls.csv'; do
	"$aggregate" -p 2 "${query#* }" > f.csv 2> err || fail "$query"
	gives "${query%% *}" 'select count(*), count(x) from f.csv'
done

# --- Damaged files ------------------------------------------------------------

query='select city, sum(price) from f.csv group by city'
file() # FORMAT: of printf
{
	# shellcheck disable=SC2059
	printf "$1" > f.csv
}

# Missing columns.
file 'city, price\na, 1\n'
refuse "no column is named 'price': there are 'city', ' price'\$" "$query"
file 'city;price\na;1\n'
refuse "there is only 'city;price'\. Fields are separated by commas, not ;" "$query"
file 'city\tprice\na\t1\n'
refuse 'separated by commas, not tabs' "$query"
printf 'c%s,' {1..30} > f.csv
echo 'pirce,city' >> f.csv
refuse "named 'price': the nearest is 'pirce'; .*'c1', 'c2'.* and 20 more" "$query"
file 'city,price,city\na,1,b\n'
refuse "two columns are named 'city'" "$query"

file 'stra\337e,price\na,1\n'
refuse "there are 'stra.xdfe', 'price'; the header is not in UTF-8" "$query"

# Quotes.
{
	echo city,price
	echo a,1
	echo '"n1,1'
	printf 'n%s,1\n' {2..499}
	echo '"n,500",1'
} > f.csv
refuse "f.csv:502: .*'city' that began in line 3" "$query"
file 'city,price\n"a\nb","1\n2\n'
refuse 'f.csv:3: a quoted field has no end' "$query"
file 'city,price\na"b,1\n'
refuse "f.csv:2: a quote at the wrong place, in column 'city'" "$query"
file 'city,price\n"a,1\nb",2,3\n'
refuse 'f.csv:2: the row has 3 fields, but the header 2: it goes on to line 3' "$query"

# Bytes that are not UTF-8.
printf 'city,price\na,1\n' > plain.csv
iconv -f UTF-8 -t UTF-16 plain.csv > f.csv
refuse 'f.csv: the file is in UTF-16, .*iconv -f UTF-16' "$query"
iconv -f UTF-8 -t UTF-16LE plain.csv > f.csv
refuse 'f.csv: the file is in UTF-16LE' "$query"
iconv -f UTF-8 -t UTF-16BE plain.csv > f.csv
refuse 'f.csv: the file is in UTF-16BE' "$query"
iconv -f UTF-8 -t UTF-32 plain.csv > f.csv
refuse 'f.csv: the file is in UTF-32' "$query"
gzip -c plain.csv > f.csv
refuse 'f.csv: the file is compressed by gzip, .*gunzip' "$query"
file '\x28\xb5\x2f\xfd\x24\x11'
refuse 'compressed by zstd' "$query"
file '\xfd7zXZ\x00\x00\x04'
refuse 'compressed by xz' "$query"
file 'BZh91AY&SY'
refuse 'compressed by bzip2' "$query"
file 'PAR1\x15\x04\x15'
refuse 'a Parquet file' "$query"
file 'PK\x03\x04\x14\x00'
refuse 'a zip archive' "$query"
file 'PAR1,city,price\n0,a,7\n'
gives 'a,7' "$query"
file 'city,price\na,1\nb\x00,2\n'
refuse 'f.csv:3: a zero byte' "$query"
file 'city,price\ra,1\rb,2\r'
refuse 'f.csv:1: a carriage return without a line feed' "$query"
file 'city,price\na,1\nb\r,2\n'
refuse 'f.csv:3: a carriage return without a line feed' "$query"
file 'city,price\n"a\rb",1\n'
gives '1' 'select sum(price) from f.csv'
file ''
refuse 'f.csv:1: there is no header, as the file is empty:' "$query"
file '\n'
refuse 'f.csv:1: there is no header: the first' "$query"
for name in /dev/stdin /dev/fd/0; do
	refuse "$name: standard input is closed" "select count(*) from $name" <&-
done
refuse "/dev/stdin:1: .* file is empty" 'select count(*) from /dev/stdin' < /dev/null

# Results that would overwrite their input, under any name.
file 'city,price\na,1\n'
ln f.csv hard.csv
ln -s f.csv link.csv
for name in f.csv ./hard.csv link.csv; do
	ret=0
	timeout $wait_limit "$aggregate" "select count(*) from \"$name\"" \
		>> f.csv 2> err || ret=$?
	[ $ret -eq 1 ] || fail "output into $name: exit status $ret"
	grep -q "^aggregate: $name: standard output is this file" err ||
		fail "output into $name: $(cat err)"
done
[ "$(wc -l < f.csv)" -eq 2 ] || fail "an input has changed: $(cat f.csv)"
"$aggregate" 'select count(*) from f.csv' >> other.csv || fail "output into another file"
if command -v setsid > err && ! setsid -w cat /dev/tty > out 2> err; then
	ret=0
	setsid -w "$aggregate" 'select count(*) from /dev/tty' > out 2> err || ret=$?
	[ $ret -eq 1 ] || fail "a terminal that is not there: exit status $ret"
	grep -q '/dev/tty: No such device or address' err || fail "/dev/tty is a socket"
fi
mkdir folder.csv
refuse 'folder.csv: it is a directory' 'select count(*) from folder.csv'

# Control characters in a file do not reach the terminal.
file 'city,price\na,\033]0;title\007\033[2J\302\233x\233\n'
refuse "f.csv:2: .*x1b.0;title.a.x1b.*xc2.x9bx.x9b" "$query"
file '\033[2Jcity,price\na,1\n'
refuse "no column is named 'city'" "$query"
file 'city,"pri\nce\033[31m"\na,1\n'
refuse "no column is named 'price'" "$query"

echo "$n_checks checks"
