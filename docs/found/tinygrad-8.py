# tinygrad-8, tinygrad 0.14.0: einsum of a repeated index transposes the result.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = np.arange(12, dtype="float32").reshape(2, 3, 2)
expected = np.einsum("iji->ji", x)
got = tinygrad.Tensor.einsum("iji->ji", tinygrad.Tensor(x)).numpy()
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.array_equal(got, expected)
sys.exit(print("wrong" if wrong else "right") or wrong)
