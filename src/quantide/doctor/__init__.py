"""Doctor: checks a machine and a configuration and prints fixes. It changes nothing."""

from quantide.doctor.examination import examine

__all__ = ["examine"]
