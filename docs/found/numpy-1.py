# numpy-1, numpy 2.4.6: np.power(x, 0.5) is a square root: NaN for -inf, and -0.0 for -0.0.
# It needs numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy") or 2)
np.seterr(invalid="ignore")
x = np.array([-np.inf, -0.0])
expected = np.array([np.inf, 0.0])
got, elements = np.power(x, 0.5), np.power(x, np.array([0.5, 0.5]))
print(f"expected {expected}, got {got}; with an exponent for each element {elements}")
wrong = not np.array_equal(got.view("u8"), expected.view("u8"))
sys.exit(print("wrong" if wrong else "right") or wrong)
