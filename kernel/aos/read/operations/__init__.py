"""The one table for reading: each read request with its parameters, its cost and its document.

From it come the node's routes and OpenAPI document, the options of the command, the query of a page
and the table in spec/node-api.md.
"""
