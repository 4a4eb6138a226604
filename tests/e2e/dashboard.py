"""dashboard.py DASHBOARD RULES PAGES: checks the Grafana dashboard and the alerts against pages of /metrics.

Every metric that an expression names is on a page (a histogram by one of its three series), every label that it selects
is a label of that metric, every panel has a title and a place of its own, and every data source is the variable. Prints
the dashboard's expressions as a file of rules, so that promtool can parse them."""
import json
import re
import sys

board = json.load(open(sys.argv[1], encoding="utf-8"))
series, labels = set(), {}
for line in open(sys.argv[3], encoding="utf-8"):
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split()
        series |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    elif not line.startswith("#"):
        name = re.match(r"[a-z_]+", line).group()
        labels.setdefault(name, set()).update(re.findall(r'([a-z_]+)="', line.partition("} ")[0]))

errors, used, places, expressions = [], set(), set(), []


def check(where, expression):
    expressions.append(expression)
    for name, selector in re.findall(r"\b((?:sefl|process)_[a-z_]+)(\{[^}]*\})?", re.sub(r"\[.*?\]", "", expression)):
        used.add(name)
        if name not in series:
            errors.append(f"{where}: no metric is called {name}")
        for label in re.findall(r"([a-z_]+)\s*=", selector):
            if label not in labels.get(name, set()) | {"job", "instance"}:
                errors.append(f"{where}: {name} has no label {label}")


for panel in board["panels"]:
    at = panel["gridPos"]
    cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
    if not panel.get("title") or places & cells or at["x"] + at["w"] > 24:
        errors.append(f"panel {panel.get('title')}: no title, or its place is taken")
    places |= cells
    for target in panel.get("targets", []):
        if target["datasource"]["uid"] != "${datasource}":
            errors.append(f"{panel['title']}: the data source is not the variable")
        check(panel["title"], target["expr"])
queries = len(expressions)
rules = re.findall(r"^ *expr: (.*)", open(sys.argv[2], encoding="utf-8").read(), re.M)
for rule in rules:
    check("alert", rule)
if queries < 10 or len(rules) < 5 or len(used) < 15:
    errors.append(f"only {queries} queries, {len(rules)} alerts and {len(used)} metrics were found")
sys.stderr.write("\n".join(errors or [f"{queries} queries, {len(rules)} alerts, {len(used)} series"]) + "\n")
print("groups:\n  - name: board\n    rules:")
for i, expression in enumerate(expressions[:queries]):
    plain = expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
    print(f"      - record: board:{i}\n        expr: {json.dumps(plain)}")
sys.exit(bool(errors))
