#!/bin/sh
# An experiment in a file: predict its cost, run it, report the result. The simulator runs the state machines of the
# real servers in one process, and the same seed gives the same model.
set -eu
sefl=${SEFL:-$(dirname "$0")/../build/sefl}
case $sefl in /*) ;; *) sefl=$(pwd)/$sefl ;; esac
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"
cd "$dir"

# `sefl init` writes a file with every key, but a short file is enough
cat > experiment.yml << 'END'
name: first
clients: 12
data.words: 500        # tokens of generated text per client; for your own text, set data.path
rounds.count: 4
network.dropout: 0.1   # one client in ten drops out of each round
END
"$sefl" config check experiment.yml
"$sefl" plan --quick -c experiment.yml
"$sefl" simulate -c experiment.yml
"$sefl" report runs/first

# the same experiment without protection, for comparison
"$sefl" simulate -c experiment.yml --set name=plain --set protection=none
"$sefl" compare runs/first runs/plain
