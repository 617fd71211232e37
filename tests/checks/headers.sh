#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# headers.sh LANGUAGE STANDARD COMPILER: each public header compiles alone and
# without a warning, and so do uses of the macros; for example: headers.sh c++
# c++17 g++. In C++ each type can be named without struct or enum, so no function
# has its name.
set -euo pipefail
cd "$(dirname "$0")/../.."

language=$1 standard=$2 compiler=$3
failed=0
if [ -z "$compiler" ]; then
	echo "skipped: there is no compiler for $language"
	exit 77
fi
# g++ is silent about casts within extern "C", clang++ is not.
options=()
[ "$language" != c++ ] || options=(-Wold-style-cast -Wcast-align -Wcast-qual)

compile() # the program on standard input
{
	"$compiler" -x "$language" -std="$standard" -fsyntax-only -I. -Iinclude \
		-Wall -Wextra -Wpedantic -Wconversion -Wshadow \
		"${options[@]}" -Werror -
}

for header in include/dfi/*.h; do
	# Twice, as it needs an include guard; and something must be declared.
	printf '#include <dfi/%s>\n#include <dfi/%s>\nextern int unused;\n' \
		"${header##*/}" "${header##*/}" | compile || {
		echo "$header does not compile alone as $standard"
		failed=1
	}
done
echo '#include "tests/checks/macros.h"' | compile || {
	echo "the macros of the headers do not compile as $standard"
	failed=1
}

types=$(sed -nE 's/^(struct|enum) (dfi_[a-z0-9_]+).*$/\2/p' include/dfi/*.h |
	sort -u)
if [ -z "$types" ]; then
	echo "found no types in include/dfi"
	exit 1
fi
if [ "$language" = c++ ]; then
	# shellcheck disable=SC2086 # one line for each
	{
		echo '#include <dfi/dfi.h>'
		printf 'extern %s *a_%s;\n' $(printf '%s %s ' $(
			for type in $types; do echo "$type $type"; done))
	} | compile || {
		echo "a function has the name of a type, which hides it in C++"
		failed=1
	}
fi
exit $failed
