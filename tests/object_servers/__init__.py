"""Object stores for tests: real servers on loopback, and a proxy that injects faults."""
