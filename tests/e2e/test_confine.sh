#!/bin/sh
# The roles drop core files, debuggers, new privileges and root; their units have a sandbox.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

# ---- units -----------------------------------------------------------------------------------------
for u in aggregator csp client@; do
    unit=$SEFL_SOURCE/packaging/systemd/sefl-$u.service
    [ -f "$unit" ] || fail "no $unit"
    case $u in client@) name=client ;; *) name=$u ;; esac
    role=$name
    grep -q "^ExecStart=@PREFIX@/bin/sefl $name --config " "$unit" || fail "$unit starts something else"
    # a role can write its state, and the operator's folder if sites enrol there
    grep -q "^ProtectSystem=strict$" "$unit" || fail "$unit: the system is writable"
    case $u in
    client@) # the folder that 'sefl enroll' creates
        grep -q "^ReadOnlyPaths=-/var/lib/sefl-client/%i/text$" "$unit" || fail "$unit: the text is writable"
        grep -q "^ExecStart=.* --config /var/lib/sefl-client/%i/client.yml$" "$unit" || fail "$unit: which folder?"
        ;;
    *)
        # keys are credentials: systemd loads every key that the command line names, from a folder that only
        # root can read
        for name in $(tr ' ' '\n' < "$unit" | sed -n 's|^%d/||p'); do
            grep -qE "^LoadCredential(Encrypted)?=$name:/etc/sefl/keys/$name$" "$unit" || fail "$unit: no credential $name"
        done
        for option in --tls-key --sign-key; do
            grep -q -- "$option %d/" "$unit" || fail "$unit: $option is no credential"
        done
        [ $u != csp ] || grep -q "^LoadCredentialEncrypted=key.lock:" "$unit" || fail "$unit: the lock is not encrypted"
        grep -q "^d /etc/sefl/keys 0700 root root -$" "$SEFL_SOURCE/packaging/systemd/sefl-$u.tmpfiles" ||
            fail "nobody makes /etc/sefl/keys"
        # the settings file for the unit has only known keys, and leaves the keys to the unit
        expect 0 "$SEFL" init "$dir/$u.yml" --unit
        for option in tls.key sign_key; do
            grep -q "^#$option: /etc/sefl/keys/" "$dir/$u.yml" || fail "$u.yml sets $option"
        done
        expect 1 "$SEFL" config check "$dir/$u.yml"; says "tls.key"
        grep -q "^LimitMEMLOCK=64M$" "$unit" || fail "$unit: its keys cannot be locked in memory"
        grep -q "^StateDirectory=sefl-$u sefl-$u/ca$" "$unit" || fail "$unit: no place for ca"
        grep -q "^ReadWritePaths=/var/lib/sefl-$u/ca$" "$unit" || fail "$unit: ca is read-only"
        ;;
    esac
    sed "s|@PREFIX@|/usr|" "$unit" > "$dir/sefl-$u.service"
    if command -v systemd-analyze > /dev/null && systemd-analyze security --help | grep -q -- --offline; then
        sed -i "s|/usr/bin/sefl|$SEFL|" "$dir/sefl-$u.service"
        verified=$(systemd-analyze verify --man=no "$dir/sefl-$u.service" 2>&1) || fail "$u: $verified"
        [ -z "$verified" ] || fail "$u: $verified"
        # systemd's exposure level is 0 to 10; our units stay below 1.5 (--threshold is in tenths)
        systemd-analyze security --offline=yes --no-pager --threshold=15 "$dir/sefl-$u.service" \
            > "$dir/score" 2>&1 || fail "$u: $(tail -n 1 "$dir/score")"
        note "$(tail -n 1 "$dir/score")"
    else
        note "no systemd-analyze here: sefl-$u.service is not scored"
    fi
    # its user and folders exist before its first start, because keys and enrolment need them
    user=$(sed -n 's/^User=//p' "$unit")
    grep -q "^u $user " "$SEFL_SOURCE/packaging/systemd/sefl-$role.sysusers" || fail "nobody makes the user $user"
    folders=$(sed -n 's/^StateDirectory=//p' "$unit")
    for folder in $folders; do
        case $folder in *%i*) continue ;; esac
        grep -q "^d /var/lib/$folder 0700 $user $user -$" "$SEFL_SOURCE/packaging/systemd/sefl-$role.tmpfiles" ||
            fail "nobody makes /var/lib/$folder for $user"
    done
    folders=$(sed -n 's/^ConfigurationDirectory=//p' "$unit")
    for folder in $folders; do
        grep -q "^d /etc/$folder 0755 root root -$" "$SEFL_SOURCE/packaging/systemd/sefl-$role.tmpfiles" ||
            fail "nobody makes /etc/$folder"
    done
done

# the drop-ins: systemd accepts them alone and together, and GPUs get NVIDIA's devices only
gpu=$SEFL_SOURCE/packaging/systemd/sefl-client-gpu.conf
[ "$(grep "^DeviceAllow=" "$gpu")" = "DeviceAllow=char-nvidia* rw" ] || fail "$gpu allows other devices"
if command -v systemd-analyze > /dev/null && systemd-analyze security --help | grep -q -- --offline; then
    for drops in gpu trainer "gpu trainer"; do
        unit=$dir/drop/sefl-client@x.service
        rm -rf "$dir/drop"
        mkdir -p "$unit.d"
        sed "s|@PREFIX@/bin/sefl|/bin/true|" "$SEFL_SOURCE/packaging/systemd/sefl-client@.service" > "$unit"
        for drop in $drops; do
            cp "$SEFL_SOURCE/packaging/systemd/sefl-client-$drop.conf" "$unit.d/$drop.conf"
        done
        verified=$(systemd-analyze verify --man=no "$unit" 2>&1) || fail "$drops: $verified"
        [ -z "$verified" ] || fail "$drops: $verified"
        systemd-analyze security --offline=yes --no-pager --threshold=16 "$unit" > "$dir/score" 2>&1 ||
            fail "$drops: $(tail -n 1 "$dir/score")"
        case $drops in
        *gpu*) grep -q "char-nvidia" "$dir/score" || fail "$gpu is not applied" ;;
        *) ! grep -q "char-nvidia" "$dir/score" || fail "$drops: devices" ;;
        esac
        note "$drops: $(tail -n 1 "$dir/score")"
    done
fi

# the first steps of docs/OPERATING.md under systemd, in a separate root
sys=$dir/sys
as_user() { # USER COMMAND...
    number=$(sed -n "s/^$1:[^:]*:\([0-9]*\):.*/\1/p" "$sys/etc/passwd")
    shift
    setpriv --reuid "$number" --regid "$number" --clear-groups "$@"
}
have() { command -v "$1" > /dev/null; }
if [ "$(id -u)" -eq 0 ] && have systemd-sysusers && have systemd-tmpfiles && have setpriv; then
    mkdir -p "$sys/etc" "$sys/var/lib" "$sys/usr/lib/sysusers.d" "$sys/usr/lib/tmpfiles.d"
    for kind in sysusers tmpfiles; do
        for role in aggregator csp client; do
            cp "$SEFL_SOURCE/packaging/systemd/sefl-$role.$kind" "$sys/usr/lib/$kind.d/sefl-$role.conf"
        done
    done
    chmod 755 "$dir"
    expect 0 systemd-sysusers --root="$sys"
    expect 0 systemd-tmpfiles --root="$sys" --create
    if as_user sefl-client "$SEFL" version > /dev/null 2>&1; then # skipped if other users cannot read the tree
        for u in aggregator csp; do
            expect 0 as_user sefl-$u "$SEFL" ca new "$sys/var/lib/sefl-$u/ca" --name North
        done
        expect 0 as_user sefl-client "$SEFL" enroll "$sys/var/lib/sefl-client/ward" --csr-only --name ward
        expect 1 as_user sefl-client "$SEFL" ca list "$sys/var/lib/sefl-csp/ca"; says "denied"
        note "first steps as the units' users"
    fi
fi

# ---- processes -------------------------------------------------------------------------------------
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$(cat "$dir/run/$1.pid")/status" | tr '\t' ' '; }
fed_provision f --clients 2 --words 300 --set rounds.count=1
root=no
[ "$(id -u)" -ne 0 ] || root=yes
if [ $root = yes ]; then
    chmod 755 "$dir"
    chown -R nobody "$fed"
    nobody=$(id -u nobody)
    set -- --user nobody
else
    set --
    if "$SEFL" csp -c "$fed/csp/csp.yml" --user root > "$dir/out" 2>&1; then fail "became root"; fi
    grep -q "only root" "$dir/out" || fail "$(cat "$dir/out")"
fi
# the log names keys that others can read, with the remedy, and no other keys
open="csp/key.pem csp/sign.key csp/key.sealed aggregator/key.pem aggregator/sign.key clients/client-01/key.pem"
for key in $open; do chmod 644 "$fed/$key"; done
fed_csp "$@"
fed_aggregator --linger 5 "$@"
fed_clients 1
for key in $open; do
    who=${key%/*}
    warned() { grep 'other users can read a private key: run chmod 600' "$dir/log/${who##*/}" | grep -q "/$key\""; }
    fed_until 10 "warning of $key" warned
    chmod 600 "$fed/$key"
done
for r in csp aggregator client-01; do
    fed_running $r || fail "$r does not run"
    tries=50 # a client has no ready file, so it may not have started yet
    while [ "$(status_of $r NoNewPrivs)" != 1 ] && [ $tries -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    [ "$(status_of $r NoNewPrivs)" = 1 ] || fail "$r may gain privileges"
    [ $r != csp ] || locked=$(status_of csp VmLck)
    grep -q '^Max core file size  *0  *0 ' "/proc/$(cat "$dir/run/$r.pid")/limits" || fail "$r may leave a core file"
    if [ $root = yes ] && [ $r != client-01 ]; then
        [ "$(status_of $r Uid)" = "$nobody $nobody $nobody $nobody" ] || fail "$r is $(status_of $r Uid)"
        case $(status_of $r CapEff) in *[1-9a-f]*) fail "$r has capabilities" ;; esac
    fi
done
fed_clients 2
fed_until 20 "start of client-02" grep -q '"event":"ready"' "$dir/log/client-02"
if grep -q "other users can read" "$dir/log/client-02"; then fail "a warning for nothing: $(cat "$dir/log/client-02")"; fi
# a proxy's password: warned about if others can read the file, and never printed
odd=$fed/clients/client-02/odd.yml
{ cat "$fed/clients/client-02/client.yml"; echo 'proxy: "http://bob:s3 cr3t@127.0.0.1:1"'; } > "$odd"
chmod 644 "$odd"
fed_start odd "$SEFL" client -c "$odd" --server 127.0.0.1:1
fed_until 20 "warning of the password" grep -q "other users can read the proxy password" "$dir/log/odd"
fed_until 20 "trouble with the proxy" grep -q "the proxy's address is malformed" "$dir/log/odd"
if grep -q cr3t "$dir/log/odd"; then fail "the password is in the log: $(cat "$dir/log/odd")"; fi
fed_kill TERM odd
fed_wait odd 10
for proxy in 'htp://bob:s3cr3t@127.0.0.1:1' 'ftp://bob:s3cr3t@127.0.0.1:1' 'socks9://bob:s3cr3t@127.0.0.1:1' \
    'bob:s3cr3t@127.0.0.1:1:1'; do
    out=$(https_proxy=$proxy "$SEFL" enroll "$fed/clients/client-02" --renew --server 127.0.0.1:1 2>&1) && fail "renewed: $out"
    case $out in *s3cr3t*) fail "the password is printed: $out" ;; esac
done
# the same files as systemd credentials: their group bits come from an access list
for key in key.pem sign.key key.lock; do chmod 640 "$fed/csp/$key"; done
set -- csp -c "$fed/csp/csp.yml" --listen 127.0.0.1:0 --task "$dir/none"
for name in tls-key=key.pem sign-key=sign.key key-lock=key.lock; do set -- "$@" "--${name%=*}" "$fed/csp/${name#*=}"; done
expect 1 "$SEFL" "$@"; says "other users can read $fed/csp/key.lock"; says "other users can read a private key"
expect 1 env CREDENTIALS_DIRECTORY="$fed/csp" "$SEFL" "$@"
case $out in *"other users can read"*) fail "a warning about a credential: $out" ;; esac
for key in key.pem sign.key key.lock; do chmod 600 "$fed/csp/$key"; done
# a limit on open files below what `connections` needs
few=$(sh -c 'ulimit -n 300 && exec "$0" "$@"' "$SEFL" aggregator -c "$fed/aggregator/aggregator.yml" \
    --csp 127.0.0.1:1 --task "$dir/none" 2>&1) || :
case $few in *"limit on open files is too low"*'"wanted":1152'*) ;; *) fail "$few" ;; esac
# memory that cannot be locked: no server starts unless memory_lock is try; doctor reports it first
drop="" # root may lock memory beyond the limit
[ $root = no ] || drop="setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock"
# (sanitizers turn mlock into a no-op that reports success)
if [ -z "${SEFL_SANITIZE:-}" ] && $drop true 2> /dev/null; then
    for r in csp aggregator; do
        set -- "$r" -c "$fed/$r/$r.yml" --listen 127.0.0.1:0 --task "$dir/none"
        [ $r = csp ] || set -- "$@" --csp 127.0.0.1:1
        expect 1 sh -c "ulimit -l 0; exec $drop \"\$0\" \"\$@\"" "$SEFL" "$@" --memory-lock required
        says "RLIMIT_MEMLOCK is 0 kB"; says "LimitMEMLOCK="; says "memory_lock: try"
        expect 1 sh -c "ulimit -l 0; exec $drop \"\$0\" \"\$@\"" "$SEFL" "$@" --memory-lock try
        says "keys cannot be locked in memory"; says "cannot open $dir/none"
        expect 1 sh -c "ulimit -l 128; exec $drop \"\$0\" \"\$@\"" "$SEFL" "$@" --memory-lock required
        says "cannot open $dir/none" # 128 kB are enough, as docs/OPERATING.md says
        { grep -v "^memory_lock" "$fed/$r/$r.yml"; [ $r = csp ] || echo "csp: 127.0.0.1:1"; } > "$fed/$r/earnest.yml"
        "$SEFL" config keys --for $r | grep -q "memory_lock.*required" || fail "memory_lock is not required by default"
        expect 1 sh -c "ulimit -l 0; exec $drop \"\$0\" \"\$@\"" "$SEFL" doctor -c "$fed/$r/earnest.yml" --for $r
        says "the server will not start"
    done
    # the amount tried at start is at least the amount that a running server has locked
    tried=$(echo "$out" | sed -n 's/.* \([0-9]*\) kB for keys cannot be locked.*/\1/p')
    [ "$tried" -ge "${locked% kB}" ] || fail "CSP has locked $locked, $tried kB are tried at its start"
fi
fed_done aggregator 60
fed_done csp 20
if [ $root = yes ]; then
    if "$SEFL" csp -c "$fed/csp/csp.yml" --listen 127.0.0.1:0 --user no-such-user > "$dir/out" 2>&1; then
        fail "an unknown user is no trouble"
    fi
    grep -q "there is no" "$dir/out" || fail "$(cat "$dir/out")"
    [ "$(stat -c %U "$fed/aggregator/state/journal.db")" = nobody ] || fail "the journal is root's"
fi
note "all done"
