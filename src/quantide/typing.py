"""Types of arrays, by what they contain."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Texts = NDArray[np.object_]
