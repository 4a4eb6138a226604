#!/bin/sh
# Clients behind HTTP CONNECT proxies take part, by setting, by environment and with a password; the proxies see only
# a host name and a port. A proxy that blocks everything affects nobody else, and one with an endless refusal blocks
# neither a client that is told to stop nor a site that enrols.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

fed_provision f --clients 5 --words 300 --set rounds.count=2 --set rounds.enough=3 \
    --set rounds.threshold=3 --set rounds.deadline_ms=120000
fed_servers --linger 5
at=$(cat "$fed/aggregator/at")
proxy() { # NAME ARGUMENTS...
    fed_p=$1
    shift
    fed_start "$fed_p" "$SEFL_TOOLS/proxy" --ready "$dir/$fed_p.at" "$@"
    fed_until 10 "$fed_p" test -s "$dir/$fed_p.at"
}
proxy open --only "$at"
proxy guarded --user ann:secret
proxy shut --only nowhere.example:1
client() { # NUMBER COMMAND...
    fed_start "client-0$1" "$SEFL" client --config "$fed/clients/client-0$1/client.yml" --server "$at" \
        --proxy "$2"
}
proxy flood --flood 60
# it enrols while the others train
"$SEFL" ca token "$fed/ca/aggregator" --name late > "$dir/t.as" 2> /dev/null
"$SEFL" ca token "$fed/ca/csp" --name late > "$dir/t.csp" 2> /dev/null
began=$(date +%s)
fed_start late "$SEFL" enroll "$dir/late" --server "$at" --aggregator-token "@$dir/t.as" --csp-token "@$dir/t.csp" \
    --proxy "http://$(cat "$dir/flood.at")"
client 1 "http://$(cat "$dir/open.at")"
client 2 "http://ann:secret@$(cat "$dir/guarded.at")"
client 4 "http://$(cat "$dir/shut.at")"
fed_start held "$SEFL" client --config "$fed/clients/client-05/client.yml" --server "$at" \
    --proxy "http://$(cat "$dir/flood.at")"
flooded() { [ "$(grep -c "^CONNECT $at 407$" "$dir/log/flood")" -ge 2 ]; }
fed_until 20 "client in the flood" flooded
fed_kill TERM held
fed_done held 5 # measured: 0.02 s
# the third by environment variable, as in most hospitals
fed_start client-03 env https_proxy="http://$(cat "$dir/open.at")" no_proxy= \
    "$SEFL" client --config "$fed/clients/client-03/client.yml" --server "$at"
for c in 1 2 3; do fed_done client-0$c 60; done
fed_done aggregator 30
fed_done csp 20
said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
case $said in *"rounds 2 released 2 skipped 0 receipts 6"*) ;; *) fail "audit: $said" ;; esac
[ "$(grep -c "^CONNECT $at 200$" "$dir/log/open")" -ge 2 ] || fail "$(cat "$dir/log/open")"
grep -q "^CONNECT $at 200$" "$dir/log/guarded" || fail "$(cat "$dir/log/guarded")"
grep -q "^CONNECT $at 403$" "$dir/log/shut" || fail "$(cat "$dir/log/shut")"
grep -q '"event":"round done"' "$dir/log/client-04" && fail "client 4 came through a shut proxy"
fed_wait late 30
[ "$rc" -eq 1 ] || fail "enrolment through a flood exits $rc"
[ $(($(date +%s) - began)) -lt 55 ] || fail "the flood ended before the enrolment"
grep -q "not connected after 10000 ms" "$dir/log/late" || fail "$(cat "$dir/log/late")"
grep -qi "secret" "$dir/log/client-02" && fail "the proxy's password is in the log"
note "all done"
