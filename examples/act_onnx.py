"""Act by an exported agent with onnxruntime alone: no chary, no JAX.

chary export runs/first --out agent.onnx
python examples/act_onnx.py agent.onnx
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
about = json.loads(session.get_modelmeta().custom_metadata_map["chary"])
names = [output.name for output in session.get_outputs()]

# A state in the environment's units.
size = session.get_inputs()[0].shape[1]
observation = np.zeros((1, size), np.float32)

values = session.run(names, {"observations": observation})
decision = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
print("learned from", about["dataset"]["name"], "by", about["algorithm"])
print("action      ", decision["action"][0])
if "std" in decision:
    print("value       ", decision["mean"][0], "+-", decision["std"][0])
print("outside data", bool(decision["outside_data"][0]))
