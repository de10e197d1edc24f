# tinygrad-1, tinygrad 0.14.0: x / (1 + x) becomes 1 - 1 / (1 + x), which has no digit left near 0.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = np.array([2.0**-14, 2.0**-20, 2.0**-26], "float32")
expected = x / (1 + x.astype("float64"))
y = tinygrad.Tensor(x)
got = (y / (y + 1)).numpy()
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-6, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
