# jax-1, jaxlib 0.10.2: jax.jit makes (a / b) / c into a / (b * c), where the product underflows.
# It needs jax and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import jax, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs jax and numpy") or 2)
wrong = False
for dtype, value, expected in (("float16", 2.0**-14, 2.0**14), ("float32", 2.0**-80, 2.0**80)):
    x = np.full(4, value, dtype)
    got = np.asarray(jax.jit(lambda a, b, c: (a / b) / c)(x, x, x)).tolist()
    print(f"{dtype}: expected {expected}, got {got[0]}")
    wrong |= got != [expected] * 4
sys.exit(print("wrong" if wrong else "right") or wrong)
