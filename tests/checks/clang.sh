#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# clang.sh GENERATED_DIR: the library and its headers compile with clang without a
# warning: its calls as a debug build, where they check their threads, the rest as
# a release. Skipped where there is no clang (the packages for fuzzing have one).
set -euo pipefail
cd "$(dirname "$0")/../.."

generated=$1
if ! command -v clang > /dev/null; then
	echo "skipped: there is no clang"
	exit 77
fi

failed=0
compile() # OPTION... FILE
{
	clang -std=c11 -fsyntax-only -D_GNU_SOURCE -DDFI_COUNTERS=1 \
		-Iinclude -Isrc -isystem "$generated" \
		-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "$@" || {
		echo "clang does not compile this without a warning: $*"
		failed=1
	}
}

for source in $(find src -name '*.c' | sort); do
	case $source in
	src/flows/*) compile "$source" ;;
	*) compile -DNDEBUG "$source" ;;
	esac
done
tests/checks/headers.sh c c11 clang || failed=1
if command -v clang++ > /dev/null; then
	tests/checks/headers.sh c++ c++17 clang++ || failed=1
fi
exit $failed
