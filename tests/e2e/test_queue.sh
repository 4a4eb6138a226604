#!/bin/sh
# A running pair of servers serves one task after the other: a new task needs no restart of a server or a client.
# Also: a task that is refused is left out, kill -9 of both servers between tasks and within a round, and the ledgers.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"
fed_provision q --clients 3 --set rounds.count=2 --set rounds.deadline_ms=60000 --set rounds.enough=3 \
    --set rounds.threshold=3 --words 1500
sed -i -e '/^task:/d; /^init:/d; /^vocab:/d; /^valid:/d' -e '$a tasks: tasks\nlinger: 1\ncsp: 127.0.0.1:1\nhealth: 127.0.0.1:0' \
    "$fed/aggregator/aggregator.yml"
sed -i -e '/^task:/d' -e '$a tasks: tasks' "$fed/csp/csp.yml"
for c in "$fed"/clients/*; do echo "stay: true" >> "$c/client.yml"; done
mkdir "$fed/aggregator/tasks" "$fed/csp/tasks"

# NAME SED: makes $fed/new/NAME, a task like the provisioned one, changed by SED and signed by both servers
make_task() {
    mkdir -p "$fed/new/$1"
    cp "$fed"/public/vocab.txt "$fed"/public/valid.txt "$fed"/public/init.safetensors "$fed/new/$1/"
    sed -e "s/\"name\": *\"[^\"]*\"/\"name\":\"$1\"/" -e "$2" "$fed/public/task.json" > "$fed/new/$1.json"
    "$SEFL" task sign --key "$fed/aggregator/sign.key" --as aggregator --out "$fed/new/$1.half" "$fed/new/$1.json" \
        > "$dir/sign.out" 2>&1 || { cat "$dir/sign.out" >&2; fail "sign $1"; }
    "$SEFL" task sign --key "$fed/csp/sign.key" --as csp --out "$fed/new/$1/task.signed" "$fed/new/$1.half" \
        > "$dir/sign.out" 2>&1 || { cat "$dir/sign.out" >&2; fail "sign $1"; }
}
# SERVER NAME AS: puts a task into a server's folder by hand, even a bad one
queue() {
    cp -r "$fed/new/$2" "$fed/$1/tasks/.$3"
    mv "$fed/$1/tasks/.$3" "$fed/$1/tasks/$3"
}
said() { grep -q "$2" "$dir/log/$1"; }
# TASK ROUND: AS has released this round of a task
released() { ls "$fed/aggregator/models/$1"-*/"round-$2.safetensors" > /dev/null 2>&1; }
# TASK EVENT: AS has logged this event since it began to serve the task
of_task() { awk -v t="\"folder\":\"$1\"" -v e="\"$2\"" \
    '/"serving a task"/ { on = index($0, t) } on && index($0, e) { found = 1 } END { exit !found }' "$dir/log/aggregator"; }

# ---- settings: exactly one of both -----------------------------------------------------------------------------
"$SEFL" config check "$fed/aggregator/aggregator.yml" > /dev/null || fail "config check refuses tasks:"
"$SEFL" config check "$fed/csp/csp.yml" > /dev/null || fail "config check refuses tasks: of CSP"
if "$SEFL" aggregator -c "$fed/aggregator/aggregator.yml" --task x 2> "$dir/both"; then fail both; fi
grep -q "both task and tasks are set" "$dir/both" || fail "both: $(cat "$dir/both")"
if "$SEFL" aggregator -c "$fed/aggregator/aggregator.yml" --init x 2> "$dir/init"; then fail init; fi
grep -q "leave init out" "$dir/init" || fail "init: $(cat "$dir/init")"

# ---- an empty folder: everybody waits ---------------------------------------------------------------------------
fed_servers
fed_clients 1 2 3
fed_until 20 "client that waits" said client-01 "no task for this client now"
page=http://127.0.0.1:$(sed -n 's/.*"event":"health".*"port":\([0-9]*\).*/\1/p' "$dir/log/aggregator")/healthz
curl -fs --noproxy '*' "$page" > "$dir/page" || fail "no page of AS"
grep -q '"healthy":true.*"phase":"no task".*"task":""' "$dir/page" || fail "page: $(cat "$dir/page")"

# ---- the first task; CSP gets it later; a bad one is left out ----------------------------------------------------
make_task first ""
make_task other "s/\"population\": *\"[^\"]*\"/\"population\":\"others\"/"
make_task unsigned "" && cp "$fed/new/unsigned.half" "$fed/new/unsigned/task.signed"
make_task torn "" && echo "no model" > "$fed/new/torn/init.safetensors"
queue aggregator unsigned 00-unsigned
queue aggregator other 00-other
queue aggregator torn 00-torn
mkdir "$fed/aggregator/tasks/00-empty" "$fed/aggregator/tasks/.draft"
make_task gone "" # CSP never gets it: AS's operator withdraws it
queue aggregator gone 00-gone
fed_until 20 "AS that waits for CSP's copy" said aggregator "does not have this task"
queue aggregator first 01-first
rm -r "$fed/aggregator/tasks/00-gone"
fed_until 20 "withdrawn task" said aggregator "task withdrawn"
fed_until 20 "the first task" of_task 01-first "serving a task"
queue csp first a
fed_until 60 "first task" released 01-first 2
for bad in other torn unsigned; do
    [ "$(grep -c "\"task refused.*\"00-$bad\"" "$dir/log/aggregator")" -eq 1 ] || fail "00-$bad is not refused once"
done
if "$SEFL" doctor -c "$fed/aggregator/aggregator.yml" > "$dir/doctor" 2>&1; then fail "doctor finds nothing"; fi
for says in "tasks.*00-empty" "tasks.*00-unsigned.*not signed by the csp" "tasks.*00-torn.*initial model" \
    "ledger.*others" "tasks.*01-first: first"; do
    grep -q "$says" "$dir/doctor" || fail "doctor does not say $says: $(cat "$dir/doctor")"
done
"$SEFL" doctor -c "$fed/csp/csp.yml" > "$dir/doctor" 2>&1 || fail "doctor at CSP: $(cat "$dir/doctor")"
said aggregator "task not signed by both yet" || fail "00-empty"
note "first task done, three others refused"

# ---- the second task arrives while everything runs --------------------------------------------------------------
make_task second ""
new=$fed/new/second
"$SEFL" task queue "$new/task.signed" --out "$fed/csp/tasks/b" > /dev/null || fail "task queue at CSP"
files="--init $new/init.safetensors --vocab $new/vocab.txt"
# CLAIM ARGUMENTS...: the command refuses it with these words, and leaves nothing behind
no_queue() {
    says=$1
    shift
    if "$SEFL" task queue "$@" > "$dir/no" 2>&1; then fail "queued: $*"; fi
    grep -q "$says" "$dir/no" || fail "task queue $*: $(cat "$dir/no")"
    [ ! -e "$fed/aggregator/tasks/.02-second.new" ] || fail "task queue $* leaves a folder"
}
# shellcheck disable=SC2086 # no blanks in these names
{
    no_queue "valid.sha256" "$new/task.signed" --out "$fed/aggregator/tasks/02-second" $files
    no_queue "not the initial model" "$new/task.signed" --out "$fed/aggregator/tasks/02-second" \
        --init "$fed/new/torn/init.safetensors" --vocab "$new/vocab.txt" --valid "$new/valid.txt"
    no_queue "not signed by the csp" "$fed/new/second.half" --out "$fed/aggregator/tasks/02-second"
    no_queue "exists" "$new/task.signed" --out "$fed/csp/tasks/b"
    no_queue "name a new folder" "$new/task.signed" --out "$fed/csp/tasks/.b"
    no_queue "cannot create" "$new/task.signed" --out "$fed/nowhere/b"
    "$SEFL" task queue "$new/task.signed" --out "$fed/aggregator/tasks/02-second" $files --valid "$new/valid.txt" \
        > /dev/null || fail "task queue at AS"
}
cmp "$new/init.safetensors" "$fed/aggregator/tasks/02-second/init.safetensors" || fail "the copy differs"
fed_until 60 "second task" released 02-second 2
for n in csp aggregator client-01 client-02 client-03; do fed_running "$n" || fail "$n has ended"; done
note "second task done without a restart"

# ---- kill -9 of both servers between two tasks, then within a round of the third ---------------------------------
fed_kill KILL csp aggregator
fed_wait csp 10
fed_wait aggregator 10
make_task third "s/\"count\": *2/\"count\":3/"
make_task fourth ""
make_task fifth ""
queue csp third c
queue aggregator third 03-third
fed_kill STOP client-03 # so that the round stays open
fed_servers
fed_until 60 "open round of the third task" of_task 03-third "round open"
queue csp fourth d
queue csp fifth e
queue aggregator fourth 02-fourth # an earlier and a later name: the task that has begun goes on
queue aggregator fifth 04-fifth
fed_kill KILL csp aggregator
fed_wait csp 10
fed_wait aggregator 10
mv "$fed/aggregator/tasks/03-third" "$fed/aggregator/tasks/.third" # the others wait until it is back
fed_servers
fed_until 20 "AS that misses its task" said aggregator "put it back"
mv "$fed/aggregator/tasks/.third" "$fed/aggregator/tasks/03-third"
fed_kill CONT client-03
# a member that keeps asking for the model does not keep the next task waiting for ten times `linger`
asks() { while :; do
    curl -sk --noproxy '*' -o /dev/null -H "Sefl-Version: 3.0" --max-time 5 --cert "$fed/clients/client-01/cert.pem" \
        --key "$fed/clients/client-01/key.pem" "https://$(cat "$fed/aggregator/at")/v1/model" || :
    sleep 0.3
done; }
fed_start asks asks
fed_until 90 "third task after kill -9" released 03-third 3
released 02-fourth 1 && fail "the fourth task overtook the third"
released 04-fifth 1 && fail "the fifth task overtook the third"
fed_until 90 "fourth task" released 02-fourth 2
fed_until 90 "fifth task" released 04-fifth 2
fed_kill TERM asks
fed_wait asks 10
# seconds from the end of the third task to the beginning of the next
gap=$(awk -F'[T:.Z"]+' '/"serving a task"/ { on = /03-third/; if (end) { print (at() - end + 86400) % 86400; exit } }
    on && /"task over"/ { end = at() }
    function at() { return ($4 * 60 + $5) * 60 + $6 }' "$dir/log/aggregator")
case $gap in [1-8]) ;; *) fail "the fourth task began $gap seconds after the third" ;; esac
note "third, fourth and fifth task done after kill -9"

# ---- the ledgers: both servers', all five tasks -------------------------------------------------------------------
fed_until 20 "end of the fifth task" of_task 04-fifth "task over"
[ "$(cat "$fed"/aggregator/models/03-third-*/metrics.jsonl | wc -l)" -eq 3 ] || fail "metrics of the third task"
fed_kill TERM aggregator client-01 client-02 client-03
for n in aggregator client-01 client-02 client-03; do fed_done $n 20; done
fed_kill TERM csp
fed_done csp 20
cmp "$fed/aggregator/ledger" "$fed/csp/ledger" || fail "the ledgers differ"
said=$("$SEFL" verify "$fed" 2>&1) || fail "$said"
"$SEFL" privacy spent "$fed/csp/ledger" --json > "$dir/spent"
[ "$(grep -o '"task":"[0-9a-f]*","rounds":[0-9]*' "$dir/spent" | sed 's/.*://' | tr '\n' ' ')" = "2 2 3 2 2 " ] || fail "ledger: $(cat "$dir/spent")"
echo "ok"
