#!/bin/sh
# Operators control a running task: pause, kill -9 of both servers while it is paused, resume, drop a round, CSP's
# operator pauses too, end. The clients' final model is AS's, the ledgers agree, and the next task of the queue begins,
# which CSP's operator ends. `sefl status` and `sefl logs` show all that.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"
fed_provision c --clients 3 --set rounds.count=90 --set rounds.deadline_ms=60000 --set rounds.enough=3 \
    --set rounds.threshold=3 --words 1500
sed -i -e '/^task:/d; /^init:/d; /^vocab:/d; /^valid:/d' -e '$a tasks: tasks\nlinger: 3\ncsp: 127.0.0.1:1' \
    "$fed/aggregator/aggregator.yml"
sed -i -e '/^task:/d' -e '$a tasks: tasks' "$fed/csp/csp.yml"
as=$fed/aggregator/aggregator.yml
csp=$fed/csp/csp.yml
for c in "$fed"/clients/*; do echo "stay: true" >> "$c/client.yml"; done
mkdir "$fed/aggregator/tasks" "$fed/csp/tasks"
for n in 1 2; do
    sed -e "s/\"name\": *\"[^\"]*\"/\"name\":\"t$n\"/" "$fed/public/task.json" > "$dir/t$n.json"
    "$SEFL" task sign --key "$fed/aggregator/sign.key" --as aggregator --out "$dir/t$n.half" "$dir/t$n.json" > /dev/null 2>&1
    "$SEFL" task sign --key "$fed/csp/sign.key" --as csp --out "$dir/t$n.signed" "$dir/t$n.half" > /dev/null 2>&1
    "$SEFL" task queue "$dir/t$n.signed" --out "$fed/csp/tasks/$n" > /dev/null
    "$SEFL" task queue "$dir/t$n.signed" --out "$fed/aggregator/tasks/$n" --init "$fed/public/init.safetensors" \
        --vocab "$fed/public/vocab.txt" --valid "$fed/public/valid.txt" > /dev/null
done

released() { ls "$fed"/aggregator/models/1-*/"round-$1.safetensors" > /dev/null 2>&1; }
count() { grep -c "$2" "$dir/log/$1" || :; }
more() { [ "$(count "$1" "$2")" -gt "$3" ]; } # ROLE WORDS N: more than N lines
state() { sed -n "s/.*\"$2\":\"*\([^,\"}]*\).*/\1/p" "$fed/$1/state/status.json"; }
is() { [ "$(state "$1" "$2")" = "$3" ]; } # ROLE MEMBER VALUE

# ---- before the start: nothing to control ---------------------------------------------------------------------
expect 1 "$SEFL" task pause -c "$as"
says "has no task now"
expect 2 "$SEFL" task pause -c "$fed/clients/client-01/client.yml"
says "is a client's"
expect 2 "$SEFL" task pause --now -c "$csp"
expect 2 "$SEFL" task pause
says "requires --config"
expect 1 "$SEFL" status "$fed"
says "NOT RUNNING: it has never started"
expect 1 "$SEFL" logs "$fed"
says "journalctl -u sefl-aggregator"

# ---- pause in the middle of a round ---------------------------------------------------------------------------
fed_servers
fed_clients 1 2 3
fed_until 30 "second round" released 2
fed_kill STOP client-03 # the round stays open
opened=$(count aggregator '"round open"')
fed_until 20 "open round" more aggregator '"round open"' "$((opened - 1))"
sleep 0.3
fed_until 20 "collecting" is aggregator phase collecting
expect 0 "$SEFL" task pause -c "$as"
says "ends first; then the task is paused"
round=$(state aggregator round)
fed_kill CONT client-03
fed_until 20 "pause after round $round" is aggregator paused true
released "$round" || fail "round $round is not released"
expect 0 "$SEFL" task pause -c "$as" # again: nothing changes
says "paused: no round begins"
opened=$(count aggregator '"round open"')
expect 0 "$SEFL" status "$fed"
says "t1  round $((round + 1))/90  signing  PAUSED (paused by its operator)"
says "AS connected"
case $out in *client-03*"PAUSED"* | *client-03*"waiting"*) ;; *) fail "status: $out" ;; esac
expect 0 "$SEFL" status -c "$as" --json
json
says '"paused":true'
says '"queued":1'
fed_start watch "$SEFL" status "$fed" --watch
note "paused after round $round"

# ---- kill -9 while paused: both servers still know -------------------------------------------------------------
fed_kill KILL aggregator csp
fed_wait aggregator 10
fed_wait csp 10
expect 1 "$SEFL" status -c "$as"
says "NOT RUNNING; at the end:  t1  round"
fed_servers --health 127.0.0.1:0
fed_until 20 "pause after a restart" is aggregator paused true
fed_until 20 "CSP's link" is aggregator csp true
[ "$(count aggregator '"round open"')" -eq "$opened" ] || fail "a round began while the task was paused"
curl -sk --noproxy '*' -H "Sefl-Version: 3.0" --max-time 5 --cert "$fed/clients/client-01/cert.pem" \
    --key "$fed/clients/client-01/key.pem" "https://$(cat "$fed/aggregator/at")/v1/round?after=$round" > "$dir/news"
grep -q '"state":"paused"' "$dir/news" || fail "news: $(cat "$dir/news")"
at=127.0.0.1:$(sed -n 's/.*"event":"health".*"port":\([0-9]*\).*/\1/p' "$dir/log/aggregator" | tail -n 1)
expect 0 "$SEFL" status "$at"
says PAUSED
expect 0 "$SEFL" status "http://$at/healthz"
says PAUSED
expect 1 "$SEFL" status 127.0.0.1:1
says "NOT REACHED"

# ---- resume, then drop the round in progress with --now ----------------------------------------------------------
fed_kill STOP client-03
expect 0 "$SEFL" task resume -c "$as"
says "resumed in round"
fed_until 20 "open round" is aggregator phase collecting
expect 0 "$SEFL" task resume -c "$as"
says "it was not paused"
dropped=$(state aggregator round)
expect 0 "$SEFL" task pause --now -c "$as"
fed_until 20 "dropped round" is aggregator paused true
released "$dropped" && fail "round $dropped was released"
is aggregator round "$((dropped + 1))" || fail "round $dropped is not over"
grep -q "\"round\":$dropped,.*\"skipped\":true\|\"outcome\":\"skipped\"" "$fed"/aggregator/models/1-*/metrics.jsonl ||
    fail "round $dropped is not in the metrics: $(tail -n 1 "$fed"/aggregator/models/1-*/metrics.jsonl)"
grep -q "\"round\":$dropped,.*\"dropped_by_operator\":true" "$fed"/aggregator/models/1-*/metrics.jsonl || fail "no reason"
expect 0 "$SEFL" status -c "$as"
says "last round dropped by the operator"
fed_kill CONT client-03

# ---- CSP's operator pauses; an order for a stopped server --------------------------------------------------------
expect 0 "$SEFL" task pause -c "$csp"
says "paused"
expect 0 "$SEFL" task resume -c "$as"
says "resumed here; still paused by CSP's operator"
fed_until 20 "AS that waits for CSP" more aggregator "CSP has paused the task" 0
fed_until 20 "pause by CSP" is aggregator why "paused by CSP's operator"
fed_kill KILL csp
fed_wait csp 10
echo damaged > "$fed/csp/state/control" # the journal knows
fed_csp
fed_until 20 "pause without its order" is csp paused true
fed_until 20 "refused order" more csp "order is refused" 0
fed_kill KILL csp
fed_wait csp 10
expect 1 "$SEFL" task resume -c "$csp"
says "which is not an order"
rm "$fed/csp/state/control"
expect 0 "$SEFL" task resume -c "$csp"
says "obeys when it starts"
fed_csp
fed_until 30 "next round" released "$((dropped + 1))"
note "CSP paused and resumed"

# ---- end, while AS is stopped in the middle of a round: final ---------------------------------------------------
expect 2 "$SEFL" task end -c "$as" # no terminal to ask on
says "--yes"
fed_kill KILL aggregator
fed_wait aggregator 10
expect 0 "$SEFL" task end --yes -c "$as"
says "obeys when it starts"
expect 1 "$SEFL" task resume -c "$as"
says "that is final"
fed_aggregator
fed_until 30 "end of the task" more aggregator '"task over".*stopped by its operator' 0
last=$(find "$fed"/aggregator/models/1-* -name "round-*.safetensors" | sed 's/.*round-\([0-9]*\).*/\1/' | sort -n | tail -n 1)
has_final() { # CLIENT: its final model is AS's
    cmp -s "$fed/clients/client-0$1"/state/models/t1-*/"round-$last.safetensors" \
        "$fed"/aggregator/models/1-*/"round-$last.safetensors"
}
for c in 1 2 3; do fed_until 20 "final model of client $c" has_final $c; done

# ---- the next task; CSP's operator ends it -----------------------------------------------------------------------
fed_until 30 "second task" more aggregator '"serving a task".*"name":"t2"' 0
fed_until 30 "second task at CSP" is csp name t2
expect 0 "$SEFL" task end --yes -c "$csp"
fed_until 30 "end by CSP" more aggregator "\"task over\".*ended by CSP's operator" 0
fed_kill TERM aggregator csp client-01 client-02 client-03
for n in aggregator csp client-01 client-02 client-03; do fed_done $n 20; done
fed_until 10 "watch" grep -q "aggregator    NOT RUNNING; at the end:.*t2.*ended by CSP's operator" "$dir/log/watch"
grep -q "aggregator.*PAUSED" "$dir/log/watch" || fail "watch: $(cat "$dir/log/watch")"
fed_kill TERM watch
fed_wait watch 10
rm "$dir/log/watch"
cmp "$fed/aggregator/ledger" "$fed/csp/ledger" || fail "the ledgers differ"
"$SEFL" privacy spent "$fed/csp/ledger" --json > "$dir/spent"
# every round of the first task is charged, but the dropped one
grep -q "\"rounds\":$((last - 1))[,}]" "$dir/spent" || fail "ledger: $(cat "$dir/spent"), last round $last"

# ---- logs: merged, filtered, harmless -----------------------------------------------------------------------------
printf 'not json \033[31m\007\n{"time":"2026-01-01T00:00:00.000Z","level":"error","event":"evil \\u001b]0;x"}\n' \
    >> "$dir/log/csp"
expect 0 "$SEFL" logs "$dir" --level warn
says 'evil \x1b]0;x'
says 'not json \x1b[31m\x07'
if printf '%s' "$out" | LC_ALL=C grep -q '[^[:print:]]'; then fail "a control character in: $out"; fi
expect 0 "$SEFL" logs "$dir" --role aggregator --round "$dropped" --since 10m
says "drops_round=true"
case $out in *client-0* | *"round=$((dropped + 1))"*) fail "not filtered: $out" ;; esac
expect 0 "$SEFL" logs "$dir" --client nobody
says "no line matches"
expect 0 "$SEFL" logs "$dir" --client client-02
says "final model"
expect 0 sh -c "\"$SEFL\" logs - < \"$dir/log/csp\""
says "paused by the operator"
expect 0 "$SEFL" logs "$dir/log/csp"
says "aggregator connected"
expect 2 "$SEFL" logs "$dir" --since yesterday
ln -s csp "$dir/log/link"
ln -s /dev/zero "$dir/log/zero"
mkfifo "$dir/log/fifo"
expect 0 "$SEFL" logs "$dir" --role csp
expect 0 "$SEFL" logs "$dir"
says "left out: $dir/log/link: it is a link"
says "left out: $dir/log/zero: it is a link"
expect 0 "$SEFL" logs "$dir/log/link" # named: it is followed
rm "$dir/log/link" "$dir/log/zero" "$dir/log/fifo"
"$SEFL" logs "$dir" | awk '$1 ~ /Z$/ { if ($1 < last) n++; last = $1 } END { exit n > 1 }' || fail "not in order"
fed_start follow "$SEFL" logs "$dir/log" --role csp --follow
fed_until 10 "followed log" grep -q "aggregator connected" "$dir/log/follow"
printf '{"time":"2026-01-01T00:00:00.000Z","level":"info","event":"one more"}\n' >> "$dir/log/csp"
fed_until 10 "new line" grep -q "one more" "$dir/log/follow"
fed_kill TERM follow
fed_wait follow 10
echo "ok"
