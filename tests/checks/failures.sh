#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# failures.sh [ROOT [TABLE]]: each error that a header of open flows names has a test in
# failures.txt, each of those tests is there, and each row's error is still in its header.
# Of other headers failures.txt has what they say of open flows, as far as somebody saw it.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
table=$(realpath "${2:-$here/failures.txt}")
cd "${1:-$here/../..}"
headers=(include/dfi/{open_flow,event,mark,replay}.h)
others=(include/dfi/{push,source,target}.h)

# "HEADER NAME -ERROR" for each error in a comment, with the name that follows it.
errors()
{
	awk '
		function tell(name, error)
		{
			for (error in errors)
				print header, name, error
			split("", errors)
		}
		FNR == 1 {
			header = FILENAME
			sub(/.*\//, "", header)
			inside = pending = 0
			split("", errors)
		}
		!inside && (at = index($0, "/*")) {
			inside = 1
			before = substr($0, 1, at - 1)
		}
		inside {
			text = $0
			while (match(text, /-E[A-Z0-9]+/)) {
				errors[substr(text, RSTART, RLENGTH)]
				text = substr(text, RSTART + RLENGTH)
			}
			if (!index($0, "*/"))
				next
			inside = 0
			pending = before !~ /[A-Za-z]/
			if (!pending && match(before, /[A-Za-z_0-9]+[,; =]*[ \t]*$/)) {
				name = substr(before, RSTART)
				gsub(/[^A-Za-z_0-9]/, "", name)
				tell(name)
			}
			next
		}
		pending && /[A-Za-z]/ {
			pending = 0
			if (match($0, /dfi_[a-z0-9_]+\(/))
				tell(substr($0, RSTART, RLENGTH - 1))
			else if (/^#ifndef/)
				tell(header)
			else if (match($0, /DFI_[A-Z_]+/))
				tell(substr($0, RSTART, RLENGTH))
			else if (match($0, /[a-z_0-9]+(\[[0-9]+\])?;/)) {
				name = substr($0, RSTART, RLENGTH)
				sub(/(\[[0-9]+\])?;/, "", name)
				tell(name)
			}
		}' "$@" | sort
}

failed=0
rows()
{
	sed 's/#.*//' "$table" | awk 'NF'
}
while read -r header name error; do
	echo "include/dfi/$header, $name: $error has no test: name one in tests/checks/failures.txt"
	failed=1
done < <(comm -23 <(errors "${headers[@]}" | uniq) <(rows | cut -d' ' -f1-3 | sort -u))
while read -r header name error; do
	echo "tests/checks/failures.txt: $header, $name: the header names no $error"
	failed=1
done < <(comm -13 <(errors "${headers[@]}" "${others[@]}" | uniq) <(rows | cut -d' ' -f1-3 | sort -u))
while read -r row; do
	program=${row##* }
	case=${program##*:}
	program=${program%:*}
	grep -q "^Test([a-z_]*, $case)" "tests/$program.c" 2> /dev/null || {
		echo "tests/checks/failures.txt: $row: there is no such test"
		failed=1
	}
done < <(rows)
[ $failed -eq 0 ] && echo "$(rows | cut -d' ' -f1-3 | sort -u | wc -l) errors have tests"
exit $failed
