#!/bin/sh
# The Python binding: its unit tests, an installation with pip, and clients in Python in federations of real processes:
# the example and the programs of docs/LIBRARY.md (torch.sh runs those that need PyTorch).
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
python=/usr/bin/python3
[ -x $python ] || python=python3
export PYTHONDONTWRITEBYTECODE=1

note "unit tests, over a stand-in library"
$python -m unittest discover -s "$SEFL_SOURCE/bindings/python/tests" > "$dir/out" 2>&1 || fail "$(cat "$dir/out")"
# A program without the runtime of a sanitizer cannot load a library with one.
[ -z "${SEFL_SANITIZE:-}" ] || exit 0
SEFL_LIBRARY=$(dirname "$SEFL")/libsefl.so
export SEFL_LIBRARY

note "an installation with pip, without a network"
cp -r "$SEFL_SOURCE/bindings/python" "$dir/source"
$python -m venv --system-site-packages "$dir/venv"
"$dir/venv/bin/pip" install --no-index --no-build-isolation "$dir/source" > "$dir/out" 2>&1 || fail "$(cat "$dir/out")"
cd "$dir"
python=$dir/venv/bin/python
expect 0 "$python" -c 'import sefl; print(sefl.__file__, sefl.library_version())'
says "$dir/venv/lib"

note "docs/LIBRARY.md: a federation in which all processes but one client are its programs"
mkdir "$dir/tour"
awk -v dir="$dir/tour" '/^```python / { file = dir "/" $2; next } /^```output / { file = dir "/" $2 ".shown"; next }
    /^```/ { file = "" } file { print > file }' "$SEFL_SOURCE/docs/LIBRARY.md"
for program in "$dir"/tour/*.py; do "$python" -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$program"; done
"$python" "$dir/tour/plan.py" > "$dir/out"
cmp "$dir/out" "$dir/tour/plan.py.shown" || fail "plan.py prints $(cat "$dir/out")"
fed_provision toured --clients 3 --words 300 --set rounds.count=3
fed_start tour-csp "$python" "$dir/tour/server.py" csp "$fed/csp/csp.yml" listen=127.0.0.1:0
fed_until 20 "csp of the tour" test -s "$fed/csp/ready"
fed_start tour-as "$python" "$dir/tour/server.py" aggregator "$fed/aggregator/aggregator.yml" listen=127.0.0.1:0 \
    linger=2 "csp=$(cat "$fed/csp/ready")"
fed_until 20 "aggregator of the tour" test -s "$fed/aggregator/ready"
cp "$fed/aggregator/ready" "$fed/aggregator/at"
for i in 1 2; do
    fed_start "tour-$i" "$python" "$dir/tour/client.py" "$fed/clients/client-0$i/client.yml" \
        "server=$(cat "$fed/aggregator/at")"
done
fed_clients 3
for i in as csp 1 2; do fed_done "tour-$i" 60; done
fed_done client-03 30
for i in 1 2; do
    [ "$(grep -c '^[123] of 3 receipt' "$dir/log/tour-$i")" = 3 ] || fail "not three receipts: tour-$i"
    grep -q "^over: all rounds are done" "$dir/log/tour-$i" || fail "tour-$i did not learn the end"
done
grep -q "^round 3 clients 3" "$dir/log/tour-as" || fail "the server of the tour tells no rounds"
said=$("$SEFL_TOOLS/audit" "$fed" 2>&1) || fail "$said"
case $said in *"rounds 3 released 3 skipped 0 receipts 9"*) ;; *) fail "audit: $said" ;; esac
expect 0 "$python" -c 'import sefl, sys; print(sefl.privacy.ledger(sys.argv[1]).rounds, "rounds")' \
    "$fed/clients/client-01/ledger"
says "3 rounds"

note "examples/07-client.py: a line through the points of three owners"
example=$SEFL_SOURCE/examples/07-client.py
[ "$(wc -l < "$example")" -le 40 ] || fail "the example has more than 40 lines"
"$python" "$example" start "$dir/start.safetensors"
fed_provision line --clients 3 --init "$dir/start.safetensors" --set model.body=external --set rounds.count=6 \
    --set privacy.noise=none --set privacy.claim=none
fed_servers --linger 2
for i in 1 2 3; do # y = 2 x - 1; each owner has other x
    awk -v i=$i 'BEGIN { for (k = 0; k < 20; k++) { x = (k + i * 7) % 23 / 8 - 1; printf "%g,%g\n", x, 2 * x - 1 } }' \
        > "$dir/points-$i.csv"
    fed_start "line-$i" "$python" "$example" "$fed/clients/client-0$i/client.yml" "$dir/points-$i.csv" \
        "server=$(cat "$fed/aggregator/at")"
done
fed_done aggregator 60
for i in 1 2 3; do
    fed_done "line-$i" 20
    grep -q "^round 6 of 6: Receipt" "$dir/log/line-$i" || fail "no receipt for round 6: line-$i"
done
expect 0 "$python" -c 'import sys; from sefl import safetensors
a, b = safetensors.read(sys.argv[1])[0]["line"]
print("a", a, "b", b)
assert abs(a - 2) < 0.05 and abs(b + 1) < 0.05' "$fed/aggregator/models/round-6.safetensors"
note "the line: $out"

note "vectors of 10 and of 100,000 values: round 2 starts from the average of what two clients submit"
cat > "$dir/vector.py" << 'END'
import sys
from array import array
import sefl
config, server, number = sys.argv[1:]
with sefl.Client(config, settings={"server": server}) as client:
    for r in client:
        n = len(r.values)
        pattern = array("f", ((k % 5 - 2) / (n / 2) ** 0.5 for k in range(n)))  # its norm is 2
        if r.number == 1:
            r.submit(array("f", (int(number) * p for p in pattern)))
        else:
            assert all(abs(v - 1.5 * p) < 0.01 * pattern[4] for v, p in zip(r.values, pattern))
            r.submit()
            print(n, "values average")
END
for n in 10 100000; do
    fed_provision "vector-$n" --clients 2 --set model.body=external --set "model.tensors=v=$n" --set rounds.count=2 \
        --set privacy.noise=none --set privacy.claim=none
    fed_servers --linger 2
    for i in 1 2; do
        fed_start "vector-$n-$i" "$python" "$dir/vector.py" "$fed/clients/client-0$i/client.yml" \
            "$(cat "$fed/aggregator/at")" $i
    done
    fed_done aggregator 60
    for i in 1 2; do
        fed_done "vector-$n-$i" 20
        grep -q "^$n values average" "$dir/log/vector-$n-$i" || fail "vector-$n-$i compared nothing"
    done
done

note "Ctrl-C ends a waiting client"
fed_provision stop --clients 3 --words 400 --set rounds.count=3
fed_servers --linger 2
fed_start waits "$python" -c 'import sefl, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for background jobs
client = sefl.Client(sys.argv[1], settings={"server": sys.argv[2]}, progress=lambda p: print(p.doing, flush=True))
try:
    for r in client:
        r.submit()
except KeyboardInterrupt:
    client.close()
    print("interrupted")
' "$fed/clients/client-01/client.yml" "$(cat "$fed/aggregator/at")"
waits() { grep -q waiting "$dir/log/waits"; }
fed_until 20 "a waiting client" waits
fed_kill INT waits
fed_done waits 10
grep -q interrupted "$dir/log/waits" || fail "not interrupted"
