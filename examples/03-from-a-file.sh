#!/bin/sh
# A federation described in a file: what it will cost, the run itself, what happened. The simulator runs the
# same state machines as the servers do, in one process, and the same seed gives the same model.
set -eu
sefl=${SEFL:-$(dirname "$0")/../build/sefl}
case $sefl in /*) ;; *) sefl=$(pwd)/$sefl ;; esac
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"
cd "$dir"

# `sefl init` writes a file with every key and its comment; a short one does as well
cat > experiment.yml << 'END'
name: first
clients: 12
data.words: 500        # generated text; data.path names your own
rounds.count: 4
network.dropout: 0.1   # one client in ten is lost in a round
END
"$sefl" config check experiment.yml
"$sefl" plan --quick -c experiment.yml
"$sefl" simulate -c experiment.yml
"$sefl" report runs/first

# the same without protection, for comparison
"$sefl" simulate -c experiment.yml --set name=plain --set protection=none
"$sefl" compare runs/first runs/plain
