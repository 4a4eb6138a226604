#!/bin/sh
# sefl provision --hosts: three machines, played by three network namespaces. Each gets its kit and sees nothing else;
# the first round is released without an edit. What kits contain is in test_provision.sh.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
skip() {
    echo "SKIPPED: $*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
command -v ip > /dev/null || skip "there is no program 'ip' (package iproute2)"

# ---- machines: a switch and three hosts, in namespaces of their own, with no way out -----------------
ns=sefl-$$
end() {
    fed_end
    for m in net as csp site; do ip netns del $ns-$m 2> /dev/null || :; done
}
trap end EXIT
{ ip netns add $ns-net && ip -n $ns-net link add br0 type bridge && ip -n $ns-net link set br0 up; } 2> "$dir/err" ||
    skip "this system allows no network namespaces: $(cat "$dir/err")"
unshare -m true 2> "$dir/err" || skip "this system allows no mount namespaces: $(cat "$dir/err")"
number=0
for m in as csp site; do
    number=$((number + 1))
    ip netns add $ns-$m
    ip -n $ns-net link add port$number type veth peer name eth0 netns $ns-$m
    ip -n $ns-net link set port$number master br0 up
    ip -n $ns-$m link set lo up
    ip -n $ns-$m addr add 198.18.7.$number/24 dev eth0
    ip -n $ns-$m link set eth0 up
    mkdir -p "$dir/$m"
done
printf '127.0.0.1 localhost\n198.18.7.1 as.example\n198.18.7.2 csp.example\n' > "$dir/hosts"

# on MACHINE COMMAND...: runs it there. Of the test's folder, the machine sees only its own disk, as /mnt.
on() {
    on_m=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    set -- sh -c 'mount --bind "$1/$2" /mnt && mount --bind "$1/hosts" /etc/hosts && mount -t tmpfs none "$1" &&
        cd /mnt && shift 2 && exec "$@"' sh "$dir" "$on_m" "$@"
    exec ip netns exec $ns-"$on_m" "$@"
}

# ---- one person makes the kits, copies each to its machine, and keeps nothing ------------------------
expect 0 "$SEFL" provision "$dir/trial" --clients 2 --hosts as.example,csp.example --words 300 --set rounds.count=2
says "FOR TRIALS ONLY"; says "kits/csp.tar  to csp.example; only as.example must reach its port 7001"
cp "$dir/trial/kits/aggregator.tar" "$dir/as/"
cp "$dir/trial/kits/csp.tar" "$dir/csp/"
cp "$dir/trial/kits/client-01.tar" "$dir/trial/kits/client-02.tar" "$dir/site/"
rm -r "$dir/trial"

# ---- each machine: unpack, start ----------------------------------------------------------------------
run_kit() { # MACHINE NAME
    (on "$1" tar -xf "$2.tar") || fail "cannot unpack $2"
    fed_start "$2" on "$1" env SEFL="$SEFL" "sefl-trial-$2/start"
}
run_kit site client-01 # in any order: a client waits for AS, AS for CSP
run_kit as aggregator
run_kit csp csp
run_kit site client-02
fed_done client-01 60
fed_done client-02 60
fed_done csp 60
[ -s "$dir/as/sefl-trial-aggregator/aggregator/models/round-1.safetensors" ] || fail "round 1 is not released"
[ -s "$dir/as/sefl-trial-aggregator/aggregator/models/round-2.safetensors" ] || fail "round 2 is not released"
out=$(cat "$dir/log/aggregator")
says '"clients":2'
fed_kill TERM aggregator
fed_wait aggregator 20
out=$( (on as "$SEFL" report sefl-trial-aggregator/aggregator --text) 2>&1) || fail "report: $out"
says "2 released"
out=$( (on as ls "$dir") 2>&1)
[ -z "$out" ] || fail "a machine sees other disks: $out"
note "a round over three machines"
