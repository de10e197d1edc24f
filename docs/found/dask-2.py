# dask-2, dask 2026.8.0: the maximum over an axis with elements fails if another axis has none.
# It needs dask and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import sys
try:
    import dask.array as da, numpy as np
except ImportError as error:
    sys.exit(print(f"{error}. It needs dask and numpy") or 2)
x = np.zeros((0, 2), np.float32)
try:
    got = da.max(da.asarray(x), axis=1).compute()
except ValueError as error:
    sys.exit(print(f"expected {x.max(axis=1).tolist()}, got {error!r}\nwrong") or 1)
print(f"expected {x.max(axis=1).tolist()}, got {got.tolist()}")
