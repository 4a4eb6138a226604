#!/bin/sh
# sefl verify: a federation whose servers are killed in the middle is right; then each record is changed, and the
# command names the file and the line.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

verify() { # CODE ARGUMENTS...: output in $out
    want=$1
    shift
    code=0
    out=$("$SEFL" verify "$@" 2>&1) || code=$?
    [ "$code" -eq "$want" ] || fail "'sefl verify $*' exits $code, not $want: $out"
}

# Momentum: the optimiser's state must be kept for the models to follow. Few integers are kept, so that some are
# deleted.
fed_provision run --clients 3 --words 300 --set model.embed=16 --set model.hidden=16 --set rounds.count=9 \
    --set rounds.deadline_ms=60000 --set server.step=momentum
as=$fed/aggregator log=$fed/aggregator/state/audit.jsonl
keep="--integers-keep 2 --models-keep 2 --models-every 0 --audit 0"
# shellcheck disable=SC2086 # several words
fed_servers --linger 60 $keep
verify 0 "$fed"
fed_clients 1 2 3

released() { [ "$(grep -c '"kind":"released"' "$log")" -ge "$1" ]; }
closing() { [ "$(grep -c '"kind":"round_closed"' "$log")" -ge "$1" ]; }
fed_until 60 "two releases" released 2
verify 0 "$fed" # while the servers run
fed_kill KILL aggregator
fed_wait aggregator 10
verify 0 "$fed"
# shellcheck disable=SC2086
fed_aggregator --linger 60 $keep
fed_until 60 "closing of a round" closing 4
fed_kill KILL csp aggregator
fed_wait csp 10
fed_wait aggregator 10
verify 0 "$fed"
fed_csp
# shellcheck disable=SC2086
fed_aggregator --linger 60 $keep
times=0
until fed_ended csp || [ $times -ge 100 ]; do # both servers and the clients go on while it reads
    verify 0 "$fed"
    times=$((times + 1))
done
note "verified $times times while rounds ran"
[ $times -ge 1 ] || fail "the rounds were over before it could verify"
for name in client-01 client-02 client-03 csp; do fed_done $name 60; done
fed_kill TERM aggregator
fed_done aggregator 20

verify 0 "$fed"
says "$log: "
says "9 models released"
says "bit for bit"
says "their logs agree on 9 rounds"
says "everything that could be checked is right"
follow=$(printf '%s\n' "$out" | sed -n 's/.* \([0-9]*\) computed again.*/\1/p')
case $follow in [345]) ;; *) fail "$follow models follow" ;; esac
[ "$(find "$as/models" -name '*.integers' | wc -l)" -le 4 ] || fail "$(ls "$as/models")"
[ "$(stat -c %a "$log")" = 600 ] || fail "mode $(stat -c %a "$log")"
verify 0 "$fed" --json
json
says '"ok":true'
verify 0 "$fed" --task "$fed/public/task.signed"
# one server, one client
verify 0 "$as"
verify 0 "$fed/csp"
verify 0 "$fed/clients/client-01"
says "the aggregator signed"
# what is no folder of a federation
verify 1 "$dir/nowhere"
says "does not exist"
verify 1 "$fed/public"
says "no aggregator.yml"
mkdir "$dir/simulated"
touch "$dir/simulated/config.yml" "$dir/simulated/metrics.jsonl"
verify 1 "$dir/simulated"
says "is a simulation: it has no servers"
# the log has no key, and nothing of an update
if grep -q "PRIVATE\|SIGNING" "$log" "$fed/csp/state/audit.jsonl"; then fail "a key is in a log"; fi

# ---- tampering: each change is made in a copy ----
good=$fed
tampered() { # NAME: a fresh copy, $fed
    fed=$dir/tampered
    rm -rf "$fed"
    cp -r "$good" "$fed"
    note "tampering: $1"
}
a_pipe() { # FILE of the folder: the command does not wait for somebody to write; output in $out
    tampered "a pipe in the place of $1"
    rm -f "$fed/$1"
    mkdir -p "$(dirname "$fed/$1")"
    mkfifo "$fed/$1"
    code=0
    out=$(timeout 60 "$SEFL" verify "$fed" 2>&1) || code=$?
    [ "$code" -eq 1 ] || fail "'sefl verify' with a pipe as $1 exits $code: $out"
}
line_of() { grep -n "\"kind\":\"$1\"" "$2" | sed -n "${3}s/:.*//p"; } # KIND FILE NUMBER
flip() { # FILE BYTE: changes one bit
    old=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    chmod u+w "$1"
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %03o $((old ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> /dev/null
}

for role in aggregator csp; do
    for kind in started round_opened charged revealed checkpoint; do
        tampered "an entry $kind of $role"
        f=$fed/$role/state/audit.jsonl
        n=$(line_of "$kind" "$f" 2)
        sed -i "${n}s/\"kind\":\"$kind\"/\"kind\":\"$kind \"/" "$f"
        verify 1 "$fed"
        says "WRONG  $f: line $n: it was changed"
    done
done

tampered "a line is removed"
f=$fed/aggregator/state/audit.jsonl
n=$(line_of upload "$f" 3)
sed -i "${n}d" "$f"
verify 1 "$fed"
says "$f: line $n: it is entry $((n + 1)): entry $n is missing or was moved"

tampered "two lines are swapped"
sed -i "${n}{h;d};$((n + 1)){G}" "$f"
verify 1 "$fed"
says "$f: line $n: it is entry $((n + 1))"

tampered "the last lines are cut off"
all=$(wc -l < "$f")
sed -i "$((all - 2)),\$d" "$f"
verify 1 "$fed"
says "$f: line $((all - 2)) is missing: the log ends with line $((all - 3))"
expect 1 "$SEFL" aggregator --config "$fed/aggregator/aggregator.yml" --listen 127.0.0.1:0 --csp 127.0.0.1:1
says "audit.jsonl ends with entry"

tampered "the log and its head are cut off: the ledger and CSP know the rounds"
n=$(line_of checkpoint "$f" 4)
sed -i "$((n + 1)),\$d" "$f"
tail -n 1 "$f" > "$fed/aggregator/state/audit.head"
verify 1 "$fed"
says "$fed/aggregator/ledger: round 9 is charged, and the log has no entry about it"
says "is missing: $fed/csp/state/audit.jsonl line"

tampered "the log and its head are cut back to before the first round"
n=$(line_of checkpoint "$f" 1)
sed -i "$((n + 1)),\$d" "$f"
tail -n 1 "$f" > "$fed/aggregator/state/audit.head"
verify 1 "$fed/aggregator"
says "$fed/aggregator/ledger: round 1 is charged, and the log has no entry about it"
verify 1 "$fed"
says "$f: round 1 is missing: $fed/csp/state/audit.jsonl line"
rm "$fed/aggregator/ledger" "$fed/csp/state/audit.jsonl" "$fed/csp/state/audit.head" "$fed/csp/ledger"
verify 1 "$fed"
says "state/receipts: receipt 2: $f has no such upload in round 2"

tampered "audit.head is deleted"
rm "$fed/aggregator/state/audit.head"
verify 1 "$fed"
says "WRONG  $fed/aggregator/state/audit.head: it is missing"
expect 1 "$SEFL" aggregator --config "$fed/aggregator/aggregator.yml" --listen 127.0.0.1:0 --csp 127.0.0.1:1
says "audit.head is missing: put the newest log"

tampered "the log is deleted"
rm "$f"
verify 1 "$fed"
says "$f: the log is not there"
rm "$fed/aggregator/state/audit.head"
verify 1 "$fed"
says "$f: the log is not there"

if command -v python3 > /dev/null; then
tampered "a line is written again, with its right hash: the next line does not continue it"
n=$(line_of upload "$f" 2)
python3 - "$f" "$n" << 'END'
import hashlib, sys
path, n = sys.argv[1], int(sys.argv[2])
lines = open(path).read().split("\n")
body = lines[n - 1].split(',"hash":"')[0].replace('"kind":"upload"', '"kind":"Upload"')
lines[n - 1] = body + ',"hash":"' + hashlib.sha256(body.encode()).hexdigest() + '"}'
open(path, "w").write("\n".join(lines))
END
verify 1 "$fed"
says "$f: line $((n + 1)): it does not continue line $n: one of the two was replaced"

tampered "the whole chain is written again: the checkpoint's signature is wrong"
python3 - "$f" "$n" << 'END'
import hashlib, re, sys
path, n = sys.argv[1], int(sys.argv[2])
lines, prev = open(path).read().rstrip("\n").split("\n"), "0" * 64
for i, line in enumerate(lines):
    body = line.split(',"hash":"')[0]
    if i == n - 1:
        body = re.sub('"body":"..', '"body":"00', body)
    body = re.sub('"prev":"[0-9a-f]*"', '"prev":"%s"' % prev, body)
    prev = hashlib.sha256(body.encode()).hexdigest()
    lines[i] = body + ',"hash":"' + prev + '"}'
open(path, "w").write("\n".join(lines) + "\n")
END
tail -n 1 "$f" > "$fed/aggregator/state/audit.head"
verify 1 "$fed"
says "(checkpoint): the server did not sign it"
says "(round_closed): its set is not that of the uploads of round"

# without the key: no checkpoint, other entries, right hashes
cat > "$dir/forge.py" << 'END'
import hashlib, re, sys
path, keep_head = sys.argv[1], len(sys.argv) > 2
out, prev, n = [], "0" * 64, 0
for line in open(path).read().rstrip("\n").split("\n"):
    if keep_head and '"kind":"started"' in line and n == 0:
        line = re.sub('"task":"..', '"task":"00', line) # an unknown task
    elif '"kind":"checkpoint"' in line and not keep_head:
        continue
    n += 1
    body = re.sub('^{"n":[0-9]*', '{"n":%d' % n, line.split(',"hash":"')[0])
    body = body.replace('"time":1', '"time":2')
    body = re.sub('"prev":"[0-9a-f]*"', '"prev":"%s"' % prev, body)
    prev = hashlib.sha256(body.encode()).hexdigest()
    out.append(body + ',"hash":"' + prev + '"}')
open(path, "w").write("\n".join(out) + "\n")
END
for role in aggregator csp; do
    tampered "the log of $role is written again without checkpoints, and audit.head is deleted"
    f=$fed/$role/state/audit.jsonl
    python3 "$dir/forge.py" "$f"
    rm "$fed/$role/state/audit.head"
    verify 1 "$fed/$role"
    says "the checkpoint is missing that follows line 1"
    says "WRONG  $fed/$role/state/audit.head: it is missing: the log may lack its end"
done
f=$fed/aggregator/state/audit.jsonl
tampered "the same with the log's last line as audit.head: the server refuses it too"
python3 "$dir/forge.py" "$f"
tail -n 1 "$f" > "$fed/aggregator/state/audit.head"
verify 1 "$fed/aggregator"
says "the checkpoint is missing that follows line 1"
expect 1 "$SEFL" aggregator --config "$fed/aggregator/aggregator.yml" --listen 127.0.0.1:0 --csp 127.0.0.1:1
says "audit.jsonl is not the log that this server signed"

tampered "the log begins with a task that nobody knows: the signatures are still checked"
python3 "$dir/forge.py" "$f" unknown
verify 1 "$fed/aggregator"
says "(checkpoint): the server did not sign it"
fi

tampered "a record of the ledger"
flip "$fed/aggregator/ledger" $(($(stat -c %s "$fed/aggregator/ledger") - 60))
verify 1 "$fed"
says "WRONG  $fed/aggregator/ledger: record 9 does not continue the chain: it was changed"

tampered "the ledger's last record is cut off"
truncate -s -43 "$fed/csp/ledger"
verify 1 "$fed"
says "$fed/csp/ledger: record 10 is missing: $fed/csp/state/audit.jsonl line"

tampered "a model"
flip "$fed/aggregator/models/round-9.safetensors" 3000
verify 1 "$fed"
says "WRONG  $fed/aggregator/models/round-9.safetensors: it is not the file of round 9"

a_pipe aggregator/models/round-9.safetensors
says "round-9.safetensors is not a file"
a_pipe aggregator/models/round-9.integers
says "round-9.integers is not a file"

tampered "a model that nobody released"
cp "$fed/aggregator/models/round-9.safetensors" "$fed/aggregator/models/round-20.safetensors"
verify 1 "$fed"
says "round-20.safetensors: the log has no release of round 20"

tampered "a client's final model"
f=$(find "$fed/clients/client-02" -name 'round-9.safetensors')
chmod u+w "$f"
printf x >> "$f"
verify 1 "$fed"
says "WRONG  $f: it is not the model of round 9 in $fed/aggregator/state/audit.jsonl line"

tampered "a model that AS must keep is deleted"
rm "$fed/aggregator/models/round-8.safetensors"
verify 1 "$fed"
says "WRONG  $fed/aggregator/models/round-8.safetensors: it is missing"

tampered "the released integers"
flip "$fed/aggregator/models/round-9.integers" 100
verify 1 "$fed"
says "WRONG  $fed/aggregator/models/round-9.integers: it is not the file of round 9"

tampered "a receipt"
flip "$fed/clients/client-02/state/receipts" 100
verify 1 "$fed"
says "$fed/clients/client-02/state/receipts: receipt 1: it was changed"

tampered "a client's ledger is an old copy"
f=$fed/clients/client-02/ledger
truncate -s -43 "$f"
verify 1 "$fed"
says "WRONG  $f: round 9 is not charged, and receipt 9 in $fed/clients/client-02/state is of it: an old copy"

rm "$f"
verify 1 "$fed"
says "WRONG  $f: it is missing, and $fed/clients/client-02/state shows that the client uploaded to round 1"

tampered "another task"
"$SEFL" provision "$dir/other" --port-base 0 --clients 2 --words 300 > /dev/null 2>&1
verify 1 "$fed" --task "$dir/other/public/task.signed"
says "line 1 (started): its task names other servers' keys"

# ---- audits: AS audits every session, so there is no round ----
fed_provision audits --clients 3 --words 300 --set model.embed=16 --set model.hidden=16
good=$fed
fed_servers --audit 1
audited() { grep -q '"kind":"audited"' "$fed/aggregator/state/audit.jsonl"; }
fed_until 60 "an audit" audited
fed_kill KILL aggregator # a record may lack its entry
fed_wait aggregator 10
fed_kill TERM csp
fed_done csp 20
verify 0 "$fed"
says "ok     $fed/aggregator/state/audits: "
says "replayed: it was honest"

tampered "a record of an audit"
n=$(line_of audited "$fed/aggregator/state/audit.jsonl" 1)
session=$(sed -n "${n}s/.*\"session\":\"\(.\{16\}\).*/\1/p" "$fed/aggregator/state/audit.jsonl")
f=$fed/aggregator/state/audits/audit-$session.bin
flip "$f" 500
verify 1 "$fed"
says "WRONG  $f: it was changed: it is not the record that $fed/aggregator/state/audit.jsonl names in line $n"
rm "$f"
verify 1 "$fed"
says "WRONG  $fed/aggregator/state/audits: audit-$session.bin is missing: $fed/aggregator/state/audit.jsonl names it in line $n"

for f in aggregator/aggregator.yml aggregator/state/audits/audit-$session.bin aggregator/state/audit.head \
    aggregator/ledger clients/client-01/state/receipts public/task.signed; do
    a_pipe "$f"
    says "$(basename "$f")"
    says "is not a file"
done

tampered "things that are no files: all others are still checked"
mkdir -p "$fed/clients/zz/client.yml"
verify 0 "$fed"
says "note   $fed/clients/zz/client.yml: "
mkdir "$fed/aggregator/state/audits/audit-0000000000000000.bin"
verify 1 "$fed"
says "WRONG  $fed/aggregator/state/audits/audit-0000000000000000.bin: "
says "ok     $fed/csp/state/audit.jsonl: "
says "1 checks failed"

tampered "a record that somebody adds: of another CSP"
"$SEFL" audit "$dir/sample.bin" --sample
session=$("$SEFL" audit "$dir/sample.bin" | sed -n 's/^session *\(.\{16\}\).*/\1/p')
f=$fed/aggregator/state/audits/audit-$session.bin
mv "$dir/sample.bin" "$f"
verify 1 "$fed"
says "WRONG  $f: it names another CSP's key than the task"

echo "ok: every change was named"
