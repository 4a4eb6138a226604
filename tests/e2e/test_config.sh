#!/bin/sh
# init, config and doctor: files that they write can be read back, errors have line and column, messages name the
# remedy.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
cd "$dir"

# ---- init and config -------------------------------------------------------------------------
expect 0 "$SEFL" init; says "experiment.yml"
expect 0 "$SEFL" config check experiment.yml; says ": valid: "
expect 1 "$SEFL" init; says "experiment.yml"
expect 0 "$SEFL" init --force
expect 2 "$SEFL" init --for nothing; says "--for must be one of"
expect 2 "$SEFL" init a b; says '"b"'
# every key of every kind is valid when uncommented, or config check names the missing file
for kind in experiment aggregator csp client policy task; do
    "$SEFL" init - --for $kind > $kind.full
    n=$("$SEFL" config keys --for $kind | wc -l)
    [ "$(grep -c '^#*[a-z0-9_.]*: ' $kind.full)" -ge "$n" ] || fail "$kind: a key is missing"
    expect 0 "$SEFL" config keys --for $kind --json; says '[{"key":'
    sed 's/^#\([a-z0-9_.]*:\)/\1/' $kind.full > all.yml
    case $kind in
    experiment | policy | task) expect 0 "$SEFL" config check all.yml --for $kind; says ": valid: " ;;
    *)
        expect 1 "$SEFL" config check all.yml --for $kind
        printf '%s\n' "$out" | grep -v 'all.yml:[0-9]*:1: .*: No such file or directory$' && fail "$kind: $out"
        ;;
    esac
done
"$SEFL" init csp.yml > /dev/null
expect 1 "$SEFL" config check csp.yml; says 'csp.yml:9:1: tls.cert: cert.pem: No such file or directory'
printf 'listen: nowhere\n' > csp.yml
expect 1 "$SEFL" config check csp.yml; says 'csp.yml:1:1: listen: must be host:port'
printf 'clients: 4\nmodel:\n  block: 8\n  blok: 8\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:4:3: unknown setting "model.blok"; did you mean "model.block"?'
expect 1 "$SEFL" config check bad.yml --json; says '"ok":false,"error":"bad.yml:4:3: '
printf 'clients: 4\nrounds.count: many\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:1: rounds.count must be a whole number'
printf 'clients: [\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:'
expect 1 "$SEFL" config check nowhere.yml; says 'nowhere.yml'
expect 0 "$SEFL" config check experiment.yml --json; says '"ok":true'
# rules over several keys, of the experiment and of the task that it creates, with the line of the key
printf 'clients: 4\nprivacy.epsilon: 3\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:1: task: privacy.epsilon'
for key in data.path model.init; do # files that the run would read
    printf 'clients: 4\n%s: /nonexistent\n' $key > bad.yml
    expect 1 "$SEFL" config check bad.yml; says "bad.yml:2:1: $key: /nonexistent: No such file"
done
printf 'protection: sefl\nclients: 1\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:1: clients: the sum of one client'
printf 'clients: 4\nnetwork: { dropout: 0.5, exact: true }\nrounds.threshold: 3\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:26: network.exact: 2 of 4 clients drop out'; says "to 2 or less"
for key in 'model.body: transformer, heads: 5' 'model.tied: true, hidden: 40' 'model.batch: 65536, steps: 65536'; do
    printf 'clients: 4\nmodel: { %s }\n' "${key#model.}" > bad.yml
    expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:'; says ': task: model.'
done
for bits in 2048 3072 4096; do
    printf 'crypto: full\ncrypto.scheme: paillier\ncrypto.key_bits: %s\n' $bits > good.yml
    expect 0 "$SEFL" config check good.yml
done
printf 'crypto.scheme: paillier\ncrypto.seal: xwing\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:1: task: crypto.seal is xwing: it must be none'
printf 'a\nb\nc\n' > words.txt
printf 'model.init: words.txt\n' > bad.yml # no model
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:1:1: model.init: '; says '/words.txt: has 6 bytes: too short'
mkdir list && printf 'data.path: words.txt\ndata.vocab: list\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:2:1: data.vocab: '; says '/list is a folder'
# what the run takes from its text is not an error here
printf 'clients: 4\nnetwork: { dropout: 0.5, exact: true }\nprivacy.weights: capped\nrounds.patience: 3\n' > good.yml
expect 0 "$SEFL" config check good.yml
printf 'a b c\n' > alone.txt
printf 'rounds.patience: 3\ndata.path: alone.txt\n' > bad.yml
expect 1 "$SEFL" config check bad.yml; says 'bad.yml:1:1: task: rounds.patience is 3'
printf 'clients: 1\nprotection: none\nnetwork.exact: true\n' > good.yml
expect 0 "$SEFL" config check good.yml
for key in $("$SEFL" config keys --for policy | cut -d' ' -f1); do
    expect 0 "$SEFL" client --help; says "  $key "
done
printf 'rounds.enrolled: 10\nrounds.threshold: 11\n' > task.yml
expect 1 "$SEFL" config check task.yml; says 'task.yml:2:1: '
printf 'clients: [\n' > bad.yml
expect 2 "$SEFL" config; says "an action is required: check, keys or table"
expect 2 "$SEFL" config chek x; says "did you mean 'check'?"
expect 2 "$SEFL" config check; says "a settings file"
expect 2 "$SEFL" config check a b; says '"b"'
expect 2 "$SEFL" config keys a; says '"a"'
expect 2 "$SEFL" config check a --for x; says "--for must be one of"

# ---- doctor ------------------------------------------------------------------------------------
expect 0 "$SEFL" doctor; says "entropy"; says "GnuTLS"; says "0 failures"
expect 0 "$SEFL" doctor --json; says '"fail":0,"checks":[{"name":"cpu"'
expect 2 "$SEFL" doctor extra; says '"extra"'
expect 2 "$SEFL" doctor --for csp; says "requires -c"
"$SEFL" provision fed --clients 2 --port-base $((20000 + $$ % 12000)) > /dev/null 2>&1 || fail provision
for f in aggregator/aggregator csp/csp clients/client-01/client clients/client-01/policy; do
    expect 0 "$SEFL" config check fed/$f.yml; says ": valid: "
    expect 0 "$SEFL" doctor -c fed/$f.yml; says "0 failures"
done
expect 0 "$SEFL" doctor -c fed/clients/client-01/client.yml; says "client-01"; says "issued by a CA of tls.peers"
says "cannot be reached"
expect 0 "$SEFL" doctor -c fed/csp/csp.yml; says "ok    hosts"; says "for localhost,127.0.0.1,::1"
if command -v openssl > /dev/null; then # a server's certificate without a host
    for r in aggregator csp; do
        cp fed/$r/cert.pem kept.pem
        openssl req -new -key fed/$r/key.pem -subj "/OU=sefl $r/CN=$r" -out $r.csr
        openssl x509 -req -in $r.csr -CA fed/ca/$r/ca.pem -CAkey fed/ca/$r/ca.key -CAcreateserial -days 20 \
            -out fed/$r/cert.pem 2> /dev/null
        expect 1 "$SEFL" doctor -c fed/$r/$r.yml; says "fail  hosts"; says "--hosts NAME"
        cp kept.pem fed/$r/cert.pem
    done
fi
# everything that the role would refuse at start, with the line of the setting
cp fed/public/init.safetensors kept.model && printf x >> fed/public/init.safetensors
expect 1 "$SEFL" config check fed/aggregator/aggregator.yml; says "aggregator.yml:"; says "is not the initial model"
cp kept.model fed/public/init.safetensors
cp fed/csp/sign.key kept.key && cp fed/aggregator/sign.key fed/csp/sign.key
expect 1 "$SEFL" config check fed/csp/csp.yml; says ": task: "; says "the task names another CSP"
cp kept.key fed/csp/sign.key
cp fed/clients/client-01/policy.yml kept.yml && echo 'noise_modes: [loud]' > fed/clients/client-01/policy.yml
expect 1 "$SEFL" config check fed/clients/client-01/client.yml; says ": policy: "; says "policy.yml:1:1: noise_modes"
cp kept.yml fed/clients/client-01/policy.yml
sed 's|^csp_key: .*|csp_key: aggregator.pub|' fed/clients/client-01/client.yml > fed/clients/client-01/one.yml
expect 1 "$SEFL" config check fed/clients/client-01/one.yml --for client; says "one.yml:"; says "must be two different parties"
# what the runs of a sweep start from, and where: config check finds the run that fails, in the words of the run
sweep() { # FILE of words, swept SETTING, its VALUES
    printf 'clients: 2\nvocab.order: appearance\ndata: { path: fed/public/valid.txt, public: true }\n' > sweep.yml
    printf 'data.vocab: %s\nmodel.init: fed/public/init.safetensors\nsweep.%s: [%s]\n' "$@" >> sweep.yml
}
refused() { # PLACE SETTING=VALUE of the run that fails
    expect 1 "$SEFL" config check sweep.yml --for experiment; checked=$out
    out=$("$SEFL" simulate -c sweep.yml --set "sweep.$2" --runs sweep-runs 2>&1) && fail "runs: $out"
    [ "$checked" = "sefl config: sweep.yml:$1: ${out#sefl simulate: }" ] || fail "$checked, but the run: $out"
}
sweep fed/public/vocab.txt server.lr '1, 2'; expect 0 "$SEFL" config check sweep.yml
sweep fed/public/vocab.txt model.hidden '48, 40'; refused 5:1 model.hidden=40; says "model.hidden is 40"
sweep words.txt server.lr '1, 2'; refused 5:1 server.lr=2; says "the vocabulary has"
export SEFL_CUDA_PLUGIN="$dir/absent.so"
sweep fed/public/vocab.txt device 'cpu, cuda'; refused 6:1 device=cuda; says "cannot open the GPU plugin"
cp fed/csp/csp.yml fed/csp/wrong.yml
expect 0 "$SEFL" config check fed/csp/wrong.yml --for csp; says ": valid: "
bad() { # ROLE FILE LINE: config check refuses the setting at this line's place, as the role does at start
    grep -v "^${3%%:*}:" "$2" > "${2%/*}/bad.yml" && echo "$3" >> "${2%/*}/bad.yml"
    expect 1 "$SEFL" config check "${2%/*}/bad.yml" --for "$1"
    says "bad.yml:$(wc -l < "${2%/*}/bad.yml"):1: ${3%%:*}: "
}
for f in aggregator csp; do
    bad $f fed/$f/$f.yml 'state: cert.pem'; says "exists and is not a folder"
    bad $f fed/$f/$f.yml 'ready_file: nowhere/ready'; says "cannot create"
done
bad csp fed/csp/csp.yml 'ca: ../ca/aggregator'; says "names another server's folder"
bad aggregator fed/aggregator/aggregator.yml 'vocab: aggregator.yml'; says "not a vocabulary"
bad client fed/clients/client-01/client.yml 'proxy: ftp://proxy'; says "must be http://host:port"
bad client fed/clients/client-01/client.yml 'device: cuda'; says "cannot open the GPU plugin"
bad csp fed/csp/csp.yml 'key_lock: cert.pem'; says "key.sealed: the file does not open: wrong key file"
head -c 31 /dev/urandom > fed/csp/short.lock
bad csp fed/csp/csp.yml 'key_lock: short.lock'; says "has 31 bytes, a key file has at least 32"
# a settings file given to the wrong role
expect 2 "$SEFL" client -c fed/csp/csp.yml; says "csp.yml:2:1"; says "by its name, this file is for a cryptography"
# a folder without text, text that is not UTF-8: doctor reports it before the client runs
cp -r fed/clients/client-01 fed/clients/odd && rm fed/clients/odd/text/*
expect 1 "$SEFL" doctor -c fed/clients/odd/client.yml; says "fail  text"; says "contains no text files"
printf 'good\nbad \377 bad\n' > fed/clients/odd/text/notes.txt
expect 1 "$SEFL" doctor -c fed/clients/odd/client.yml; says "fail  text"; says "notes.txt:2"
# a client whose text is charged to another ledger
sed 's|^text: .*|text: ../client-02/text|' fed/clients/client-01/client.yml > fed/clients/odd/client.yml
expect 1 "$SEFL" doctor -c fed/clients/odd/client.yml; says "fail  ledger"; says "one text has one ledger"
mkdir none && printf 'data.path: none\n' > none.yml
expect 1 "$SEFL" doctor -c none.yml --for experiment; says "fail  data.path"; says "no training text"
cp fed/public/valid.txt kept.txt && printf '\377' >> fed/public/valid.txt
expect 1 "$SEFL" doctor -c fed/aggregator/aggregator.yml; says "fail  valid"; says "UTF-8"
cp kept.txt fed/public/valid.txt
chmod 644 fed/csp/sign.key
expect 0 "$SEFL" doctor -c fed/csp/csp.yml; says "other users can read"; says "(mode 644)"; says "chmod 600"
grep -v '^ca:' fed/csp/csp.yml > fed/csp/no-ca.yml
expect 1 "$SEFL" doctor --for csp -c fed/csp/no-ca.yml; says "CSP knows no clients"
cp fed/clients/client-01/key.pem fed/clients/client-02/key.pem
expect 1 "$SEFL" doctor -c fed/clients/client-02/client.yml; says "fail  certificate"
cp fed/clients/client-01/cert.pem fed/csp/cert.pem
cp fed/clients/client-01/key.pem fed/csp/key.pem
expect 1 "$SEFL" doctor -c fed/csp/csp.yml; says 'is for the role "client"'
rm fed/aggregator/ledger
expect 1 "$SEFL" doctor -c fed/aggregator/aggregator.yml; says "fail  ledger"
expect 1 "$SEFL" doctor -c fed/aggregator/aggregator.yml --json; says '"status":"fail"'
expect 1 "$SEFL" doctor -c bad.yml; says "fail  settings"
# a file whose name does not indicate a kind is read as an experiment, and the error says so, unless --for gives the
# kind
expect 1 "$SEFL" doctor -c fed/csp/wrong.yml; says "read as experiment"; says "pass --for KIND"
expect 1 "$SEFL" config check fed/csp/wrong.yml; says "read as experiment"
expect 1 "$SEFL" config check fed/csp/wrong.yml --for experiment; says "unknown setting"
case $out in *"read as"*) fail "a kind that was told is no guess: $out" ;; esac
printf 'listn: x\n' > csp.yml
expect 1 "$SEFL" config check csp.yml
case $out in *"read as"*) fail "a kind that the name tells is no guess: $out" ;; esac
echo ok
