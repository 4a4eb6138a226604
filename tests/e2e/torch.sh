#!/bin/sh
# sefl.torch with PyTorch (make test-torch): its unit tests, the programs of docs/LIBRARY.md, and the examples in
# federations of real processes. The convolutional network must be as good as under plain FedAvg.
set -eu
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
python=/usr/bin/python3
PYTHONPATH=$SEFL_SOURCE/bindings/python
SEFL_LIBRARY=$(dirname "$SEFL")/libsefl.so
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 PYTHONPATH SEFL_LIBRARY

note "unit tests"
for tests in tests tests/with_torch; do
    timeout 300 $python -m unittest discover -s "$SEFL_SOURCE/bindings/python/$tests" > "$dir/out" 2>&1 || fail "$(cat "$dir/out")"
    grep '^Ran\|losses\|perplexity' "$dir/out"
    ! grep -q skipped "$dir/out" || fail "$tests: $(grep skipped "$dir/out")"
done

federate() { # NAME ROUNDS START SETTINGS...: an external task from a file; clients as "client N" of $program
    name=$1 rounds=$2 start=$3
    shift 3
    fed_names=
    fed_provision "$name" --clients 4 --init "$start" --set model.body=external --set "rounds.count=$rounds" \
        --set rounds.deadline_ms=60000 --set privacy.noise=none --set privacy.claim=none "$@"
    fed_servers --linger 2
    for i in 1 2 3 4; do
        # shellcheck disable=SC2086 # some programs have no word before the configuration
        fed_start "$name-$i" $python "$program" ${owner:+client $i} "$fed/clients/client-0$i/client.yml" \
            "server=$(cat "$fed/aggregator/at")"
    done
    fed_done aggregator 300
    for i in 1 2 3 4; do fed_done "$name-$i" 30; done
    last=$fed/aggregator/models/round-$rounds.safetensors
}
accuracy() { $python "$program" test "$1" | sed 's/accuracy 0*\.*//; s/\.//'; } # in units of 0.0001

note "examples/08-torch.py: four clients, 14 rounds, beside plain FedAvg"
program=$SEFL_SOURCE/examples/08-torch.py owner=yes
$python "$program" start "$dir/start.safetensors"
federate shapes 14 "$dir/start.safetensors" --set privacy.clip=8
got=$(accuracy "$last")
wanted=$($python - "$program" << 'END'
import importlib.util, sys
import torch
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
torch.set_num_threads(1)
model = example.network()
whole = {name: t.clone() for name, t in model.state_dict().items()}
owners = [example.pictures(owner) for owner in (1, 2, 3, 4)]
for r in range(1, 15):
    total = {name: 0 for name in whole}
    for mine in owners:
        model.load_state_dict(whole)
        example.train(model, *mine, seed=r)
        total = {name: total[name] + t / 4 for name, t in model.state_dict().items()}
    whole = total
model.load_state_dict(whole)
print(round(10000 * example.accuracy(model)))
END
)
note "accuracy $got, plain FedAvg $wanted (in units of 0.0001)"
[ "$got" -ge 9000 ] || fail "the network has not learned"
[ $((wanted - got)) -le 200 ] || fail "more than 2 % below plain FedAvg"

note "examples/09-adapter.py: only the adapters are trained"
program=$SEFL_SOURCE/examples/09-adapter.py
$python "$program" start "$dir/base.safetensors"
federate adapter 6 "$dir/base.safetensors" --set 'training.only=adapter.*' --set privacy.clip=4
grep -q "bytes for 708 values" "$dir/provision.out" || fail "$(cat "$dir/provision.out")"
before=$(accuracy "$dir/base.safetensors")
after=$(accuracy "$last")
note "accuracy $before before, $after after"
[ "$before" -lt 5000 ] || fail "the public network is already good"
[ "$after" -gt 9000 ] || fail "the adapters have not learned"
$python -c 'import sys; from sefl import safetensors
a, b = (safetensors.read(path)[0] for path in sys.argv[1:])
assert all(a[name] == b[name] for name in a if name.startswith("base."))
assert not any(a[name] == b[name] for name in a if name.startswith("adapter."))' "$dir/base.safetensors" "$last" ||
    fail "other tensors than the adapters changed"

note "docs/LIBRARY.md"
mkdir "$dir/tour"
awk -v dir="$dir/tour" '/^```python / { file = dir "/" $2; next } /^```/ { file = "" } file { print > file }' \
    "$SEFL_SOURCE/docs/LIBRARY.md"
program=$dir/tour/torch_client.py owner=
$python "$program" start "$dir/tour.safetensors"
federate toured 3 "$dir/tour.safetensors"
program=$dir/tour/numpy_client.py
federate numpy 2 "$dir/tour.safetensors"
"$SEFL" synth --out "$dir/text" > /dev/null 2>&1
"$SEFL" train --data "$dir/text" --max-steps 20 --out "$dir/run" > /dev/null 2>&1 || fail "train"
expect 0 $python "$dir/tour/generate.py" "$dir/run/model.safetensors" "$dir/run/vocab.txt"
[ "$(printf '%s' "$out" | wc -w)" -ge 10 ] || fail "generate.py prints: $out"

note "sefl try: its model opens with sefl.torch, and with PyTorch alone"
"$SEFL" try "$dir/text/train.txt" --out "$dir/try" --rounds 2 --set model.embed=16 --set model.hidden=16 \
    > "$dir/try.log" 2>&1 || fail "$(cat "$dir/try.log")"
expect 0 $python "$dir/tour/generate.py" "$dir/try/model.safetensors" "$dir/try/vocab.txt"
[ -n "$out" ] || fail "generate.py prints nothing"
[ "$(wc -l < "$dir/tour/plain_torch.py")" -le 25 ] || fail "the program without SEFL has more than 25 lines"
expect 0 $python "$dir/tour/plain_torch.py" "$dir/try/model-pytorch.safetensors" "$dir/try/vocab.txt"
[ -n "$out" ] || fail "plain_torch.py prints nothing"
echo ok
