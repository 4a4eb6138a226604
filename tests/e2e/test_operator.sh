#!/bin/sh
# sefl operator: two organisations and a site reach a first round with eight commands; nobody is trusted silently.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
cd "$dir"
port=$((20000 + $$ % 9000))
sites=ward-1,ward-2,ward-3,ward-4,ward-5

# PARTY ARGUMENTS...: counts the command and runs it
by() {
    echo "$1 $2 ${3-}" >> "$dir/commands"
    shift
    expect 0 "$SEFL" "$@"
}
digits() { printf '%s\n' "$out" | sed -n 's/^digits *//p'; }

# ---- misuse -----------------------------------------------------------------------------------------
expect 2 "$SEFL" operator init north; says "--role is missing, and there is no terminal"
expect 2 "$SEFL" operator init north --role client; says "--role must be one of: aggregator csp"
expect 2 "$SEFL" operator init north --role csp --name South --host 'a b'; says "--host: "
expect 2 "$SEFL" operator init north --role csp --name South --host a --lock key.lock; says "absolute path"
expect 2 "$SEFL" operator init north --role aggregator --name North --host a --lock /x; says "only CSP"
expect 2 "$SEFL" operator init north --role aggregator --name North --host a --sites a,a; says "twice"
expect 2 "$SEFL" operator init north --role aggregator --name North --host a --sites 'a,b c'
expect 2 "$SEFL" operator init north --role aggregator --name North --host a --digits 00; says "--digits requires --peer"
[ -z "$(ls)" ] || fail "something is left: $(ls)"

# ---- two organisations ------------------------------------------------------------------------------
mkdir mail made
"$SEFL" synth --out made --clients 5 --tokens 3000 --seed 1 > /dev/null
by North operator init north --role aggregator --name North --host "127.0.0.1:$port" --sites $sites --population wards
says "never through"; says "by voice or"
north=$(digits)
cp north/aggregator.card mail/
# a wrong card, or wrong digits, or no digits: no trust
printf '%s\n' "$north" | grep -qE '^([0-9a-f]{8} ){7}[0-9a-f]{8}$' || fail "digits: $north"
expect 1 "$SEFL" operator init other --role csp --name South --host 127.0.0.1 --population wards \
    --peer mail/aggregator.card --digits "$(printf '%064d' 0)"
says "other digits"; says "operator trust"
[ ! -e other/aggregator.pub ] || fail "trusted"
if grep -q '^issuer' other/ca/trust; then fail "trusted: $(cat other/ca/trust)"; fi
expect 2 "$SEFL" operator trust other --peer mail/aggregator.card; says "pass --digits"
expect 2 "$SEFL" operator trust other --peer mail/aggregator.card --digits 12; says "64 hex digits"
sed 's/^name North/name Nord/' mail/aggregator.card > forged.card
expect 1 "$SEFL" operator trust other --peer forged.card --digits "$north"; says "other digits"
head -n 3 mail/aggregator.card > short.card
expect 1 "$SEFL" operator trust other --peer short.card --digits "$north"; says "not a card"
expect 2 "$SEFL" operator trust north --peer mail/aggregator.card --digits "$north"; says "different roles"
expect 0 "$SEFL" operator init wrong --role csp --name South --host 127.0.0.1
expect 2 "$SEFL" operator trust wrong --peer mail/aggregator.card --digits "$north"; says "same --population"
expect 1 "$SEFL" operator sign other --task mail/aggregator.card --yes
rm -r other wrong

mkdir usb
by South operator init south --role csp --name South --host "127.0.0.1:$((port + 1))" --sites $sites --population wards \
    --lock "$dir/usb/lock" --peer mail/aggregator.card --digits "$north"
says 'trusts the aggregator "North"'
south=$(digits)
cp south/csp.card mail/
expect 1 "$SEFL" operator task north --text made/valid.txt; says "pass its card with --peer"
by North operator task north --peer mail/csp.card --digits "$south" --text made/valid.txt --rounds 1
says "epsilon 3"; says "with 3 to 5 sites"; says "after 10 min"; says "needs about"
says "Mode joint: CSP must be honest"; says " under own, "; says "SEFL proposes"
cp north/tasks/task/task.half mail/
expect 1 "$SEFL" operator task north --text made/valid.txt; says "already exists"
expect 2 "$SEFL" operator sign north --task mail/task.half --yes; says "AS's folder"
expect 2 "$SEFL" operator sign south --task mail/task.half; says "pass --yes"; [ ! -e south/tasks/task ] || fail "signed silently"
by South operator sign south --task mail/task.half --yes
says "epsilon"; says "signed by both"
cp south/tasks/task/task.signed mail/ && cp mail/task.signed north/tasks/task/

# ---- the first round --------------------------------------------------------------------------------
echo "South csp" >> commands
fed_start csp "$SEFL" csp -c south/csp.yml
echo "North aggregator" >> commands
fed_start aggregator "$SEFL" aggregator -c north/aggregator.yml --linger 2
fed_until 20 "aggregator" test -s north/ready
fed_until 20 "link" grep -q "link to CSP is up" log/aggregator
for n in 1 2 3 4 5; do
    if [ $n = 1 ]; then by=by; else by=others; fi
    others() { shift && expect 0 "$SEFL" "$@"; }
    $by Site enroll site-$n --server "127.0.0.1:$port" --aggregator-token "@north/tokens/ward-$n" \
        --csp-token "@south/tokens/ward-$n"
    cp "made/client-00$((n - 1))/train.txt" site-$n/text/
    [ $n != 1 ] || echo "Site client" >> commands
    fed_start site-$n "$SEFL" client -c site-$n/client.yml
done
for n in 1 2 3 4 5; do fed_done site-$n 60; done
ls north/models/task-*/round-1.safetensors > /dev/null || fail "no first round"

# a second task needs no restart of the servers
expect 1 "$SEFL" operator task north --text made/valid.txt --rounds 1 --set name=second --epsilon 2
says "has spent epsilon 3.0000 already"
expect 1 "$SEFL" operator task north --text made/valid.txt --rounds 1 --epsilon 5
says "another name"
expect 0 "$SEFL" operator task north --text made/valid.txt --rounds 1 --set name=second --epsilon 5
says "epsilon 5 for a client, in all tasks"
expect 0 "$SEFL" operator sign south --task north/tasks/second/task.half --yes
cp south/tasks/second/task.signed north/tasks/second/
fed_until 30 "the second task" grep -q "serving a task.*second" log/aggregator
for party in aggregator csp; do
    fed_kill TERM $party
    fed_wait $party 20
done
[ "$(wc -l < commands)" -le 8 ] || fail "more than eight commands: $(cat commands)"
expect 0 "$SEFL" privacy spent south/ledger; says "1 round of 1 task"
cmp north/ledger south/ledger || fail "the ledgers differ"

# nothing secret left its machine
[ "$(ls mail)" = "$(printf 'aggregator.card\ncsp.card\ntask.half\ntask.signed')" ] || fail "mail: $(ls mail)"
[ -z "$(find north south usb -perm /077 \( -name '*.key' -o -name key.pem -o -name lock -o -path '*/tokens/*' \))" ] ||
    fail "a secret is open to others"
grep -q "^key_lock: $dir/usb/lock$" south/csp.yml || fail "the lock"
note "$(wc -l < commands) commands to a first round"

# ---- on a terminal: the questions one after another --------------------------------------------------
command -v python3 > /dev/null || exit 0
cat > talk.py << 'END'
import os, pty, sys, time

def talk(argv, answers):
    """Runs argv on a terminal; gives each answer when its prompt has appeared. Returns output and exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    said, at, end = "", 0, time.time() + 60
    while time.time() < end:
        try:
            got = os.read(fd, 4096).decode()
        except OSError:
            got = ""
        if not got:
            break
        said += got
        while answers and answers[0][0] in said[at:]:
            at = said.index(answers[0][0], at) + len(answers[0][0])
            os.write(fd, (answers.pop(0)[1] + "\n").encode())
    assert not answers, ("not asked: ", answers, said)
    return said, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

sefl = sys.argv[1]
said, code = talk([sefl, "operator", "init", "west", "--name", "West"], [
    ("role: ", "client"), ("role: ", "csp"), ("host: ", "csp.west.example"), ("population [sites]: ", "wards"),
    ("lock: ", ""), ("sites: ", ""), ("peer: ", "no-such-file"), ("peer: ", "mail/aggregator.card"),
    ("Type yes or no: ", "no")])
assert code == 1 and "must be aggregator or csp" in said and "No such file" in said, said
assert not os.path.exists("west/aggregator.pub") and os.path.exists("west/key.lock"), said
said, code = talk([sefl, "operator", "trust", "west", "--peer", "mail/aggregator.card"], [("Type yes or no: ", "yes")])
assert code == 0 and 'trusts the aggregator "North"' in said, said
assert sys.argv[2] in said, said
END
python3 talk.py "$SEFL" "$north" || fail "on a terminal"
note "the same on a terminal"
