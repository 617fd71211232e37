#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_stream.sh BIN_DIR EXAMPLES_DIR: the example stream. Producers and consumers are killed,
# stopped, added, and leave; the results are those of a batch query.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
export LC_ALL=C
unset DFI_REGISTRY

bin=$1
examples=$2
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"
: > err

run() # FOLDER OPTION...
{
	timeout $wait_limit "$bin/stream" run "$@" --seconds 2 --rate 8000 > out 2>> err ||
		fail "stream run $*: $(cat out)"
}

check() # FOLDER
{
	"$examples/stream/check" "$1" "$bin" > verdict 2>> err || fail "$1: $(cat verdict)"
}

says() # TEXT
{
	grep -q "$1" out || fail "the run does not say '$1': $(cat out)"
}

run all --kill producer --kill consumer --add consumer --stop consumer
says 'producer 0 is killed'
says 'producer 0 comes again'
says 'consumer 0 is killed'
says 'a consumer is added'
says 'a consumer is stopped'
says '^32000 events are in'
check all

# The last consumer is killed, and another one comes.
run last --consumers 1 --producers 3 --kill consumer --add consumer
says '^48000 events are in'
check last
cmp all/events.0.csv last/events.0.csv || fail "the same events come in each run"

# Programs by themselves: a consumer leaves, and another one comes.
export DFI_REGISTRY=unix:@test-stream-$$
"$bin/dfi-registry" --print-address --listen "$DFI_REGISTRY" > address 2>> err &
await address
mkdir alone
"$bin/stream" generate alone 0 20000 10000
"$bin/stream" generate alone 1 20000 10000
"$bin/stream" consume alone 2>> err &
first=$!
"$bin/stream" produce alone 0 10000 2>> err &
producers=$!
"$bin/stream" produce alone 1 10000 2>> err &
producers="$producers $!"
until [ -s alone/partition.5 ]; do
	sleep 0.01
done
kill -TERM $first
wait $first || fail "a consumer that leaves has failed"
"$bin/stream" consume alone 2>> err &
second=$!
for pid in $producers; do
	wait "$pid" || fail "a producer has failed"
done
check alone

# What is wrong is told with its place.
refused() # TEXT ARGUMENT...
{
	local text=$1

	shift
	! timeout $wait_limit "$bin/stream" "$@" > out 2> refusal || fail "$*: nothing is wrong"
	grep -q -e "$text" refusal || fail "$*: $(cat refusal)"
}

refused 'all: File exists' run all
refused "'nobody' is neither producer nor consumer" run new --kill nobody
refused 'nobody is left' run new --kill consumer --consumers 1
[ ! -e new ] || fail "a run that is refused makes a folder"
sed -i '7s/.*/1,2,three/' alone/events.0.csv
refused 'alone/events.0.csv, line 7: ' produce alone 0
refused 'alone/events.5.csv: No such file' produce alone 5
for part in 'generate none 0 10 10' 'produce none 0' 'consume none' 'results none'; do
	# shellcheck disable=SC2086 # several words
	refused 'none: there is no such folder' $part
done
refused "Try \`stream run --help'" run
sed -i '1s/.*/sensor/' alone/events.1.csv
refused 'alone/events.1.csv, line 1: ' produce alone 1
kill -TERM $second
wait $second || fail "the other consumer has failed"
cat verdict
