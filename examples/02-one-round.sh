#!/bin/sh
# One round of a federation: a CSP, an aggregation server and three clients as processes connected by TLS. The result is
# the model after one step of federated averaging.
set -eu
sefl=${SEFL:-$(dirname "$0")/../build/sefl}
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"
fed=$dir/one-round

# creates keys, certificates, generated text and a task signed by both servers; with port 0 the system chooses the ports
"$sefl" provision "$fed" --clients 3 --words 800 --set rounds.count=1 --port-base 0
"$sefl" task show "$fed/public/task.signed" --explain | head -n 12

pids=
trap 'for p in $pids; do kill "$p" 2> /dev/null || :; done' EXIT INT TERM
start() { # NAME ARGUMENTS...: runs sefl in the background, with its log in a file
    log=$fed/$1.log
    shift
    "$sefl" "$@" > "$log" 2>&1 &
    pids="$pids $!"
}
ready() { until [ -s "$fed/$1/ready" ]; do sleep 0.1; done; cat "$fed/$1/ready"; }

start csp csp --config "$fed/csp/csp.yml"
start aggregator aggregator --config "$fed/aggregator/aggregator.yml" --csp "$(ready csp)" --linger 3
for c in 01 02 03; do
    start "client-$c" client --config "$fed/clients/client-$c/client.yml" --server "$(ready aggregator)"
done
for p in $pids; do wait "$p"; done # all processes exit when the task is over
pids=

# compares the models before and after the round on the public validation text
for model in public/init.safetensors aggregator/models/round-1.safetensors; do
    "$sefl" model eval "$fed/$model" --vocab "$fed/public/vocab.txt" --data "$fed/public/valid.txt"
done
"$sefl" privacy spent "$fed/csp/ledger" # both servers and every client keep a ledger
"$sefl" report "$fed"
