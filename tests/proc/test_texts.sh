#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_texts.sh BIN_DIR: the errors of wrong command lines name the argument, and never
# send control characters to the terminal.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"

# No setting adds lines to the output.
unset "${!DFI_@}"
# A colour, the title of a terminal, a byte that is not UTF-8, a C1 control.
hostile=$'\e[31m\e]0;x\a\xff\xc2\x9b'

refused() # TEXT PROGRAM [ARGUMENT]...
{
	local rc=0

	timeout 60 "$bin/$2" "${@:3}" > out 2> err < /dev/null || rc=$?
	[[ $rc =~ ^(1|2|64|69)$ ]] || fail "${*:2} ends with $rc: $(cat err)"
	! LC_ALL=C grep -q $'[\001-\010\013-\037\177\233\377]' out err ||
		fail "${*:2} prints what it got as it is"
	grep -q -- "$1" err || fail "${*:2}: no '$1' in: $(cat err)"
}

refused '\\x1b\[31m' dfi-info "$hostile"
refused '\\x1b\[31m' dfi-info flows "$hostile"
refused '\\x1b\[31m.* is not a number' dfi-info "--watch=$hostile" stat
refused 'there is no option -\\x1b' dfi-info "-j$hostile"
refused 'there is no option --\\x1b' dfi-info "--$hostile"
refused 'unknown argument .\\x1b' dfi-registry "$hostile"
refused 'there is no user .\\x1b' dfi-registry --allow-user "$hostile"
refused 'address .unix:/none/?\[31m' dfi-registry --listen "unix:/none/$hostile"
refused 'no command .\\x1b' dfi-bench "$hostile"
refused '.\\x1b.*is no option' dfi-bench raw "$hostile"
refused '--seconds .\\x1b' dfi-bench raw --seconds "$hostile"
refused '--pin .\\x1b' dfi-bench shuffle --pin "$hostile"
refused '--wait .\\x1b.*adaptive, spin, block' dfi-bench idle --wait "$hostile"
refused '--tuple-size .\\x1b' dfi-bench setup --tuple-size "$hostile"
refused '--fan-in .\\x1b' dfi-bench combine --fan-in "$hostile"
refused '--se is the beginning of --segment-size and of --seconds' \
	dfi-bench raw "--se=$hostile"
refused '\\x1b.*is no option' radix_join "$hostile"
refused '--inner: .\\x1b' radix_join --inner "$hostile"
refused '--sum: .\\x1b' radix_join --sum "$hostile"
refused '--run: .\\x1b' radix_join --run "$hostile"
refused '--columns: .\\x1b' radix_join --columns "$hostile"
refused '--strategy: .\\x1b' radix_join --strategy "$hostile"
refused '\\x1b.*: No such file' radix_join --inner-csv "$hostile" --inner-key k \
	--outer-csv "$hostile" --outer-key k
refused 'SELECT, not .\\x1b' aggregate "$hostile"
refused '--processes: .\\x1b' aggregate --processes "$hostile" x
refused 'WORKERS: .\\x1b' parameter_server "$hostile"
refused 'there is no option -\\x1b' parameter_server "-$hostile"
refused '\\x1b.*is not an option' dfi-kv "$hostile"
refused '--id: .\\x1b' dfi-kv --id "$hostile"
refused '--protocol: .\\x1b.* is neither paxos nor nopaxos' dfi-kv --protocol "$hostile"
refused "registry address '?" dfi-kv --id 0 --replicas 1 --registry "$hostile"
refused '--store: .\\x1b' dfi-kv-load --store "$hostile"
refused '--workload: .\\x1b.* is none of a, b, c, 95/5' dfi-kv-load --workload "$hostile"
refused '\\x1b.*is not an option' dfi-kv-load "$hostile"
refused '--protocol: .\\x1b.* is neither paxos nor nopaxos' dfi-kv-run --protocol "$hostile"
refused '--kill: .\\x1b' dfi-kv-run --kill "$hostile"
refused '\\x1b.*is not an option' dfi-kv-run "$hostile"
refused 'no command .\\x1b.*: the nearest is ' dfi-kv-client "$hostile"
refused '--replicas: .\\x1b' dfi-kv-client --replicas "$hostile" get a

# A value may begin like an option.
refused "--watch: '-1' is not a number" dfi-info --watch=-1 stat
refused "--theta: '-1' is not a number" dfi-kv-load --theta -1
refused "--inner: '--x' is no number" radix_join --inner --x

refused '\\x1b\[31m' example-estimate "$hostile"

# A number has no blanks and no sign, also where it would wrap to a good one.
for number in -1 -18446744073709551615 ' 1' +1 1x 1.5 '' 18446744073709551617; do
	refused "--id: '$number' is not a whole number from 0 to " \
		dfi-kv --id "$number" --replicas 3
	refused "--replicas: '$number' is not a whole number from 1 to " \
		dfi-kv-client --replicas "$number" get a
	refused "--outstanding: '$number' is not a whole number from 1 to " \
		dfi-kv-load --outstanding "$number"
	refused "'kv:$number' is not NAME:REPLICAS" dfi-kv-load --at "kv:$number"
	refused "--replicas: '$number' is not a whole number from 1 to " \
		dfi-kv-run --replicas "$number"
	refused "--processes: '$number' is not a whole number from 1 to " \
		aggregate --processes "$number" x
	refused "'$number' is not a whole number from 1 " parameter_server "$number"
done
for number in -1 ' 1' +1 1s inf nan 0x1 '' 3601; do
	refused "--seconds: '$number' is not a number from 0.1 to 3600" \
		dfi-kv-load --seconds "$number"
	refused "--after: '$number' is not a number from 0.1 to 3600" \
		dfi-kv-run --after "$number"
done

# The value of a setting.
DFI_VERBS_DEVICE=$hostile "$bin/dfi-info" config > out || fail "dfi-info config ends with $?"
grep -q '^DFI_VERBS_DEVICE *\\x1b\[31m' out || fail "dfi-info config says: $(cat out)"
! LC_ALL=C grep -q $'[\001-\010\013-\037\177\233\377]' out || fail "dfi-info config is raw"
echo "all texts passed"
