"""Named faults of the compiler, by which the fuzzer is scored.

The input is names of faults, and seeds. The output says which faults are found, how soon, how small
their cases become, and whether blame is right. `seams.py` defines where a fault can be planted.
"""

from tinyref_fuzz.faults import algebra, compiler, programs
from tinyref_fuzz.faults.fault import FAULTS, NamedFault, faults_named, planted

__all__ = ["FAULTS", "NamedFault", "algebra", "compiler", "faults_named", "planted", "programs"]
