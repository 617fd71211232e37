#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# words.sh [ROOT [TABLE]]: identifiers and names of files have the words of
# docs/glossary.md, not those that it replaces and that words.txt lists. Comments
# and texts are not looked at: there such a word may be ordinary English.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
table=$(realpath "${2:-$here/words.txt}")
cd "${1:-$here/../..}"
. "$here/code_of.sh"

mapfile -t files < <(find src include common tools bench examples tests \
	-name '*.[ch]' -o -name '*.proto' | sort)
{
	printf '%s::\n' "${files[@]}"
	code_of "${files[@]}"
} | awk -v table="$table" '
	function forget(path, i)
	{
		n = 0
		for (i = 1; i <= n_rows; i++)
			if (path ~ paths[i])
				rows[++n] = i
		now = path
		split("", seen)
	}
	# The row that forbids a name in this file; 0: none does.
	function forbidden(name, i, k, parts, word, lower)
	{
		lower = tolower(name)
		gsub(/[^a-z]+/, "_", lower)
		for (i = 1; i <= n; i++) {
			k = rows[i]
			for (word = split(words[k], parts, ","); word; word--)
				if (index("_" lower "_", "_" parts[word] "_") &&
				    (except[k] == "" || lower !~ except[k]))
					return k
		}
		return 0
	}
	function look(name, where, k)
	{
		if (!(name in seen))
			seen[name] = forbidden(name)
		k = seen[name]
		if (k) {
			print where ": " name ": say " instead[k]
			bad++
		}
	}
	BEGIN {
		while ((getline row < table) > 0) {
			if (row ~ /^(#|$)/)
				continue
			if (split(row, column, " +") < 3) {
				print table ": cannot read: " row
				exit failed = 1
			}
			words[++n_rows] = column[1]
			paths[n_rows] = column[2]
			instead[n_rows] = column[3]
			except[n_rows] = column[4]
			split("", column)
		}
		if (!n_rows) {
			print table " has no words"
			exit failed = 1
		}
	}
	{
		match($0, /^[^:]*:[0-9]*:/)
		where = substr($0, 1, RLENGTH - 1)
		rest = substr($0, RLENGTH + 1)
		path = where
		sub(/:.*/, "", path)
		if (path != now)
			forget(path)
		if (rest == "" && where ~ /:$/) {
			name = path
			sub(/.*\//, "", name)
			sub(/\.[a-z]*$/, "", name)
			look(name, path)
			next
		}
		n_lines++
		for (; match(rest, /[A-Za-z_][A-Za-z_0-9]*/);
		     rest = substr(rest, RSTART + RLENGTH))
			look(substr(rest, RSTART, RLENGTH), where)
	}
	END {
		if (failed)
			exit 1
		if (!bad)
			print n_lines " lines have the words of the glossary"
		exit bad > 0
	}'
