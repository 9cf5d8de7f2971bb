"""The doctor of Hermes' state.db: what happened to its sessions, and how to repair them.

`examination.py` runs the checks, `finding.py` lists the kinds of findings, `repair.py` applies the repairs.
"""
