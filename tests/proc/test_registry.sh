#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_registry.sh BIN_DIR: dfi-registry over TCP does what its help says, with keys and
# certificates. It refuses what it must, and serves on.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

fail()
{
	echo "test_registry: $*"
	[ ! -s "$tmp/registry" ] || cat "$tmp/registry"
	exit 1
}

has() # FILE TEXT...
{
	local file=$1 text

	shift
	for text in "$@"; do
		grep -qF -- "$text" "$file" || {
			cat "$file"
			fail "no '$text' in this"
		}
	done
}

counts() # FILE TEXT N
{
	local n

	n=$(grep -cF -- "$2" "$1" || true)
	[ "$n" = "$3" ] || {
		cat "$1"
		fail "'$2' is there $n times and not $3"
	}
}

run_as=()
start() # OPTION...: sets address
{
	: > "$tmp/address"
	"${run_as[@]}" "$bin/dfi-registry" --print-address "$@" \
		> "$tmp/address" 2> "$tmp/registry" &
	registry=$!
	await "$tmp/address"
	address=$(cat "$tmp/address")
}

stop()
{
	kill -TERM "$registry"
	wait "$registry" || fail "dfi-registry ends with $? on SIGTERM"
}

does_not_start() # STATUS TEXT OPTION...
{
	local status=$1 text=$2 ret=0

	shift 2
	timeout $wait_limit "$bin/dfi-registry" "$@" > "$tmp/out" 2> "$tmp/err" || ret=$?
	[ "$ret" = "$status" ] || fail "$*: exit status $ret: $(cat "$tmp/err")"
	has "$tmp/err" "$text"
}

serves() # VARIABLE=VALUE...
{
	env "$@" DFI_REGISTRY="$address" "$bin/dfi-info" nodes \
		> "$tmp/out" 2> "$tmp/err" || fail "$*: $(cat "$tmp/err")"
	has "$tmp/out" "dfi-info: host"
}

refuses() # TEXT VARIABLE=VALUE...
{
	local text=$1

	shift
	if env "$@" DFI_REGISTRY="$address" timeout $wait_limit "$bin/dfi-info" nodes \
		> "$tmp/out" 2> "$tmp/err"; then
		fail "$* is served"
	fi
	has "$tmp/err" "$text"
}

unset "${!DFI_@}"

"$bin/dfi-registry" keygen "$tmp/key" || fail "keygen"
"$bin/dfi-registry" keygen "$tmp/other" || fail "keygen"
[ "$(stat -c %a "$tmp/key")" = 600 ] || fail "the key file is not private"
does_not_start 1 "exists" keygen "$tmp/key"
does_not_start 64 "which file" keygen
does_not_start 1 "no regular file" keygen /dev/full
does_not_start 64 "one too many" keygen "$tmp/key" more
does_not_start 64 "unknown argument" serve
does_not_start 64 "needs --state" --grace 5
does_not_start 64 "1 to 3600" --state "$tmp/state" --grace 0
mkdir -m 0755 "$tmp/open"
does_not_start 1 "mode 0755, and needs 0700" --state "$tmp/open"
start --state "$tmp/state" --grace 5
does_not_start 1 "used by another registry" --state "$tmp/state"
stop
start --state "$tmp/state" --grace 5
stop
printf x >> "$tmp/state/journal"
start --state "$tmp/state" --grace 5
has "$tmp/registry" "its last 1 bytes are not a whole record"
stop
does_not_start 78 "keygen" --listen tcp:0.0.0.0:0
does_not_start 78 "loopback" --listen "tcp:[::]:0"
does_not_start 78 "every user" --listen tcp:127.0.0.1:0
does_not_start 78 "--insecure" --listen "tcp:[::1]:0"
does_not_start 1 "No such file" --listen tcp:0.0.0.0:0 --key "$tmp/missing"
chmod 640 "$tmp/other"
does_not_start 1 "0600" --listen tcp:0.0.0.0:0 --key "$tmp/other"
chmod 600 "$tmp/other"

# It listens at all addresses of this machine; clients here use one.
start --listen tcp:0.0.0.0:0 --key "$tmp/key"
address=tcp:127.0.0.1:${address##*:}
serves DFI_REGISTRY_KEY="$tmp/key"
for _ in 1 2 3; do
	refuses "another key" DFI_REGISTRY_KEY="$tmp/other"
	refuses "set DFI_REGISTRY_KEY" DFI_REGISTRY_INSECURE=1
done
chmod 644 "$tmp/other"
refuses "0600" DFI_REGISTRY_KEY="$tmp/other"
for ip in $(hostname -I 2> /dev/null); do
	case $ip in
	*:*) continue ;;
	esac
	address=tcp:$ip:${address##*:}
	serves DFI_REGISTRY_KEY="$tmp/key"
	refuses "DFI_REGISTRY_INSECURE=1" A=B
	break
done
serves DFI_REGISTRY_KEY="$tmp/key"
counts "$tmp/registry" "it has another key" 1
counts "$tmp/registry" "neither key nor certificate" 1
counts "$tmp/registry" "warn:" 2
stop

# Without options it says where it listens.
: > "$tmp/address"
"$bin/dfi-registry" > "$tmp/address" 2> "$tmp/registry" &
registry=$!
await "$tmp/address"
has "$tmp/address" "listens at unix:@dfi-registry-$registry-"
address=$(sed 's/.*listens at //' "$tmp/address")
serves A=B
stop
if "$bin/dfi-registry" --print-address > /dev/full 2> "$tmp/err"; then
	fail "it serves at an address that it could not print"
fi
has "$tmp/err" "No space left"

# A signal ends it also while it waits for the lock of another registry.
(umask 077 && exec flock --no-fork "$tmp/socket.lock" sleep 300) &
holder=$!
until [ -e "$tmp/socket.lock" ]; do sleep 0.05; done
until ! flock -n "$tmp/socket.lock" true; do sleep 0.05; done
"$bin/dfi-registry" --listen "unix:$tmp/socket" > "$tmp/out" 2> "$tmp/registry" &
registry=$!
# Wait until it has a handler for SIGTERM, signal 15. Before, this shell's copy may block it.
until awk '/^Name/ { named = $2 == "dfi-registry" }
	/^SigCgt/ && $2 ~ /[4-7c-f]...$/ { found = 1 }
	END { exit !(named && found) }' "/proc/$registry/status"; do
	kill -0 "$registry" 2> /dev/null || fail "$(cat "$tmp/registry")"
	sleep 0.01
done
stop
kill "$holder"
wait "$holder" || :
[ ! -s "$tmp/registry" ] || fail "the start went on: $(cat "$tmp/registry")"

soft=$(ulimit -Sn)
ulimit -Sn 64
start
ulimit -Sn "$soft"
read -r _ _ _ soft hard _ < <(grep "Max open files" "/proc/$registry/limits")
[ "$soft" = "$hard" ] || fail "it may open $soft files, and could $hard"
stop

for _ in 1 2; do
	start --listen tcp:0.0.0.0:0 --insecure
	address=tcp:127.0.0.1:${address##*:}
	counts "$tmp/registry" "INSECURE" 1
	serves DFI_REGISTRY_INSECURE=1
	refuses "DFI_REGISTRY_INSECURE=1" A=B
	refuses "does not speak TLS" DFI_REGISTRY_KEY="$tmp/key"
	stop
done

if ! command -v openssl > /dev/null; then
	echo "the program openssl is missing: certificates were not tested"
	exit 0
fi

certificate() # NAME EXTENSION
{
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" \
		-keyout "$tmp/$1.key" -out "$tmp/$1.csr" 2> /dev/null
	openssl x509 -req -in "$tmp/$1.csr" -CA "$tmp/ca.pem" \
		-CAkey "$tmp/ca.key" -CAcreateserial -days 2 \
		-extfile <(echo "$2") -out "$tmp/$1.pem" 2> /dev/null
}

openssl req -x509 -newkey rsa:2048 -nodes -subj "/CN=ca" -days 2 \
	-keyout "$tmp/ca.key" -out "$tmp/ca.pem" 2> /dev/null
certificate server "subjectAltName=IP:127.0.0.1"
certificate client "extendedKeyUsage=clientAuth"
server=(--cert "$tmp/server.pem" --private-key "$tmp/server.key")
client=(DFI_REGISTRY_CERT="$tmp/client.pem"
	DFI_REGISTRY_PRIVATE_KEY="$tmp/client.key")

does_not_start 78 "certificate authority" --listen tcp:0.0.0.0:0 "${server[@]}"
start --listen tcp:0.0.0.0:0 "${server[@]}" --ca "$tmp/ca.pem"
address=tcp:127.0.0.1:${address##*:}
serves DFI_REGISTRY_CA="$tmp/ca.pem" "${client[@]}"
refuses "DFI_REGISTRY_CERT" DFI_REGISTRY_CA="$tmp/ca.pem"
refuses "DFI_REGISTRY_CA" "${client[@]}"
address=tcp:127.0.0.2:${address##*:}
refuses "not for this address" DFI_REGISTRY_CA="$tmp/ca.pem" "${client[@]}"
stop
# Other users, at a Unix socket: the registry serves users that it names. A client trusts
# the registry's user if a setting says so. Only root can run this part.
does_not_start 64 "no user 'nobody-of-this-name'" --allow-user nobody-of-this-name
does_not_start 1 "Unix socket" --listen tcp:127.0.0.1:0 --allow-user 65534
as() # UID VARIABLE=VALUE...: whether that user is served
{
	local uid=$1

	shift
	setpriv --reuid "$uid" --clear-groups env "$@" DFI_REGISTRY="$address" \
		"$bin/dfi-info" nodes > "$tmp/out" 2> "$tmp/err"
}
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups \
	"$bin/dfi-info" --version > /dev/null 2>&1; then
	start --listen "unix:@dfi-test-$$" --allow-user 65534 --allow-user 65533
	as 65534 || fail "a user that is named: $(cat "$tmp/err")"
	as 65533 || fail "another one: $(cat "$tmp/err")"
	! as 65532 || fail "a user that is not named is served"
	has "$tmp/err" "runs as user 65532"
	has "$tmp/err" "to serve it, start the registry with --allow-user"
	stop
	# Root does not trust the user that took an address first.
	run_as=(setpriv --reuid 65534 --clear-groups)
	start --listen "unix:@dfi-test-$$"
	refuses "to trust that user, set DFI_REGISTRY_USER=65534"
	serves DFI_REGISTRY_USER=65534
	stop
fi
echo "dfi-registry passed"
