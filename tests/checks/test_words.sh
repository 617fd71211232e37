#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_words.sh: words.sh notices a word that comes back, in a small tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p src/buffers src/base include common tools bench examples tests

check() # EXPECTED_STATUS TEXT
{
	local status=0

	"$here/words.sh" . "$here/words.txt" > output 2>&1 || status=$?
	if [ "$status" != "$1" ] || ! grep -qxF -- "$2" output; then
		echo "line ${BASH_LINENO[0]}: status $status, expected $1, with \"$2\" in:"
		cat output
		exit 1
	fi
}

# English in comments and texts; words within words; identifiers that may.
cat > src/buffers/ring.c <<'END'
/* Tell nobody: a stream of hellos. */
const char *text = "hello, cast"; // let_go
int broadcaster, fan_in, MAX_FAN_INS, in_place, export_room;
END
check 0 "3 lines have the words of the glossary"

echo 'int fan;' > src/base/a.c
check 1 "src/base/a.c:1: fan: say replica_writer"
echo 'int x; void dfi__must_let_go(void);' > src/base/a.c
check 1 "src/base/a.c:1: dfi__must_let_go: say release"
echo '#define STREAM_2_SIZE 1' > src/buffers/a.h
rm src/base/a.c
check 1 "src/buffers/a.h:1: STREAM_2_SIZE: say multicast_sender,multicast_receiver"
mv src/buffers/a.h src/base/a.h # streams are forbidden in buffers only
check 0 "4 lines have the words of the glossary"
echo 'message Hello { }' > src/base/wire.proto
check 1 "src/base/wire.proto:1: Hello: say handshake"
rm src/base/wire.proto
: > tests/test_hello.c
check 1 "tests/test_hello.c: test_hello: say handshake"
echo "words are noticed"
