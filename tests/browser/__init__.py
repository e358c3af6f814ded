"""Tests of the page in a real browser. A package, so that its demo ends with them and not with all tests."""
