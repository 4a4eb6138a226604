#!/bin/sh
# Six sites train with the defaults of `operator task`, but a shorter deadline. One is revoked and another one dies for
# good: the task releases all of its rounds, and the page says at every moment whom it waits for. Then the results stay.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"
cd "$dir"
port=$((29000 + $$ % 900 * 2))
# by hand, with the true defaults: SEFL_MISSING_DEADLINE_MS= tests/e2e/test_missing.sh
ms=${SEFL_MISSING_DEADLINE_MS-1000}
short=
limit=$((ms ? 60 : 3000))
sefl() { expect 0 "$SEFL" "$@"; }
digits() { printf '%s\n' "$out" | sed -n 's/^digits *//p'; }

"$SEFL" synth --out made --clients 6 --tokens 3000 --seed 1 > /dev/null
sefl operator init north --role aggregator --name North --host "127.0.0.1:$port" --sites w-1,w-2,w-3,w-4,w-5,w-6
north=$(digits)
sefl operator init south --role csp --name South --host "127.0.0.1:$((port + 1))" --sites w-1,w-2,w-3,w-4,w-5,w-6 \
    --peer north/aggregator.card --digits "$north"
south=$(digits)
sefl operator trust north --peer south/csp.card --digits "$south"

# NAME ROUNDS ARGUMENTS...: both operators sign it, and both servers get it
task() {
    name=$1 rounds=$2
    shift 2
    # shellcheck disable=SC2086 # no word, or four
    sefl operator task north --text made/valid.txt --rounds "$rounds" --set "name=$name" $short "$@"
    drafted=$out
    sefl operator sign south --task "north/tasks/$name/task.half" --yes
    cp "south/tasks/$name/task.signed" "north/tasks/$name/"
}
fed_start csp "$SEFL" csp -c south/csp.yml
fed_start aggregator "$SEFL" aggregator -c north/aggregator.yml --page 127.0.0.1:0 --linger 1
fed_until 20 "aggregator" test -s north/ready
fed_until 20 "page" test -s north/state/page.url
task enrol 1 --epsilon 0
out=$drafted
says "with 4 to 6 sites"
says "So a site that is missing costs 10 min in each of two rounds"
says "6 of the sites have not enrolled yet"
expect 0 "$SEFL" task show --explain north/tasks/enrol/task.half
says "So a site that is missing costs"

open_page() { url=$(cat north/state/page.url) && curl -s --noproxy '*' -o /dev/null -c jar "$url"; }
open_page
get() { curl -s --noproxy '*' --max-time 5 -b jar "${url%/\?*}$1"; }
# PATH TEXT
shows() { said=$(get "$1") && case $said in *"$2"*) return 0 ;; *) return 1 ;; esac }
released() { ls "north/models/$1"-*/"round-$2.safetensors" > /dev/null 2>&1; }

fed_until 20 "link" grep -q "link to CSP is up" log/aggregator
status() { "$SEFL" status -c north/aggregator.yml > line && grep -q "$1" line; }
fed_until 20 "an open round" status "collecting"
expect 1 "$SEFL" task close -c north/aggregator.yml
says "has 0 updates and needs 4: it cannot close yet"
for n in 1 2 3 4 5 6; do
    sefl enroll "s-$n" --server "127.0.0.1:$port" --aggregator-token "@north/tokens/w-$n" --csp-token "@south/tokens/w-$n"
    cp "made/client-00$((n - 1))/train.txt" "s-$n/text/"
    sed -i 's/^claim_none:.*/claim_none: true/' "s-$n/policy.yml" # a rehearsal: six sites learn nothing under an epsilon of 3
    echo "stay: true" >> "s-$n/client.yml"
    [ "$n" = 6 ] || fed_start "s-$n" "$SEFL" client -c "s-$n/client.yml"
done
fed_until 20 "a site that has not come yet" shows /state.json '"waits_for":{"all":1,"sites":[{"name":"w-6",'
fed_start s-6 "$SEFL" client -c s-6/client.yml
fed_until 30 "the round of all six" released enrol 1
short=${ms:+--set rounds.deadline_ms=$ms --set rounds.extend_ms=$ms}
task first 20 --epsilon 0
fed_until 60 "second round" released first 2

# ---- one is revoked, one dies --------------------------------------------------------------------------------------
fed_until $limit "a round of all six" grep -q '"clients":6' north/models/first-*/metrics.jsonl
began=$(date +%s)
fed_kill KILL s-5
before=$(grep -c '"round":' north/models/first-*/metrics.jsonl)
sefl ca revoke north/ca --name w-6
sefl ca revoke south/ca --name w-6
fed_until $limit "a round that waits" shows /state.json '"waits_for":{"all":1,"sites":[{"name":"w-5",'
case $said in *'"deadline_at":'*) ;; *) fail "no deadline: $said" ;; esac
fed_until $limit "a round that waits no more" shows /state.json '"left_out":{"all":2,'
case $said in *'{"name":"w-5","asked":false,"revoked":false,"missed":2}'*) ;; *) fail "left out: $said" ;; esac
case $said in *'{"name":"w-6",'*'"revoked":true,'*) ;; *) fail "left out: $said" ;; esac
fed_until $limit "end of the task" shows /state.json '"phase":"done"'
took=$(($(date +%s) - began))
finished() { [ "$(grep -c '"round":' north/models/first-*/metrics.jsonl)" = 20 ]; }
fed_until 10 "20 rounds in the metrics" finished
if grep -q '"skipped":true' north/models/first-*/metrics.jsonl; then fail "a round was skipped"; fi
released first 20 || fail "no last round"
slow=$(tail -n "+$((before + 1))" north/models/first-*/metrics.jsonl | sed -n 's/.*"seconds":\([0-9.]*\).*/\1/p' |
    awk -v most="$(awk "BEGIN { print ${ms:-600000} / 1000 }")" '$1 >= most { n++ } END { print n + 0 }')
# two, and a few more on a busy machine
case $slow in [1-6]) ;; *) fail "$slow of the last $((20 - before)) rounds took until the deadline" ;; esac
note "20 rounds; $slow of them waited for the dead site until the deadline; $took s after it died the task was over"

# ---- the operator closes a round that waits for the dead site ------------------------------------------------------
short=
task second 1 --epsilon 0
out=$drafted
says "after 10 min"
fed_until 30 "a round that waits" status "4 arrived, 3 needed, waits for 1 site, .* left"
expect 2 "$SEFL" task close -c south/csp.yml
says "AS closes a round"
sefl task close -c north/aggregator.yml
says "round 1 closes with the updates it has"
fed_until 30 "second task" released second 1
expect 1 "$SEFL" task close -c north/aggregator.yml
grep -q '"event":"the operator closes the round' log/aggregator || fail "not in the log"
note "a round closed by its operator"

# ---- the results stay when the task is over ------------------------------------------------------------------------
fed_until 60 "an idle server" grep -q '"phase":"no task"' north/state/status.json
results() {
    shows /state.json '"phase":"done"' || fail "the page: $said"
    case $said in *'"name":"second"'*'"downloads":["model","report","ledger"]'*) ;; *) fail "the page: $said" ;; esac
    get /model > model
    cmp model north/models/second-*/round-1.safetensors || fail "another model"
    get /ledger | cmp - north/ledger || fail "another ledger"
    shows /report '{"heads":["run",' || fail "report: $said"
    shows /rounds.json '"rounds":[{"round":1,' || fail "rounds: $said"
}
results
fed_kill KILL aggregator # also after a restart
fed_wait aggregator 10
rm north/state/page.url
fed_start aggregator "$SEFL" aggregator -c north/aggregator.yml --page 127.0.0.1:0 --linger 1
fed_until 20 "page" test -s north/state/page.url
open_page
fed_until 20 "the results" shows /state.json '"phase":"done"'
results
expect 0 "$SEFL" verify north south
sefl report north
says "page        north/report.html"
sefl report north --json
says '"name":"second"' # the latest task
cp log/aggregator north/log
sefl logs north
says "north" && says "the operator closes the round"
sefl logs -c north/aggregator.yml
says "the operator closes the round"
sefl status north
case $out in *queued*) fail "nothing is queued: $out" ;; esac

# ---- after a restart, a task that is over does not wait for the one that CSP must still hear about -------------------
task third 5 --epsilon 0
fed_until 30 "third task" status "third"
sefl task pause -c north/aggregator.yml --now
fed_until 20 "the dropped round" grep -q '"skipped":true' log/aggregator # CSP has skipped it too
fed_kill KILL csp
fed_wait csp 10
sefl task end -c north/aggregator.yml --yes
fed_until 60 "an idle server" grep -q '"phase":"no task"' north/state/status.json
fed_kill KILL aggregator
fed_wait aggregator 10
fed_start aggregator "$SEFL" aggregator -c north/aggregator.yml --linger 5
fed_until 20 "the end of the third task" status "third .*done"
case $(cat line) in *queued*) fail "nothing is queued: $(cat line)" ;; esac
fed_kill TERM aggregator s-1 s-2 s-3 s-4 s-6

# ---- unless the number of updates must stay unknown ----------------------------------------------------------------
fed_provision open --clients 3 --words 400 --set privacy.sampling=open --set privacy.rate=0.9 --set privacy.noise=own \
    --set privacy.claim=dp --set privacy.clip=0.01 --set privacy.z=1 --set privacy.epsilon=100 --set privacy.delta=1e-5
fed_wait aggregator 20
fed_wait csp 20
fed_servers
collects() { grep -q '"phase":"collecting"' "$fed/aggregator/state/status.json"; }
fed_until 20 "open round" collects
expect 1 "$SEFL" task close -c "$fed/aggregator/aggregator.yml"
says "nobody but AS learns how many clients take part"
