# onnxruntime-1, ONNX Runtime 1.30.0: ReduceMax gives NaN or drops it, depending on where it stands.
# It needs onnx, onnxruntime and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, onnx, onnxruntime
except ImportError as error:
    sys.exit(print(f"{error}. It needs onnx, onnxruntime and numpy") or 2)
text = '<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }'
model = onnx.parser.parse_model(text).SerializeToString()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
nan = float("nan")
got = [session.run(None, {"x": np.array(x, "float32")})[0].item() for x in ([nan, 1, 2], [1, nan, 2], [1, 2, nan])]
print(f"expected {[nan] * 3}, got {got}")
wrong = len({x == x for x in got}) > 1  # One answer for the same numbers, whichever it is.
sys.exit(print("wrong" if wrong else "right") or wrong)
