# onnxruntime-3, ONNX Runtime 1.30.0: Mod and Div of the least int32 by -1 end the process, on a CPU.
# It needs onnxruntime, onnx and numpy. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
code = """import numpy as np, onnx.parser, onnxruntime, sys
graph = "g (int32[1] x, int32[1] y) => (int32[1] z) { z = %s (x, y) }"
model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 21]> ' + graph % sys.argv[1])
x, y = np.array([-(2**31)], np.int32), np.array([-1], np.int32)
print(onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x, "y": y}))"""
print("expected 0 for Mod, and any number for Div")
codes = [subprocess.run([sys.executable, "-c", code, op]).returncode for op in ("Mod", "Div")]
print("exit codes:", codes)
if 1 in codes:
    sys.exit(print("It needs onnxruntime, onnx and numpy") or 2)
sys.exit(print("wrong" if min(codes) < 0 else "right") or min(codes) < 0)
