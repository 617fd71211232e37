# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# hosts_etcd_help.sh, to be sourced after hosts_help.sh: an etcd of three members, by TLS and
# a user, as the registry of the two hosts. The script is in the folder $tmp.
# shellcheck disable=SC2034,SC2154 # variables for the script, or of it

etcd_check()
{
	local program

	for program in etcd etcdctl openssl; do
		command -v $program > /dev/null || skip "$program is not installed"
	done
}

now_ms()
{
	date +%s%3N
}

within() # MS COMMAND...
{
	local deadline=$(($(now_ms) + $1))

	until "${@:2}"; do
		[ "$(now_ms)" -lt $deadline ] || fail "not after $1 ms: ${*:2}"
		sleep 0.05
	done
}

make_certificates()
{
	local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

	openssl req -x509 "${key[@]}" -keyout ca.key -out ca.pem -days 2 -subj /CN=ca
	openssl req "${key[@]}" -keyout member.key -out member.csr -subj /CN=member
	openssl x509 -req -in member.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
		-extfile <(echo subjectAltName=IP:10.77.9.1,IP:10.77.9.2) -out member.pem
}

at_member=(10.77.9.1:2379 10.77.9.2:2379 10.77.9.2:2389)
at_peer=(10.77.9.1:2380 10.77.9.2:2380 10.77.9.2:2390)
host_of=(a b b)
member_start() # MEMBER
{
	at "${host_of[$1]}" -- etcd --name "m$1" --data-dir "m$1" --bcrypt-cost 4 \
		--listen-client-urls "https://${at_member[$1]}" \
		--advertise-client-urls "https://${at_member[$1]}" \
		--cert-file member.pem --key-file member.key \
		--listen-peer-urls "http://${at_peer[$1]}" \
		--initial-advertise-peer-urls "http://${at_peer[$1]}" \
		--initial-cluster "m0=http://${at_peer[0]},m1=http://${at_peer[1]},m2=http://${at_peer[2]}" \
		>> "m$1.log" 2>&1 &
	members[$1]=$!
}

control() # ARGUMENT...
{
	(at a ETCDCTL_API=3 -- etcdctl --endpoints "${at_member[0]}" --cacert ca.pem "$@") \
		> control.out 2>&1
}

answers() # MEMBER
{
	(at a ETCDCTL_API=3 -- etcdctl --endpoints "${at_member[$1]}" --cacert ca.pem \
		--user dfi:secret --command-timeout 2s get dfi/none) > control.out 2>&1
}

# Set $settings, by which a program reaches it.
etcd_start()
{
	local i

	make_certificates > openssl.err 2>&1 || fail "no certificates"
	for i in 0 1 2; do
		member_start $i
	done
	within 60000 control get none
	control user add root:root
	control user grant-role root root
	control role add dfi
	control role grant-permission dfi --prefix=true readwrite dfi/
	control user add dfi:secret
	control user grant-role dfi dfi
	control auth enable || fail "etcd: $(cat control.out)"
	(umask 077 && echo secret > password)
	registry=etcd:https://${at_member[0]},${at_member[1]},${at_member[2]}
	settings=(DFI_REGISTRY="$registry" DFI_REGISTRY_CA="$tmp/ca.pem" DFI_ETCD_USER=dfi
		DFI_ETCD_PASSWORD_FILE="$tmp/password")
}
