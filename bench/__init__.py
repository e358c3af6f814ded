"""Measurements beside peers and papers, their stored results and the pages rendered from them: `python -m bench`."""
