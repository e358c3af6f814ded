"""The doctor: looks at a machine and a configuration, and says what to mend. It changes nothing."""

from quantide.doctor.examine import examine

__all__ = ["examine"]
