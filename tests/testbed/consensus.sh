#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# consensus.sh BUILD_DIR WAY: the replicated store of examples/consensus across three
# virtual machines, a replica in each, over RDMA. WAY is one of
#	nopaxos	NOPaxos with multicast
#	paxos	Multi-Paxos by pair flows
#	flows	Multi-Paxos by a flow from the leader to all, with logs. On slow machines
#		replicas are put out of it; meanwhile the pair flows carry the messages
#
# The network loses 1 and then 5 % of the packets; meanwhile another replica becomes the
# leader. Then the leader's machine is cut off, and the next leader's machine loses power.
# The others serve again within three leases. The registry and the clients are in node 0,
# which stays. The clients' answers are linearizable, and the replicas are equal. Also:
#	nopaxos	replicas ask for gaps, fill them and decide them, and the fast path goes on
#	flows	at the end both replicas are killed and start again with their logs
set -euo pipefail

script=$(realpath "$0")
# shellcheck source=tests/testbed/nodes.sh
. "${script%/*}/nodes.sh"

load=200 # segments that replicas take, in all, or slots, under each loss
# How long a process, and a leader, may give no sign of life, on machines that may be late.
lease_ms=8000
heartbeat_ms=500
election_ms=2500
retry_ms=1500
# A leader mostly misses a segment of another replica within this time.
gap_ms=30000
wait_limit_ms=400000
# How long a client tries to connect while packets are lost.
visit_ms=60000

# ---- In a VM ---------------------------------------------------------------

prepare()
{
	use_registry
	export DFI_OPEN_TIMEOUT=30000 DFI_LEASE=$lease_ms
	export DFI_VERBS_RETRY=$retry_ms
	unset DFI_TRANSPORT
}

replica() # CLUSTER OPTION...
{
	prepare
	record "$1" bin/dfi-kv --cluster "$1" --id "$NODE" --replicas 3 \
		--heartbeat $heartbeat_ms --election $election_ms \
		--bootstrap "${@:2}" 2>> "$SHARED/$1.log.$NODE"
}

clients() # CLUSTER
{
	prepare
	record "$1.load" tests/consensus/record "$1" 3 "$SHARED/history.$1" \
		"$SHARED/$1.load" 2> "$SHARED/$1.log.load"
}

# A new client is served, or says why not.
visit() # CLUSTER
{
	prepare
	timeout $((wait_limit_ms / 1000)) bin/dfi-kv-client --cluster "$1" \
		--replicas 3 --timeout $visit_ms get none 2> "$SHARED/$1.visit"
}

# Prints what the clients have noticed.
leader() # CLUSTER
{
	sed -n 's/^replica \([0-9]\) leads$/\1/p' "$SHARED/$1.load.0" |
		tail -n 1
}

# Stop this node's replica until another one leads.
depose() # CLUSTER
{
	signal "$1" STOP
	within $wait_limit_ms leads_other_than "$1" "$NODE" || true
	signal "$1" CONT
}

leads_other_than() # CLUSTER K
{
	[ "$(leader "$1")" != "$2" ]
}

run_in_node "$@"

# ---- On the host, beside the VMs -------------------------------------------

build=$(realpath "$1")
way=${2-}
case $way in
nopaxos) options=(--protocol nopaxos --multicast) ;;
paxos) options=(--protocol paxos) ;;
flows) options=(--protocol paxos --wiring flows --log /tmp/store) ;;
*)
	echo "$0: '$way' is not a way: nopaxos, paxos or flows" >&2
	exit 2
	;;
esac
[ "${3-}" = driven ] || exec "$testbed" drive 3 --timeout 840 -- \
	bash "$script" "$build" "$way" driven

# Files with this name have the clients' output.
load_says() # TEXT
{
	grep -q "$1" "$SHARED/$case.load.0" 2> /dev/null
}

has_leader()
{
	grep -qs ' leads' "$SHARED/$case".log.?
}

start_replica() # K
{
	on "$1" replica $case "${options[@]}" &
	replicas[$1]=$!
}

start()
{
	local k

	case=store
	n_marks=0
	for k in 0 1 2; do
		start_replica $k
	done
	await "a leader" $wait_limit_ms has_leader
	on 0 clients $case &
	load_job=$!
	await "service" $wait_limit_ms load_says serves
	await "news of the leader" $wait_limit_ms load_says leads
	await "counters" $wait_limit_ms test -s "$SHARED/$case.load.counters"
}

# Wait until a command that a client sends from now on has an answer.
mark()
{
	n_marks=$((n_marks + 1))
	touch "$SHARED/$case.load.mark.$n_marks"
}

is_served()
{
	load_says "^mark $n_marks: served"
}

# Node 0 must stay.
find_victim()
{
	victim=$(leader "$case")
	[ "$victim" = 0 ] || return 0
	depose_leader
	victim=$(leader "$case")
}

depose_leader()
{
	local old

	old=$(leader "$case")
	on "$old" depose "$case"
	leads_other_than "$case" "$old" ||
		fail "no other replica leads while replica $old is stopped"
}

cut_off()
{
	"$testbed" net "$victim" cut
}

power_off()
{
	"$testbed" kill "$victim"
}

# Check that the store serves again within three leases after COMMAND strikes the leader's
# node.
strike() # COMMAND
{
	local struck

	find_victim
	struck=$(now_ms)
	"$1"
	mark
	in_time "$struck" $((3 * lease_ms)) is_served ||
		fail "$1: there is no service after three leases of" \
			"$lease_ms ms"
	echo "$1: replica $victim led; served again after" \
		"$(($(now_ms) - struck)) ms, of which this machine was" \
		"$(late_ms "$struck") late; now replica $(leader "$case") leads"
}

# Prints a counter's sum over all replicas, which write their counters repeatedly.
sum_of() # COUNTER
{
	awk -v name="$1" '$1 == name { n += $2 } END { print n + 0 }' \
		"$SHARED/$case.load.counters"
}

# Prints a counter's largest value of all replicas.
applied()
{
	awk '$1 == "applied" && $2 > n { n = $2 } END { print n + 0 }' \
		"$SHARED/$case.load.counters"
}

applied_reaches() # SLOT
{
	[ "$(applied)" -ge "$1" ]
}

# Whether each COUNTER has at least the value LEAST.
counters_reach() # COUNTER LEAST...
{
	while [ $# -gt 0 ]; do
		[ "$(sum_of "$1")" -ge "$2" ] || return 1
		shift 2
	done
}

# Whether one replica leads and the other two follow it.
all_follow()
{
	awk '$1 == "leader_plus_1" && $2 > 0 { n[$2]++ }
		END { for (i in n) all += n[i] == 3; exit !all }' \
		"$SHARED/$case.load.counters"
}

# Whether N replicas had the same keys, values and sessions at the same position; two
# never differ there. Replicas keep applying commands, at least no-ops.
agree() # N
{
	local verdict

	awk '$1 == "replica" { k = $2 }
		$1 == "applied" { slot = $2 }
		$1 == "digest" { print slot, $2, k }' \
		"$SHARED/$case.load.counters" >> "$SHARED/$case.digests"
	verdict=$(sort -u "$SHARED/$case.digests" | awk -v want="$1" '
		($1 in digest) && digest[$1] != $2 "" { print "differ at " $1 }
		{ digest[$1] = $2 "" }
		++n[$1] == want { print "alike" }')
	[[ $verdict != *differ* ]] || fail "replicas $verdict"
	[[ $verdict = *alike* ]]
}

# Check that all living replicas are equal and the clients' history is linearizable.
end() # N_REPLICAS
{
	touch "$SHARED/$case.load.stop"
	await "the history" $wait_limit_ms load_says operations
	await "that $1 replicas are alike" $wait_limit_ms agree "$1"
	touch "$SHARED/$case.load.end"
	wait "$load_job"
	[ "$(cat "$SHARED/$case.load.status.0")" = 0 ] ||
		fail "the clients have failed"
	"$build/tests/linearizability/check-history" \
		"$SHARED/history.$case" > "$SHARED/$case.verdict" ||
		fail "that is no linearizable history"
	echo "$(tail -n 1 "$SHARED/$case.load.0"); the history is linearizable"
	# The command of a machine without power has ended.
	kill "${replicas[@]}" 2> /dev/null || true
	wait "${replicas[@]}" || true
}

# The network loses only segments of other processes, not those of the leader's own. So
# another replica must lead if all clients are in the leader's process.
miss_segments()
{
	local accepted try

	accepted=$(sum_of fast_accepted)
	for try in 1 2 3; do
		within $gap_ms counters_reach gaps_decided 1 && break
		[ $try -lt 3 ] || fail "no leader has decided on a no-op"
		depose_leader
	done
	await "no-ops that are taken" $wait_limit_ms counters_reach \
		fast_accepted $((accepted + load)) gaps_taken 1
}

lose_segments()
{
	await "the ordered flow" $wait_limit_ms counters_reach fast_accepted 1
	"$testbed" net all loss 1%
	await "gaps that are filled" $wait_limit_ms counters_reach \
		fast_accepted "$load" gaps_asked 1 gaps_filled 1
	depose_leader
	"$testbed" net all loss 5%
	miss_segments
	echo "gaps asked for: $(sum_of gaps_asked), filled:" \
		"$(sum_of gaps_filled), decided: $(sum_of gaps_decided), taken:" \
		"$(sum_of gaps_taken), segments: $(sum_of fast_accepted)," \
		"fast paths: $(sum_of fast_opened)"
}

# RDMA sends lost packets again, so a loss costs time only.
lose_time()
{
	local loss

	for loss in 1% 5%; do
		"$testbed" net all loss $loss
		depose_leader
		await "commands while $loss of the packets are lost" \
			$wait_limit_ms applied_reaches $(($(applied) + load))
	done
	echo "slots: $(applied), elections won: $(sum_of elections_won), by flows of" \
		"leaders: $(sum_of flow_accepts) accepts, $(sum_of flow_votes) votes"
}

# The client learns that there is no such key, or why it gets no answer.
come_in()
{
	local before status=0

	before=$(now_ms)
	on 1 visit $case || status=$?
	case $status in
	0 | 124 | 125) fail "a client that came has ended with $status" ;;
	esac
	[ -s "$SHARED/$case.visit" ] || fail "a client that came was told nothing"
	echo "a client that came while packets were lost was told after" \
		"$(($(now_ms) - before)) ms: $(cat "$SHARED/$case.visit")"
}

lose_packets()
{
	local k n all=0

	if [ "$way" = nopaxos ]; then
		lose_segments
	else
		lose_time
	fi
	come_in
	for k in 0 1 2; do
		n=$(on $k lost)
		all=$((all + n))
	done
	"$testbed" net all heal
	[ $all -gt 0 ] || fail "the network has lost nothing"
	echo "packets lost: $all under 5 %"
}

lose_machines()
{
	strike cut_off
	"$testbed" net "$victim" heal
	await "the replica that was cut off" $wait_limit_ms all_follow
	strike power_off
}

# In each of the two remaining machines.
lose_processes()
{
	local k

	for k in 0 1 2; do
		[ $k != "$victim" ] || continue
		on $k signal $case KILL
		wait "${replicas[k]}" || true
		start_replica $k
	done
	mark
	await "service by what is in the logs" $wait_limit_ms is_served
	echo "both replicas were killed, and serve again with their logs"
}

start_registry
lateness=$SHARED/late
watch_lateness &
watch=$!
start
lose_packets
lose_machines
[ "$way" != flows ] || lose_processes
end 2
kill $registry $watch
wait $registry $watch || true
echo "what was acknowledged is there, and replicas are alike"
