#!/bin/sh
# /metrics of both servers, as Prometheus requests it: promtool accepts it while a round is open and after the end; its
# numbers are those of the run; every metric of the table is there, and every metric of the Grafana dashboard and
# of the alerts. A task that does not publish participation shows no number of clients. Event files for TensorBoard have
# the numbers of metrics.jsonl.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
for tool in curl promtool python3; do
    command -v $tool > /dev/null || fail "no $tool here: scripts/bootstrap --test"
done

# ROLE PATH: the system chooses the port, and the log line of the last start has it
get() {
    curl -sf --noproxy '*' --max-time 10 -D "$dir/head" \
        "http://127.0.0.1:$(sed -n 's/.*"event":"health".*"port":\([0-9]*\).*/\1/p' "$dir/log/$1" | tail -n 1)/$2"
}
# ROLE: its page is in $dir/ROLE, and promtool finds neither an error nor a matter of style
check() {
    get "$1" metrics > "$dir/$1" || fail "$1 has no /metrics"
    grep -qi '^content-type: text/plain; version=0.0.4; charset=utf-8' "$dir/head" || fail "type: $(cat "$dir/head")"
    promtool check metrics < "$dir/$1" > "$dir/lint" 2>&1 || fail "promtool, $1: $(cat "$dir/lint")"
    [ ! -s "$dir/lint" ] || fail "promtool, $1: $(cat "$dir/lint")"
}
# ROLE SAMPLE: true if its page has this line
shows() { get "$1" metrics > "$dir/$1" && grep -qxF -- "$2" "$dir/$1"; }
wants() { fed_until 20 "'$2' in /metrics of $1" shows "$@"; }
value() { sed -n "s/^$2 //p" "$dir/$1" | head -n 1; } # ROLE SAMPLE (a pattern)

"$SEFL_SOURCE/scripts/metrics-table" > "$dir/table"
names() { awk -F'|' -v only="$1" '/^\| `/ && ($5 ~ only || $5 ~ /both/) { gsub(/[` ]/, "", $2); print $2 }' "$dir/table" | sort; }

# ---- a task with a claim ------------------------------------------------------------------------
fed_provision a --clients 3 --words 400 --set rounds.count=2 --set rounds.threshold=2 --set rounds.enough=3 \
    --set privacy.claim=dp --set privacy.epsilon=8 --set privacy.delta=1e-6 --set privacy.clip_quantile=0.5
fed_csp --stay --health 127.0.0.1:0
check csp
fed_aggregator --linger 60 --health 127.0.0.1:0
wants aggregator 'sefl_phase{phase="collecting"} 1'
fed_clients 1 2
wants aggregator 'sefl_updates_arrived 2' # an open round, with two of three updates
check aggregator
check csp
for line in 'sefl_peer_connected{peer="csp"} 1' 'sefl_round 1' 'sefl_uploads_total{outcome="taken"} 2' \
    'sefl_clients_enrolled 3' 'sefl_updates_needed 2' 'sefl_rounds_total{outcome="released"} 0' \
    'sefl_epsilon_spent{against="server"} 0' 'sefl_epsilon_target 8' 'sefl_upload_seconds_count 2'; do
    grep -qxF -- "$line" "$dir/aggregator" || fail "no '$line' during the round: $(grep "^${line%%[ \{]*}" "$dir/aggregator")"
done
names 'AS' > "$dir/want"
sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$dir/aggregator" | sort | diff "$dir/want" - || fail "AS's metrics are not those of the table"
names 'CSP' > "$dir/want"
sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$dir/csp" | sort | diff "$dir/want" - || fail "CSP's metrics are not those of the table"

fed_clients 3
wants aggregator 'sefl_phase{phase="done"} 1'
wants csp 'sefl_phase{phase="done"} 1'
check aggregator
check csp
for line in 'sefl_rounds_total{outcome="released"} 2' 'sefl_uploads_total{outcome="taken"} 6' 'sefl_updates_counted_total 6' \
    'sefl_round_step_seconds_count{step="reveal"} 2' 'sefl_round_step_seconds_count{step="eval"} 2' 'sefl_healthy 1'; do
    grep -qxF -- "$line" "$dir/aggregator" || fail "no '$line' after the end: $(grep "^${line%%[ \{]*}" "$dir/aggregator")"
done
for line in 'sefl_rounds_total{outcome="revealed"} 2' 'sefl_round_step_seconds_count{step="decrypt"} 2' \
    'sefl_noise_checks_failed_total 0' 'sefl_epsilon_target 8'; do
    grep -qxF -- "$line" "$dir/csp" || fail "no '$line' at CSP: $(grep "^${line%%[ \{]*}" "$dir/csp")"
done
for role in aggregator csp; do
    [ "$(value $role 'sefl_traffic_bytes_total{part="noise"}')" -gt 100000 ] || fail "no bytes of noise shares at $role"
done
# both servers show the epsilon of metrics.jsonl
spent=$(value aggregator 'sefl_epsilon_spent{against="server"}')
[ "$(value csp 'sefl_epsilon_spent{against="server"}')" = "$spent" ] || fail "epsilon differs: $spent"
clip=$(value aggregator sefl_clip) # found by AS: in the page, in metrics.jsonl and in the log
[ -n "$clip" ] || fail "AS shows no clip"
tail -n 1 "$fed/aggregator/state/metrics.jsonl" | grep -q "\"clip\":${clip}[,}]" || fail "metrics.jsonl has no clip $clip"
grep '"release checked"' "$dir/log/aggregator" | tail -n 1 | grep -q "\"clip\":${clip}[,}]" || fail "AS's log has no clip $clip"
tail -n 1 "$fed/aggregator/state/metrics.jsonl" | grep -qF "\"epsilon_server\":$spent," || fail "metrics.jsonl has no epsilon $spent"
# the counters of /metrics are those of counters.json
taken=$(value aggregator 'sefl_connections_total')
fed_until 10 "counters.json" grep -q "\"connections\":$taken,.*\"upload.taken\":6," "$fed/aggregator/state/counters.json"
# nothing names a client
grep -E 'client-0|key=|fingerprint' "$dir/aggregator" "$dir/csp" && fail "/metrics names a client"
for path in metrics/ metrics.json METRICS; do
    get aggregator "$path" > /dev/null && fail "/$path is answered"
done

# ---- the dashboard and the alerts ---------------------------------------------------------------
cat "$dir/aggregator" "$dir/csp" > "$dir/pages"
rules=$SEFL_SOURCE/packaging/prometheus/sefl.rules.yml
python3 "$SEFL_SOURCE/tests/e2e/dashboard.py" "$SEFL_SOURCE/packaging/grafana/sefl.json" "$rules" "$dir/pages" \
    > "$dir/board.yml" || fail "the dashboard or the alerts"
promtool check rules "$rules" "$dir/board.yml" > "$dir/lint" 2>&1 || fail "promtool check rules: $(cat "$dir/lint")"
fed_kill TERM aggregator csp
fed_done aggregator 20
fed_done csp 20

# ---- event files for TensorBoard, read by another program -----------------------------------------
"$SEFL" report "$fed" "$fed/aggregator" --text --tensorboard "$dir/tb" > "$dir/out" || fail "report --tensorboard"
for run in a aggregator; do
    set -- "$dir/tb/$run"/events.out.tfevents.*
    [ $# -eq 1 ] || fail "files of $run: $*"
    grep -qF "events      $1" "$dir/out" || fail "the report does not name $1: $(cat "$dir/out")"
    python3 "$SEFL_SOURCE/tests/e2e/tfevents.py" "$1" > "$dir/events" || fail "the event file of $run cannot be read"
    python3 -c '
import json, struct, sys
read = dict(((int(w[0]), w[1]), float(w[2])) for w in map(str.split, open(sys.argv[2])))
lines = [json.loads(l) for l in open(sys.argv[1])]
want = 0
for l in lines:
    for key, value in l.items():
        if key in ("run", "round", "time"): continue
        group = "round" if key in ("skipped", "blocked") else next((g for p, g in (("seconds", "seconds"), ("bytes", "bytes"),
            ("epsilon", "privacy"), ("clip", "privacy"), ("perplexity", "model"), ("loss", "model")) if p in key), "clients")
        assert read[l["round"], group + "/" + key] == struct.unpack("f", struct.pack("f", value))[0], key
        want += 1
assert len(lines) == 2 and len(read) == want + len(lines), (len(read), want)  # and round/blocked
' "$fed/aggregator/state/metrics.jsonl" "$dir/events" || fail "the event file of $run differs from metrics.jsonl"
done
printf x >> "$1"
python3 "$SEFL_SOURCE/tests/e2e/tfevents.py" "$1" > /dev/null 2>&1 && fail "the reader accepts a damaged file"

# ---- a task that does not publish participation ---------------------------------------------------
fed_names=
fed_provision b --clients 4 --words 400 --set privacy.sampling=open --set privacy.rate=0.5 --set privacy.claim=dp \
    --set rounds.threshold=2 \
    --set privacy.epsilon=8 --set privacy.delta=1e-6 --set rounds.count=1
sed -i -e '/^task:/d; /^init:/d; /^vocab:/d; /^valid:/d' -e '$a tasks: tasks\nlinger: 1' "$fed/aggregator/aggregator.yml"
sed -i -e '/^task:/d' -e '$a tasks: tasks' "$fed/csp/csp.yml"
for c in "$fed"/clients/*; do echo "stay: true" >> "$c/client.yml"; done
mkdir -p "$fed/aggregator/tasks/1" "$fed/csp/tasks/1"
cp "$fed"/public/vocab.txt "$fed"/public/valid.txt "$fed"/public/init.safetensors "$fed/public/task.signed" "$fed/aggregator/tasks/1/"
cp "$fed/public/task.signed" "$fed/csp/tasks/1/"
fed_csp --health 127.0.0.1:0
fed_aggregator --health 127.0.0.1:0
fed_clients 1
wants aggregator 'sefl_phase{phase="collecting"} 1'
check aggregator
awk -F'|' '/^\| `/ && $6 ~ /yes/ { gsub(/[` ]/, "", $2); print $2 }' "$dir/table" > "$dir/counts"
[ "$(wc -l < "$dir/counts")" -ge 10 ] || fail "no metrics of the kind COUNTS in the table"
grep -wFf "$dir/counts" "$dir/aggregator" && fail "the task shows how many clients take part"
cp "$dir/aggregator" "$dir/open"
"$SEFL" task end --yes --now -c "$fed/aggregator/aggregator.yml" > "$dir/out" 2>&1 || fail "the task does not end: $(cat "$dir/out")"
fed_until 20 "the end of the task" grep -q '"no task now"' "$dir/log/aggregator"
check aggregator
grep -wFf "$dir/counts" "$dir/aggregator" && fail "after the task: how many clients took part"
mv "$dir/open" "$dir/aggregator"
grep -E 'step="(set|sum|freeze)"|part="(uploads|answers)"|reason="(body_cut|body_slow|byte_rate)"' "$dir/aggregator" &&
    fail "the task shows how many clients take part"
grep -q '^sefl_epsilon_target 8$' "$dir/aggregator" || fail "no target"
echo ok
