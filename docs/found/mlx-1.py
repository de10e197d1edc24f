# mlx-1, MLX 0.32.4 on a CPU: exp, sin and cos of float64 are right to seven digits.
# It needs mlx and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import mlx.core as mx, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs mlx and numpy") or 2)
mx.set_default_device(mx.cpu)
x, wrong = [0.5, 1.0, 3.0], False
for name in ("exp", "sin", "cos"):
    expected = getattr(np, name)(np.array(x))
    got = np.array(getattr(mx, name)(mx.array(x, mx.float64)))
    print(f"{name}: expected {expected.tolist()}, got {got.tolist()}")
    wrong |= not np.allclose(got, expected, rtol=1e-12, atol=0)
sys.exit(print("wrong" if wrong else "right") or wrong)
