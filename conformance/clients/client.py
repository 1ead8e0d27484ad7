"""What an agent written with the Python client does first, as JSON."""
import json

from kubernetes import client, config, watch

config.load_kube_config()
core = client.CoreV1Api()
out = {}
pods = core.list_namespaced_pod("shop").items
out["pods"] = sorted(p.metadata.name for p in pods)
out["selected"] = len(core.list_namespaced_pod("shop", label_selector="app in (cart,checkout)").items)
page = core.list_namespaced_pod("shop", limit=1)
out["page"], out["continues"] = len(page.items), bool(page.metadata._continue)
name = next(n for n in out["pods"] if n.startswith("frontend-"))
out["log"] = len(core.read_namespaced_pod_log(name, "shop", tail_lines=2).strip().split("\n"))
out["events"] = len(core.list_namespaced_event("shop", field_selector="type=Warning").items)
seen = {"ADDED": 0, "other": 0}
for event in watch.Watch().stream(core.list_namespaced_pod, "shop", timeout_seconds=1):
    seen["ADDED" if event["type"] == "ADDED" and event["object"].kind == "Pod" else "other"] += 1
out["watched"] = seen
followed = watch.Watch()
for _ in followed.stream(core.read_namespaced_pod_log, name, "shop", tail_lines=1):
    out["followed"] = out.get("followed", 0) + 1
    followed.stop()
try:
    core.delete_namespaced_pod(name, "shop")
    out["deleted"] = 200
except client.ApiException as e:
    out["deleted"] = e.status
print(json.dumps(out))
