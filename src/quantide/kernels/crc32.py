"""CRC-32 for compiled code, with the same results as zlib.crc32."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import compiled


def _crc_tables() -> NDArray[np.uint32]:
    """Tables for eight bytes at a time."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        for byte in range(256):
            before = int(tables[k - 1, byte])
            tables[k, byte] = (before >> 8) ^ int(tables[0, before & 0xFF])
    return tables


CRC_TABLES = _crc_tables()


@compiled
def crc32(data: NDArray[np.uint8], start: int, end: int) -> np.uint32:
    """CRC-32 of data[start:end]."""
    crc = np.uint32(0xFFFFFFFF)
    i = start
    while i + 8 <= end:
        a = crc ^ (
            np.uint32(data[i])
            | (np.uint32(data[i + 1]) << np.uint32(8))
            | (np.uint32(data[i + 2]) << np.uint32(16))
            | (np.uint32(data[i + 3]) << np.uint32(24))
        )
        crc = (
            CRC_TABLES[7, a & np.uint32(0xFF)]
            ^ CRC_TABLES[6, (a >> np.uint32(8)) & np.uint32(0xFF)]
            ^ CRC_TABLES[5, (a >> np.uint32(16)) & np.uint32(0xFF)]
            ^ CRC_TABLES[4, (a >> np.uint32(24)) & np.uint32(0xFF)]
            ^ CRC_TABLES[3, data[i + 4]]
            ^ CRC_TABLES[2, data[i + 5]]
            ^ CRC_TABLES[1, data[i + 6]]
            ^ CRC_TABLES[0, data[i + 7]]
        )
        i += 8
    while i < end:
        crc = (crc >> np.uint32(8)) ^ CRC_TABLES[0, (crc ^ np.uint32(data[i])) & np.uint32(0xFF)]
        i += 1
    return crc ^ np.uint32(0xFFFFFFFF)
