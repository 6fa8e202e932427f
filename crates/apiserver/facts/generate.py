#!/usr/bin/env python3
"""Writes merge.txt: how lists, maps and fields of the built-in kinds merge, which fields are required, the values an
enumeration has, and the Go types decode errors name.

Usage: generate.py MODULE_CACHE > merge.txt, where MODULE_CACHE holds k8s.io/kubernetes@v1.34.4 (swagger.json, OpenAPI v3)
and k8s.io/{api,apimachinery,apiextensions-apiserver}@v0.34.4 (Go types).
"""
import glob, json, os, re, sys

ROOTS = """
core.v1.Namespace core.v1.Secret core.v1.ConfigMap core.v1.ServiceAccount core.v1.Service core.v1.Pod core.v1.Node
core.v1.Event events.v1.Event coordination.v1.Lease core.v1.PersistentVolumeClaim networking.v1.NetworkPolicy
rbac.v1.Role rbac.v1.ClusterRole rbac.v1.RoleBinding rbac.v1.ClusterRoleBinding
core.v1.Binding policy.v1.Eviction autoscaling.v1.Scale authentication.v1.TokenRequest authentication.v1.TokenReview
authentication.v1.SelfSubjectReview authorization.v1.SubjectAccessReview authorization.v1.LocalSubjectAccessReview
authorization.v1.SelfSubjectAccessReview authorization.v1.SelfSubjectRulesReview
""".split()
EXTRA = ["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
         "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]

cache = sys.argv[1]
spec = f"{cache}/k8s.io/kubernetes@v1.34.4/api/openapi-spec"
defs = json.load(open(f"{spec}/swagger.json"))["definitions"]


def refs(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rsplit("/", 1)[1]
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


reach, todo = set(), [f"io.k8s.api.{r}" for r in ROOTS] + EXTRA
while todo:
    name = todo.pop()
    if name not in reach:
        reach.add(name)
        todo.extend(refs(defs[name]))

defaults = {}
for path in glob.glob(f"{spec}/v3/*.json"):
    for name, node in json.load(open(path)).get("components", {}).get("schemas", {}).items():
        for field, value in node.get("properties", {}).items():
            if value.get("default") not in (None, "", {}, [], 0, False):
                defaults[name, field] = value["default"]


def directory(name):
    package = name.rsplit(".", 1)[0]
    for prefix, module in (("io.k8s.api.", "api"), ("io.k8s.apimachinery.", "apimachinery"),
                           ("io.k8s.apiextensions-apiserver.", "apiextensions-apiserver")):
        if package.startswith(prefix):
            return f"{cache}/k8s.io/{module}@v0.34.4/" + package[len(prefix):].replace(".", "/")


structs, enums = {}, {}


def load(path):
    if path in structs:
        return structs[path]
    found = structs[path] = {}
    for file in glob.glob(f"{path}/*.go"):
        if file.endswith("_test.go") or "generated" in file:
            continue
        text = open(file).read()
        for kind in re.findall(r"^// \+enum\n(?://.*\n)*type (\w+) string", text, re.M):
            enums.setdefault((path, kind), [])
        for kind, value in re.findall(r"^\s+\w+\s+(\w+)\s*=\s*\"([^\"]*)\"", text, re.M):
            enums.get((path, kind), []).append(value)
        for match in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
            fields = {}
            for line in match[2].splitlines():
                field = re.match(r"\s+\w+\s+(\S+)\s+`.*?json:\"([\w]+)", line)
                if field:
                    fields[field[2]] = field[1]
            found[match[1]] = fields
    return found


def is_named_plain(go, found):
    base = go.lstrip("*")
    if not re.fullmatch(r"(\w+\.)?[A-Z]\w*", base):
        return None
    if "." not in base:
        return None if base in found else base
    package, name = base.split(".")
    if base in ("resource.Quantity", "intstr.IntOrString", "runtime.RawExtension"):
        return None
    for path in list(structs):
        if name in structs[path]:
            return None
    return f"{'v1' if package.endswith('v1') else package}.{name}"


def enumeration(go, path):
    base = go.lstrip("*").split(".")[-1]
    for (where, kind), values in enums.items():
        if kind == base and (where == path or "." in go):
            return sorted(set(value for value in values if value))
    return []


for name in sorted(reach):
    load(directory(name))
for name in sorted(reach):
    node, lines = defs[name], []
    found = load(directory(name))
    fields = found.get(name.rsplit(".", 1)[1], {})
    version = name.split(".")[-2]
    for field, value in sorted(node.get("properties", {}).items()):
        facts = []
        kind = value.get("x-kubernetes-list-type")
        if kind == "map":
            facts.append("list=map:" + ",".join(value["x-kubernetes-list-map-keys"]))
        elif kind == "set":
            facts.append("list=set")
        strategy = value.get("x-kubernetes-patch-strategy", "").split(",")
        if "merge" in strategy:
            key = value.get("x-kubernetes-patch-merge-key")
            facts.append(f"merge={key}" if key else "merge")
        if "retainKeys" in strategy:
            facts.append("retain")
        if value.get("x-kubernetes-map-type") == "atomic":
            facts.append("map=atomic")
        if (name, field) in defaults:
            facts.append("default=" + json.dumps(defaults[name, field]))
        values = enumeration(fields.get(field, ""), directory(name))
        if values:
            facts.append("enum=" + "|".join(values))
        plain = is_named_plain(fields.get(field, ""), found)
        if plain:
            facts.append("go=" + (plain if "." in plain else f"{version}.{plain}"))
        if facts:
            lines.append(f"  {field} " + " ".join(facts))
    head = name + (" map=atomic" if node.get("x-kubernetes-map-type") == "atomic" else "")
    if node.get("required"):
        head += " required=" + ",".join(node["required"])
    if lines or head != name:
        print(head)
        print("\n".join(lines)) if lines else None
