#!/bin/sh
# /healthz of both servers, as a monitor requests it: curl, plain HTTP, no certificate.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"

# ROLE: address of its page; the system chooses the port, and the log line of the last start has it
page_of() {
    echo "http://127.0.0.1:$(sed -n 's/.*"event":"health".*"port":\([0-9]*\).*/\1/p' "$dir/log/$1" | tail -n 1)/healthz"
}
# ROLE STATUS TEXT: true if its page has this status and this text
says() {
    said=$(curl -s --noproxy '*' --max-time 10 -w ' %{http_code}' "$(page_of "$1")") || return 1
    case $said in *"$3"*" $2") return 0 ;; *) return 1 ;; esac
}
wants() { # ROLE STATUS TEXT
    fed_until 20 "page of $1 with status $2 and $3" says "$@"
    note "$1: $said"
}

fed_provision health --clients 2 --words 400 --set rounds.count=1 --set rounds.threshold=2 --set rounds.enough=2
for at in 0.0.0.0:0 192.0.2.7:7010 '[::]:0'; do
    "$SEFL" csp --config "$fed/csp/csp.yml" --listen 127.0.0.1:0 --health "$at" 2> "$dir/err" && fail "--health $at is taken"
    grep -q "health.*loopback" "$dir/err" || fail "--health $at: $(cat "$dir/err")"
done

fed_csp --health 127.0.0.1:0
wants csp 200 '"role":"csp","healthy":true,"aggregator":false,"phase":"waiting","round":0,"rounds":1'
fed_kill TERM csp
fed_done csp 20

fed_aggregator --linger 60 --health 127.0.0.1:0
wants aggregator 503 '"role":"aggregator","healthy":false,"csp":false,"phase":"starting"'
fed_csp --stay --health 127.0.0.1:0
wants aggregator 200 '"healthy":true,"csp":true,"phase":"collecting","round":1,"rounds":1'
wants csp 200 '"aggregator":true,"phase":"signed","round":1'
fed_kill KILL csp
wants aggregator 503 '"csp":false,"phase":"collecting","round":1'
fed_csp --stay --health 127.0.0.1:0
wants aggregator 200 '"csp":true'

fed_clients 1 2
wants aggregator 200 '"phase":"done"'
wants csp 200 '"phase":"done"'
fed_kill TERM aggregator csp
fed_done aggregator 20
fed_done csp 20
