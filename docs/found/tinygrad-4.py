# tinygrad-4, tinygrad 0.14.0: x / x is 1 where x is 0 or infinite.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = np.array([0.0, np.inf, 2.0], "float32")
expected = np.array([np.nan, np.nan, 1.0])
y = tinygrad.Tensor(x)
got = (y / y).numpy()
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-4, atol=0, equal_nan=True)
sys.exit(print("wrong" if wrong else "right") or wrong)
