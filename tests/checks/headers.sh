#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# headers.sh LANGUAGE STANDARD COMPILER: each public header compiles alone and
# without a warning, for example: headers.sh c++ c++17 g++.
set -euo pipefail
cd "$(dirname "$0")/../.."

language=$1 standard=$2 compiler=$3
failed=0
if [ -z "$compiler" ]; then
	echo "skipped: there is no compiler for $language"
	exit 77
fi
for header in include/dfi/*.h; do
	# Twice, as it needs an include guard; and something must be declared.
	printf '#include <dfi/%s>\n#include <dfi/%s>\nextern int unused;\n' \
		"${header##*/}" "${header##*/}" |
		"$compiler" -x "$language" -std="$standard" -fsyntax-only \
			-Iinclude -Wall -Wextra -Wpedantic -Wconversion \
			-Werror - || {
		echo "$header does not compile alone as $standard"
		failed=1
	}
done
exit $failed
