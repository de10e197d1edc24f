# onnxruntime-4, ONNX Runtime 1.30.0: MatMul of a matrix without rows by a vector fails, on a CPU.
# It needs onnxruntime, onnx and numpy. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import sys
try:
    import numpy as np, onnx.parser, onnxruntime
except ImportError as error:
    sys.exit(print(f"{error}. It needs onnxruntime, onnx and numpy") or 2)
graph = "g (float[0,2] x, float[2] y) => (float[0] z) { z = MatMul (x, y) }"
model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}')
session = onnxruntime.InferenceSession(model.SerializeToString())
try:
    got = session.run(None, {"x": np.zeros((0, 2), np.float32), "y": np.zeros(2, np.float32)})[0]
except Exception as error:
    sys.exit(print(f"expected no elements, got {error}\nwrong") or 1)
print(f"expected no elements, got {got.tolist()}")
