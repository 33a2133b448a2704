"""Judge a run: from what was recorded of its steps to findings with evidence and remedy.

Pure: rules see plain values, in the order of the steps, and keep what they need of the past in a bounded
state. `core.diagnosis` has their texts and limits.
"""
