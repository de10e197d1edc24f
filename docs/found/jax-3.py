# jax-3, JAX 0.10.2: log1p and atanh of float64 are off by up to 129 units of the last place, on a CPU.
# It needs jax and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import jax, jax.numpy as jnp, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs jax and numpy") or 2)
jax.config.update("jax_enable_x64", True)
x, wrong = np.array([-0.40457467804662883, -0.41]), False
for name in ("log1p", "atanh"):
    expected, got = getattr(np, name.replace("at", "arct"))(x), np.array(getattr(jnp, name)(x))
    units = np.abs(got - expected) / np.spacing(np.abs(expected))
    print(f"{name}: expected {expected.tolist()}, got {got.tolist()}, units off: {units.tolist()}")
    wrong |= bool(np.any(units > 16))
sys.exit(print("wrong" if wrong else "right") or wrong)
