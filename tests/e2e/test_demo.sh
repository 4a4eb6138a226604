#!/bin/sh
# The demo runs a federation, loses clients, learns, leaves no process, and refuses meaningless options.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
out=$("$SEFL" demo --help) || fail "no help"
rc=0
"$SEFL" demo --nonsense > /dev/null 2>&1 || rc=$?
[ "$rc" -eq 2 ] || fail "an unknown option exits $rc"
if [ "$SEFL_CORE_ONLY" = 1 ]; then
    "$SEFL" demo | grep -q 'core only' || fail "the core demo does not say so"
    exit 0
fi
for bad in "--scheme rsa" "--bits 1024" "--clients 0" "--clients 3" "--noise -1" \
    "--bits 2048" "--clients 65" "--rounds 1" "--words 1" extra; do
    rc=0
    # shellcheck disable=SC2086 # an option and its value
    "$SEFL" demo $bad > /dev/null 2>&1 || rc=$?
    [ "$rc" -eq 2 ] || fail "demo $bad exits $rc"
done

# ---- one secure sum --------------------------------------------------------------------------
out=$("$SEFL" sum --values 3000 --bits 2048) || fail "sum: $out"
for words in "secure sum with pad" "secure sum with paillier" "standard deviation" "Who saw what"; do
    case $out in *"$words"*) ;; *) fail "'$words' is not in: $out" ;; esac
done

expect 2 "$SEFL" sum --noise 1e5
expect 2 "$SEFL" sum --scheme rsa

# ---- a federation ----------------------------------------------------------------------------
mkdir "$dir/mine"
echo precious > "$dir/mine/file"
rc=0
said=$("$SEFL" demo --out "$dir/mine" 2>&1) || rc=$?
[ "$rc" -eq 1 ] || fail "a folder of somebody's: $rc"
case $said in *"not empty"*) ;; *) fail "$said" ;; esac
[ "$(cat "$dir/mine/file")" = precious ] || fail "it touched a folder that is not its own"

# a folder that another demo is using
mkdir "$dir/busy"
rc=0
said=$(flock "$dir/busy" "$SEFL" demo --out "$dir/busy" --clients 4 --rounds 2 --words 400 2>&1) || rc=$?
[ "$rc" -eq 1 ] || fail "a second demo in one folder exits $rc: $said"
case $said in *"in use by another process"*) ;; *) fail "$said" ;; esac

small="--clients 4 --rounds 3 --words 800"
# a client that is faster than its kill counts: then the demo runs again, at most twice
for try in 1 2 3; do
    # shellcheck disable=SC2086 # options
    out=$("$SEFL" demo --out "$dir/demo" $small) || { tail -n 5 "$dir"/demo/log/*; fail "demo $try: $out"; }
    case $out in *"clients 2/4"*) break ;; esac
done
for words in "kill -9 in round 2" "started again" "round  3/3" "clients 2/4" "perplexity on the public" \
    "plain FedAvg" "best possible" "none claimed" "epsilon 8 " "Who saw what" next; do
    case $out in *"$words"*) ;; *) fail "'$words' is not in: $out" ;; esac
done
# the line of `sefl plan` for the same model and rounds
printf 'clients: 4\nrounds: { count: 3 }\nmodel: { embed: 64, hidden: 64, layers: 1, block: 8 }\n' > "$dir/same.yml"
line=$("$SEFL" plan --quick -c "$dir/same.yml" | sed -n 's/^epsilon 8  *//p')
case $line in *"z = 1."*" clients per round") ;; *) fail "plan says: $line" ;; esac
case $out in *"epsilon 8 "*"$line"*) ;; *) fail "plan says '$line', the demo: $out" ;; esac
[ "$(wc -l < "$dir/demo/metrics.jsonl")" -eq 3 ] || fail "metrics.jsonl"
[ -s "$dir/demo/federation/aggregator/models/round-3.safetensors" ] || fail "no model"
for words in '</html>' '"name":"demo"' '"sample_round":3' '{"round":2,"skipped":false,"clients":2,' '"enrolled":4' \
    "No differential privacy claimed" '\["Task id",'; do
    grep -q "$words" "$dir/demo/report.html" || fail "the report lacks '$words'"
done
mkdir -p "$dir/runs/later" && ln -s "$dir/demo" "$dir/runs/demo" # a newer run without parties
out2=$(cd "$dir" && "$SEFL" status) || fail "status: $out2"
[ "$(echo "$out2" | grep -c " finished .* no privacy claimed")" -eq 6 ] || fail "status: $out2"
case $out2 in *connected* | *"NOT RUNNING"*) fail "status: $out2" ;; esac
out2=$("$SEFL" compare "$dir/demo" "$dir/demo/federation/aggregator" "$dir/demo/metrics.jsonl") || fail "compare"
[ "$(echo "$out2" | grep -c "sefl (full)  *3.*/4  *3/3 ")" -eq 3 ] || fail "compare: $out2"
# the commands it shows work
echo "$out" | sed -n '/^next$/,$p' | sed '1d;/provision/d' > "$dir/next"
[ "$(grep -c "^  $SEFL " "$dir/next")" -eq 4 ] || fail "next commands: $(cat "$dir/next")"
sh -eu "$dir/next" > /dev/null || fail "next commands: $(cat "$dir/next")"

# ---- again in the same folder, as JSON, with a claim; then it learns nothing, and reports that -------------
# shellcheck disable=SC2086 # options
out=$("$SEFL" demo --out "$dir/demo" --clients 4 --rounds 2 --words 400 --noise 0.5 --json 2> /dev/null) ||
    fail "demo --json: $out"
case $out in '{"folder":'*'"claim":"dp","epsilon":'*'}') ;; *) fail "$out" ;; esac
case $out in *'"epsilon":null'*) fail "no epsilon: $out" ;; esac

# ---- stopped in the middle: no process stays -----------------------------------------------------
# shellcheck disable=SC2086 # options
"$SEFL" demo --out "$dir/demo" --clients 4 --rounds 50 --words 400 > "$dir/out" 2>&1 &
pid=$!
i=0
until grep -q '^round  *1/' "$dir/out" 2> /dev/null; do
    i=$((i + 1))
    [ $i -lt 1200 ] || fail "no first round: $(cat "$dir/out")"
    kill -0 $pid || fail "it ended: $(cat "$dir/out")"
    sleep 0.05
done
kill -TERM $pid
rc=0
wait $pid || rc=$?
[ "$rc" -eq 1 ] || fail "a stopped demo exits $rc"
grep -q stopped "$dir/out" || fail "it does not say that it was stopped"
for p in /proc/[0-9]*; do
    if grep -q -- "$dir/demo" "$p/cmdline" 2> /dev/null; then fail "${p#/proc/} is still there"; fi
done
echo ok
