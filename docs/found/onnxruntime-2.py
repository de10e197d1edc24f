# onnxruntime-2, ONNX Runtime 1.30.0: sums and products of int64 pass through float64, on a CPU.
# It needs onnxruntime, onnx and numpy. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import sys
try:
    import numpy as np, onnx.parser, onnxruntime
except ImportError as error:
    sys.exit(print(f"{error}. It needs onnxruntime, onnx and numpy") or 2)
x, wrong = np.array([2**53 + 1], np.int64), False
for op in ("ReduceSum", "ReduceProd"):
    graph = f"g (int64[1] x) => (int64[1] y) {{ y = {op} (x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}')
    got = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    print(f"{op}: expected {x.tolist()}, got {got.tolist()}")
    wrong |= got.tolist() != x.tolist()
sys.exit(print("wrong" if wrong else "right") or wrong)
