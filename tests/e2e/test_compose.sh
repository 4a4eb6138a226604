#!/bin/sh
# packaging/compose: compose.yml is well-formed and consistent (there is no container engine here), and haproxy accepts
# haproxy.cfg. e2e.share runs the same topology as processes.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
cd "$SEFL_SOURCE/packaging/compose"
python3 -c 'import yaml' 2> /dev/null || { echo "python3-yaml is not installed (scripts/bootstrap --test)"; exit 77; }
python3 - << 'END'
import os
import yaml

with open("compose.yml") as f:
    c = yaml.safe_load(f)


def need(yes, what):
    if not yes:
        raise SystemExit("compose.yml: " + what)


known = {"name", "services", "networks", "volumes", "secrets", "x-aggregator"}
need(set(c) <= known, "unknown: %s" % (set(c) - known))
s = c["services"]
need(set(s) == {"postgres", "aggregator-1", "aggregator-2", "haproxy", "csp", "client-1", "client-2"}, "services")
keys = {"build", "image", "restart", "depends_on", "networks", "read_only", "cap_drop", "security_opt", "command",
        "environment", "secrets", "volumes", "healthcheck", "ports"}
for name, v in s.items():
    need(set(v) <= keys, "%s: unknown: %s" % (name, set(v) - keys))
    need("image" in v, name + ": no image")
    if "build" in v:
        path = os.path.join(v["build"]["context"], v["build"]["dockerfile"])
        # the context is made by `make deb`; the Containerfile must be there
        need(os.path.isfile(os.path.normpath(path)), "%s: no %s" % (name, path))
    for d in v.get("depends_on", []):
        need(d in s, "%s depends on %s" % (name, d))
    for n in v.get("networks", []):
        need(n in c["networks"], "%s: network %s" % (name, n))
    for m in v.get("volumes", []):
        source = m.split(":")[0]
        need(source.startswith("./") or source in c["volumes"], "%s: volume %s" % (name, source))
    for x in v.get("secrets", []):
        need(x in c["secrets"], "%s: secret %s" % (name, x))

one, two = s["aggregator-1"], s["aggregator-2"]
need(one["build"] == two["build"] and one["networks"] == two["networks"], "the aggregators differ")
shared = [set(m for m in v["volumes"] if not m.startswith("state-")) for v in (one, two)]
need(shared[0] == shared[1] and len(shared[0]) == 3, "the aggregators share settings, socket and folder")
need(one["volumes"] != two["volumes"], "each aggregator has a state of its own")
users = [n for n, v in s.items() if any(m.startswith("socket:") for m in v.get("volumes", []))]
need(sorted(users) == ["aggregator-1", "aggregator-2", "postgres"], "who reaches the database: %s" % users)
need("fsync=off" not in str(s["postgres"]), "fsync")
print("compose.yml: %d services" % len(s))
END
for name in aggregator-1 aggregator-2; do
    grep -q "server $name $name:7000" haproxy.cfg || { echo "haproxy.cfg does not name $name"; exit 1; }
done
haproxy=$(command -v haproxy || echo /usr/sbin/haproxy)
[ -x "$haproxy" ] || { echo "haproxy is not installed (scripts/bootstrap --test)"; exit 77; }
"$haproxy" -c -f haproxy.cfg > /dev/null 2>&1 || { "$haproxy" -c -f haproxy.cfg; exit 1; }
# the keys of the settings in its comment exist
sed -n 's/^# \{4,\}\([a-z_]*\): .*/\1/p' compose.yml | while read -r key; do
    "$SEFL" config table 2> /dev/null | grep -q "\`$key\`" || { echo "compose.yml names no setting: $key"; exit 1; }
done
