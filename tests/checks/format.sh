#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# format.sh [--fix]: every C file is formatted as .clang-format says. The
# formatter's major version is fixed, as each formats a little differently. Where it
# wraps a comment with a list or a picture, it leaves text right behind the asterisk:
# such a comment is to be mended by hand.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=14
formatter=$(command -v clang-format-$version || command -v clang-format || true)
if [ -z "$formatter" ] || [[ $("$formatter" --version) != *" version $version."* ]]; then
	echo "skipped: clang-format $version is not installed"
	exit 77
fi

# Files that git does not know yet count, those it ignores don't. Without git
# or a repository, all files outside build folders count.
files=()
while IFS= read -r -d '' file; do
	[ ! -f "$file" ] || files+=("$file")
done < <(git ls-files -z --cached --others --exclude-standard -- \
	'*.c' '*.h' 2> /dev/null ||
	find . -path './build*' -prune -o -name '*.[ch]' -type f -print0)
if [ ${#files[@]} -eq 0 ]; then
	echo "found no C files to check"
	exit 1
fi

if [ "${1-}" = --fix ]; then
	exec "$formatter" -i "${files[@]}"
fi
if ! "$formatter" --dry-run -Werror "${files[@]}"; then
	echo "run tests/checks/format.sh --fix"
	exit 1
fi
if grep -nHE $'^\t* \\*[^[:space:]/*]' "${files[@]}"; then
	echo "the formatter has broken these comments: wrap them by hand, at 80 columns"
	exit 1
fi
echo "${#files[@]} files are formatted"
