"""Read the state and the history of a flow: a workflow written as one async function
(spec/flow.md).

Everything here is pure: bytes and a manifest in, typed views out.
"""
