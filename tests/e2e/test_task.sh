#!/bin/sh
# sefl task: creates a document, signs it for both servers, shows, explains and checks it; it reports every misuse,
# change and mix-up.
# shellcheck disable=SC2086 # lists of options are split on purpose
set -eu
[ "${SEFL_CORE_ONLY:-0}" = 1 ] && { echo "not part of a core-only build"; exit 0; }
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
says_not() { case $out in *"$1"*) fail "'$1' is in: $out" ;; *) ;; esac; }

cd "$dir"

# keys, word list and initial model of a small federation, and a second one to mix up with it
small="--clients 3 --words 2000 --set model.embed=8 --set model.hidden=8 --set model.block=4"
expect 0 "$SEFL" provision f $small
expect 0 "$SEFL" provision g $small --seed 2
p=f/public
keys="--aggregator-key $p/aggregator.pub --csp-key $p/csp.pub"
files="--init $p/init.safetensors --vocab $p/vocab.txt"
both="--set population=people --set rounds.enrolled=1000"

# usage
expect 2 "$SEFL" task; says "new, sign, show, check, queue, pause, resume, close or end"
expect 2 "$SEFL" task sgin; says "did you mean 'sign'?"
expect 2 "$SEFL" task new; says "--out"
expect 2 "$SEFL" task new --out t.json; says "--aggregator-key"
expect 2 "$SEFL" task new --outt t.json; says "did you mean --out?"
expect 2 "$SEFL" task new --out t.json $keys extra; says '"extra"'
expect 2 "$SEFL" task sign; says "--out"
expect 2 "$SEFL" task sign --out x --key k --as nobody x; says "one of: aggregator csp"
expect 2 "$SEFL" task show; says "requires a task file"
expect 2 "$SEFL" task show --json --explain x; says "cannot be combined"
expect 2 "$SEFL" task check x; says "--aggregator-key"
expect 1 "$SEFL" task show nowhere; says "nowhere"
expect 0 "$SEFL" task --help; says "example:"

# settings: missing, unknown and inconsistent ones
expect 2 "$SEFL" task new --out t.json $keys; says "population"; says "rounds.enrolled"; says "init.sha256"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set privacy.nois=own; says "did you mean \"privacy.noise\"?"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set privacy.z=0.1; says "claim none"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set privacy.noise=none; says "claim none"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set privacy.z=2
says "reaches epsilon 8 after"; says "of the task's 100 rounds: raise privacy.z to"; says "privacy.early_end"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set rounds.threshold=2000; says "rounds.threshold"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set model.block=8; says "model.block is set to 8"
expect 2 "$SEFL" task new --out t.json $keys --init $p/init.safetensors --vocab g/public/vocab.txt $both; says "another vocabulary"
expect 1 "$SEFL" task new --out t.json $keys --init $p/vocab.txt $both; says "vocab.txt"
printf 'one\t5\ntwo\t3\n' > counted.txt
expect 2 "$SEFL" task new --out t.json $keys --vocab counted.txt $both; says "final form"
expect 2 "$SEFL" task new --out t.json $keys $files $both --set crypto.scheme=paillier; says "public key"
expect 1 "$SEFL" task new --out t.json $keys --key $p/csp.pub $files $both --set crypto.scheme=paillier; says "csp.pub"
expect 2 "$SEFL" task new --out t.json --aggregator-key $p/csp.pub --csp-key $p/csp.pub $files $both; says "must be different parties"
# the task names the text that may end it
expect 2 "$SEFL" task new --out t.json $keys $files $both --set rounds.patience=3; says "valid.sha256 names no validation text"
[ ! -e t.json ] || fail "t.json was left behind"
expect 0 "$SEFL" task new --out v.json $keys $files $both --set rounds.patience=3 --set privacy.epsilon=20 --valid $p/valid.txt
expect 0 "$SEFL" task show v.json; says "validation   $(sha256sum $p/valid.txt | cut -d' ' -f1)"

# clients that take every turn run out before the last round; the filter as 'sefl privacy plan' prints it
printf 'rounds.max_per_client: 2\nrounds.separation: 4\nrounds.count: 20\nprivacy.filter: "2900, 500"\n' > turns.yml
expect 0 "$SEFL" task new -c turns.yml --out r.json $keys $files $both
says "warning: the clients run out"; says "rounds.separation to 10"
expect 0 "$SEFL" task show --explain r.json; says "WARNING: the clients run out"; says "70.8 %, 12.2 %"

# created from settings and from YAML: the same bytes
expect 0 "$SEFL" task new --out t.json $keys $files $both --set privacy.epsilon=20; says "t.json: task"
expect 1 "$SEFL" task new --out t.json $keys $files $both
printf 'population: people\nrounds:\n  enrolled: 1000\nprivacy: { epsilon: 20 }\n' > t.yml
expect 0 "$SEFL" task new --out y.json $keys $files --config t.yml
cmp t.json y.json || fail "YAML and --set differ"
printf 'population: people\nrounds:\n  enroled: 1000\n' > bad.yml
expect 2 "$SEFL" task new --out z.json $keys $files --config bad.yml; says "bad.yml:3:3"; says "rounds.enrolled"
id=$(sha256sum t.json | cut -d' ' -f1)
expect 0 "$SEFL" task show t.json; says "$id"; says "nobody"; says "epsilon 20"; says "joint, z 3.238811"
expect 0 "$SEFL" task show --json t.json; says "\"id\":\"$id\""; says '"signed_by_csp":false'
grep -q "$(sha256sum $p/init.safetensors | cut -d' ' -f1)" t.json || fail "the hash of the first model is not there"
grep -q "$(sha256sum $p/vocab.txt | cut -d' ' -f1)" t.json || fail "the hash of the word list is not there"

# sealed updates need no key in the task; a Paillier task names CSP's
grep -q '"key": ""' t.json || fail "a key in a sealed task"
expect 0 "$SEFL" key new --out pair --scheme paillier --bits 2048 --memory 64 --key-file f/csp/key.lock
expect 2 "$SEFL" task new --out x.json $keys --key pair.pub $files $both; says "--key requires"
expect 0 "$SEFL" task new --out paper.json $keys --key pair.pub $files $both --set crypto.scheme=paillier
expect 0 "$SEFL" task show paper.json; says "paillier under 2048 bits"
expect 0 "$SEFL" task show t.json; says "pad sealed with xwing"

# signed by both; the document inside is exactly the file
expect 1 "$SEFL" task sign --key g/csp/sign.key --as csp --out t.signed t.json; says "another key for the csp"
expect 1 "$SEFL" task sign --key f/csp/sign.key --as aggregator --out t.signed t.json; says "another key for the aggregator"
expect 0 "$SEFL" task sign --key f/csp/sign.key --as csp --out half.signed t.json; says "signed by the csp"
pins="--aggregator-key $p/aggregator.pub --csp-key $p/csp.pub"
expect 1 "$SEFL" task check $pins half.signed; says "not signed by the aggregator"
expect 1 "$SEFL" task check $pins t.json
expect 1 "$SEFL" task sign --key f/csp/sign.key --as csp --out more.signed half.signed; says "already"
expect 0 "$SEFL" task sign --key f/aggregator/sign.key --as aggregator --out t.signed half.signed; says "and the"
expect 1 "$SEFL" task sign --key f/aggregator/sign.key --as aggregator --out t.signed half.signed
expect 0 "$SEFL" task check $pins t.signed; says "$id"
expect 0 "$SEFL" task show t.signed; says "aggregator and csp"
tail -c +14 t.signed | head -c "$(wc -c < t.json)" | cmp - t.json || fail "the signed document is not the file"

# other identities, any change, any truncation
expect 1 "$SEFL" task check --aggregator-key g/public/aggregator.pub --csp-key $p/csp.pub t.signed; says "another aggregator than the pinned"
expect 1 "$SEFL" task check --aggregator-key $p/aggregator.pub --csp-key g/public/csp.pub t.signed; says "another csp than the pinned"
expect 1 "$SEFL" task check --aggregator-key $p/csp.pub --csp-key $p/aggregator.pub t.signed; says "pinned"
sed 's/"epsilon": "20"/"epsilon": "99"/' t.signed > changed.signed
expect 1 "$SEFL" task check $pins changed.signed; says "is not valid"
head -c 1000 t.signed > cut.signed
expect 1 "$SEFL" task check $pins cut.signed; says "cut.signed"
sed 's/"block": 4,/"block": 4, "loss": 3,/' t.json > more.json
expect 1 "$SEFL" task show more.json; says "unknown member model.loss"
sed 's/"block": 4,/"block": 4.0,/' t.json > real.json
expect 1 "$SEFL" task show real.json; says "floating-point"

# in plain words
expect 0 "$SEFL" task show --explain t.signed
says "Who can learn what"; says "AS and CSP together"; says "EVERY UPDATE"; says "epsilon at most 20"
says "against a server"; says "against everybody else"; says "other data replaced it"; says "noise over signal"
says "MAY LEAVE OUT THE NOISE"; says "Mode joint: CSP must be honest"; says "SEFL proposes"
says_not "no differential privacy claimed"
expect 0 "$SEFL" task new --out off.json $keys $files $both --set privacy.noise=none --set privacy.claim=none
expect 0 "$SEFL" task new --out z.json $keys $files $both --set privacy.z=2 --set privacy.early_end=true
expect 0 "$SEFL" task show --explain z.json; says "of the 100 rounds: the task will end there"
expect 0 "$SEFL" task show --explain off.json; says "learn the exact average"; says "no differential privacy claimed"
expect 0 "$SEFL" task show off.json; says "no differential privacy claimed"
expect 0 "$SEFL" task show --json off.json; says "no differential privacy claimed"
expect 0 "$SEFL" task sign --key f/csp/sign.key --as csp --out off.signed off.json; says "no differential privacy claimed"
expect 0 "$SEFL" task new --out low.json $keys $files $both --set privacy.z=0.1 --set privacy.claim=none
expect 0 "$SEFL" task show --explain low.json; says "no differential privacy claimed"; says "nothing is claimed about what the noise hides"
expect 0 "$SEFL" task new --out open.json $keys $files $both --set privacy.sampling=open --set privacy.rate=0.1
expect 0 "$SEFL" task show --explain open.json; says "only against others"; says "not published"
expect 0 "$SEFL" task new --out early.json $keys $files $both --set privacy.sampling=open --set privacy.rate=0.1 --set rounds.enough=80
expect 0 "$SEFL" task show --explain early.json; says "no amplification"
expect 2 "$SEFL" task new --out old.json $keys $files $both --set privacy.sampling=hidden --set privacy.rate=0.1
says "use privacy.record_turns for records, and privacy.sampling all or open for clients"
echo "all good"
