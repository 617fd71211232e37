#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# floors.sh ROOT [BUILD [TABLE]]: the files of src include and call only what
# the table of floors, floors.txt, allows. Prints each edge against the table that
# is not listed there, and each listed one that is gone. --list prints all.
#
# A file is a node together with its header. It has an edge to another file if
#  - it includes its header;
#  - it calls a function or names an object of it: nm, on the objects of BUILD;
#  - it calls `->member(` of a struct of functions that it includes, and the other
#    file fills that member in an initialiser `struct NAME x = {` or
#    `(struct NAME){`, by name. In `part.member(` it is the struct whose name a
#    struct of structs gives to that part.
#    Structs with one function, whose name others have, do not count.
# An edge is against the table if its floor is not allowed to include the other
# one; through a struct of functions, if the other floor stands later in the table.
# Each circle over several floors has such an edge, so that a new one is noticed.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
list=0
if [ "${1-}" = --list ]; then
	list=1
	shift
fi
build=${2-} table=${3-$here/floors.txt}
[ -z "$build" ] || build=$(cd "$build" && pwd)
[[ $table == /* ]] || table=$PWD/$table
cd "$1"

files=$(find src -name '*.[ch]' -o -name '*.proto' | sort)
{
	sed 's/^/file /' <<< "$files"
	if [ -n "$build" ]; then
		# Of the two faults.c, the one that users have; of the libraries,
		# libdfi.a, which has no modules, and what tests add to it.
		(cd "$build/CMakeFiles" && find . \( -path './dfi_objects.dir/*' \
			-o -path './dfi_no_faults.dir/*' \
			-o -path './dfi_ofi_objects.dir/*' \
			-o -path './dfi_static_objects.dir/*' \
			-o -path './dfi_tls_objects.dir/*' \
			-o -path './dfi_etcd_objects.dir/*' \
			-o -path './dfi_verbs_objects.dir/*' \) -name '*.o' -print0 |
			xargs -0 -r nm -A -P) |
			sed 's/^/symbol /'
	fi
} | awk -v table="$table" -v list="$list" -v build="$build" '
# The number of the floor of a file: its own line, that of its folder, or that of all
# folders beside it.
function floor_of(path)
{
	sub(/^src\//, "", path)
	if (!(path in number))
		sub(/\/[^\/]*$/, "", path)
	if (!(path in number))
		sub(/\/[^\/]*$/, "/*", path)
	return number[path]
}

function folder_of(path)
{
	sub(/\/[^\/]*$/, "", path)
	return path
}

# The line of the table that lists an edge: its own, or that of a file of this name in
# any folder; "" if there is none.
function listing_of(edge)
{
	if (!(edge in listed))
		sub(/[^\/]*\/[^\/]*$/, "*/" substr(edge, match(edge, /[^\/]*$/)), edge)
	return edge in listed ? edge : ""
}

function node(path)
{
	sub(/^src\//, "", path)
	if (path in number)
		return path
	sub(/(\.pb-c)?\.(c|h|proto)$/, "", path)
	return path
}

function problem(text)
{
	print text
	failed++
}

function edge(from, to, how,    a, b)
{
	a = node(from)
	b = node(to)
	if (a == b)
		return
	if (!((a, b) in kinds)) {
		follow[a] = follow[a] " " b
		nodes[a]
		nodes[b]
	}
	if (index(kinds[a, b], how) == 0)
		kinds[a, b] = kinds[a, b] (kinds[a, b] == "" ? "" : ", ") how
	if (is_against(from, to, how))
		against[a " -> " b] = against[a " -> " b] \
			(index(against[a " -> " b], how) ? "" : " " how)
}

function is_against(from, to, how,    f, t)
{
	f = floor_of(from)
	t = floor_of(to)
	if (f == t)
		return name[f] ~ /\*$/ && folder_of(from) != folder_of(to)
	if (how == "table")
		return t > f
	if (how == "call")
		return !((f, name[t]) in reach)
	return !((f, name[t]) in may || (f, substr(to, 5)) in may)
}

# The file that #include "included" means in a file of the folder dir.
function resolve(dir, included,    path, base)
{
	if (included ~ /\.pb-c\.h$/) {
		base = included
		sub(/.*\//, "", base)
		sub(/\.pb-c\.h$/, "", base)
		return proto[base]
	}
	path = dir "/" included
	while (path ~ /\/\.\.\//)
		sub(/[^\/]+\/\.\.\//, "", path)
	if (!(path in exists))
		path = "src/" included
	return path in exists ? path : ""
}

function source_of(object)
{
	if (match(object, /src\/.*\.o$/))
		return substr(object, RSTART, RLENGTH - 2)
	sub(/.*\//, "", object)
	sub(/\.pb-c\.c\.o$/, "", object)
	return proto[object]
}

function read_table(    line, words, n, i, floor)
{
	while ((getline line < table) > 0) {
		if (line ~ /^(#|$)/)
			continue
		n = split(line, words, " ")
		if (words[2] == "->") {
			listed[words[1] " -> " words[3]]
			if (n < 4)
				problem(table ": tell why: " line)
		} else if (words[1] ~ /:$/) {
			floor = words[1]
			sub(/:$/, "", floor)
			name[++n_floors] = floor
			number[floor] = n_floors
			for (i = 2; i <= n; i++) {
				may[n_floors, words[i]]
				above = words[i]
				sub(/\/[^\/]*\.h$/, "", above)
				reach[n_floors, words[i]]
				reach[n_floors, above]
				if (!(words[i] in number || above in number))
					problem(table ": " floor ": " words[i] \
						" has no line further up")
			}
		} else {
			problem(table ": cannot read: " line)
		}
	}
	if (!n_floors)
		problem("no table of floors in " table)
}

# Does a file include a header, directly or through others?
function sees(path, header)
{
	if (path == header)
		return 1
	if (!(path in seen_all)) {
		seen_all[path]
		see(path, path)
	}
	return (path, header) in sight
}

function see(path, at,    headers, n, i)
{
	n = split(includes[at], headers, " ")
	for (i = 1; i <= n; i++)
		if (!((path, headers[i]) in sight)) {
			sight[path, headers[i]]
			see(path, headers[i])
		}
}

function read_source(path,    line, dir, inside, filled, part, included, member, to, holder)
{
	dir = path
	sub(/\/[^\/]*$/, "", dir)
	inside = filled = part = ""
	while ((getline line < path) > 0) {
		if (line ~ /^[ \t]*(\/?\*|\/\/)/)
			continue
		if (match(line, /^[ \t]*#[ \t]*include[ \t]*"[^"]*"/)) {
			included = line
			sub(/^[^"]*"/, "", included)
			sub(/".*/, "", included)
			to = resolve(dir, included)
			if (to == "")
				problem(path ": there is no " included)
			else {
				edge(path, to, "include")
				includes[path] = includes[path] " " to
			}
		}
		if (match(line, /^struct [a-z0-9_]+ \{/)) {
			inside = substr(line, 8, RLENGTH - 9)
			declared[inside] = path
		} else if (line ~ /^\}/) {
			inside = filled = part = ""
		} else if (inside != "" &&
			   match(line, /^[ \t]*struct [a-z0-9_]+ [a-z0-9_]+;/)) {
			split(substr(line, RSTART, RLENGTH - 1), words, " ")
			part_of[inside, words[3]] = words[2]
			is_part[words[3]]
			named[words[3], words[2]]
		} else if (inside != "" && match(line, /\(\*[a-z0-9_]+\)\(/)) {
			member = substr(line, RSTART + 2, RLENGTH - 4)
			functions[inside]++
			structs[member] = structs[member] " " inside
		}
		if (match(line, /struct [a-z0-9_]+ [a-z0-9_]+(\[[^\]]*\])? = \{/) ||
		    match(line, /\(struct [a-z0-9_]+\) ?\{/)) {
			filled = substr(line, RSTART, RLENGTH)
			sub(/^\(?struct /, "", filled)
			sub(/[ )].*/, "", filled)
		}
		if (filled != "" && match(line, /^[ \t]*\.[a-z0-9_]+ = \{/)) {
			part = substr(line, RSTART, RLENGTH - 4)
			sub(/^[ \t]*\./, "", part)
		} else if (line ~ /^[ \t]*\}/) {
			part = ""
		}
		while (filled != "" &&
		       match(line, /\.[a-z0-9_.]+ = [a-z_]/)) {
			member = substr(line, RSTART + 1, RLENGTH - 5)
			line = substr(line, RSTART + RLENGTH)
			holder = part
			if (split(member, words, ".") == 2) {
				holder = words[1]
				member = words[2]
			}
			fillers[++n_fillers] = path " " filled " " member " " holder
		}
		while (match(line, /[a-z0-9_]*(->|\.)[a-z0-9_]+\(/)) {
			member = holder = substr(line, RSTART, RLENGTH - 1)
			sub(/.*(->|\.)/, "", member)
			sub(/(->|\.).*/, "", holder)
			if (!((path, holder, member) in called)) {
				called[path, holder, member]
				callers[member] = callers[member] " " path ":" holder
			}
			line = substr(line, RSTART + RLENGTH)
		}
	}
	close(path)
}

# Nodes that reach each other, by Tarjan: numbers of rings over several floors.
function visit(a,    next_ones, n, i, b, floor, size, floors, seen_floor, text)
{
	order[a] = low[a] = ++visited
	stack[++depth] = a
	on_stack[a] = 1
	n = split(follow[a], next_ones, " ")
	for (i = 1; i <= n; i++) {
		b = next_ones[i]
		if (!(b in order)) {
			visit(b)
			if (low[b] < low[a])
				low[a] = low[b]
		} else if (on_stack[b] && order[b] < low[a]) {
			low[a] = order[b]
		}
	}
	if (low[a] != order[a])
		return
	do {
		b = stack[depth--]
		on_stack[b] = 0
		floor = floor_of("src/" b)
		size++
		text = text " " b
		if (!(floor in seen_floor)) {
			seen_floor[floor]
			floors++
		}
	} while (b != a)
	if (floors > 1) {
		circles++
		circle_files += size
		if (list)
			print "circle over " floors " floors:" text
	} else if (size > 1) {
		inner++
		inner_files += size
		if (list)
			print "circle within a floor:" text
	}
}

BEGIN { read_table() }

$1 == "file" {
	exists[$2]
	paths[++n_paths] = $2
	if ($2 ~ /\.proto$/) {
		base = $2
		sub(/.*\//, "", base)
		sub(/\.proto$/, "", base)
		proto[base] = $2
	}
	if (!floor_of($2))
		problem($2 ": its folder has no line in " table)
}

$1 == "symbol" {
	object = $2
	sub(/:$/, "", object)
	source = source_of(object)
	if (!(source in exists)) # of an older build
		next
	built[source]
	if ($4 == "U" || $4 == "w")
		uses[++n_uses] = source " " $3
	else if ($4 ~ /^[A-Z]$/)
		definer[$3] = source
}

END {
	for (i = 1; i <= n_paths; i++) {
		path = paths[i]
		if (path ~ /\.[ch]$/)
			read_source(path)
		if (build != "" && path ~ /\.c$/ && !(path in built) &&
		    path !~ /\/faults\.c$/ && path !~ /^src\/modules\// &&
		    path !~ /\/(transports_modules|module|load)\.c$/)
			problem(path ": has no object in " build \
				": build the library first")
	}
	for (i = 1; i <= n_uses; i++) {
		split(uses[i], use, " ")
		if (use[2] in definer)
			edge(use[1], definer[use[2]], "call")
	}
	for (i = 1; i <= n_fillers; i++) {
		n = split(fillers[i], fill, " ")
		if (n == 4)
			fill[2] = part_of[fill[2], fill[4]]
		filler[fill[2], fill[3]] = filler[fill[2], fill[3]] " " fill[1]
	}
	for (member in callers) {
		n = split(callers[member], from, " ")
		m = split(structs[member], of, " ")
		for (i = 1; i <= n; i++) {
			split(from[i], call, ":")
			for (j = 1; j <= m; j++) {
				if (call[2] in is_part &&
				    !((call[2], of[j]) in named))
					continue
				if (!sees(call[1], declared[of[j]]) ||
				    (functions[of[j]] < 2 && m > 1))
					continue
				k = split(filler[of[j], member], to, " ")
				for (l = 1; l <= k; l++)
					edge(call[1], to[l], "table")
			}
		}
	}
	for (a in nodes)
		if (!(a in order))
			visit(a)
	for (e in against) {
		split(e, ends, " ")
		n_edges++
		n_up += floor_of("src/" ends[1] ".c") < floor_of("src/" ends[3] ".c")
		of_flows += ends[1] ~ /^flows\// && ends[3] ~ /^flows\//
		listing = listing_of(e)
		occurs[listing]
		if (list)
			print "against: " e " (" substr(against[e], 2) ")"
		else if (listing == "")
			problem(e " is against the table (" substr(against[e], 2) "): " \
				"move what both need down, or list it with a " \
				"reason in " table)
	}
	# Without objects, calls are not known.
	if (build != "" && !list)
		for (e in listed)
			if (!(e in occurs))
				problem(e " is gone: take it out of " table)
	printf "%d edges against the table, %d of them up, %d inside src/flows; " \
		"%d circles over several floors with %d files, " \
		"%d within one with %d\n", n_edges, n_up, of_flows, circles,
		circle_files, inner, inner_files
	exit failed > 0
}'
