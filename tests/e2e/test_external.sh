#!/bin/sh
# A federation whose model is external, of real processes: its tensors come from a safetensors file of another program,
# only one of them is trained, and each client's command trains it. Without noise, the new values are the average of
# the clients', and all other tensors keep every bit. There are no words, no text and no perplexity.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

# FILE OCTAL [EXAMPLES]: base (2 x 2, ones), adapter (4 values of the given bytes), scale (a number, 2)
one='\000\000\200\077' two='\000\000\000\100'
model() {
    header='{"base":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},'
    header=$header'"adapter":{"dtype":"F32","shape":[4],"data_offsets":[16,32]},'
    header=$header'"scale":{"dtype":"F32","shape":[],"data_offsets":[32,36]}'
    header=$header${3:+,\"__metadata__\":{\"weight\":\"$3\"\}}'}  '
    # shellcheck disable=SC2059 # the format is the bytes
    { printf "\\$(printf %o ${#header})\\000\\000\\000\\000\\000\\000\\000$header"
      printf "$one$one$one$one$2$2$2$2$two"; } > "$1"
}
model "$dir/init.safetensors" '\000\000\000\000'

fed_provision f --clients 3 --set model.body=external --init "$dir/init.safetensors" --set 'training.only=ad*' \
    --set rounds.count=2 --set privacy.noise=none --set privacy.clip=16
grep -q '^model *external, 9 values; an update has [0-9]* bytes for 4 values$' "$dir/provision.out" ||
    fail "$(cat "$dir/provision.out")"
[ ! -e "$fed/public/vocab.txt" ] || fail "an external model has a word list"
expect 0 "$SEFL" task show "$fed/public/task.signed"; says "external, 3 tensors: 9 values"
says "only ad*: 4 values"
expect 0 "$SEFL" task show --explain "$fed/public/task.signed"; says "Only these tensors are trained (1 of 3, 4 values)"

# a client without a trainer cannot take part
fed_servers --linger 2
fed_clients 1
fed_wait client-01 20
[ "$rc" -eq 1 ] || fail "client-01 exits $rc"
grep -q "the task's model is external: set .trainer." "$dir/log/client-01" || fail "the client gives no reason"

# client i trains the adapter to 1, 2 and 6: the average is 3
model "$dir/1" "$one"
model "$dir/2" "$two"
model "$dir/3" '\000\000\300\100'
for i in 1 2 3; do
    echo "trainer: cp '$dir/$i' \"\$SEFL_OUT\"" >> "$fed/clients/client-0$i/client.yml"
done
fed_clients 1 2 3
for i in 1 2 3; do fed_done client-0$i 60; done
fed_done aggregator 60
average() { # MODEL VALUE TOLERANCE: the adapter has this value, and the other tensors keep theirs
    got=$(tail -c 36 "$1" | od -An -tf4 -w36 | tr -s ' ')
    awk -v got="$got" -v want="$2" -v most="$3" 'BEGIN { n = split(got, v, " "); if (n != 9 || v[9] != 2) exit 1
        for (i = 1; i <= 4; i++) if (v[i] != 1) exit 1
        for (i = 5; i <= 8; i++) if (v[i] < want - most || v[i] > want + most) exit 1 }' || fail "the model is $got"
}
average "$fed/aggregator/models/round-2.safetensors" 3 0.02
for i in 1 2 3; do
    cmp -s "$fed/aggregator/models/round-2.safetensors" "$fed/clients/client-0$i/state/models"/*/round-2.safetensors ||
        fail "client-0$i does not have the final model"
done
expect 0 "$SEFL" model info "$fed/aggregator/models/round-2.safetensors"; says "external, for its own program"
says "F32  2 x 2"; says "F32  scalar"
expect 0 "$SEFL" report "$fed/aggregator"; says "perplexity  not measured"; says "clients     3 of 3 per round"
says "AS learned the exact sums"
grep -q "No noise, no differential privacy" "$fed/aggregator/report.html" || fail "the page has no red banner"
! grep -q '"sample":"' "$fed/aggregator/report.html" || fail "an external model generates no text"
! grep -q perplexity "$dir/log/aggregator" || fail "AS reports a perplexity"

# capped weights: each trainer names its number of examples, and 70 of the third one's 1000 count. The average is
# (10 x 1 + 20 x 2 + 70 x 6) / 100 = 4.7
model "$dir/1" "$one" 10
model "$dir/2" "$two" 20
model "$dir/3" '\000\000\300\100' 1000
fed_provision g --clients 3 --set model.body=external --init "$dir/init.safetensors" --set 'training.only=ad*' \
    --set rounds.count=2 --set privacy.noise=none --set privacy.clip=16 --set privacy.weights=capped \
    --set privacy.weight_cap=70
expect 0 "$SEFL" task show "$fed/public/task.signed"; says "capped: full weight from 70 examples"
for i in 1 2 3; do
    echo "trainer: cp '$dir/$i' \"\$SEFL_OUT\"" >> "$fed/clients/client-0$i/client.yml"
done
fed_servers --linger 2
fed_clients 1 2 3
for i in 1 2 3; do fed_done client-0$i 60; done
fed_done aggregator 60
average "$fed/aggregator/models/round-2.safetensors" 4.7 0.05

# the same, simulated; what is said about such a run
cat > "$dir/weighted.yml" << END
name: weighted
clients: 3
model: { body: external, init: init.safetensors }
training.only: adapter
privacy: { noise: none, clip: 16, weights: capped, weight_cap: 70 }
rounds.count: 2
trainer: cp "$dir/\${SEFL_CLIENT##*0}" "\$SEFL_OUT"
END
cd "$dir"
expect 0 "$SEFL" simulate -c weighted.yml
says "3 clients, 5 values, protection sefl"; says "(with a trainer: examples)"
average runs/weighted/model/last.safetensors 4.7 0.05
expect 0 "$SEFL" plan --quick -c weighted.yml; says "time and the memory of the trainer are not predicted"
case $out in *" words"* | *" train "[0-9]*) fail "the plan has words or a time of training: $out" ;; esac
expect 0 "$SEFL" compare runs/weighted "$fed/aggregator"; says "sefl (full)"
expect 0 "$SEFL" compare runs/weighted
echo "$out" | grep -q "^weighted  sefl  *3/3  *2/2  *-  *0  *none  *none  *-  *-  " || fail "$out"

# what is refused: settings exit 2, files 1
init=$dir/init.safetensors
refused() { # EXIT-CODE ARGUMENTS...
    code=$1
    shift
    expect "$code" "$SEFL" provision "$dir/no" --set model.body=external "$@"
}
refused 2; says "needs --init"
refused 2 --init "$init" --set model.embed=8; says "model.embed does not apply"
refused 2 --init "$init" --set training.only=lora; says '"lora" fits no tensor'
refused 1 --init "$init" --set 'model.tensors=base=2x2,adapter=4'; says "scale is not part of the model"
refused 1 --init "$init" --set 'model.tensors=base=4,adapter=4,scale=scalar'
says "tensor base does not have the shape 4"
refused 1 --init "$dir/provision.out"; says "provision.out"

# sefl config check reads the initial model of an experiment as the run does
printf 'model.body: external\nmodel.init: init.safetensors\ntrainer: "true"\n' > "$dir/run.yml"
expect 0 "$SEFL" config check "$dir/run.yml" --for experiment
echo 'model.tensors: { base: 2x2, adapter: 4 }' >> "$dir/run.yml"
expect 1 "$SEFL" config check "$dir/run.yml" --for experiment
says "run.yml:2:1: model.init: "; says "scale is not part of the model"
echo ok
