"""Named faults of the compiler, by which the fuzzer is scored.

In: names of faults, seeds. Out: which are found, how soon, how small their cases become, and
whether the right part of the compiler is blamed. `seams.py` says where a fault can be planted.
"""

from tinyref_fuzz.faults import algebra, compiler, programs
from tinyref_fuzz.faults.fault import FAULTS, NamedFault, faults_named, planted

__all__ = ["FAULTS", "NamedFault", "algebra", "compiler", "faults_named", "planted", "programs"]
