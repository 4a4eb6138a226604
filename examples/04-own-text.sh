#!/bin/sh
# Train on your own text, a folder with train.txt and valid.txt. The script splits the training text among the clients.
# The validation text is public, and so is the word list, which contains only words of the validation text.
#
#     examples/04-own-text.sh WORKFOLDER TEXTFOLDER
set -eu
sefl=${SEFL:-$(dirname "$0")/../build/sefl}
case $sefl in /*) ;; *) sefl=$(pwd)/$sefl ;; esac
text=${2:-}
case $text in /* | "") ;; *) text=$(pwd)/$text ;; esac
dir=${1:-$(mktemp -d)}
mkdir -p "$dir"
cd "$dir"

if [ -z "$text" ]; then # no text was given: generate some
    text=text
    "$sefl" synth --out text --clients 1 --tokens 8000 --seed 7 > /dev/null
    rm -r text/client-000
fi
"$sefl" data stats "$text"

# 1. prepare a federation of processes: keys, and one folder per client with its share of the text
"$sefl" provision trial --clients 4 --data "$text" --set rounds.count=2
wc -w trial/clients/*/text/train.*

# 2. or use the same text in the simulator
cat > own.yml << END
name: own
data.path: $text
clients: 4
rounds.count: 3
END
"$sefl" simulate -c own.yml
"$sefl" model generate runs/own/model/last.safetensors --vocab runs/own/vocab.txt --words 30
