"""The crash matrix of the gateway: worlds as real processes, on a real node, killed everywhere.

``zygote`` forks the processes, ``lives`` is one life of a world, ``deaths`` says where it ends.
``scenes`` are chains and requests, ``runs`` is one run with its judgement, ``modes`` are all runs.

    python -m tests.gateway.matrix
"""
