#!/bin/sh
# sefl key: generates, shows and checks a root and a pair; errors name wrong usage and damaged files.
set -eu
[ "${SEFL_CORE_ONLY:-0}" = 1 ] && { echo "not part of a core-only build"; exit 0; }
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
expect() { # CODE command...: runs it without a terminal, output in $out
    want=$1
    shift
    rc=0
    out=$(setsid -w "$@" 2>&1 < /dev/null) || rc=$?
    [ "$rc" -eq "$want" ] || fail "'$*' exits $rc, not $want: $out"
}
pair=--scheme=paillier
mode() { stat -c %a "$1"; }

cd "$dir"
umask 022
echo "a passphrase of some length" > pass
echo "another passphrase altogether" > other
head -c 32 /dev/urandom > lock
chmod 600 pass other lock

# usage
expect 2 "$SEFL" key; says "new, show, check or sign"
expect 2 "$SEFL" key nwe; says "did you mean 'new'?"
expect 2 "$SEFL" key new; says "--out"
expect 2 "$SEFL" key new "$pair" --out k --bits 1024 --passphrase-file pass; says "one of: 2048 3072 4096"
expect 2 "$SEFL" key new "$pair" --out k --bits 2500 --passphrase-file pass; says "one of: 2048 3072 4096"
expect 2 "$SEFL" key new --out k --bits many; says "not \"many\""
expect 2 "$SEFL" key new --out k --bist 2048; says "did you mean --bits?"
expect 2 "$SEFL" key new --out k --memory 63; says "from 64 to 512"
expect 2 "$SEFL" key new --out k extra; says '"extra"'
expect 2 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file pass --key-file lock; says "cannot be combined"
expect 2 "$SEFL" key new "$pair" --out k --bits 2048; says "no terminal"
expect 2 "$SEFL" key new --out k --scheme lew; says "one of: pad paillier"
expect 2 "$SEFL" key new --out k --bits 2048 --passphrase-file pass; says "--scheme paillier"
expect 2 "$SEFL" key show; says "requires a key file"
expect 2 "$SEFL" key check; says "requires a secret key file"
expect 1 "$SEFL" key show nowhere; says "nowhere"
expect 0 "$SEFL" key --help; says "example:"
: > empty; printf 'short\n' > short; printf 'one long line\nand a second one\n' > lines
chmod 600 empty short lines
expect 2 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file empty; says "no passphrase"
expect 2 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file short; says "too easy to guess"
expect 2 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file lines; says "more than one line"
expect 2 "$SEFL" key new "$pair" --out k --bits 2048 --key-file short; says "at least 32"
expect 1 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file absent; says "absent"
expect 2 "$SEFL" key new "$pair" --out "" --bits 2048 --passphrase-file pass
expect 1 "$SEFL" key new "$pair" --out no/such/k --bits 2048 --passphrase-file pass; says "no/such/k.pub"
for f in k.key k.pub csp.key; do [ ! -e $f ] || fail "$f was left behind"; done

# a root, the default without --scheme
expect 0 "$SEFL" key new --memory 64 --out r --passphrase-file pass; says "pad: the root"; says "r.key"; says "64 MiB"
[ "$(mode r.key)" = 600 ] || fail "r.key has mode $(mode r.key)"
[ ! -e r.pub ] || fail "a root has no public half"
expect 1 "$SEFL" key new --out r --passphrase-file pass; says "--force"
expect 0 "$SEFL" key show r.key; says "pad: the root"; says "passphrase, Argon2id"; says "without unlocking"
print=$(printf '%s\n' "$out" | sed -n 's/^fingerprint *//p')
expect 0 "$SEFL" key check r.key --passphrase-file pass; says "opens"; says "$print"
expect 1 "$SEFL" key check r.key --passphrase-file other; says "r.key"; says "wrong passphrase"
expect 2 "$SEFL" key check r.key --passphrase-file pass --pub r.key; says "no public half"
expect 0 "$SEFL" key show --json r.key; says '"scheme":"pad","bits":256,'
head -c 100 r.key > cut.key
expect 1 "$SEFL" key check cut.key --passphrase-file pass; says "cut.key"
expect 0 "$SEFL" key new --out r --key-file lock --memory 64 --force; says "key file, Argon2id"
case $out in *"$print"*) fail "the same root twice" ;; esac
expect 0 "$SEFL" key check r.key --key-file lock; says "opens"
mkdir folder
expect 0 "$SEFL" key new --out folder --key-file lock --memory 64; says "folder/csp.key"
mkdir r2.key
expect 1 "$SEFL" key new --out r2 --key-file lock --memory 64 --force; says "r2.key"
rmdir r2.key

# a pair under a passphrase
expect 0 "$SEFL" key new "$pair" --bits 2048 --memory 64 --out k --passphrase-file pass; says "2048 bits"; says "k.pub"; says "64 MiB"
[ "$(mode k.key)" = 600 ] || fail "k.key has mode $(mode k.key)"
[ "$(mode k.pub)" = 644 ] || fail "k.pub has mode $(mode k.pub)"
expect 1 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file pass; says "--force"
expect 0 "$SEFL" key show k.pub; says "2048 bits"
print=$(printf '%s\n' "$out" | sed -n 's/^fingerprint *//p')
expect 0 "$SEFL" key show k.key; says "$print"; says "passphrase, Argon2id"; says "without unlocking"
expect 0 "$SEFL" key check k.key --passphrase-file pass; says "public key matches"; says "$print"
case $out in *warning*) fail "a warning: $out" ;; esac
expect 1 "$SEFL" key check k.key --passphrase-file other; says "wrong passphrase"
expect 2 "$SEFL" key check k.key --key-file lock; says "locked with a passphrase"
expect 2 "$SEFL" key check k.key; says "no terminal"
expect 2 "$SEFL" key check k.pub; says "is a public key"
printf 'a passphrase of some length\r\n' > crlf
chmod 644 crlf
expect 0 "$SEFL" key check k.key --passphrase-file crlf; says "warning: other users can read crlf"

# JSON on stdout, with other messages on stderr
json=$(setsid -w "$SEFL" key show --json k.key 2> /dev/null)
case $json in '{"kind":"secret",'*'"bits":2048,'*'"kdf":"argon2id"'*'}') ;; *) fail "$json" ;; esac
if command -v python3 > /dev/null; then
    printf '%s' "$json" | python3 -c 'import json,sys; k = json.load(sys.stdin)
assert len(k["fingerprint"]) == 64 and k["verified"] is False and k["kdf_kib"] == 65536' ||
        fail "show --json"
fi

# a pair under a key file, in a folder; the pairs do not mix
mkdir box
expect 0 "$SEFL" key new "$pair" --out box --bits 2048 --key-file lock --json --memory 64; says '"locked_by":"key file"'
for f in box/csp.key box/csp.pub; do [ -f $f ] || fail "no $f"; done
expect 2 "$SEFL" key check box/csp.key --passphrase-file pass; says "pass --key-file"
expect 1 "$SEFL" key check box/csp.key --key-file lock --pub k.pub; says "is not the public half"
cp box/csp.key alone.key
expect 0 "$SEFL" key check alone.key --key-file lock; says "no public key file to compare"

# damage
sed 's/^bits: 2048/bits: 3072/' k.pub > bad.pub
expect 1 "$SEFL" key show bad.pub; says "bad.pub"; says "was changed"
head -c 300 k.pub > cut.pub
expect 1 "$SEFL" key show cut.pub; says "cut.pub"
head -c 800 k.key > cut.key
expect 1 "$SEFL" key check cut.key --passphrase-file pass; says "cut.key"
{ head -c 700 k.key; printf 'XXXX'; tail -c +705 k.key; } > hit.key
expect 1 "$SEFL" key check hit.key --passphrase-file pass; says "does not open"
expect 1 "$SEFL" key show pass; says "neither a public nor a secret key"
head -c 100000 /dev/zero > big
expect 1 "$SEFL" key show big; says "too large"
expect 2 "$SEFL" key show box; says "box"

# --force replaces both, and the usual cost is 256 MiB
expect 0 "$SEFL" key new "$pair" --out k --bits 2048 --passphrase-file other --force; says "256 MiB"
case $out in *"$print"*) fail "the same key twice" ;; esac
expect 0 "$SEFL" key check k.key --passphrase-file other; says "public key matches"
for f in *tmp-*; do [ ! -e "$f" ] || fail "$f is left"; done

# if the public key cannot be written, the secret key is removed too
mkdir -p half; mkdir half/csp.pub
expect 1 "$SEFL" key new "$pair" --out half/ --bits 2048 --passphrase-file pass; says "csp.pub exists"
[ ! -e half/csp.key ] || fail "half a pair"

# --force that fails leaves the old pair as it was, whichever file cannot be replaced
mkdir old; cp k.key k.pub old
rm k.pub; mkdir k.pub
expect 2 "$SEFL" key new "$pair" --out k --bits 2048 --memory 64 --passphrase-file pass --force; says "k.pub"
cmp k.key old/k.key || fail "a secret key was lost"
rmdir k.pub; cp old/k.pub k.pub; rm k.key; mkdir k.key
expect 1 "$SEFL" key new "$pair" --out k --bits 2048 --memory 64 --passphrase-file pass --force; says "k.key"
cmp k.pub old/k.pub || fail "a public key was lost"
rmdir k.key; cp old/k.key k.key
expect 0 "$SEFL" key check k.key --passphrase-file other; says "public key matches"

# a key that cannot be locked in memory: a warning, no more
drop="" # root may lock memory beyond the limit
[ "$(id -u)" -ne 0 ] || drop="setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock"
# (sanitizers turn mlock into a no-op that reports success)
if [ -z "${SEFL_SANITIZE:-}" ] && $drop true 2> /dev/null; then
    expect 0 sh -c "ulimit -l 0; exec $drop '$SEFL' key new $pair --bits 2048 --memory 64 --out w --passphrase-file pass"
    says "warning: the key cannot be locked"
fi

# on a terminal: the passphrase is asked for twice, without echo
if command -v python3 > /dev/null; then
    cat > ask.py << 'PY'
import os, pty, sys
answers = [a.encode() for a in sys.argv[1].split("|")]
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen, asked = b"", 0
while True:
    try:
        piece = os.read(fd, 1024)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    while asked < len(answers) and seen.count(b"phrase: ") + seen.count(b"more: ") > asked:
        os.write(fd, answers[asked] + b"\n" if answers[asked] != b"^C" else b"\x03")
        asked += 1
_, status = os.waitpid(pid, 0)
sys.stdout.write(seen.decode(errors="replace"))
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 100 + os.WTERMSIG(status))
PY
    expect 0 python3 ask.py "typed by hand, twice|typed by hand, twice" \
        "$SEFL" key new "$pair" --bits 2048 --memory 64 --out t; says "repeat passphrase:"; says "generating a 2048-bit key ."
    case $out in *"typed by hand"*) fail "the passphrase was echoed" ;; esac
    expect 0 python3 ask.py "typed by hand, twice" "$SEFL" key check t.key; says "matches"
    expect 1 python3 ask.py "typed by hand, wrong" "$SEFL" key check t.key; says "wrong passphrase"
    expect 2 python3 ask.py "typed by hand, once|typed by hand, twice" \
        "$SEFL" key new "$pair" --out u --bits 2048; says "differ"
    expect 2 python3 ask.py "brief|brief" "$SEFL" key new "$pair" --out u --bits 2048; says "at least 12"
    expect 102 python3 ask.py "^C" "$SEFL" key new "$pair" --out u --bits 2048 # SIGINT, echo restored
    [ ! -e u.key ] || fail "a key without a passphrase"
fi
echo ok
