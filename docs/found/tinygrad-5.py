# tinygrad-5, tinygrad 0.14.0: the remainder of floats has no right digit for large quotients.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x, y = np.array([2749682432.0, 1e9], "float32"), np.array([36.0, 3.0], "float32")
expected = np.mod(x, y)
got = (tinygrad.Tensor(x) % tinygrad.Tensor(y)).numpy()
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-4, atol=0, equal_nan=True)
sys.exit(print("wrong" if wrong else "right") or wrong)
