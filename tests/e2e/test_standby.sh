#!/bin/sh
# Two CSP processes over one PostgreSQL, one of them active by a lease. At seeded moments (SEFL_TEST_SEED) the active one is
# killed, or stopped until the other has taken over and then woken up; at last the database itself is killed and
# restarted. The run completes; no round is charged or revealed twice; the process that lost the lease ends by itself. The
# audit (tests/tools) checks the sums, ledgers and receipts.
#
# Three such moments in CI, 40 with SEFL_SOAK.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
"$SEFL" version | grep -q '^PostgreSQL' || { echo "built without PostgreSQL"; exit 77; }
server=$SEFL_SOURCE/tests/support/pg_server
moments=3
[ -z "${SEFL_SOAK:-}" ] || moments=40
rounds=$((20 * moments)) # a round takes about 0.1 s
chmod 755 "$dir" # the server's user reaches its socket here
url=$("$server" start "$dir/pg")
trap 'fed_end_all' EXIT
fed_end_all() {
    # shellcheck disable=SC2086
    fed_kill CONT $fed_names
    # shellcheck disable=SC2086
    fed_kill KILL $fed_names
    wait
    "$server" stop "$dir/pg"
    rm -rf "$dir"
}
sql() { psql -qAtX "$url" -c "$1"; }

fed_provision run --clients 3 --words 300 --set model.embed=32 --set model.hidden=32 \
    --set rounds.count=$rounds --set rounds.deadline_ms=60000
for b in a b; do
    cp -a "$fed/csp" "$fed/csp-$b"
    echo 127.0.0.1:0 > "$fed/csp-$b/at"
done
rm "$fed/csp-b/ledger" # the store has it by then
csp() { # a|b
    rm -f "$fed/csp-$1/ready"
    fed_start "csp-$1" "$SEFL" csp --config "$fed/csp-$1/csp.yml" --listen 127.0.0.1:0 --store "$url" --lease 2
}
active() { # prints a or b: whose process has the lease
    holder=$(sql "SELECT holder FROM lease WHERE name = 'csp' AND expires_ms > 0" 2> /dev/null)
    for b in a b; do
        if [ "${holder##*:}" = "$(cat "$dir/run/csp-$b.pid" 2> /dev/null)" ]; then echo $b; fi
    done
}
is_active() { [ "$(active)" = "$1" ] && [ -s "$fed/csp-$1/ready" ]; }
is_over() { grep -q '"event":"task over"' "$dir/log/aggregator" || fed_ended aggregator; }
closed() { grep -c '"event":"round closed"' "$dir/log/aggregator" || :; }
one_more_closed() { [ "$(closed)" -gt "$before" ] || is_over; }
revealed() { grep -c '"event":"round revealed"' "$dir/log/csp-$1" || :; } # a|b
one_more_revealed() {
    now=$(active)
    case $now in a) had=$by_a ;; b) had=$by_b ;; *) is_over; return ;; esac
    [ "$(revealed "$now")" -gt "$had" ] || is_over
}
is_active_or_over() { is_active "$1" || is_over; }

# doctor looks at the store, creates nothing there, and misses no ledger on the standby's machine
sed "/^store:/d" "$fed/csp-b/csp.yml" > "$fed/csp-b/doctor.yml"
echo "store: $url" >> "$fed/csp-b/doctor.yml"
said=$("$SEFL" doctor --for csp -c "$fed/csp-b/doctor.yml" 2>&1) || fail "doctor: $said"
case $said in *"ok    store"*) ;; *) fail "doctor: $said" ;; esac
[ "$(sql "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")" = 0 ] || fail "doctor made tables"
sed "s,host=$dir/pg,host=$dir/none," "$fed/csp-b/doctor.yml" > "$fed/csp-b/nowhere.yml"
if said=$("$SEFL" doctor --for csp -c "$fed/csp-b/nowhere.yml" 2>&1); then fail "doctor finds a server that is not there"; fi
case $said in *"fail  store"*) ;; *) fail "doctor: $said" ;; esac

csp a
fed_until 20 "active csp-a" is_active a
csp b
fed_start follow python3 "$SEFL_SOURCE/tests/e2e/follow.py" "$dir/relay" "$fed/csp-a/ready" "$fed/csp-b/ready"
fed_until 10 "relay" test -s "$dir/relay"
cp "$dir/relay" "$fed/csp/at"
fed_aggregator --linger 60 --link-silence 3
fed_clients 1 2 3
stopped=0 killed=0
for n in $(seq 0 $((moments - 1))); do
    by_a=$(revealed a) by_b=$(revealed b)
    fed_until 60 "reveal of a round by the active CSP" one_more_revealed # so each log has a round that the other lacks
    before=$(closed)
    fed_until 60 "closing of a round" one_more_closed
    sleep "$(fed_random 0.5 "close $n")"
    if is_over; then break; fi
    now=$(active)
    case $now in a) other=b ;; b) other=a ;; *) fail "no CSP is active" ;; esac
    fed_running "csp-$other" || fail "csp-$other does not stand by"
    if [ $((n % 2)) -eq 0 ]; then
        fed_kill STOP "csp-$now"
        fed_until 40 "takeover by csp-$other" is_active_or_over $other
        if is_over; then break; fi
        seen=$(revealed "$now")
        fed_kill CONT "csp-$now"
        fed_wait "csp-$now" 20
        [ "$rc" -ne 0 ] || fail "csp-$now went on after it lost the lease"
        grep -q 'another process is the active CSP' "$dir/log/csp-$now" || fail "csp-$now does not say why it ended"
        # one more, if it was stopped between its mark in the store and this line; $twice, below, counts all
        [ "$(revealed "$now")" -le $((seen + 1)) ] ||
            fail "csp-$now revealed a round after it lost the lease"
        stopped=$((stopped + 1))
    else
        fed_kill KILL "csp-$now"
        fed_wait "csp-$now" 10
        fed_until 40 "takeover by csp-$other" is_active_or_over $other
        killed=$((killed + 1))
    fi
    note "moment $n: csp-$now to csp-$other"
    csp "$now" # stands by from now on
done
# kill -9 of the database: both processes connect again, and the run goes on
before=$(closed)
fed_until 60 "closing of a round" one_more_closed
"$server" crash "$dir/pg"
now=
for b in a b; do [ ! -s "$fed/csp-$b/ready" ] || ! fed_running "csp-$b" || now=$b; done
says_away() { case $("$SEFL" status -c "$fed/csp-$now/csp.yml" || :) in *"DATABASE AWAY since 2"*) ;; *) return 1 ;; esac; }
fed_until 60 "sign of the lost database at csp-$now" says_away
"$server" again "$dir/pg"
note "the database was killed"
[ "$stopped" -gt 0 ] || fail "no process was stopped: the task ended before"
for name in client-01 client-02 client-03; do fed_done $name $((240 + rounds)); done
fine=0
for b in a b; do # the standby takes over a task that is over; after the database's restart either may have lost the lease
    fed_wait csp-$b 60
    if [ "$rc" -eq 0 ]; then fine=$((fine + 1)); continue; fi
    tail -n 5 "$dir/log/csp-$b" | grep -q 'the lease .* was lost' || fail "csp-$b exits $rc"
done
[ $fine -gt 0 ] || fail "no CSP saw the end of the task"
fed_kill TERM aggregator
fed_done aggregator 20

twice=$(cat "$dir"/log/csp-? | grep '"event":"round revealed"' | sed 's/.*"round":\([0-9]*\).*/\1/' | sort | uniq -d)
[ -z "$twice" ] || fail "round $twice was revealed twice"
newest=$(find "$fed/csp-a/ledger" "$fed/csp-b/ledger" -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
cp "$newest" "$fed/csp/ledger"
said=$(SEFL_AUDIT_CSP_STORE="$url" "$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
fences=$(sql "SELECT fence FROM lease WHERE name = 'csp'")
note "$stopped stopped, $killed killed, $fences takes of the lease; $said"

# the audit logs of both processes together are CSP's record; one of them alone lacks rounds
said=$("$SEFL" verify "$fed/aggregator" "$fed/csp-a" "$fed/csp-b" 2>&1) || fail "verify: $said"
case $said in *"their logs agree on $rounds rounds"*) ;; *) fail "verify: $said" ;; esac
for b in a b; do
    if said=$("$SEFL" verify "$fed/aggregator" "$fed/csp-$b" 2>&1); then fail "csp-$b alone has all rounds: $said"; fi
    case $said in *WRONG*"is missing: "*) ;; *) fail "verify: $said" ;; esac
done
cp "$fed/csp-b/state/audit.jsonl" "$dir/kept"
sed -i '$d' "$fed/csp-b/state/audit.jsonl" # the second process's chain is checked, too
if said=$("$SEFL" verify "$fed/aggregator" "$fed/csp-a" "$fed/csp-b" 2>&1); then fail "a cut log: $said"; fi
cp "$dir/kept" "$fed/csp-b/state/audit.jsonl"

# another CSP never gets this database: a federation of its own has other keys
fed_provision other --clients 2 --words 100 --set model.embed=16 --set model.hidden=16
expect 1 "$SEFL" csp --config "$fed/csp/csp.yml" --listen 127.0.0.1:0 --store "$url"
says "belongs to the CSP with the signing key"

# a database that wants a password, and a user without one: the server says so at once
hba=$(cat "$dir/pg/data")/pg_hba.conf
sed -i '1i local all locked scram-sha-256' "$hba"
sql "CREATE ROLE locked LOGIN PASSWORD 'secret'"
sql "SELECT pg_reload_conf()" > /dev/null
sleep 1
export PGPASSFILE=/dev/null
before=$(date +%s)
for command in "csp --config $fed/csp/csp.yml" \
    "aggregator --config $fed/aggregator/aggregator.yml --csp 127.0.0.1:1 --shared $fed/shared --state $fed/state"; do
    # shellcheck disable=SC2086 # several words
    expect 1 "$SEFL" $command --listen 127.0.0.1:0 --store "${url%user=*}user=locked"
    says "wants a password"
done
[ $(($(date +%s) - before)) -lt 12 ] || fail "it took a while to notice that there is no password"

# SIGTERM ends a server that waits for the first answer of a database, and at once
fed_start mute python3 -c '
import socket, sys, time
s = socket.create_server(("127.0.0.1", 0)) # never accepts
open(sys.argv[1], "w").write(str(s.getsockname()[1]))
time.sleep(600)' "$dir/mute"
fed_until 10 "mute server" test -s "$dir/mute"
mute="postgresql://u@127.0.0.1:$(cat "$dir/mute")/x"
fed_start mute-csp "$SEFL" csp --config "$fed/csp/csp.yml" --listen 127.0.0.1:0 --store "$mute"
fed_start mute-as "$SEFL" aggregator --config "$fed/aggregator/aggregator.yml" --listen 127.0.0.1:0 --csp 127.0.0.1:1 \
    --store "$mute" --shared "$fed/shared" --state "$fed/state"
sleep 1
for name in mute-csp mute-as; do fed_running $name || fail "$name does not wait for its database"; done
fed_kill TERM mute-csp mute-as
fed_done mute-csp 2
fed_done mute-as 2

# a store that forgets synced commits is refused, and so is the URL with a password
fed=$dir/run
"$server" stop "$dir/pg"
expect 2 "$SEFL" csp --config "$fed/csp-a/csp.yml" --listen 127.0.0.1:0 --store 'postgresql://u:secret@localhost/x'
says "passfile"
case $out in *secret*) fail "the password is in: $out" ;; esac
expect 2 "$SEFL" csp --config "$fed/csp-a/csp.yml" --listen 127.0.0.1:0 --store 'postgresql://u@db.example/x'
says "sslmode=verify-full"
echo ok
