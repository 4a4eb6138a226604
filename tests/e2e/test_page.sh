#!/bin/sh
# The web pages of both servers, as an operator's browser uses them: curl against a running federation.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"

get() { curl -s --noproxy '*' --max-time 20 "$@"; }
# ROLE: opens its page with the token; sets $at and the cookie jar
enter() {
    url=$(cat "$fed/$1/state/page.url")
    at=${url%/\?*}
    jar=$dir/$1.jar
    [ "$(get -o /dev/null -w '%{http_code} %{redirect_url}' -c "$jar" "$url")" = "303 $at/" ] || fail "$1: the token does not open $at"
}
page() { get -b "$jar" "$at$1"; }
# PATH TEXT: true if the answer has the text
shows() { said=$(page "$1") && case $said in *"$2"*) return 0 ;; *) return 1 ;; esac }
wants() { fed_until 30 "$1 with $2" shows "$1" "$2"; }
status_of() { get -o /dev/null -w '%{http_code}' "$@"; }

fed_provision page --clients 3 --words 400 --set rounds.count=4 --set rounds.threshold=2 --set rounds.enough=2 \
    --set privacy.noise=own --set privacy.claim=dp --set privacy.clip=0.01 --set privacy.z=1 --set privacy.epsilon=100 --set privacy.delta=1e-5
for wrong in "--page 0.0.0.0:0" "--page 192.0.2.7:7020" "--page-tls 0.0.0.0:0"; do
    # shellcheck disable=SC2086 # two words
    "$SEFL" csp --config "$fed/csp/csp.yml" --listen 127.0.0.1:0 $wrong 2> "$dir/err" && fail "$wrong is taken"
    grep -q "page.*loopback\|page_viewers" "$dir/err" || fail "$wrong: $(cat "$dir/err")"
done

# a viewer from elsewhere: an openssl certificate that nobody issued, known by its key
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=ann" -addext extendedKeyUsage=clientAuth \
    -keyout "$dir/ann.key" -out "$dir/ann.pem" 2> /dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=eve" -addext extendedKeyUsage=clientAuth \
    -keyout "$dir/eve.key" -out "$dir/eve.pem" 2> /dev/null
{
    echo "# who may look"
    echo "$(openssl x509 -in "$dir/ann.pem" -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum | cut -d' ' -f1)  Ann"
} > "$dir/viewers"

fed_csp --stay --page 127.0.0.1:0
fed_aggregator --linger 60 --page 127.0.0.1:0 --page-tls 127.0.0.1:0 --page-viewers "$dir/viewers"
token=$(cat "$fed/aggregator/state/page.token")
[ "$(stat -c %a "$fed/aggregator/state/page.token" "$fed/aggregator/state/page.url" | tr '\n' ' ')" = "600 600 " ] || fail "modes of the token"
grep -q "$token" "$dir/log/aggregator" && fail "the log has the token"
grep -q '"event":"page"' "$dir/log/aggregator" || fail "the log does not say where the page is"

enter aggregator
[ "$(status_of "$at/state.json")" = 401 ] || fail "no cookie, and no 401"
[ "$(status_of "$at/?token=${token%?}")" = 401 ] || fail "a wrong token is taken"
[ "$(status_of -b "$jar" -H "Host: evil.example" "$at/state.json")" = 403 ] || fail "another Host is taken"
[ "$(status_of -b "$jar" -X POST "$at/state.json")" = 405 ] || fail "POST is taken"
[ "$(status_of -b "$jar" --path-as-is "$at/../page.token")" = 404 ] || fail "a path out of the page"
shows / "<!doctype html>" || fail "no page: $said"
wants /state.json '"phase":"collecting"'
wants /state.json '"round":{"number":1,"arrived":0,"need":2,"most":2,"asked":0'
shows /state.json '"csp":{"connected":true,"since":' || fail "csp: $said"
shows /rounds.json '"rounds":[]' || fail "rounds: $said"
get -N -b "$jar" --max-time 60 "$at/events" > "$dir/events" &
events=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do # peers that never read: they stop and are not missed
    fed_start "lazy$i" sh -c "exec curl -sN --noproxy '*' --limit-rate 1 -b '$jar' '$at/events' > /dev/null"
done

# a client that drops out: it fetches the model and sends nothing
get -k -o "$dir/model" -H "Sefl-Version: 3.0" --cert "$fed/clients/client-02/cert.pem" --key "$fed/clients/client-02/key.pem" \
    "https://$(cat "$fed/aggregator/ready")/v1/round/1/model"
wants /state.json '"asked":1,'
fed_clients 1 3
wants /state.json '"rounds":4,"released":4'
wants /state.json '"phase":"done"'
case $said in *'"csp":'*) fail "a link to CSP after the end: $said" ;; esac
shows /state.json '"privacy":{"claimed":true,"epsilon_server":' || fail "privacy: $said"
shows /state.json '"mode":"own: one honest server is enough, whichever it is; the model carries' || fail "mode: $said"
wants /state.json '"rounds_to_target":'
shows /rounds.json?after=3 '"rounds":[{"round":4,' || fail "rounds: $said"
case $said in *'"round":3,'*) fail "after=3 has round 3" ;; esac
grid="/grid.json?rounds=100&clients=10&sort=worst"
shows "$grid" '"enrolled":3,"seen":3,"rounds":[1,2,3,4],"clients":[{"name":"client-02 / ' || fail "grid: $said"
case $said in *'"cells":"d..."},'*'"cells":"aaaa"},'*'"cells":"aaaa"}'*'"reason":"fetched the model and sent no update in time"'*) ;; *) fail "grid: $said" ;; esac
wants /sample.json '"text":"'
page /model > "$dir/model"
cmp "$dir/model" "$fed/aggregator/models/round-4.safetensors" || fail "another model"
page /ledger | cmp - "$fed/aggregator/ledger" || fail "another ledger"
shows /report '{"heads":["run",' || fail "report: $said"
fed_until 10 "the end in the events" grep -q '"released":4' "$dir/events"
kill "$events" 2> /dev/null || :
wait "$events" 2> /dev/null || :
[ "$(grep -c '^event: state' "$dir/events")" -ge 2 ] || fail "events: $(cut -c 1-200 "$dir/events")"

tls=https://127.0.0.1:$(sed -n 's/.*"event":"page for viewers.*"port":\([0-9]*\).*/\1/p' "$dir/log/aggregator" | tail -n 1)
[ "$(status_of -k "$tls/state.json")" = 401 ] || fail "no certificate, and no 401"
[ "$(status_of -k --cert "$dir/eve.pem" --key "$dir/eve.key" "$tls/state.json")" = 401 ] || fail "a stranger's certificate opens the page"
[ "$(status_of -k --cert "$dir/ann.pem" --key "$dir/ann.key" "$tls/state.json")" = 200 ] || fail "a viewer's certificate does not open the page"
get -kN --cert "$dir/ann.pem" --key "$dir/ann.key" "$tls/events" > "$dir/tls.events" &
events=$!
fed_until 10 "events over TLS" grep -q '^event: state' "$dir/tls.events"
: > "$dir/viewers"
wait "$events" || fail "the stream of a removed viewer stays open"
[ "$(status_of -k --cert "$dir/ann.pem" --key "$dir/ann.key" "$tls/state.json")" = 401 ] || fail "a removed viewer still sees the page"

shows "$grid" '"cells":' || fail "grid: $said"
fed_kill KILL aggregator # a restart keeps the token, the cookie, and who took part
fed_wait aggregator 10
before=$said
port=${at##*:}
fed_aggregator --linger 60 --page "127.0.0.1:$port"
[ "$(cat "$fed/aggregator/state/page.token")" = "$token" ] || fail "another token"
wants /state.json '"phase":"done"'
[ "$(page "$grid")" = "$before" ] || fail "the grid was $before, and after a restart $(page "$grid")"

enter csp
wants /state.json '"ledgers":{"agree":true,"rounds":4,'
case $said in *arrived* | *enrolled* | *totals* | *'"grid":true'*) fail "CSP's page shows more: $said" ;; esac
shows /state.json '"privacy":{"claimed":true,"epsilon_server":' || fail "CSP's budget: $said"
[ "$(status_of -b "$jar" "$at/grid.json")" = 404 ] || fail "CSP has a grid"
[ "$(status_of -b "$jar" "$at/rounds.json")" = 404 ] || fail "CSP has a list of rounds"
get -N -b "$jar" --max-time 60 "$at/events" > "$dir/events" &
events=$!
fed_until 10 "CSP's events" grep -q '^event: state' "$dir/events"
fed_kill TERM aggregator csp
fed_done aggregator 20
fed_done csp 20
wait "$events" || :
grep -q '^event: over' "$dir/events" || fail "CSP does not say that it stops: $(cat "$dir/events")"

# a paused task
fed_provision paused --clients 3 --words 400
fed_csp --stay
fed_aggregator --page 127.0.0.1:0
enter aggregator
shows /state.json '"paused":false' || fail "paused: $said"
"$SEFL" task pause --now -c "$fed/aggregator/aggregator.yml" > "$dir/out" || fail "not paused: $(cat "$dir/out")"
wants /state.json '"paused":true'
fed_kill TERM aggregator csp
fed_done aggregator 20
fed_done csp 20

# a simulation has the same page
printf 'clients: 4\nrounds.count: 2\n' > "$dir/experiment.yml"
fed_start simulate "$SEFL" simulate -c "$dir/experiment.yml" --runs "$dir/runs" --serve-at 127.0.0.1:0 # implies --serve
fed=$dir/runs
mkdir -p "$dir/runs/run" && ln -s .. "$dir/runs/run/state"
fed_until 30 "page of the simulation" test -s "$dir/runs/page.url"
enter run
wants /state.json '"role":"simulation"'
shows /state.json '"crypto":"clear"' || fail "crypto: $said"
wants /state.json '"phase":"done"'
shows /rounds.json '"rounds":[{"round":1,' || fail "rounds of a simulation: $said"
[ "$(status_of -b "$jar" "$at/model")" = 200 ] || fail "no model of a simulation"
fed_kill TERM simulate
fed_done simulate 20
