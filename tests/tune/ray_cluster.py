"""A Ray cluster of two cores on this machine, while standard input is open; a line adds a node."""

import json
import sys

from ray.cluster_utils import Cluster

cluster = Cluster(
    initialize_head=True,
    head_node_args={"num_cpus": 2, "include_dashboard": False, "object_store_memory": 80_000_000},
)
print(json.dumps({"address": cluster.address}), flush=True)
for _ in sys.stdin:
    node = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    raylet = node.all_processes["raylet"][0].process.pid
    print(json.dumps({"raylet": raylet}), flush=True)
cluster.shutdown()
