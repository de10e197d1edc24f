# tinygrad-12, tinygrad 0.14.0: cos of large numbers is minus their sine.
# It needs tinygrad and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np, tinygrad
except ImportError as error:
    sys.exit(print(f"{error}. It needs tinygrad and numpy") or 2)
tinygrad.helpers.DEV.value = "PYTHON"  # Its interpreter: no compiler is needed.
x = np.array([1e4, 1e6, 1e8], "float32")
expected = np.cos(x.astype("float64"))
got = tinygrad.Tensor(x).cos().numpy()
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-4, atol=0, equal_nan=True)
sys.exit(print("wrong" if wrong else "right") or wrong)
