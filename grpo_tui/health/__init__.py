"""Judge a run: turn the record of its steps into findings with evidence and remedies.

Rules see plain values in the order of the steps and keep a bounded state. `core.diagnosis` holds their texts
and limits.
"""
