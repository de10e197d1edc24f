# ndonnx-1, ndonnx 0.23.0: cumulative_prod is the exponential of a sum of logarithms.
# It needs ndonnx, onnxruntime and numpy. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import sys
try:
    import ndonnx as ndx, numpy as np, onnxruntime
except ImportError as error:
    sys.exit(print(f"{error}. It needs ndonnx, onnxruntime and numpy") or 2)
wrong = False
for x in (np.array([-1.0, 2.0]), np.array([3, 1, 1])):
    expected = np.cumprod(x)
    got = ndx.cumulative_prod(ndx.asarray(x)).unwrap_numpy()
    print(f"expected {expected.tolist()}, got {got.tolist()}")
    wrong |= not np.allclose(got, expected)
sys.exit(print("wrong" if wrong else "right") or wrong)
