# jax-2, JAX 0.10.2: the gradient of elu is 0 below -17.
# It needs jax and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import jax, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs jax and numpy") or 2)
x = np.array([-5.0, -16.0, -20.0, -40.0], "float32")
expected = np.exp(x.astype("float64"))
got = np.asarray(jax.grad(lambda x: jax.nn.elu(x).sum())(x))
print(f"expected {expected.tolist()}, got {got.tolist()}")
wrong = not np.allclose(got, expected, rtol=1e-4, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
