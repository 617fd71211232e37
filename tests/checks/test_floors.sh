#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_floors.sh CC: floors.sh notices what it is there for, in a small tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cc=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
objects=build/CMakeFiles/dfi_objects.dir
cd "$tree"

fresh() # a tree without faults: high calls low
{
	rm -rf src build
	mkdir -p src/low src/high "$objects/src/low" "$objects/src/high"
	printf '%s\n' 'low:' 'high: low' > table
	printf '%s\n' 'int low(void);' > src/low/low.h
	printf '%s\n' '#include "low.h"' 'int low(void) { return 1; }' > src/low/low.c
	printf '%s\n' 'int high(void);' > src/high/high.h
	printf '%s\n' '#include "high.h"' '#include "low/low.h"' \
		'int high(void) { return low(); }' > src/high/high.c
}

check() # EXPECTED_STATUS [TEXT]
{
	local file status=0

	for file in src/*/*.c src/*/*/*.c; do
		[ -e "$file" ] || continue
		mkdir -p "$objects/${file%/*}"
		"$cc" -Isrc -c "$file" -o "$objects/$file.o"
	done
	"$here/floors.sh" . build table > output || status=$?
	if [ "$status" != "$1" ] || ! grep -qF -- "${2-}" output; then
		echo "line ${BASH_LINENO[0]}: status $status, expected $1, with \"${2-}\" in:"
		cat output
		exit 1
	fi
}

fresh
check 0 "0 edges against the table"

fresh # an include that points up
echo '#include "high/high.h"' >> src/low/low.c
check 1 "low/low -> high/high is against the table (include)"
check 1 "1 circles over several floors with 2 files"
echo "low/low -> high/high for this test" >> table
check 0 "1 edges against the table, 1 of them up"

fresh # a listed edge that is gone
echo "low/low -> high/high for this test" >> table
check 1 "low/low -> high/high is gone"

fresh # a listed edge without a reason
echo "low/low -> high/high" >> table
check 1 "tell why: low/low -> high/high"

fresh # a call that closes a circle, without an include
printf '%s\n' 'int high(void);' 'int again(void) { return high(); }' >> src/low/low.c
check 1 "low/low -> high/high is against the table (call)"
check 1 "1 circles over several floors with 2 files"

fresh # a call through a struct of functions
cat >> src/low/low.h << 'END'
struct ops {
	int (*run)(void);
};
END
echo 'int by(const struct ops *ops) { return ops->run(); }' >> src/low/low.c
printf '%s\n' 'const struct ops high_ops = {' '	.run = high,' '};' >> src/high/high.c
check 1 "low/low -> high/high is against the table (table)"

printf '%s\n' 'struct kind {' '	struct ops ops;' '};' >> src/low/low.h # within another
printf '%s\n' 'const struct kind high_kind = {' '	.ops = {' '		.run = high,' '	},' '};' \
	>> src/high/high.c
sed -i '/high_ops/,/^};/d' src/high/high.c
check 1 "low/low -> high/high is against the table (table)"

# The same in one line.
sed -i '/high_kind/,/^};/d' src/high/high.c
printf '%s\n' 'const struct kind high_kind = {' '	.ops.run = high,' '};' >> src/high/high.c
check 1 "low/low -> high/high is against the table (table)"

fresh # the same name in another part of the struct
cat >> src/low/low.h << 'END'
struct some {
	int (*run)(void);
	int (*stop)(void);
};
struct more {
	int (*run)(void);
	int (*walk)(void);
};
struct both {
	struct some some;
	struct more more;
};
END
echo 'int by(const struct both *both) { return both->some.run(); }' >> src/low/low.c
printf '%s\n' 'const struct both high_both = {' '	.more.run = high,' '};' >> src/high/high.c
check 0 "0 edges against the table"
echo 'int of(const struct both *both) { return both->more.run(); }' >> src/low/low.c
check 1 "low/low -> high/high is against the table (table)"

fresh # the same name in a struct that the caller does not know
printf '%s\n' 'struct other {' '	int (*run)(void);' '};' >> src/high/high.h
printf '%s\n' 'const struct other high_ops = {' '	.run = high,' '};' >> src/high/high.c
printf '%s\n' 'struct own {' '	int (*run)(void);' '};' \
	'int by(const struct own *own) { return own->run(); }' >> src/low/low.c
check 0 "0 edges against the table"

fresh # a floor that may include one above
printf '%s\n' 'low: high' 'high: low' > table
check 1 "low: high has no line further up"

fresh # folders that share a line
printf '%s\n' 'low:' 'high/*: low' > table
for kind in one two; do
	mkdir -p src/high/$kind
	printf '%s\n' '#include "low/low.h"' "int $kind(void) { return low(); }" \
		> src/high/$kind/row.c
done
rm src/high/high.*
check 0 "0 edges against the table"
printf '%s\n' 'int one(void);' 'int again(void) { return one(); }' >> src/low/low.c
check 1 "low/low -> high/one/row is against the table (call)"
echo "low/low -> high/*/row for this test" >> table
check 0 "1 edges against the table, 1 of them up"
printf '%s\n' 'int one(void);' 'int both(void) { return one(); }' >> src/high/two/row.c
check 1 "high/two/row -> high/one/row is against the table (call)"

fresh # a folder that the table does not know
mkdir -p src/new "$objects/src/new"
echo 'int new;' > src/new/new.c
check 1 "src/new/new.c: its folder has no line"

fresh # a file that was not compiled
check 0
rm "$objects/src/high/high.c.o"
if "$here/floors.sh" . build table > output; then
	echo "a missing object is not noticed"
	exit 1
fi
grep -qF "src/high/high.c: has no object" output
echo "floors.sh notices what is planted"
