#!/bin/sh
# The cost of dropouts: the same federation loses none, a third and two thirds of its clients in every round. The sum is
# correct for the updates that arrived, so a dropout costs training text but not correctness.
set -eu
sefl=${SEFL:-$(dirname "$0")/../build/sefl}
case $sefl in /*) ;; *) sefl=$(pwd)/$sefl ;; esac
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"
cd "$dir"

cat > dropout.yml << 'END'
name: dropout
clients: 12
data.words: 400
rounds.count: 4
rounds.threshold: 2                     # a round with fewer clients is skipped
sweep.network.dropout: [0, 0.33, 0.66]  # three runs, one after the other
END
"$sefl" simulate -c dropout.yml
"$sefl" compare runs/dropout-*
"$sefl" report runs/dropout-*           # one page: the curves of all runs in the same chart
