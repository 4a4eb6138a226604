#!/bin/sh
# Two aggregators that are one server: one PostgreSQL, one folder, one haproxy (TCP mode) before both, 16 clients. The
# test kills -9 either aggregator, or PostgreSQL, at seeded moments (SEFL_TEST_SEED) and starts it again, or stops an
# aggregator for longer than its lease (SIGSTOP) and lets it go on. The run completes; then the audit (tests/tools) checks that every acknowledged update is in its sum once, that no charge is lost
# and that each round is revealed once.
#
# A few of these in CI; with SEFL_SOAK 20 kills of the aggregators, 5 stops, and 5 kills of PostgreSQL.
set -eu
export FED_LOG_LINES=12
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
"$SEFL" version | grep -q PostgreSQL || { echo "this build has no PostgreSQL"; exit 0; }
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
kills=4
rounds=12
[ -z "${SEFL_SOAK:-}" ] || kills=30 rounds=200
clients=16
pg=$(mktemp -u "${TMPDIR:-/tmp}/sefl-share-XXXXXX") # the user postgres cannot see $dir
haproxy=$(command -v haproxy || echo /usr/sbin/haproxy)
[ -x "$haproxy" ] || { echo "haproxy is not installed (scripts/bootstrap --test)"; exit 77; }
note "seed ${SEFL_TEST_SEED:-1}, $kills failures, $rounds rounds"

url=$("$SEFL_SOURCE/tests/support/pg_server" start "$pg") || exit $?
end_all() {
    # shellcheck disable=SC2086
    fed_kill KILL $fed_names
    wait
    "$SEFL_SOURCE/tests/support/pg_server" stop "$pg" || :
    rm -rf "$dir"
}
trap end_all EXIT

fed_provision share --clients $clients --words 300 --set model.embed=16 --set model.hidden=16 \
    --set rounds.count=$rounds --set rounds.deadline_ms=60000
a=$fed/aggregator
command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"
aggregator() { # NAME
    rm -f "$dir/$1.ready"
    fed_start "$1" "$SEFL" aggregator --config "$a/aggregator.yml" --listen "$(cat "$dir/$1.at" 2> /dev/null || fed_address)" \
        --csp "$(cat "$fed/csp/at")" --store "$url" --shared "$a/shared" --state "$dir/state-$1" --health 127.0.0.1:0 \
        --page 127.0.0.1:0 --ready-file "$dir/$1.ready" --lease 2 --linger 60 --per-address 512 --connection-rate 1000
    fed_until 30 "$1" ready "$1"
    ! fed_ended "$1" || fail "$1 ended"
    cp "$dir/$1.ready" "$dir/$1.at"
}
ready() { [ -s "$dir/$1.ready" ] || fed_ended "$1"; }

fed_csp
aggregator one
aggregator two

# a port for haproxy, which cannot choose one itself
port=$(fed_address)
port=${port#*:}
sed -e "s/bind :7000/bind 127.0.0.1:$port/" -e "s/aggregator-1:7000/$(cat "$dir/one.at")/" \
    -e "s/aggregator-2:7000/$(cat "$dir/two.at")/" "$SEFL_SOURCE/packaging/compose/haproxy.cfg" > "$dir/haproxy.cfg"
fed_start haproxy "$haproxy" -db -f "$dir/haproxy.cfg"
echo "127.0.0.1:$port" > "$a/at"
# shellcheck disable=SC2046
fed_clients $(seq $clients)

get() { curl -s --noproxy '*' --max-time 20 "$@"; }
health() { echo "http://127.0.0.1:$(sed -n 's/.*"event":"health".*"port":\([0-9]*\).*/\1/p' "$dir/log/$1" | tail -n 1)"; }
page() { # NAME: the state on its page
    url_of_page=$(cat "$dir/state-$1/page.url")
    get -o /dev/null -c "$dir/$1.jar" "$url_of_page"
    get -b "$dir/$1.jar" "${url_of_page%/\?*}/state.json"
}
away_seconds() { get "$(health "$1")/metrics" | sed -n 's/^sefl_database_away_seconds //p'; }
# NAME: its status, health, metrics and page all say that the database does not answer
says_away() {
    grep -q '"healthy":false,"database_away_since":1' "$dir/state-$1/status.json" || return 1
    case $("$SEFL" status "$(health "$1")/healthz" || :) in *"DATABASE AWAY since 2"*) ;; *) return 1 ;; esac
    case $(get -w '%{http_code}' "$(health "$1")/healthz") in *'"healthy":false,"database_away_since":1'*503) ;; *) return 1 ;; esac
    [ "$(away_seconds "$1")" -gt 0 ] || return 1
    case $(page "$1") in *'"database_away_since":1'*) ;; *) return 1 ;; esac
}
says_back() {
    case $("$SEFL" status "$(health "$1")/healthz" || :) in *"DATABASE AWAY"*) return 1 ;; esac
    [ "$(away_seconds "$1")" = 0 ] || return 1
    case $(page "$1") in *database_away*) return 1 ;; esac
}
leads_of() { cat "$dir/log/one" "$dir/log/two" | grep -c '"event":"this process leads"' || :; }
leader() { # prints one or two: whose process has the lease
    holder=$(psql -qAtX "$url" -c "SELECT holder FROM lease WHERE name = 'aggregator'")
    for w in one two; do [ "${holder##*:}" != "$(cat "$dir/run/$w.pid")" ] || echo $w; done
}
other_leads() { [ "$(leader)" != "$1" ] || is_over; }
is_over() { grep -qs '"event":"task over"' "$dir/log/one" "$dir/log/two"; }
closed() { cat "$dir/log/one" "$dir/log/two" | grep -c '"event":"round closed"' || :; }
one_more_closed() { [ "$(closed)" -gt "$before" ] || is_over; }

# Every second kill comes just after a round has closed (parts, masking, reveal, release), the others at any time.
moment() { # NUMBER
    if [ $(($1 % 2)) -eq 0 ]; then
        before=$(closed)
        fed_until 60 "closing of a round" one_more_closed
        sleep "$(fed_random 0.5 "close $1")"
    else
        sleep "$(fed_random 1.5 "time $1")"
    fi
}

n=0
while [ "$n" -lt $kills ]; do
    moment "$n"
    if is_over; then note "the task ended after $n failures"; break; fi
    who=one
    [ "$(fed_random 2 "who $n" | cut -d. -f1)" = 0 ] || who=two
    case $((n % 6)) in
    1)
        who=$(leader)
        note "failure $n: $who, which leads, hangs"
        fed_kill STOP "$who"
        fed_until 20 "other leader" other_leads "$who"
        sleep 1 # the other one has its link to CSP
        before=$(grep -c '"event":"aggregator connected"' "$dir/log/csp")
        leads=$(leads_of)
        fed_kill CONT "$who"
        sleep 1
        # it asked the store before it dialled: CSP had no other connection, unless the lead has changed again
        [ "$(grep -c '"event":"aggregator connected"' "$dir/log/csp")" = "$before" ] || [ "$(leads_of)" != "$leads" ] ||
            fail "$who dialled CSP although it leads no more"
        ;;
    0)
        note "failure $n: kill of PostgreSQL"
        "$SEFL_SOURCE/tests/support/pg_server" crash "$pg"
        # the first time both processes must say so, wherever an operator looks
        if [ "$n" = 0 ]; then
            fed_until 60 "sign of the lost database at one" says_away one
            fed_until 60 "sign of the lost database at two" says_away two
        fi
        sleep "$(fed_random 0.5 "pause $n")"
        "$SEFL_SOURCE/tests/support/pg_server" again "$pg"
        if [ "$n" = 0 ]; then
            fed_until 60 "sign of the database at one" says_back one
            fed_until 60 "sign of the database at two" says_back two
        fi
        ;;
    *)
        note "failure $n: kill of $who"
        fed_kill KILL $who
        fed_wait $who 10
        sleep "$(fed_random 1 "pause $n")"
        aggregator $who
        ;;
    esac
    n=$((n + 1))
done

fed_until 300 "end of the task" is_over
for c in $(seq $clients); do fed_done "client-$(printf %02d "$c")" 120; done
fed_done csp 60
fed_kill TERM one two
fed_done one 30
fed_done two 30
said=$("$SEFL_TOOLS/audit" "$fed" "$url" "$a/shared" 2>&1) || fail "$said"
twice=$(grep '"event":"round revealed"' "$dir/log/csp" | sed 's/.*"round":\([0-9]*\).*/\1/' | sort | uniq -d)
[ -z "$twice" ] || fail "round $twice was revealed twice"
case $said in *"blocked 0"*) ;; *) fail "$said" ;; esac
note "$n failures: $said"

# who took part is each process's own record, not the leader's
[ "$(psql -qAtX "$url" -c "SELECT (SELECT count(*) FROM attendance) + (SELECT count(*) FROM attendee)")" = 0 ] ||
    fail "a process wrote its own view into the shared journal"
[ -s "$dir/state-one/seen/journal.db" ] || fail "no record of who took part"

# another task never gets this database
fed_provision other --clients 2 --words 100 --set model.embed=16 --set model.hidden=16
expect 1 "$SEFL" aggregator --config "$fed/aggregator/aggregator.yml" --listen 127.0.0.1:0 --csp 127.0.0.1:1 --store "$url" \
    --shared "$fed/shared" --state "$fed/state"
says "belongs to the task"
