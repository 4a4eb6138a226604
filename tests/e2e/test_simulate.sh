#!/bin/sh
# sefl simulate, plan, compare: runs, sweeps, resuming after an interruption, misuse.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
silent() { case $out in *"$1"*) fail "'$1' is in: $out" ;; *) ;; esac; }
hash_of() { grep -o '"model_sha256":"[0-9a-f]*"' "runs/$1/summary.json"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a > b ? a - b : b - a; exit !(a > 0 && d < 1e-3 * a) }'; }
cd "$dir"
cat > e.yml <<'END'
# an experiment
name: first
clients: 4
crypto.key_bits: 2048
data: { words: 200 }
model: { embed: 8, hidden: 8 }
rounds: { count: 2 }
END

# misuse
expect 2 "$SEFL" simulate; says "requires --config"
expect 2 "$SEFL" simulate -c e.yml extra; says '"extra"'
expect 2 "$SEFL" simulate -c e.yml --sett a=b; says "did you mean --set?"
expect 2 "$SEFL" simulate -c e.yml --set clients=0; says "--set: clients must be a whole number from 1"
expect 2 "$SEFL" simulate -c e.yml --threads many; says "--threads must be"
expect 2 "$SEFL" simulate -c e.yml --set protection=all; says "none cdp sefl"
expect 2 "$SEFL" simulate -c e.yml --set clients=1; says "the sum of one client is its update"
expect 2 "$SEFL" simulate -c e.yml --set privacy.claim=dp --set privacy.z=1 --set rounds.count=50
says "reaches epsilon 8 after"; says "raise privacy.z to"
expect 1 "$SEFL" simulate -c none.yml; says "none.yml"
printf 'clients: 4\nprotecton: none\n' > bad.yml
expect 2 "$SEFL" simulate -c bad.yml; says 'bad.yml:2:1: unknown setting "protecton"; did you mean "protection"?'
expect 2 "$SEFL" plan; says "requires --config"
expect 2 "$SEFL" plan -c e.yml --rates r --quick; says "--rates replaces"
expect 1 "$SEFL" plan -c e.yml --rates none.txt; says "none.txt"
expect 2 "$SEFL" compare; says "requires run folders"
expect 1 "$SEFL" compare "$dir"; says "is not a run: it has no config.yml of 'sefl simulate', and no metrics.jsonl, state/"
expect 1 "$SEFL" compare nowhere; says "nowhere does not exist"
[ ! -e runs ] || [ -z "$(ls runs/*/metrics.jsonl 2> /dev/null)" ] || fail "misuse left a run"
rm -rf runs

# a run and its folder
expect 0 "$SEFL" simulate -c e.yml
says "4 clients"; says "seed 1"; says "round 2/2"; says "no differential privacy claimed"
says "processor time"; says "best possible"
for f in config.yml metrics.jsonl summary.json ledger log vocab.txt state model/round-0.safetensors \
    model/round-1.safetensors model/round-2.safetensors model/best.safetensors model/last.safetensors; do
    [ -s "runs/first/$f" ] || fail "no runs/first/$f"
done
[ "$(wc -l < runs/first/metrics.jsonl)" -eq 2 ] || fail "metrics.jsonl has not two lines"
cmp runs/first/model/round-2.safetensors runs/first/model/last.safetensors
expect 0 "$SEFL" model info runs/first/model/last.safetensors
expect 0 "$SEFL" simulate -c e.yml; says "is already finished"
expect 1 "$SEFL" simulate -c e.yml --set seed=2; says "holds another run (seed differs)"
expect 0 "$SEFL" simulate -c runs/first/config.yml --set name=again --quiet
silent "round 1/"
[ "$(hash_of first)" = "$(hash_of again)" ] || fail "config.yml is another experiment"

# the release check blocks unusable models: the initial model stays, and three in a row end the run
expect 1 "$SEFL" simulate -c e.yml --set name=long-steps --set rounds.count=5 --set server.lr=1000000
says "round 3/5  blocked by the release check"; says "blocked three rounds in a row"
says "warning: training made the model worse: the release check blocked 3 of 3 rounds"
cmp runs/long-steps/model/round-0.safetensors runs/long-steps/model/last.safetensors
[ "$(grep -c '"blocked":true' runs/long-steps/metrics.jsonl)" -eq 3 ] || fail "blocked rounds are not in metrics.jsonl"
grep -q '"release blocked.*"round":3,.*"why":' runs/long-steps/log || fail "no error in the log"
expect 0 "$SEFL" compare runs/long-steps; says "0/5"
expect 0 "$SEFL" report runs/long-steps --text; says "0 released, 0 skipped, 3 blocked by the release check"

# the same model: with the real cryptography, on one thread
expect 0 "$SEFL" simulate -c e.yml --set name=full --set crypto=full --quiet
[ "$(hash_of first)" = "$(hash_of full)" ] || fail "crypto full gives another model"
expect 0 "$SEFL" simulate -c e.yml --set name=one --threads 1 --quiet
[ "$(hash_of first)" = "$(hash_of one)" ] || fail "one thread gives another model"

# killed at any moment, it resumes and ends with the same model
cat > long.yml <<'END'
name: long
clients: 12
crypto.key_bits: 2048
data: { words: 3000 }
model: { embed: 24, hidden: 24 }
rounds: { count: 6 }
network: { dropout: 0.1 }
END
"$SEFL" simulate -c long.yml --runs whole --quiet > /dev/null
for wait in 0.6 0.9; do
    "$SEFL" simulate -c long.yml --quiet > /dev/null 2>&1 &
    pid=$!
    sleep $wait
    kill -9 $pid 2> /dev/null || true
    wait $pid 2> /dev/null || true
done
expect 0 "$SEFL" simulate -c long.yml --quiet
[ "$(grep -o '"model_sha256":"[0-9a-f]*"' whole/long/summary.json)" = "$(hash_of long)" ] ||
    fail "an interrupted run ends elsewhere"
[ "$(wc -l < runs/long/metrics.jsonl)" -eq 6 ] || fail "an interrupted run has other lines"

# a run that learned nothing is a failure; the other runs of the sweep still execute
expect 1 "$SEFL" simulate -c long.yml --set name=none --set rounds.count=2 --set sweep.network.dropout=1,0
says "every round was skipped"; says "run 2 of 2"
expect 1 "$SEFL" simulate -c long.yml --set name=none --set rounds.count=2 --set sweep.network.dropout=1,0 --quiet
says "every round was skipped" # and reports it again

# clients take turns: the default threshold is a quarter of those who have a turn, so no round is skipped for its size;
# `auto` leaves clients for the last round, and `compare` shows the noise that epsilon needs, not the setting
expect 0 "$SEFL" simulate -c long.yml --set name=turns --set clients=60 --set rounds.count=10 --set rounds.max_per_client=3 \
    --set privacy.filter=auto --set privacy.claim=dp --set privacy.epsilon=8 --set privacy.delta=1e-5
says "round 10/10"; silent "skipped"
z=$(sed -n 's/.*"z":\([0-9.]*\),.*/\1/p' runs/turns/summary.json)
[ -n "$z" ] || fail "no z in the summary"
filter=$(sed -n 's/.*"filter":"\([0-9, ]*\)".*/\1/p' runs/turns/summary.json)
[ -n "$filter" ] || fail "no filter in the summary"
expect 0 "$SEFL" compare runs/turns; says " $z"; says "filter"; says " $filter "
expect 0 "$SEFL" compare runs/turns --json; says "\"filter\":\"$filter\""
expect 0 "$SEFL" report runs/turns; says ", filter $filter"
grep -qF "[\"Correlated noise (filter)\",\"$filter\"]" runs/turns/report.html || fail "no filter in the report"

# a clip that is found privately: each model names the clip of the next round
expect 0 "$SEFL" simulate -c long.yml --set name=clip --set rounds.count=1 --set privacy.clip_quantile=0.5 --set privacy.clip=1
expect 0 "$SEFL" model info runs/clip/model/last.safetensors; says "next clip  "; says ", found by task "
grep -q '"clip":[0-9]' runs/clip/metrics.jsonl || fail "no clip in metrics.jsonl"

# divergence is reported as such, not as missing clients
expect 1 "$SEFL" simulate -c e.yml --set name=wild --set rounds.count=1 --set training.lr=1000000 \
    --set training.gradient_clip=0 --set training.epochs=5
says "diverged"; says "training.lr"; says "nothing was learned"; silent "skipped"

# baselines in one sweep
expect 0 "$SEFL" simulate -c e.yml --set name=base --set sweep.protection=none,cdp,sefl
says "run 3 of 3"; silent "choice not accounted"
expect 0 "$SEFL" compare runs/base-protection=none runs/base-protection=cdp runs/base-protection=sefl
says "protection"; says "base-protection=cdp"; says "ppl best"
[ "$(echo "$out" | wc -l)" -eq 4 ] || fail "compare: $out"
[ "$(echo "$out" | awk '{ print length($0) }' | sort -u | wc -l)" -eq 1 ] || fail "not aligned: $out"
silent "not comparable"
# several runs in one report: their curves in the same chart, and a row each
expect 0 "$SEFL" report runs/base-protection=none runs/base-protection=sefl; says "no protection"; says "page        ./report.html"
[ "$(echo "$out" | wc -l)" -eq 4 ] || fail "report: $out"
for words in '"name":"runs/base-protection=none","level":"bad"' '"name":"runs/base-protection=sefl","level":"weak"' \
    '"sample_round":'; do
    grep -q "$words" report.html || fail "the page of two runs lacks '$words'"
done
rm report.html
expect 0 "$SEFL" report runs/first runs/long --json; [ "$(echo "$out" | grep -c '"task":"')" -eq 2 ] || fail "report --json: $out"
# shellcheck disable=SC2046
expect 1 "$SEFL" report $(printf 'runs/first %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13); says "at most 12 runs"
# a metrics.jsonl that says nothing about its run
mkdir older
sed 's/,"run":.*/}/; s/,"time":[0-9]*//' runs/first/metrics.jsonl > older/metrics.jsonl
expect 0 "$SEFL" report older; says "2 released"; silent "UTC"
expect 0 "$SEFL" compare runs/first older; says "older"
expect 0 "$SEFL" compare runs/first runs/long; says "1 of the runs was measured on a different text than the first"
expect 0 "$SEFL" compare --json runs/first; says '"best_perplexity":'; says '"best_test_perplexity":'
printf 'sweep: { protection: [none, all] }\nname: half\ncrypto.key_bits: 2048\n' > half.yml
expect 2 "$SEFL" simulate -c half.yml --set rounds.count=1 --set data.words=100; says "half.yml:1:"
[ ! -e runs/half-protection=none ] || fail "a sweep with a bad value began"

# exactly half of the clients drop out of each round; a threshold above the rest is refused
expect 0 "$SEFL" simulate -c e.yml --set name=exact --set network.dropout=0.5 --set network.exact=true
says "round 2/2"; says "clients 2/4 (0 late, 2 dropped, 0 diverged)"
expect 2 "$SEFL" simulate -c e.yml --set name=many --set network.dropout=0.5 --set network.exact=true \
    --set rounds.threshold=3
says "rounds.threshold to 2 or less"

# the test text: the best and the last model, once the run is over; nothing else reads it
test_of() { grep -o "\"$2_test_perplexity\":[0-9.e+]*" "runs/$1/summary.json" | cut -d: -f2; }
"$SEFL" synth --out text --clients 2 --tokens 3000 > /dev/null 2>&1
expect 0 "$SEFL" simulate -c e.yml --set name=tested --set data.path=text --set rounds.count=3 --set training.lr=1
says "test        "; says "at the end"
for m in best last; do
    expect 0 "$SEFL" model eval "runs/tested/model/$m.safetensors" --vocab runs/tested/vocab.txt --data text \
        --split test --json
    want=$(echo "$out" | sed 's/.*"perplexity":\([0-9.e+]*\).*/\1/')
    near "$want" "$(test_of tested $m)" || fail "$m: model eval gives $want, the run $(test_of tested $m)"
done
cp -r text untested
rm untested/test.txt
expect 0 "$SEFL" simulate -c e.yml --set name=untested --set data.path=untested --set rounds.count=3 \
    --set training.lr=1
silent "test   "
[ "$(hash_of tested)" = "$(hash_of untested)" ] || fail "the test text changed the model"
expect 0 "$SEFL" compare runs/untested; says "block"; silent "ppl test"
expect 0 "$SEFL" compare runs/untested runs/tested; says "ppl test"
[ "$(echo "$out" | awk '/ppl/ || /tested / { print length($0) }' | sort -u | wc -l)" -eq 1 ] || fail "not aligned: $out"

# private text: choosing among runs is not accounted
expect 0 "$SEFL" simulate -c e.yml --set name=own --set data.path=text --set sweep.training.lr=1,2
says "choice not accounted"
expect 0 "$SEFL" simulate -c e.yml --set name=public --set data.path=text --set data.public=true \
    --set sweep.training.lr=1,2
silent "choice not accounted"
cp -r text text2
expect 0 "$SEFL" simulate -c e.yml --set name=texts --set rounds.count=1 --set "sweep.data.path=text,text2"
says "choice not accounted: 2 runs"
# under a claim a vocabulary from private text is refused, and choices made with private text are reported
dp="--set privacy.claim=dp --set privacy.z=1 --set privacy.epsilon=20"
# shellcheck disable=SC2086
expect 2 "$SEFL" simulate -c e.yml --set name=words --set data.path=text $dp
says "data.vocab is not set"; says "data.public: true"
printf 'data.path: text\nprivacy: { claim: dp, z: 1 }\n' > words.yml
expect 1 "$SEFL" config check words.yml; says "data.vocab is not set"
# shellcheck disable=SC2086
expect 0 "$SEFL" simulate -c e.yml --set name=words --set data.path=text --set data.vocab=text/vocab.txt $dp
says "warning: the validation text decides which model is best.safetensors, and no epsilon covers"
# ... and noise that drowns the model is reported, with the remedy
says "warning: the noise drowned the model: perplexity"; says "more clients per round"
grep -q '"warnings":\["the validation text decides' runs/words/summary.json || fail "no warnings in summary.json"
# shellcheck disable=SC2086
expect 0 "$SEFL" simulate -c e.yml --set name=open --set data.path=text --set data.public=true $dp
silent "no epsilon covers"; says "the noise drowned the model"
expect 0 "$SEFL" simulate -c e.yml --set name=quiet-noise --set training.lr=1; silent "warning:"
# a public start: the run begins with its perplexity; under a claim a warning names the duty
cp runs/tested/model/last.safetensors start.safetensors
cp runs/tested/vocab.txt start.txt
cat > start.yml <<'END'
name: started
clients: 4
data: { path: text, vocab: start.txt }
vocab.order: appearance                  # the list is in the model's order already
model: { embed: 8, hidden: 8, init: start.safetensors }
rounds: { count: 2 }
END
expect 0 "$SEFL" simulate -c start.yml; says "at the start"; silent "model.init"
grep -q "^model.init: '/.*/start.safetensors'" runs/started/config.yml || fail "config.yml has no model.init"
# shellcheck disable=SC2086
expect 0 "$SEFL" simulate -c start.yml --set name=claimed $dp; says "warning: no epsilon covers the text that model.init"
# shellcheck disable=SC2086
expect 0 "$SEFL" simulate -c start.yml --set name=claimed-open --set data.public=true $dp; silent "model.init"
expect 2 "$SEFL" simulate -c start.yml --set name=wide --set model.hidden=9
says "start.safetensors: model.hidden is 9, but the model has 8"
expect 2 "$SEFL" simulate -c start.yml --set name=order --set vocab.order=interleaved; says "another vocabulary"
expect 2 "$SEFL" simulate -c start.yml --set name=gone --set model.init=none.safetensors; says "model.init: none.safetensors"
# a single file has no validation text
expect 0 "$SEFL" simulate -c e.yml --set name=file --set data.path=text/train.txt --set rounds.count=1
says "train.txt has no validation text, so perplexity is not measured"
# --json prints an object and writes no page
expect 0 "$SEFL" report runs/words --json; silent '"page"'
[ ! -e runs/words/report.html ] || fail "report --json wrote a page"
expect 0 "$SEFL" report runs/words --json --out page.html; says '"page":"page.html"'
[ -s page.html ] || fail "report --json --out wrote no page"
# a folder that is not a simulated run is left untouched
mkdir runs/theirs
echo '{"round":1}' > runs/theirs/metrics.jsonl
expect 1 "$SEFL" simulate -c e.yml --set name=theirs; says "is not a run folder"
[ "$(cat runs/theirs/metrics.jsonl)" = '{"round":1}' ] || fail "a stranger's metrics.jsonl was changed"
# settings that were refused do not block the name
expect 2 "$SEFL" simulate -c e.yml --set name=twice --set rounds.threshold=9; says "rounds.threshold"
expect 0 "$SEFL" simulate -c e.yml --set name=twice --set rounds.count=1 --quiet
expect 2 "$SEFL" simulate -c e.yml --set name="$(printf 'a\302\23331m')"; says "control character"
expect 0 "$SEFL" simulate -c e.yml --set name=json --json --quiet
[ "$(echo "$out" | wc -l)" -eq 3 ] || fail "--json: $out"

# a plan writes only the files that are requested
before=$(find . | sort)
expect 0 "$SEFL" plan --quick -c e.yml; says "a client    up"; says "epsilon 8"; says "warning:"
expect 0 "$SEFL" plan --quick --json -c e.yml --set crypto=full
says '"link_bytes":'; says '"warnings":['
[ "$before" = "$(find . | sort)" ] || fail "plan left files"
expect 0 "$SEFL" plan --quick -c e.yml --set crypto=full --deploy 1000,100000,1000000 --window 300
says "1000 clients per round, who upload within 300 s"; says "1000000 clients per round"; says "bottleneck"; says "machines"
expect 2 "$SEFL" plan --quick -c e.yml --set crypto=full --deploy 1000,x; says "not a list of numbers"
expect 2 "$SEFL" plan --quick -c e.yml --deploy 1000; says "crypto: full"
expect 0 "$SEFL" plan --quick -c e.yml --save-rates rates.txt
expect 0 "$SEFL" plan --rates rates.txt -c e.yml
first=$out
expect 0 "$SEFL" plan --rates rates.txt -c e.yml
[ "$first" = "$out" ] || fail "two plans from the same rates"
expect 0 "$SEFL" plan --rates rates.txt -c e.yml --set privacy.claim=dp --set privacy.z=1 \
    --set privacy.epsilon=20
says "this noise drowns the update"; says "epsilon 8 needs about"
expect 0 "$SEFL" plan --rates rates.txt -c e.yml --set privacy.claim=dp --set privacy.z=1 --set privacy.epsilon=60 \
    --set privacy.unit=record --set privacy.records_max=4 --set training.epochs=0 --set training.steps=1 \
    --set training.optimiser=sgd
says "for a record, not for a client"; says " / records_max)"

# the classic calibration of one round is printed beside the true total, by the plan and by the run
printf 'privacy.classic_epsilon=2\nprivacy.delta=1e-5\n' > classic.txt
expect 0 "$SEFL" plan --rates rates.txt -c e.yml --set-file classic.txt
says "classic     epsilon 2 for one round alone, at delta 1e-05: not a claim, and not proven for epsilon >= 1; over"
expect 0 "$SEFL" simulate -c e.yml --set name=classic --set-file classic.txt --set rounds.count=2 --quiet
says "not proven for epsilon >= 1; over 2 rounds epsilon"
grep -q '"z":2.42240' runs/classic/summary.json || fail "no z: $(cat runs/classic/summary.json)"
grep -q '"total_epsilon_server":' runs/classic/summary.json || fail "no total: $(cat runs/classic/summary.json)"
expect 2 "$SEFL" simulate -c e.yml --set name=both --set-file classic.txt --set privacy.z=1; says "privacy.classic_epsilon"
