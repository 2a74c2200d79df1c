"""Read requests about the proposals of a governed world."""

from __future__ import annotations

from typing import Final

from aos.read.operations.operation import HASH, SEQ, Parameter, Query, ReadOperation, is_always_long
from aos.read.views import proposal_view
from aos.read.views.record_view import Document
from aos.read.views.view import View


def _proposal(view: View, query: Query) -> Document:
    if "report" in query:
        return proposal_view.journaled_report(view, query["proposal"], query["report"])
    return proposal_view.proposal_report(view, query["proposal"])


READ_PROPOSALS: Final = ReadOperation(
    name="read_proposals", path="/v1/proposals", command="gov list",
    summary="List proposals, the oldest first.",
    answers=("ProposalsDocument",), is_long=is_always_long,
    document=lambda view, _: proposal_view.proposal_list(view),
)  # fmt: skip

READ_PROPOSAL: Final = ReadOperation(
    name="read_proposal", path="/v1/proposal", command="gov show",
    summary="Show a proposal: its votes, reports and changes, and what it lacks. "
    "/v1/manifests/try says what blocks it.",
    parameters=(
        Parameter(
            name="proposal", help="Its record.", required=True, schema=SEQ, metavar="N",
            is_argument=True,
        ),
        Parameter(
            name="report", schema=HASH, metavar="HASH",
            help="The hash of a journaled shadow report of it, which is the answer then.",
            command_help="Instead, show this journaled shadow report of the proposal.",
        ),
    ),
    answers=("ProposalDocument", "ShadowReportDocument"), document=_proposal,
    is_long=is_always_long,
)  # fmt: skip
